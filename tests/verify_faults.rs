//! Faults that are seeded one by one into a set with real guests: each flips exactly the requirements that it must.
//!
//! ```text
//!  all pass ─► a fault ─► verify: who is no pass any more? = its row of the matrix ─► taken back ─► all pass
//! ```
//! With `--nocapture` the matrix of `docs/verify.md` is printed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use bulkhead::model::partition::set::{Phase, SetStatus};
use bulkhead::model::verification::{RequirementVerdict, Verification};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::set_fixture::{Bench, PATIENCE, guests_are_there};

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
program = ["/bin/sleep", "1000"]
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

struct Plant {
    bench: Bench,
    folder: PathBuf,
    requirements: String,
    out: String,
    rows: Vec<(String, BTreeMap<String, RequirementVerdict>)>,
    wrong: Vec<String>,
}

impl Plant {
    fn start() -> Self {
        let bench = Bench::real().with_own_program();
        let folder = bench.path("programs");
        fs::create_dir(&folder).expect("the test's own files");
        let shown = folder.to_str().expect("plain").to_owned();
        let config = bench.path("shown");
        fs::create_dir(&config).expect("the test's own files");
        let set = SET.replace("SHOWN", config.to_str().expect("plain"));
        let said = bench.up(&bench.file("plant.toml", &set));
        assert_eq!(said.code, Some(0), "{said:?}");
        let of_each = LETTERS.map(|name| {
            // a and b: c and d may run beside each; those two: all three others.
            let neighbours = if matches!(name, "a" | "b") { "2" } else { "3" };
            OF_EACH.replace('X', name).replace("NEIGHBOURS", neighbours)
        });
        let requirements = format!("{OF_ALL}{}", of_each.concat()).replace("FOLDER", &shown);
        let out = bench.path("evidence").to_str().expect("plain").to_owned();
        let plant = Self { bench, folder, requirements, out, rows: Vec::new(), wrong: Vec::new() };
        plant.write_test("exit 0");
        plant
    }

    /// The user's own test of all partitions.
    fn write_test(&self, words: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.folder.join("test");
        fs::write(&path, format!("#!/bin/sh\n{words}\n")).expect("the test's own files");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("the test's own files");
    }

    fn verify(&self, requirements: &str, words: &[&str]) -> BTreeMap<String, RequirementVerdict> {
        let file = self.bench.path("requirements.toml");
        fs::write(&file, requirements).expect("the test's own files");
        let file = file.to_str().expect("plain");
        let said = self.bench.call(&[&["verify", file, "--out", &self.out], words].concat());
        assert!(matches!(said.code, Some(0 | 1 | 4)), "{said:?}");
        let text = fs::read(format!("{}/verify.json", self.out)).expect("it is written");
        let told: Verification = serde_json::from_slice(&text).expect("a verification");
        let all = told.requirements.into_iter().map(|one| (one.id, one.verdict));
        all.filter(|(_, verdict)| *verdict != RequirementVerdict::Pass).collect()
    }

    /// Makes a fault, looks, takes it back and looks again. `wanted` are those without parts.
    fn fault(&mut self, name: &str, wanted: &[&str], make: impl FnOnce(&Self), undo: impl FnOnce(&Self)) {
        make(self);
        let before = self.rounds();
        let flipped = self.verify(&self.requirements, &[]);
        // What is not there was looked for until the time was over, once.
        let grown = self.rounds().saturating_sub(before);
        assert!(grown < 50, "{name}: {grown} rounds");
        undo(self);
        self.row(name, wanted, flipped);
        let left = self.verify(&self.requirements, &[]);
        if !left.is_empty() {
            self.wrong.push(format!("after {name} was taken back: {left:?}"));
        }
    }

    fn rounds(&self) -> usize {
        let journal = fs::read_to_string(format!("{}/journal.jsonl", self.out)).expect("it is written");
        journal.lines().count()
    }

    /// What was seen of a fault.
    fn row(&mut self, name: &str, wanted: &[&str], flipped: BTreeMap<String, RequirementVerdict>) {
        let mut wanted: BTreeSet<String> = wanted.iter().map(|id| (*id).to_owned()).collect();
        let parents: Vec<String> = wanted.iter().filter_map(|id| parent(id)).collect();
        wanted.extend(parents);
        let got: BTreeSet<String> = flipped.keys().cloned().collect();
        if got != wanted {
            self.wrong.push(format!("{name}: wanted {wanted:?}, got {flipped:?}"));
        }
        self.rows.push((name.to_owned(), flipped));
    }

