//! `kill -9` of the real program with a real process, container and guest alive: nothing outlives it, and after the
//! resume the set of results is whole, none lost, none twice.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bulkhead::campaign::journal::read;
use bulkhead::model::journal::{Cell, Failure, FailureKind, Outcome, PlatformState};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use skips::{Need, skip};

use crate::leftovers;

const KILLS: usize = 6;
const ROUNDS: u32 = 12;
const SEED: u64 = 20_261_121;
/// A hang must not hang the test; far more than cleaning up ever takes, and than two guests that do not boot within their minute.
const DEADLINE: Duration = Duration::from_secs(300);

fn start(arguments: &[&str], dir: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_bulkhead"))
        .arg("measure")
        .args(arguments)
        .arg(dir)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

fn new_run(dir: &Path) -> Child {
    let rounds = ROUNDS.to_string();
    let experiment = [
        "native",
        "container",
        "vm",
        "--quick",
        "--probe",
        "gap",
        "--probe",
        "syscall",
        "--budget-s",
        "1000",
    ];
    start(&[&experiment[..], &["--rounds", &rounds, "--seed", "5", "--out"]].concat(), dir)
}

/// Measurements in the journal so far; a journal that is not there yet has none.
fn finished(dir: &Path) -> usize {
    read(&dir.join("journal.jsonl")).map_or(0, |contents| contents.measurements.len())
}

/// Waits until this many measurements are there, or the program has ended.
fn wait_for(child: &mut Child, dir: &Path, measurements: usize) {
    let begun = Instant::now();
    while finished(dir) < measurements && child.try_wait().expect("it can be asked").is_none() {
        if begun.elapsed() >= DEADLINE {
            let waits = waits_for(child.id());
            // Its end closes what it writes to, so what it had said is read too.
            child.kill().expect("it can be killed");
            let mut said = String::new();
            child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut said));
            panic!("no progress: {} measurements\n{}\nit said:\n{said}", finished(dir), waits.join("\n"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What each thread of a process and of all that descend from it waits for, by which a hang is understood.
fn waits_for(process: u32) -> Vec<String> {
    let read = |path: String| fs::read_to_string(path).unwrap_or_default();
    let mut lines =
        vec![format!("process {process}: {}", read(format!("/proc/{process}/cmdline")).replace('\0', " "))];
    for thread in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
        let of = format!("/proc/{process}/task/{}", thread.file_name().to_string_lossy());
        let state =
            read(format!("{of}/status")).lines().find(|line| line.starts_with("State")).map(str::to_owned);
        lines.push(format!(
            "  {} {}: {}",
            read(format!("{of}/comm")).trim(),
            state.unwrap_or_default(),
            read(format!("{of}/syscall")).trim()
        ));
        for child in read(format!("{of}/children")).split_whitespace().filter_map(|id| id.parse().ok()) {
            lines.extend(waits_for(child));
        }
    }
    lines
}

/// What is left of the run, besides the files that a resume needs. The reaper works beside us: it is given time.
fn wait_until_nothing_is_left(dir: &Path) {
    let needed = ["experiment.toml", "journal.jsonl", "results.json", "report.html", "scratch"];
    let left = || -> Vec<String> {
        let is_needed = |line: &String| needed.iter().any(|name| *line == format!("file {name}"));
        leftovers::without_sweeping(dir).into_iter().filter(|line| !is_needed(line)).collect()
    };
    let begun = Instant::now();
    while !left().is_empty() {
        assert!(begun.elapsed() < DEADLINE, "left behind:\n{}", left().join("\n"));
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn all_available(platforms: &[PlatformState]) -> bool {
    platforms.iter().all(|platform| platform.unavailable.is_none())
}

#[test]
fn killed_beside_real_instances_it_leaves_nothing_and_resumes_whole() {
    let parent = tempfile::Builder::new().prefix("bulkhead-crash-").tempdir().expect("a folder");
    let mark = parent.path().file_name().expect("a name").to_string_lossy().into_owned();
    // The directory's own name is the mark that leftovers are found by.
    let dir = parent.path().join(format!("{mark}-run"));
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    println!("seed of the moments: {SEED}");
    let mut kept = 0;
    for kill in 0..KILLS {
        let mut session = if kill == 0 { new_run(&dir) } else { start(&["--resume"], &dir) };
        wait_for(&mut session, &dir, kept + random.random_range(1..8));
        std::thread::sleep(Duration::from_millis(random.random_range(0..300)));
        session.kill().expect("it can be killed");
        let output = session.wait_with_output().expect("it ends");
        // Kept where a later failure can be understood by it: a measurement that failed in this session is in the journal to the end.
        let said = String::from_utf8_lossy(&output.stderr);
        println!("session {}:\n{said}", kill + 1);
        assert_eq!(output.status.code(), None, "it had not ended by itself: {said}");
        wait_until_nothing_is_left(&dir);
        assert!(finished(&dir) >= kept, "nothing that was written is lost");
        kept = finished(&dir);
        println!("kill {}: {kept} measurements kept", kill + 1);
    }
    let output = start(&["--resume"], &dir).wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    let starved = failures(&dir);
    println!("{} measurements whose load got no CPU: {starved:?}", starved.len());
    let ending = if starved.is_empty() { 0 } else { 4 };
    assert_eq!(output.status.code(), Some(ending), "{starved:?}\n{said}");
    check_set(&dir);
    wait_until_nothing_is_left(&dir);
    assert!(!dir.join("scratch").exists() && !dir.join("started.jsonl").exists(), "a clean end tidies up");
}

#[test]
fn interrupted_it_ends_its_instances_and_keeps_what_is_finished() {
    let parent = tempfile::Builder::new().prefix("bulkhead-interrupt-").tempdir().expect("a folder");
    let mark = parent.path().file_name().expect("a name").to_string_lossy().into_owned();
    let dir = parent.path().join(format!("{mark}-run"));
    let mut session = new_run(&dir);
    wait_for(&mut session, &dir, 5);
    let pid = Pid::from_raw(i32::try_from(session.id()).expect("a pid"));
    kill(pid, Signal::SIGINT).expect("it can be interrupted");
    let output = session.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("--resume"), "it says how to go on: {said}");
    wait_until_nothing_is_left(&dir);
    assert!(finished(&dir) >= 5);
    for name in ["results.json", "report.html"] {
        assert!(dir.join(name).exists(), "what is finished is reported: {name}");
    }
    assert!(!dir.join("scratch").exists() && !dir.join("started.jsonl").exists(), "a clean end tidies up");
}

/// What failed, of all sessions: beside other work a load may get no CPU in the fifth of a second that a measurement takes, which is
/// written down as a failure. Nothing else may fail.
fn failures(dir: &Path) -> Vec<(Cell, u32, Failure)> {
    let contents = read(&dir.join("journal.jsonl")).expect("the journal is whole");
    let failed = contents.measurements.into_iter().filter_map(|one| match one.outcome {
        Outcome::Done(_) => None,
        Outcome::Failed(failure) => Some((one.cell, one.round, failure)),
    });
    let failed: Vec<_> = failed.collect();
    let is_starved = |failure: &Failure| {
        failure.kind == FailureKind::Neighbour && failure.reason.contains("did nothing: 0 ")
    };
    assert!(failed.iter().all(|(_, _, failure)| is_starved(failure)), "{failed:?}");
    failed
}

/// Every cell once per round, all done; platforms that are not here must be said, and are a failure where required.
fn check_set(dir: &Path) {
    let contents = read(&dir.join("journal.jsonl")).expect("the journal is whole");
    let states = contents.platforms.expect("the platforms were surveyed");
    if !all_available(&states) {
        let absent: Vec<_> = states.iter().filter_map(|state| state.unavailable.as_deref()).collect();
        skip(Need::Container, format!("in part, a platform is not available here: {absent:?}"));
    }
    let mut times: BTreeMap<(Cell, u32), u32> = BTreeMap::new();
    for measurement in &contents.measurements {
        *times.entry((measurement.cell.clone(), measurement.round)).or_default() += 1;
    }
    assert!(times.values().all(|count| *count == 1), "twice: {times:?}");
    let present = states.iter().filter(|state| state.unavailable.is_none()).count();
    let groups = 3; // gap, syscall, gap beside the cpu load
    assert_eq!(times.len(), present * groups * ROUNDS as usize);
    fs::metadata(dir.join("report.html")).expect("the report is there");
}
