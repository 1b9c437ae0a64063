//! `kill -9` at any moment: after the resume the set of results is the same, none lost, none twice, nothing left behind.
//!
//! The session that is killed is this test program itself, told by an environment variable to run the campaign.

use crate::doubles;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bulkhead::campaign::{RunDir, Setup, conclude, run};
use bulkhead::model::classes::ClassSet;
use bulkhead::model::experiment::Experiment;
use bulkhead::model::journal::Measurement;
use bulkhead::platforms::ledger::Ledger;
use bulkhead::platforms::{Cancel, PlatformContext, make};
use doubles::{contents, header, names_in, set_of};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Tells this program to be the session, and where.
const SESSION_DIR: &str = "BULKHEAD_CRASH_SESSION_DIR";
const KILLS: u32 = 100;
const EXPERIMENT: &str = r#"
    seed = 7
    [repeat]
    min = 3
    max = 6
    target_percent = 1.0
    [[platform]]
    label = "a"
    kind = "fake"
    script = { delay_ms = 2, noise_percent = 4 }
    [[platform]]
    label = "b"
    kind = "fake"
    script = { delay_ms = 2, noise_percent = 4, slowdown_percent = 120 }
    [probe.gap]
    batches = 8
    [probe.fwq]
    samples = 100
    [probe.fork]
    [[load]]
    kind = "cpu"
    probes = ["fork"]
"#;

/// One session: creates or resumes the run, and concludes it. Not a test of its own.
#[test]
#[ignore = "started by the test below, in a process of its own"]
fn session() {
    run_session(Path::new(&std::env::var_os(SESSION_DIR).expect("started by the other test")));
}

fn run_session(dir: &Path) {
    let experiment = Experiment::from_toml(EXPERIMENT).unwrap();
    let rundir = if dir.join("experiment.toml").exists() {
        RunDir::resume(dir).unwrap()
    } else {
        RunDir::create(dir, &experiment, 1).unwrap()
    };
    let context = PlatformContext {
        counter_hz: None,
        exe: "/proc/self/exe".into(),
        ledger: Ledger::open(rundir.path()).unwrap(),
        cache: std::env::temp_dir(),
        seed: rundir.seed(),
        may_destroy: false,
    };
    let specs = rundir.experiment().platforms.clone();
    let platforms = specs.into_iter().map(|spec| (spec.clone(), make(&spec, &context))).collect();
    let setup = Setup {
        platforms,
        host: None,
        header: header(),
        durations: None,
        classes: bulkhead::model::classes::ClassSet::default(),
        cancel: Cancel::new(),
    };
    run(&rundir, setup, &mut |_| {}).unwrap();
    conclude(&rundir, &ClassSet::default()).unwrap();
}

fn start_session(dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["crash::session", "--exact", "--ignored", "--test-threads=1"])
        .env(SESSION_DIR, dir)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Everything about a measurement that does not depend on the clock, in the order it was made.
fn essence(measurements: &[Measurement]) -> Vec<String> {
    let text = |m: &Measurement| format!("{:?} {} {:?} {:?}", m.cell, m.round, m.outcome, m.doses);
    measurements.iter().map(text).collect()
}

/// Processes that have the directory's name in their environment or arguments.
fn processes_of(dir: &Path) -> Vec<String> {
    let wanted = dir.to_str().unwrap().as_bytes();
    let mentions = |file: &Path| {
        fs::read(file).is_ok_and(|bytes| bytes.windows(wanted.len()).any(|window| window == wanted))
    };
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| mentions(&entry.path().join("environ")) || mentions(&entry.path().join("cmdline")))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn killed_at_a_hundred_random_moments_it_loses_and_doubles_nothing() {
    let reference = tempfile::tempdir().unwrap();
    run_session(reference.path());
    let wanted = contents(reference.path());
    let wanted_set = set_of(&wanted);
    let seed = 20_260_101;
    println!("seed of the moments: {seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (mut kills, mut runs, mut moments) = (0, 0, BTreeSet::new());
    while kills < KILLS {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("run");
        let mut kept = 0;
        loop {
            let mut session = start_session(&dir);
            // The moment is the point: it falls anywhere from the creation of the directory to the conclusion.
            std::thread::sleep(Duration::from_micros(random.random_range(0..90_000)));
            session.kill().unwrap();
            let output = session.wait_with_output().unwrap();
            if output.status.success() {
                break;
            }
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), None, "killed, not failed: {said}");
            kills += 1;
            let after = contents(&dir);
            assert!(after.measurements.len() >= kept, "nothing that was written is lost");
            kept = after.measurements.len();
            moments.insert(kept);
            assert!(set_of(&after).is_subset(&wanted_set));
        }
        runs += 1;
        let finished = contents(&dir);
        assert_eq!(set_of(&finished), wanted_set);
        assert_eq!(
            essence(&finished.measurements),
            essence(&wanted.measurements),
            "the same to the last digit"
        );
        assert_eq!(names_in(&dir), ["experiment.toml", "journal.jsonl", "results.json"]);
        assert_eq!(names_in(parent.path()), ["run"]);
        assert_eq!(processes_of(&dir), Vec::<String>::new());
    }
    println!("{kills} kills in {runs} runs, at {} different lengths of the journal", moments.len());
    assert!(moments.len() > 5, "the kills hit different moments: {moments:?}");
}
