//! Measuring goes on until verdicts are decided: with what decides them alone, until the budget ends it, and the same after a resume.

use crate::doubles;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bulkhead::campaign::decide::{Remaining, look};
use bulkhead::campaign::runner::{RunEnd, Setup};
use bulkhead::campaign::{Event, RunDir, Stop, conclude};
use bulkhead::model::classes::{ClassSet, Suitability};
use bulkhead::model::experiment::{Experiment, PlatformSpec};
use bulkhead::model::results::RunResults;
use bulkhead::platforms::fake::Fake;
use bulkhead::platforms::{Cancel, Platform};
use bulkhead::units::Nanos;
use doubles::{contents, set_of};

/// Made-up wake-ups are late by 2.5 ms one time in five hundred, and never by more.
fn experiment(until_decided: bool, budget_s: u32) -> Experiment {
    let text = format!(
        "seed = 3\n[repeat]\nmin = 3\nmax = 3\ntarget_percent = 100.0\nbudget_s = {budget_s}\n\
         until_decided = {until_decided}\n[[platform]]\nlabel = \"made-up\"\nkind = \"fake\"\n\
         [probe.wakeup]\nperiod_us = 500\nduration_ms = 100\n[probe.syscall]\n\
         [[load]]\nkind = \"cpu\"\nprobes = [\"wakeup\"]\n"
    );
    Experiment::from_toml(&text).unwrap()
}

fn classes(deadline_us: u32, neighbours: &str) -> ClassSet {
    let text = format!(
        "[[class]]\nname = \"rt\"\ntitle = \"Real time\"\nabout = \"x\"\n\
         [class.deadline]\ndeadline_us = {deadline_us}\nmiss_rate = 1e-2\n\
         [[class.condition]]\ntitle = \"in time\"\nwhy = \"y\"\nneighbours = \"{neighbours}\"\n\
         tail = [{{ miss_rate = 1e-2, metric = \"wakeup.response_p99_ns\" }}]"
    );
    ClassSet::from_toml(&text).unwrap()
}

fn go_on(rundir: &RunDir, classes: &ClassSet) -> (RunEnd, Vec<Event>, RunResults) {
    let fake = |spec: &PlatformSpec| (spec.clone(), Box::new(Fake::new(spec, 7)) as Box<dyn Platform>);
    let setup = Setup {
        platforms: rundir.experiment().platforms.iter().map(fake).collect(),
        host: None,
        header: doubles::header(),
        durations: None,
        classes: classes.clone(),
        cancel: Cancel::new(),
    };
    let (end, events) = doubles::run(rundir, setup);
    (end, events, conclude(rundir, classes).unwrap())
}

fn begin(dir: &Path, experiment: &Experiment, classes: &ClassSet) -> (RunEnd, Vec<Event>, RunResults) {
    go_on(&RunDir::create(dir, experiment, 3).unwrap(), classes)
}

/// How many rounds each group has, by its words.
fn rounds(dir: &Path) -> BTreeMap<String, usize> {
    let mut rounds = BTreeMap::new();
    for measurement in contents(dir).measurements {
        let beside = measurement.cell.neighbour.map_or("", |_| " beside");
        *rounds.entry(format!("{}{beside}", measurement.cell.probe)).or_default() += 1;
    }
    rounds
}

#[test]
fn an_open_verdict_is_measured_until_it_is_decided_and_nothing_else_is() {
    let classes = classes(5000, "alone");
    let dir = tempfile::tempdir().unwrap();
    let (_, _, short) = begin(dir.path(), &experiment(false, 1000), &classes);
    let [verdict] = short.classes.as_slice() else { panic!("one verdict") };
    assert_eq!(verdict.level, Suitability::Unknown, "{}", verdict.sentence);
    assert!(verdict.needs_ns.is_some() && !verdict.needs.is_empty(), "{}", verdict.sentence);

    let dir = tempfile::tempdir().unwrap();
    let (end, events, long) = begin(dir.path(), &experiment(true, 1000), &classes);
    assert_ne!(end.stop, Stop::BudgetUsedUp);
    assert_eq!(long.classes[0].level, Suitability::Suited, "{}", long.classes[0].sentence);
    let rounds = rounds(dir.path());
    assert_eq!((rounds["syscall"], rounds["wakeup beside"]), (3, 3), "{rounds:?}");
    assert!((15..400).contains(&rounds["wakeup"]), "{rounds:?}");
    // Looks grow geometrically, and the last one asks for nothing.
    let looks = contents(dir.path()).looks;
    assert!((2..12).contains(&looks.len()), "{looks:?}");
    assert!(looks.last().unwrap().rounds.is_empty());
    let confidence = long.cells.iter().filter_map(|cell| cell.confidence).reduce(f64::max).unwrap();
    assert!(confidence > 0.99, "a cell that was looked at often must be surer: {confidence}");
    let told = |event: &&Event| matches!(event, Event::Decided { verdicts, .. } if verdicts.verdicts == 1);
    assert!(events.iter().any(|event| told(&event)), "the bar shows it");
}

