//! Faults that are seeded one by one into a set with real guests: each flips exactly the requirements that it must.
//!
//! ```text
//!  all pass ─► a fault ─► verify: who is no pass any more? = its row of the matrix ─► taken back ─► all pass
//! ```
//! With `--nocapture` the matrix of `docs/verify.md` is printed.

mod groups;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bulkhead::model::partition::set::Phase;
use bulkhead::model::verification::RequirementVerdict;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use skips::{Need, skip};

use crate::exec_fixture::free_port;
use crate::set_fixture::{Bench, PATIENCE, guests_are_there};
use crate::verify_fixture::{ECHO, Plant};

/// Two that are pinned beside each other, one with a weight, one with a cap.
const SET: &str = r#"
[network.control]
links = 2

[partition.a]
program = ["/bin/sleep", "1000"]
pin = "0"
failure_domain = "left"

[partition.b]
program = ["/bin/sleep", "1000"]
pin = "1"
failure_domain = "right"

[partition.c]
program = ["/bin/sleep", "1000"]
cpu_weight = 200
networks = ["control"]
ro = ["SHOWN"]

[partition.d]
program = ["PROGRAMS/sleeper", "1000"]
cpu_cap_percent = 50
networks = ["control"]
"#;

const NEIGHBOUR: &str = r#"
[partition.e]
program = ["/bin/sleep", "1000"]
"#;

/// Of each partition: its letter stands for `X`.
const OF_EACH: &str = include_str!("fixtures/requirements-of-each.toml");

/// Of more than one.
const OF_ALL: &str = include_str!("fixtures/requirements-of-all.toml");

const LETTERS: [&str; 4] = ["a", "b", "c", "d"];

/// All four with requirements of each, and the program that is their user's own test.
fn start() -> Plant {
    let bench = Bench::real().with_own_program();
    let (programs, config) = (bench.path("programs"), bench.path("shown"));
    for folder in [&programs, &config] {
        fs::create_dir(folder).expect("the test's own files");
    }
    let set = SET.replace("SHOWN", config.to_str().expect("plain"));
    let set = set.replace("PROGRAMS", programs.to_str().expect("plain"));
    fs::copy("/bin/sleep", programs.join("sleeper")).expect("the test's own files");
    let of_each = LETTERS.map(|name| {
        // a and b: c and d may run beside each; those two: all three others.
        let neighbours = if matches!(name, "a" | "b") { "2" } else { "3" };
        OF_EACH.replace('X', name).replace("NEIGHBOURS", neighbours)
    });
    let folder = programs.to_str().expect("plain");
    let requirements = format!("{OF_ALL}{}", of_each.concat()).replace("FOLDER", folder);
    let plant = Plant::start(bench, &set, requirements);
    write_test(&plant, "exit 0");
    plant
}

/// The user's own test of all partitions.
fn write_test(plant: &Plant, words: &str) {
    use std::os::unix::fs::PermissionsExt;
    let path = plant.bench.path("programs/test");
    fs::write(&path, format!("#!/bin/sh\n{words}\n")).expect("the test's own files");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("the test's own files");
}

/// Some that are about one partition.
fn all_of(name: &str, parts: &[&str]) -> Vec<String> {
    parts.iter().map(|part| format!("{name}.{part}")).collect()
}

#[test]
fn each_fault_flips_exactly_the_requirements_that_it_must() {
    if !guests_are_there() {
        return;
    }
    let mut plant = start();
    assert_eq!(plant.look(&[]), BTreeMap::new());
    places(&mut plant);
    groups::shares(&mut plant);
    groups::disks(&mut plant);
    groups::threads(&mut plant);
    groups::file_servers(&mut plant);
    neighbours(&mut plant);
    domains(&mut plant);
    programs(&mut plant);
    edits(&mut plant);
    changed_under_it(&mut plant);
    basis(&mut plant);
    stops(&mut plant);
    groups::switches(&mut plant);
    deaths(&mut plant);
    another_program(&mut plant);
    plant.end();
}

/// Pins that are lost, or lead to the other's CPU.
fn places(plant: &mut Plant) {
    for (name, own, other) in [("a", 0, 1), ("b", 1, 0)] {
        let wanted = all_of(name, &["place"]);
        let wanted: Vec<&str> =
            wanted.iter().map(String::as_str).chain(["ab.cpus", "a.alone", "b.alone"]).collect();
        let back = |plant: &Plant| plant.pin(name, &[own]);
        plant.fault(&format!("{name}: pin lost"), &wanted, |plant| plant.pin(name, &[own, other]), back);
        plant.fault(
            &format!("{name}: pinned to the other's CPU"),
            &wanted,
            |plant| plant.pin(name, &[other]),
            back,
        );
    }
}