    /// Edits the requirement with this id by replacing a part of it, and looks.
    fn edited(&self, id: &str, from: &str, to: &str, words: &[&str]) -> BTreeMap<String, RequirementVerdict> {
        let head =
            if id.contains('.') { format!("[requirement.\"{id}\"]") } else { format!("[requirement.{id}]") };
        let at = self.requirements.find(&head).expect("it is there");
        let (before, own) = self.requirements.split_at(at);
        self.verify(&format!("{before}{}", own.replacen(from, to, 1)), words)
    }

    fn partition(&self, name: &str) -> Process {
        let set = status(&self.bench);
        let one = set.partitions.into_iter().find(|one| one.name == name).expect("a partition");
        let threads = one.given.map(|given| given.cpus.iter().map(|cpu| cpu.thread).collect());
        Process { pid: one.pid.expect("it runs"), threads: threads.unwrap_or_default() }
    }

    fn call(&self, words: &[&str]) {
        let said = self.bench.call(words);
        assert_eq!(said.code, Some(0), "{said:?}");
    }

    /// Lets the virtual CPUs of a partition run on these CPUs.
    fn pin(&self, name: &str, cpus: &[usize]) {
        let mut set = CpuSet::new();
        for cpu in cpus {
            set.set(*cpu).expect("a CPU");
        }
        for thread in self.partition(name).threads {
            sched_setaffinity(Pid::from_raw(i32::try_from(thread).expect("a number")), &set)
                .expect("it runs");
        }
    }
}

struct Process {
    pid: u32,
    threads: Vec<u32>,
}

impl Process {
    /// A file of the CPU group that it is in, by its name in both versions.
    fn group(&self, old: &str, new: &str) -> (PathBuf, bool) {
        let groups = fs::read_to_string(format!("/proc/{}/cgroup", self.pid)).expect("it runs");
        for line in groups.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next().expect("controllers"), parts.next().expect("a path"));
            let is_old = controllers.split(',').any(|one| one == "cpu");
            let mount = if is_old { "/sys/fs/cgroup/cpu" } else { "/sys/fs/cgroup" };
            let file =
                Path::new(mount).join(path.trim_start_matches('/')).join(if is_old { old } else { new });
            if (is_old || controllers.is_empty()) && file.exists() {
                return (file, is_old);
            }
        }
        panic!("no CPU group holds {}: {groups}", self.pid);
    }
}

fn status(bench: &Bench) -> SetStatus {
    let said = bench.call(&["ps", "--json"]);
    let sets: Vec<SetStatus> = serde_json::from_str(&said.out).expect("ps --json");
    sets.into_iter().find(|set| set.set == "plant").expect("it is up")
}

