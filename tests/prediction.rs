//! The time of a run is said before it starts, learnt from the runs before, and compared afterwards; a damaged file of
//! durations costs nothing but the knowledge in it.

use crate::doubles;

use std::path::Path;
use std::process::Command;

use bulkhead::campaign::runner::Setup;
use bulkhead::campaign::{Event, RunDir, conclude};
use bulkhead::model::classes::ClassSet;
use bulkhead::model::experiment::{Experiment, PlatformSpec};
use bulkhead::model::prediction::{Prediction, SessionTime};
use bulkhead::platforms::fake::Fake;
use bulkhead::platforms::{Cancel, Platform};

/// Three platforms whose measurements take 20 and 60 ms, and two instances at once.
const TEXT: &str = "seed = 3\n[repeat]\nmin = 2\nmax = 2\n\
    [[platform]]\nlabel = \"quick\"\nkind = \"fake\"\nscript = { delay_ms = 20 }\n\
    [[platform]]\nlabel = \"slow\"\nkind = \"fake\"\nscript = { delay_ms = 60 }\n\
    [probe.fwq]\n[probe.syscall]\n[[layout]]\nsize = \"1x2\"\nprobes = [\"fwq\"]\n\
    [[load]]\nkind = \"cpu\"\nprobes = [\"fwq\"]\n";

fn run(durations: &Path, text: &str) -> (Vec<Event>, Vec<SessionTime>) {
    let dir = tempfile::tempdir().unwrap();
    let experiment = Experiment::from_toml(text).unwrap();
    let rundir = RunDir::create(dir.path(), &experiment, 1).unwrap();
    let fake = |spec: &PlatformSpec| (spec.clone(), Box::new(Fake::new(spec, 7)) as Box<dyn Platform>);
    let setup = Setup {
        platforms: experiment.platforms.iter().map(fake).collect(),
        host: None,
        header: doubles::header(),
        durations: Some(durations.to_owned()),
        classes: bulkhead::model::classes::ClassSet::default(),
        cancel: Cancel::new(),
    };
    let (_, events) = doubles::run(&rundir, setup);
    (events, conclude(&rundir, &ClassSet::default()).unwrap().sessions)
}

fn predicted(events: &[Event]) -> Prediction {
    let found = events.iter().find_map(|event| match event {
        Event::Predicted { predicted } => Some(*predicted),
        _ => None,
    });
    found.expect("it is said before the first measurement")
}

#[test]
fn the_second_run_knows_how_long_it_takes() {
    let folder = tempfile::tempdir().unwrap();
    let durations = folder.path().join("durations.json");
    let (events, _) = run(&durations, TEXT);
    let first = predicted(&events);
    assert_eq!((first.measurements, first.known), (16, 0), "nobody measured here before");
    let position = |wanted: fn(&Event) -> bool| events.iter().position(wanted).unwrap();
    let said = position(|event| matches!(event, Event::Predicted { .. }));
    assert!(said < position(|event| matches!(event, Event::MeasurementStarted { .. })));
    assert!(position(|event| matches!(event, Event::Took { .. })) > said);

    let (events, sessions) = run(&durations, TEXT);
    let second = predicted(&events);
    assert_eq!((second.measurements, second.known), (16, 16));
    assert_eq!((sessions.len(), sessions[0].predicted), (1, second), "it is kept with the results");
    // Sleeping takes 16 × 40 ms; a busy machine adds what it adds, to both runs.
    let ratio = sessions[0].took_ns.unwrap().as_f64() / second.least_ns.as_f64();
    assert!((0.2..5.0).contains(&ratio), "{ratio}: {sessions:?}");
    assert!(second.least_ns.as_secs_f64() >= 0.5, "{second:?}");

    // More rounds of the same cost more of the same; other parameters are not known.
    let longer = predicted(&run(&durations, &TEXT.replace("min = 2\nmax = 2", "min = 3\nmax = 3")).0);
    assert_eq!((longer.measurements, longer.known), (24, 24));
    let other = predicted(&run(&durations, &TEXT.replace("[probe.fwq]", "[probe.fwq]\nsamples = 101")).0);
    assert_eq!((other.measurements, other.known), (16, 4), "only syscall is as it was");
}