fn neighbours(plant: &mut Plant) {
    let file = plant.bench.file("other.toml", NEIGHBOUR);
    plant.fault(
        "another set comes up on the same CPUs",
        &["a.alone", "b.alone", "c.alone", "d.alone"],
        |plant| assert_eq!(plant.bench.up(&file).code, Some(0)),
        |plant| plant.call(&["down", "other"]),
    );
}

/// What is to be a replica is brought up where the other one is, and fails with it.
fn domains(plant: &mut Plant) {
    let file = plant.bench.path("plant.toml");
    let was = fs::read_to_string(&file).expect("the test's own files");
    let all = |plant: &Plant, text: &str| {
        fs::write(&file, text).expect("the test's own files");
        assert_eq!(plant.bench.up(&file).code, Some(0));
    };
    let together = was.replace("\"right\"", "\"left\"");
    plant.fault(
        "b: in a's failure domain",
        &["ab.apart"],
        |plant| all(plant, &together),
        |plant| all(plant, &was),
    );
}

/// The user's own test finds something, in one partition or in all; or cannot be run.
fn programs(plant: &mut Plant) {
    for name in LETTERS {
        let wanted = format!("{name}.test");
        plant.fault(
            &format!("{name}: its user's own test fails"),
            &[&wanted],
            |plant| write_test(plant, &format!("[ $1 != {name} ]")),
            |plant| write_test(plant, "exit 0"),
        );
    }
    let test = plant.bench.path("programs/test");
    plant.fault(
        "the user's own test is gone",
        &["a.test", "b.test", "c.test", "d.test"],
        |_| fs::remove_file(&test).expect("it was there"),
        |plant| write_test(plant, "exit 0"),
    );
}

/// Its file is another one than it was started from: what is seen of it from then on is not what that file does.
fn changed_under_it(plant: &mut Plant) {
    assert_eq!(plant.look(&[]), BTreeMap::new());
    let program = plant.bench.path("programs/sleeper");
    let mode = fs::metadata(&program).expect("it is there").permissions();
    // The same bytes, the same rights: that it was touched since is what counts.
    fs::set_permissions(&program, mode).expect("the test's own files");
    let flipped = plant.look(&["--no-run"]);
    let wanted = all_of("d", &["place", "runs", "restarts", "sockets"]).into_iter();
    let wanted: Vec<String> =
        wanted.chain(LETTERS.iter().flat_map(|name| all_of(name, &["alone", "test"]))).collect();
    let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
    plant.row("d: its program's file is changed while it runs, nothing run", &wanted, flipped);
}

/// Requirements that are written otherwise: limits that do not hold, and sentences, after which what was seen is stale.
fn edits(plant: &mut Plant) {
    let mut all = vec![
        ("ab.cpus".to_owned(), "exactly = 0", "exactly = 1"),
        ("ab.apart".to_owned(), "exactly = 0", "exactly = 1"),
        ("c.weight".to_owned(), "exactly = 200", "exactly = 100"),
        ("net.links".to_owned(), "exactly = 2", "exactly = 1"),
        ("net.restarts".to_owned(), "exactly = 0", "exactly = 1"),
    ];
    for name in LETTERS {
        for (part, from, to) in [
            ("place", "exactly = 0", "exactly = 1"),
            ("runs", "exactly = 1", "exactly = 0"),
            ("restarts", "exactly = 0", "exactly = 1"),
            ("sockets", "exactly = 0", "exactly = 1"),
            ("test", "exactly = 0", "exactly = 1"),
        ] {
            all.push((format!("{name}.{part}"), from, to));
        }
    }
    for (id, from, to) in &all {
        let flipped = plant.edited(id, from, to, &[]);
        plant.row(&format!("{id}: limit edited"), &[id], flipped);
    }
    plant.look(&[]);
    for (id, ..) in &all {
        let flipped = plant.edited(id, "text = \"", "text = \"Now: ", &["--no-run"]);
        assert!(flipped.values().all(|verdict| *verdict == RequirementVerdict::Stale), "{id}: {flipped:?}");
        plant.row(&format!("{id}: sentence edited, nothing run"), &[id], flipped);
    }
}