/// `a` of `a.place`; the requirements about more than one partition have none.
fn parent(id: &str) -> Option<String> {
    let (parent, part) = id.split_once('.')?;
    (LETTERS.contains(&parent) && part != "weight").then(|| parent.to_owned())
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
    let mut plant = Plant::start();
    assert_eq!(plant.verify(&plant.requirements, &[]), BTreeMap::new());
    places(&mut plant);
    shares(&mut plant);
    neighbours(&mut plant);
    domains(&mut plant);
    programs(&mut plant);
    edits(&mut plant);
    basis(&mut plant);
    stops(&mut plant);
    deaths(&mut plant);
    another_program(&mut plant);
    for (name, flipped) in &plant.rows {
        let words: Vec<String> =
            flipped.iter().map(|(id, verdict)| format!("{id} {}", verdict.as_str())).collect();
        println!("| {name} | {} |", words.join(", "));
    }
    println!("{} faults, {} of them wrong", plant.rows.len(), plant.wrong.len());
    assert!(plant.wrong.is_empty(), "{}", plant.wrong.join("\n"));
    assert_eq!(plant.bench.call(&["down", "plant"]).code, Some(0));
    plant.bench.assert_nothing_left("after the faults");
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

fn shares(plant: &mut Plant) {
    let (weight, is_old) = plant.partition("c").group("cpu.shares", "cpu.weight");
    let was = fs::read_to_string(&weight).expect("a weight");
    for (word, factor) in [("halved", 0.5), ("doubled", 2.0), ("a tenth more", 1.1), ("ten times less", 0.1)]
    {
        let number: f64 = was.trim().parse().expect("a number");
        let other = format!("{:.0}", number * factor);
        plant.fault(
            &format!("c: weight {word}"),
            &["c.place", "c.weight"],
            |_| fs::write(&weight, other).expect("a weight"),
            |_| fs::write(&weight, was.trim()).expect("a weight"),
        );
    }
    let (cap, _) = plant.partition("d").group("cpu.cfs_quota_us", "cpu.max");
    let was = fs::read_to_string(&cap).expect("a cap");
    let first: u64 =
        was.split_ascii_whitespace().next().and_then(|word| word.parse().ok()).expect("a number");
    let lifted = if is_old { "-1" } else { "max" };
    for (word, to) in [
        ("lifted", lifted.to_owned()),
        ("halved", (first / 2).to_string()),
        ("doubled", (first * 2).to_string()),
    ] {
        plant.fault(
            &format!("d: cap {word}"),
            &["d.place"],
            |_| fs::write(&cap, to).expect("a cap"),
            |_| fs::write(&cap, was.trim()).expect("a cap"),
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
            |plant| plant.write_test(&format!("[ $1 != {name} ]")),
            |plant| plant.write_test("exit 0"),
        );
    }
    let test = plant.folder.join("test");
    plant.fault(
        "the user's own test is gone",
        &["a.test", "b.test", "c.test", "d.test"],
        |_| fs::remove_file(&test).expect("it was there"),
        |plant| plant.write_test("exit 0"),
    );
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
    plant.verify(&plant.requirements, &[]);
    for (id, ..) in &all {
        let flipped = plant.edited(id, "text = \"", "text = \"Now: ", &["--no-run"]);
        assert!(flipped.values().all(|verdict| *verdict == RequirementVerdict::Stale), "{id}: {flipped:?}");
        plant.row(&format!("{id}: sentence edited, nothing run"), &[id], flipped);
    }
}

/// What results rest on is another one, and nothing is run: places, neighbours.
fn basis(plant: &mut Plant) {
    assert_eq!(plant.verify(&plant.requirements, &[]), BTreeMap::new());
    for name in ["a", "b"] {
        let (own, other) = if name == "a" { (0, 1) } else { (1, 0) };
        plant.pin(name, &[other]);
        let flipped = plant.verify(&plant.requirements, &["--no-run"]);
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
    let flipped = plant.verify(&plant.requirements, &["--no-run"]);
    fs::remove_file(new).expect("it was there");
    plant.row("c: a file more in a folder that it is shown, nothing run", &wanted, flipped);
    let file = plant.bench.file("other.toml", NEIGHBOUR);
    let mut wanted: Vec<String> = LETTERS.iter().flat_map(|name| all_of(name, &["alone", "test"])).collect();
    wanted.push("host.memory".to_owned());
    let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
    assert_eq!(plant.bench.up(&file).code, Some(0));
    let flipped = plant.verify(&plant.requirements, &["--no-run"]);
    plant.call(&["down", "other"]);
    plant.row("another set comes up on the same CPUs, nothing run", &wanted, flipped);
    assert_eq!(plant.verify(&plant.requirements, &["--no-run"]), BTreeMap::new(), "all is as it was");
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
    let set = status(&plant.bench);
    let switch = set.switches.iter().find(|one| one.name == "control.1").expect("a switch");
    let pid = Pid::from_raw(i32::try_from(switch.pid.expect("it runs")).expect("a number"));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).expect("it runs");
    let is_back = || {
        let set = status(&plant.bench);
        set.switches
            .iter()
            .any(|one| one.name == "control.1" && one.phase == Phase::Running && one.restarts > 0)
    };
    let began = Instant::now();
    while !is_back() {
        assert!(began.elapsed() < PATIENCE, "the switch never came back");
    }
    let flipped = plant.verify(&plant.requirements, &[]);
    plant.row("a switch was killed and started again", &["net.restarts"], flipped);
}

/// This program is replaced by another one, and nothing is run.
fn another_program(plant: &mut Plant) {
    let was = plant.verify(&plant.requirements, &[]);
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
    let flipped = plant.verify(&plant.requirements, &["--no-run"]);
    assert!(flipped.values().all(|verdict| *verdict == RequirementVerdict::Stale), "{flipped:?}");
    let parts = ["place", "runs", "restarts", "sockets", "alone", "test"];
    let mut wanted: Vec<String> = LETTERS.iter().flat_map(|name| all_of(name, &parts)).collect();
    wanted.extend(
        ["ab.cpus", "ab.apart", "c.weight", "net.links", "net.restarts", "host.memory"].map(str::to_owned),
    );
    let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
    plant.row("this program is another one, nothing run", &wanted, flipped);
}