/// Without being asked to, a run measures what decides a verdict, as long as there are rounds left and it takes most of the budget's
/// rest at most.
#[test]
fn every_run_measures_first_what_decides_a_verdict_where_that_does_not_take_too_long() {
    let classes = classes(5000, "alone");
    let with = |max: u32| {
        let mut experiment = experiment(false, 1000);
        experiment.repeat.max = max;
        let dir = tempfile::tempdir().unwrap();
        let (_, _, results) = begin(dir.path(), &experiment, &classes);
        (results.classes[0].level, rounds(dir.path()), contents(dir.path()).looks)
    };
    let (level, made, looks) = with(200);
    let asked: Vec<_> = looks.iter().flat_map(|look| &look.rounds).collect();
    assert_eq!(level, Suitability::Suited, "{made:?} {looks:?}");
    assert!(
        asked.iter().all(|asked| asked.probe.as_str() == "wakeup" && asked.neighbour.is_none()),
        "{looks:?}"
    );
    assert_eq!(asked.first().map(|asked| asked.from_round), Some(3), "right after the least rounds");
    let (level, made, looks) = with(6);
    assert_eq!(
        (level, made["wakeup"]),
        (Suitability::Unknown, 6),
        "no more rounds than it may have: {looks:?}"
    );
    // The same, when more or less of the budget is left.
    let dir = tempfile::tempdir().unwrap();
    begin(dir.path(), &experiment(false, 1000), &classes);
    let mut longer = experiment(false, 1000);
    longer.repeat.max = 1000;
    let asked = |left_ns: u64| {
        let remaining = Remaining { for_a_verdict: Nanos::from_nanos(left_ns), next_round: &|_| 3 };
        let (look, _) = look(&longer, &contents(dir.path()), &classes, &remaining).unwrap();
        look.rounds.len()
    };
    assert_eq!((asked(u64::MAX / 2), asked(1)), (1, 0));
}

/// What breaks takes next to no time of the budget: it must not be asked for until that is used up.
#[test]
fn what_breaks_from_now_on_is_not_asked_for_again_and_again() {
    let dir = tempfile::tempdir().unwrap();
    let classes = classes(5000, "alone");
    // Without a class there is no look that this one would go on with.
    begin(dir.path(), &experiment(false, 1000), &ClassSet::default());
    let path = dir.path().join("experiment.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("[repeat]", "[repeat]\nuntil_decided = true")).unwrap();
    let rundir = RunDir::resume(dir.path()).unwrap();
    let gone = doubles::Double::absent("made-up", "taken away");
    let setup = Setup {
        platforms: vec![(rundir.experiment().platforms[0].clone(), Box::new(gone) as Box<dyn Platform>)],
        host: None,
        header: doubles::header(),
        durations: None,
        classes: classes.clone(),
        cancel: Cancel::new(),
    };
    doubles::run(&rundir, setup);
    let failed = contents(dir.path()).measurements.iter().filter(|one| one.broke().is_some()).count();
    assert!((3..20).contains(&failed), "{failed} measurements broke");
}

#[test]
fn what_cannot_be_decided_is_not_begun() {
    let dir = tempfile::tempdir().unwrap();
    // One in a million would take hours.
    let mut classes = classes(5000, "alone");
    classes.classes[0].deadline.as_mut().unwrap().miss_rate = 1e-9;
    let (end, _, results) = begin(dir.path(), &experiment(true, 1), &classes);
    assert_eq!(results.classes[0].level, Suitability::Unknown);
    assert_eq!((end.measurements, contents(dir.path()).looks.len()), (9, 1));
}

#[test]
fn a_run_that_was_cut_off_anywhere_decides_the_same() {
    let classes = classes(5000, "alone");
    let dir = tempfile::tempdir().unwrap();
    begin(dir.path(), &experiment(true, 1000), &classes);
    let path = dir.path().join("journal.jsonl");
    let bytes = fs::read(&path).unwrap();
    let (wanted, looks) = (set_of(&contents(dir.path())), contents(dir.path()).looks);
    let ends: Vec<usize> =
        bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i + 1).collect();
    for cut in ends.iter().step_by(7).copied().chain([bytes.len() / 3, bytes.len() / 2]) {
        fs::write(&path, &bytes[..cut]).unwrap();
        go_on(&RunDir::resume(dir.path()).unwrap(), &classes);
        assert_eq!(contents(dir.path()).looks, looks, "cut at {cut}");
        assert_eq!(set_of(&contents(dir.path())), wanted, "cut at {cut}");
    }
}