/// What results rest on is another one, and nothing is run: places, neighbours.
fn basis(plant: &mut Plant) {
    assert_eq!(plant.look(&[]), BTreeMap::new());
    for name in ["a", "b"] {
        let (own, other) = if name == "a" { (0, 1) } else { (1, 0) };
        plant.pin(name, &[other]);
        let flipped = plant.look(&["--no-run"]);
        plant.pin(name, &[own]);
        let mut wanted = all_of(name, &["place", "runs", "restarts", "sockets"]);
        // Whatever is beside a partition that moves.
        wanted.extend(LETTERS.iter().flat_map(|name| all_of(name, &["alone", "test"])));
        let wanted: Vec<&str> = wanted.iter().map(String::as_str).chain(["ab.cpus", "ab.apart"]).collect();
        plant.row(&format!("{name}: pinned to the other's CPU, nothing run"), &wanted, flipped);
    }
    let mut wanted = all_of("c", &["place", "runs", "restarts", "sockets", "weight"]);
    wanted.extend(LETTERS.iter().flat_map(|name| all_of(name, &["alone", "test"])));
    let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
    let new = plant.bench.path("shown/new");
    fs::write(&new, "y").expect("the test's own files");
    let flipped = plant.look(&["--no-run"]);
    fs::remove_file(new).expect("it was there");
    plant.row("c: a file more in a folder that it is shown, nothing run", &wanted, flipped);
    let file = plant.bench.file("other.toml", NEIGHBOUR);
    let mut wanted: Vec<String> = LETTERS.iter().flat_map(|name| all_of(name, &["alone", "test"])).collect();
    wanted.push("host.memory".to_owned());
    let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
    assert_eq!(plant.bench.up(&file).code, Some(0));
    let flipped = plant.look(&["--no-run"]);
    plant.row("another set comes up on the same CPUs, nothing run", &wanted, flipped);
    // What it runs may be louder than what it ran when all was seen; its place is the same.
    plant.look(&[]);
    fs::write(&file, NEIGHBOUR.replace("\"1000\"", "\"2000\"")).expect("the test's own files");
    assert_eq!(plant.bench.up(&file).code, Some(0));
    let flipped = plant.look(&["--no-run"]);
    plant.row("another set runs another program at the same place, nothing run", &wanted, flipped);
    plant.call(&["down", "other"]);
    assert_eq!(plant.look(&[]), BTreeMap::new(), "all is as it was");
}

fn stops(plant: &mut Plant) {
    for name in LETTERS {
        let mut wanted = all_of(name, &["place", "runs", "sockets", "alone"]);
        if matches!(name, "a" | "b") {
            wanted.push("ab.cpus".to_owned());
        }
        if name == "c" {
            wanted.push("c.weight".to_owned());
        }
        let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
        let label = format!("plant/{name}");
        plant.fault(
            &format!("{name}: stopped"),
            &wanted,
            |plant| plant.call(&["stop", &label]),
            |plant| {
                plant.call(&["start", &label]);
                plant.bench.wait_for(name, Phase::Running);
            },
        );
    }
}

fn deaths(plant: &mut Plant) {
    let pid = plant.switch("control.1").pid.expect("it runs");
    let pid = Pid::from_raw(i32::try_from(pid).expect("a number"));
    kill(pid, Signal::SIGKILL).expect("it runs");
    let is_back = || {
        let set = plant.status();
        set.switches
            .iter()
            .any(|one| one.name == "control.1" && one.phase == Phase::Running && one.restarts > 0)
    };
    let began = Instant::now();
    while !is_back() {
        assert!(began.elapsed() < PATIENCE, "the switch never came back");
    }
    let flipped = plant.look(&[]);
    plant.row("a switch was killed and started again", &["net.restarts"], flipped);
}

/// This program is replaced by another one, and nothing is run.
fn another_program(plant: &mut Plant) {
    let was = plant.look(&[]);
    assert_eq!(was.keys().collect::<Vec<_>>(), ["net.restarts"], "the switch was started again");
    let (own, next) = (&plant.bench.program, plant.bench.path("bulkhead.next"));
    fs::copy(own, &next).expect("a copy");
    // By a process of its own: what this one writes, a child of another test may hold open for a moment.
    let longer = Command::new("sh")
        .args(["-c", "echo >>\"$1\" && mv \"$1\" \"$2\"", "-"])
        .arg(&next)
        .arg(own)
        .status();
    assert!(longer.expect("a shell").success(), "the test's own files");
    let flipped = plant.look(&["--no-run"]);
    assert!(flipped.values().all(|verdict| *verdict == RequirementVerdict::Stale), "{flipped:?}");
    let parts = ["place", "runs", "restarts", "sockets", "alone", "test"];
    let mut wanted: Vec<String> = LETTERS.iter().flat_map(|name| all_of(name, &parts)).collect();
    wanted.extend(
        ["ab.cpus", "ab.apart", "c.weight", "net.links", "net.restarts", "host.memory"].map(str::to_owned),
    );
    let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
    plant.row("this program is another one, nothing run", &wanted, flipped);
}

