//! `bulkhead plan` as people and scripts meet it: what it writes, checks, moves, refuses, and that Ctrl-C leaves the best so far.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use bulkhead::model::partition::set::PartitionSet;
use bulkhead::model::plan::Plan;
use tempfile::TempDir;

/// Generous: what takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);

struct Bench(TempDir);

impl Bench {
    /// With the system of the fixtures as plant.toml.
    fn new() -> Self {
        let bench = Self(tempfile::tempdir().unwrap());
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/plan/plant.toml");
        bench.write("plant.toml", &fs::read_to_string(fixture).unwrap());
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// The system with this in place of that.
    fn changed(&self, name: &str, from: &str, to: &str) {
        let text = self.read("plant.toml");
        assert!(text.contains(from), "{from}");
        self.write(name, &text.replacen(from, to, 1));
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bulkhead"));
        command.args(arguments).current_dir(self.0.path()).env("NO_COLOR", "1");
        command
    }

    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let Output { status, stdout, stderr } = self.command(arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (status.code().unwrap_or(-1), text(stdout), text(stderr))
    }

    #[track_caller]
    fn ends(&self, arguments: &[&str], code: i32) -> String {
        let (got, out, err) = self.run(arguments);
        assert_eq!(got, code, "{arguments:?}\n{out}\n{err}");
        format!("{out}{err}")
    }

    fn plan(&self, folder: &str) -> Plan {
        serde_json::from_str(&self.read(&format!("{folder}/plan.json"))).unwrap()
    }
}

#[track_caller]
fn says(told: &str, part: &str) {
    assert!(told.contains(part), "no {part:?} in\n{told}");
}

#[test]
fn what_is_planned_is_written_checked_and_taken_by_up() {
    let bench = Bench::new();
    says(&bench.ends(&["plan", "plant.toml", "--proof", "p"], 0), "All needs hold; no plan is better.");
    let checked =
        bench.ends(&["plan", "plant.toml", "--check", "plant-plan/plan.json", "--check-proof", "p"], 0);
    says(&checked, "the plan keeps every rule");
    says(&checked, "the proof is right");
    let plan = bench.plan("plant-plan");
    for host in plan.hosts.iter().filter_map(|host| host.set_file.as_ref()) {
        let set = PartitionSet::from_toml(&bench.read(&format!("plant-plan/{host}")), "plant").unwrap();
        assert_eq!(set.check(), []);
    }
    // A changed plan, and a plan that a changed proof is not of.
    let text = bench.read("plant-plan/plan.json");
    bench.write(
        "wrong.json",
        &text
            .replace("\"cpus\": \"1-2\"", "\"cpus\": \"2-3\"")
            .replace("\"cpus\": \"4-7\"", "\"cpus\": \"3-7\""),
    );
    says(&bench.ends(&["plan", "plant.toml", "--check", "wrong.json"], 1), "cpus");
    let proof = bench.read("p");
    let (head, _) = proof.rsplit_once("\nv ").unwrap();
    bench.write("q", head);
    says(&bench.ends(&["plan", "plant.toml", "--check-proof", "q"], 1), "line ");
    // A set that is not what was planned.
    let set = bench.read("plant-plan/a.set.toml");
    bench.write("plant-plan/a.set.toml", &set.replace("pin = \"1-2\"", "pin = \"2-3\""));
    says(&bench.ends(&["up", "plant-plan/plan.json", "--on", "a"], 2), "is not what was planned");
    says(&bench.ends(&["up", "plant-plan/plan.json"], 2), "--on names it: a, b");
    says(&bench.ends(&["up", "plant-plan/plan.json", "--on", "c"], 2), "there are a, b");
}

#[test]
fn less_is_planned_with_the_steps_that_lead_there() {
    let bench = Bench::new();
    bench.changed("one.toml", "replicas = 2", "replicas = 1");
    bench.ends(&["plan", "one.toml"], 0);
    let from = ["plan", "one.toml", "--from", "one-plan/plan.json", "--out"];
    let with = |more: &[&'static str]| [&from[..], more].concat();
    says(&bench.ends(&with(&["same"]), 0), "Nothing has to be moved.");
    assert_eq!(bench.plan("same").goals[0].value, 0);
    bench.write("more.toml", "[partition.extra]\nprogram = [\"/bin/true\"]\ncpus = 1\nmemory_mib = 256\n");
    let told = bench.ends(&with(&["more", "--add", "more.toml"]), 0);
    says(&told, "extra: started on ");
    assert!(!told.contains("Away meanwhile"), "{told}");
    bench.changed("two.toml", "replicas = 2\nisolation = \"cache\"", "replicas = 1");
    bench.ends(&["plan", "two.toml"], 0);
    let host = bench.plan("two-plan").partitions[0].host.clone();
    bench.changed("loose.toml", "replicas = 2\nisolation = \"cache\"", "replicas = 1");
    let loose = bench.read("loose.toml").replace("max_downtime_ms = 90000\n", "");
    bench.write("loose.toml", &loose);
    let drained = bench.ends(
        &["plan", "loose.toml", "--from", "two-plan/plan.json", "--drain", &host, "--out", "drained"],
        0,
    );
    says(&drained, &format!(": from {host} node"));
    assert!(!drained.contains("Away meanwhile"), "{drained}");
    assert!(bench.plan("drained").partitions.iter().all(|placed| placed.host != host));
    let lost = format!("host.{host}=lost");
    bench.ends(
        &["plan", "loose.toml", "--from", "two-plan/plan.json", "--what-if", &lost, "--out", "lost"],
        0,
    );
    assert_eq!(bench.plan("lost").partitions, bench.plan("drained").partitions);
}

#[test]
fn what_cannot_hold_together_is_told_with_what_would_be_enough() {
    let bench = Bench::new();
    bench.changed("three.toml", "replicas = 2", "replicas = 3");
    let told = bench.ends(&["plan", "three.toml", "--proof", "p"], 1);
    says(&told, "line 39   db: its 3 replicas each on another host");
    says(&told, "db has 2 replicas instead of 3");
    says(&told, "there is one more host such as a");
    assert!(!bench.path("three-plan").exists(), "nothing is written");
    says(&bench.ends(&["plan", "three.toml", "--check-proof", "p"], 0), "the needs cannot hold together");
    let json = bench.ends(&["plan", "three.toml", "--json"], 1);
    let told: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(told["conflicts"][0]["needs"][0]["line"], 39);
    // What it says would be enough is enough.
    bench.changed("enough.toml", "replicas = 2", "replicas = 2 # instead of 3");
    bench.ends(&["plan", "enough.toml"], 0);
}

#[test]
fn bad_input_is_told_with_its_line() {
    let bench = Bench::new();
    bench.changed("bad.toml", "share_percent = 25", "share_percent = 250");
    says(
        &bench.ends(&["plan", "bad.toml"], 2),
        "line 56: partition.web.needs.share_percent: wanted 1 to 100, got 250",
    );
    says(&bench.ends(&["plan", "none.toml"], 2), "none.toml cannot be read");
    says(&bench.ends(&["plan", "plant.toml", "--from", "plant.toml"], 2), "is no plan");
    says(
        &bench.ends(&["plan", "plant.toml", "--what-if", "host.x=lost"], 2),
        "there is no host \"x\": there are a, b",
    );
    says(&bench.ends(&["plan", "plant.toml", "--what-if", "a"], 2), "wanted host.NAME=lost");
    fs::create_dir(bench.path("full")).unwrap();
    bench.write("full/file", "mine");
    says(&bench.ends(&["plan", "plant.toml", "--out", "full"], 2), "holds no plan");
    bench.write("more.toml", "[partition.db]\nprogram = [\"/bin/true\"]\n");
    says(
        &bench.ends(&["plan", "plant.toml", "--add", "more.toml"], 2),
        "line 1: partition.db: there is one of that name",
    );
}

#[test]
fn an_interrupt_leaves_the_best_so_far() {
    use std::fmt::Write as _;
    let bench = Bench::new();
    // Many that all speak with each other: what is best takes hours to prove.
    let mut text = String::from("[host.a]\n");
    for node in 0..8 {
        let first = node * 16;
        let _ = write!(
            text,
            "[[host.a.node]]\nnumber = {node}\ncpus = \"{first}-{}\"\nmemory_mib = 65536\n",
            first + 15
        );
    }
    for one in 0..60 {
        let _ = write!(
            text,
            "[partition.p{one}]\nprogram = [\"/bin/true\"]\ncpus = {}\n[partition.p{one}.needs]\n",
            1 + one % 3
        );
        for other in (0..one).filter(|other| (one * 7 + other * 3) % 4 == 0) {
            let _ = writeln!(text, "talks_to.p{other} = {{ bytes_per_s = {} }}", 1000 + (one * other) % 977);
        }
    }
    bench.write("busy.toml", &text);
    let mut child = bench
        .command(&["plan", "busy.toml", "--budget-s", "600"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(3));
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap()),
        nix::sys::signal::Signal::SIGINT,
    )
    .unwrap();
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(began.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(130));
    assert_eq!(bench.plan("busy-plan").partitions.len(), 60);
    says(&bench.ends(&["plan", "busy.toml", "--check", "busy-plan/plan.json"], 0), "keeps every rule");
}