#[test]
fn a_damaged_file_is_replaced_and_one_that_cannot_be_written_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let durations = folder.path().join("durations.json");
    std::fs::write(&durations, "{\"version\":1,\"runs\":").unwrap();
    let (events, _) = run(&durations, TEXT);
    assert_eq!(predicted(&events).known, 0);
    assert_eq!(predicted(&run(&durations, TEXT).0).known, 16, "it was replaced");
    // A folder in its place cannot be written over, not even by root.
    let blocked = folder.path().join("blocked");
    std::fs::create_dir(&blocked).unwrap();
    let (events, sessions) = run(&blocked, TEXT);
    assert!(events.iter().any(|event| matches!(event, Event::NotLearnt { .. })));
    assert!(sessions[0].took_ns.is_some(), "the run itself is whole");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "no half-written file is left");
}

#[test]
fn a_plan_is_printed_and_nothing_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("e.toml"), TEXT).unwrap();
    let cache = tempfile::tempdir().unwrap();
    let plan = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bulkhead"));
        command.args(["measure", "--experiment", "e.toml", "--plan"]).args(arguments);
        // An empty cache folder is made where there is none.
        command.env("BULKHEAD_CACHE", cache.path()).current_dir(folder.path());
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, text) = plan(&[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("2 to 2 rounds of each probe; the first ones, 8 measurements:"), "{text}");
    let lines: Vec<&str> =
        text.lines().filter(|line| line.starts_with('~') && line.contains(" s  ")).collect();
    assert_eq!(lines.len(), 8, "{text}");
    assert!(text.contains("fwq in 1x2 on slow") && text.contains("16 measurements, about"), "{text}");
    assert_eq!(plan(&[]).1, text, "the same seed gives the same order");
    assert_eq!(plan(&["--out", "x"]).0, Some(2), "it writes nothing, so it takes no folder");
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["e.toml"], "nothing is written");
}

/// Percent that a plan says of fwq on `slow`; none where it is not known.
fn foreseen(plan: &str) -> Option<f64> {
    let line = plan.lines().find(|line| line.trim_start().starts_with("slow: "))?;
    let rest = line.split_once("fwq ")?.1;
    rest.split_once(" %")?.0.parse().ok()
}

#[test]
fn a_plan_says_which_differences_the_run_will_see_as_soon_as_one_was_made() {
    let folder = tempfile::tempdir().unwrap();
    let text = "seed = 3\n[repeat]\nmin = 8\nmax = 8\n[[platform]]\nlabel = \"quick\"\nkind = \"fake\"\n\
                script = { noise_percent = 4 }\n[[platform]]\nlabel = \"slow\"\nkind = \"fake\"\n\
                script = { noise_percent = 4, slowdown_percent = 150 }\n[probe.fwq]\nsamples = 100\n[probe.syscall]\n";
    std::fs::write(folder.path().join("e.toml"), text).unwrap();
    let cache = tempfile::tempdir().unwrap();
    let measure = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bulkhead"));
        command.args(["measure", "--experiment", "e.toml"]).args(arguments);
        command.env("BULKHEAD_CACHE", cache.path()).current_dir(folder.path());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let before = measure(&["--plan"]);
    assert!(before.contains("is not known yet of any of it") && foreseen(&before).is_none(), "{before}");
    measure(&["--out", "run"]);
    let after = measure(&["--plan"]);
    let said = foreseen(&after).unwrap_or_else(|| panic!("{after}"));
    assert!(!after.contains("not known yet"), "{after}");
    let results = bulkhead::campaign::read_results(&folder.path().join("run")).unwrap();
    let of_fwq = results.cells.iter().find(|cell| cell.cell.platform == "slow").unwrap();
    let seen = of_fwq.metrics[0].against_baseline.as_ref().unwrap().detectable_percent.unwrap();
    assert!((0.8..1.25).contains(&(said / seen)), "said {said} %, the run could have seen {seen} %");
    for damage in ["", "{\"version\":3,\"unit\":\"s\",\"runs\":1,\"entries\":{}}"] {
        std::fs::write(cache.path().join("spreads.json"), damage).unwrap();
        assert_eq!(foreseen(&measure(&["--plan"])), None, "{damage}");
    }
}