/// What only shows when something is measured: a neighbour on the same CPU that may become loud, and two that talk.
const MEASURED: &str = r#"
[network.control]

[partition.a]
program = ["/bin/sleep", "1000"]
pin = "0"

[partition.n]
program = ["/bin/sh", "-c", "while :; do if [ -e FOLDER/told/loud ]; then i=0; while [ $i -lt 99999 ]; do i=$((i+1)); done; else sleep 0.2; fi; done"]
rw = ["FOLDER/told"]
pin = "0"
cpu_weight = 10000

[partition.db]
program = ["/usr/bin/python3", "FOLDER/echo.py"]
ro = ["FOLDER"]
networks = ["control"]
ready = { tcp = 9000 }

[partition.web]
program = ["/usr/bin/python3", "FOLDER/echo.py", "db"]
ro = ["FOLDER"]
networks = ["control"]
after = ["db"]
ports = ["PORT:9000"]
ready = { tcp = 9000 }
"#;

/// Limits are far from what either is with and without the fault: nothing is told of how much a fault matters.
const MEASURED_LIMITS: &str = r#"
set = "plant"

[requirement."a.work"]
text = "99 of 100 small pieces of work take a at most 40 ms."
partition = "a"
metric = "fwq.quantum_p99_ns"
at_most = "40 ms"
load = "as-is"

[requirement."web.answers"]
text = "Half of all who ask are answered within 200 ms."
metric = "response.p50_ns"
at_most = "200 ms"
load = "as-is"
client = { kind = "echo", at = "127.0.0.1:PORT", period_ms = 50, answer_within_ms = 3000 }
"#;

/// A process that stands still most of the time, until this is dropped.
struct Slow {
    is_over: Arc<AtomicBool>,
    slows: Option<std::thread::JoinHandle<()>>,
}

impl Slow {
    fn start(pid: u32) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let pid = Pid::from_raw(i32::try_from(pid).expect("a number"));
        let slows = std::thread::spawn(move || {
            while !ends.load(Ordering::SeqCst) {
                let _ = kill(pid, Signal::SIGSTOP);
                std::thread::sleep(Duration::from_millis(500));
                let _ = kill(pid, Signal::SIGCONT);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Self { is_over, slows: Some(slows) }
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.slows.take().map(std::thread::JoinHandle::join);
    }
}

#[test]
fn each_fault_that_only_measuring_can_see_flips_what_it_must() {
    if !guests_are_there() {
        return;
    }
    if std::env::var_os("BULKHEAD_FAULTS").is_none() {
        return skip(Need::Long, "BULKHEAD_FAULTS=1 measures beside a loud neighbour and over a slow switch");
    }
    let bench = Bench::real();
    let folder = bench.file("echo.py", "").parent().expect("a folder").to_owned();
    fs::write(folder.join("echo.py"), ECHO).expect("the test's own files");
    fs::create_dir(folder.join("told")).expect("the test's own files");
    let port = free_port().to_string();
    let here = |text: &str| text.replace("FOLDER", folder.to_str().expect("plain")).replace("PORT", &port);
    let mut plant = Plant::start(bench, &here(MEASURED), here(MEASURED_LIMITS));
    assert_eq!(plant.look(&[]), BTreeMap::new());
    let loud = folder.join("told/loud");
    plant.fault(
        "a's neighbour on the same CPU becomes loud",
        &["a.work"],
        |_| fs::write(&loud, "").expect("the test's own files"),
        |_| fs::remove_file(&loud).expect("the test's own files"),
    );
    let slow = std::cell::RefCell::new(None);
    plant.fault(
        "the switch becomes slow",
        &["web.answers"],
        |plant| {
            let switch = plant.status().switches.into_iter().next().and_then(|switch| switch.pid);
            *slow.borrow_mut() = Some(Slow::start(switch.expect("it runs")));
        },
        |_| drop(slow.take()),
    );
    plant.end();
}
