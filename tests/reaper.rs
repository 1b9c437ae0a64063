//! A `kill -9` of the program leaves nothing behind: the reaper undoes what the ledger lists.

use crate::leftovers;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bulkhead::model::experiment::PlatformSpec;
use bulkhead::platforms::ledger::{FILE_NAME, Ledger, Thing};
use bulkhead::platforms::reaper::Reaper;
use bulkhead::platforms::{Cancel, InstanceSpec, PlatformContext, make};
use bulkhead::units::Bytes;
use bulkhead::units::names::PlatformKind;
use skips::{Need, skip};

/// Tells the victim its run directory.
const VICTIM: &str = "BULKHEAD_TEST_VICTIM";
/// Generous: what takes longer is left behind.
const PATIENCE: Duration = Duration::from_secs(60);

fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_bulkhead"))
}

/// The program that is killed: starts everything there is, says so, and waits for its death.
#[test]
#[ignore = "started by the test below, in a process of its own"]
fn victim() {
    let run = PathBuf::from(std::env::var_os(VICTIM).expect("started by the other test"));
    let ledger = Ledger::open(&run).expect("a ledger");
    let _reaper = Reaper::start(&run, &binary()).expect("a reaper");
    let directory = ledger.dir().join("images");
    let _ticket = ledger.record(Thing::Directory { path: directory.clone() }).expect("written");
    std::fs::create_dir(&directory).expect("made");
    std::fs::write(directory.join("disk"), "data").expect("written");
    let context = PlatformContext {
        exe: binary(),
        ledger,
        cache: run.join("cache"),
        counter_hz: None,
        seed: 1,
        may_destroy: false,
    };
    let mut instances = Vec::new();
    for (number, kind) in [(0, PlatformKind::Native), (1, PlatformKind::Container)] {
        let mut platform = make(&PlatformSpec::of_kind(kind), &context);
        if let Some(reason) = platform.survey(&Cancel::new()).unavailable {
            skip(Need::Container, format!("in part, {kind}: {reason}"));
            continue;
        }
        let scratch = run.join(format!("scratch-{number}"));
        std::fs::create_dir(&scratch).expect("made");
        let nothing = Bytes::from_bytes(0);
        let spec = InstanceSpec {
            number,
            memory_wanted: nothing,
            disk_wanted: nothing,
            scratch,
            ..InstanceSpec::default()
        };
        instances.push(platform.start(&spec, &Cancel::new()).expect("it starts"));
    }
    println!("READY {}", instances.len());
    loop {
        std::thread::park();
    }
}

#[test]
fn a_killed_program_leaves_nothing_behind() {
    let run = tempfile::Builder::new().prefix("bulkhead-run-").tempdir().expect("a run directory");
    let myself = std::env::current_exe().expect("this test");
    // A session leader, so that whatever could hang on to a session would be seen.
    let mut child = Command::new("setsid")
        .arg(myself)
        .args(["--exact", "reaper::victim", "--ignored", "--nocapture"])
        .env(VICTIM, run.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("setsid runs");
    let said = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut lines = said.lines().map_while(Result::ok).inspect(|line| println!("{line}"));
    assert!(lines.any(|line| line.contains("READY")), "the victim never got ready");
    assert!(run.path().join("images").exists());
    let before = leftovers::without_sweeping(run.path());
    assert!(!before.is_empty(), "there is something to be left");

    child.kill().expect("killed with SIGKILL");
    child.wait().expect("reaped");
    let until = Instant::now() + PATIENCE;
    loop {
        let left = leftovers::without_sweeping(run.path());
        if left.is_empty() {
            break;
        }
        assert!(Instant::now() < until, "left behind:\n{}", left.join("\n"));
        std::thread::sleep(Duration::from_millis(50));
    }
    leftovers::assert_none(run.path(), "by a killed program");
}

/// A runtime that is killed while it makes a container has made its groups before it writes down that there is one.
#[test]
fn groups_of_a_container_that_its_runtime_never_wrote_down_go_too() {
    if !nix::unistd::geteuid().is_root() {
        return skip(Need::Root, "groups of processes are made as root");
    }
    let run = tempfile::tempdir().expect("a run directory");
    let ledger = Ledger::open(run.path()).expect("a ledger");
    let id = format!("bulkhead-{:016x}", std::process::id());
    let top = PathBuf::from("/sys/fs/cgroup");
    let group = if top.join("pids").is_dir() { top.join("pids") } else { top }.join(&id);
    let root = ledger.dir().join("state");
    std::fs::create_dir(&root).expect("made");
    let made = Thing::Container { runtime: PathBuf::from("/usr/bin/crun"), root, id };
    let _ticket = ledger.record(made).expect("written");
    std::fs::create_dir(&group).expect("made");
    let mut half_made = Command::new("sleep").arg("1000").spawn().expect("it starts");
    std::fs::write(group.join("cgroup.procs"), half_made.id().to_string()).expect("moved");
    drop(ledger);
    let said = bulkhead::platforms::ledger::sweep(run.path());
    assert!(!group.exists() && said.iter().any(|line| line.contains("removed")), "{said:?}");
    half_made.wait().expect("it was ended");
}

#[test]
fn goodbye_sends_the_reaper_away_without_a_sweep() {
    let run = tempfile::tempdir().expect("a run directory");
    let ledger = Ledger::open(run.path()).expect("a ledger");
    let kept = ledger.dir().join("kept");
    let ticket = ledger.record(Thing::Directory { path: kept.clone() }).expect("written");
    std::fs::create_dir(&kept).expect("made");
    Reaper::start(run.path(), &binary()).expect("a reaper").goodbye();
    assert!(kept.exists());

    drop(Reaper::start(run.path(), &binary()).expect("a reaper"));
    assert!(!kept.exists(), "without goodbye it sweeps");
    ledger.undone(ticket);
}

/// As when a test's temporary folder goes while what it started still runs.
#[test]
fn who_removes_the_folder_of_a_run_takes_its_list_not_along() {
    let run = tempfile::Builder::new().prefix("bulkhead-test-").tempdir().expect("a run directory");
    let ledger = Ledger::open(run.path()).expect("a ledger");
    let elsewhere = Path::new("/dev/shm").join(run.path().file_name().expect("a name"));
    let _ticket = ledger.record(Thing::Directory { path: elsewhere.clone() }).expect("written");
    std::fs::create_dir(&elsewhere).expect("made");
    let list = ledger.dir().join(FILE_NAME);
    let reaper = Reaper::start(run.path(), &binary()).expect("a reaper");
    let until = Instant::now() + PATIENCE;
    while !a_reaper_has(&list) {
        assert!(Instant::now() < until, "the reaper never opened {}", list.display());
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(ledger);
    run.close().expect("removed");
    drop(reaper);
    assert!(!elsewhere.exists());
}

fn a_reaper_has(file: &Path) -> bool {
    let processes = std::fs::read_dir("/proc").expect("proc").flatten().map(|entry| entry.path());
    // Before it became one it had all that we have.
    let is_reaper = |path: &PathBuf| {
        let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == b"reaper")
    };
    let open = processes
        .filter(is_reaper)
        .flat_map(|path| std::fs::read_dir(path.join("fd")).into_iter().flatten().flatten());
    open.filter_map(|entry| std::fs::read_link(entry.path()).ok()).any(|target| target == file)
}
