//! Faults that nobody may make on a machine of others: memory on another node, no huge pages, swap, a clock that nobody keeps, a CPU
//! that is off, a governor that saves power, more memory promised than is left. They are made in a guest of two memory nodes, which has a set of its own.
//!
//! ```text
//!  this test ─► bulkhead exec --guest-nodes 2 ─► this program again ─► up: guests within the guest ─► fault, verify, taken back …
//! ```
//! A guest within a guest that is translated boots for a minute and more: `BULKHEAD_FAULTS=1` runs it, some ten minutes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use nix::sys::statfs::statfs;
use skips::{Need, skip};

use crate::set_fixture::{Bench, guests_are_there};
use crate::verify_fixture::{Flipped, Plant};

/// In the guest, whose nodes have CPUs 0 and 1, and 2: two have their memory on a node of their own, one of
/// them a weight, and one has most of its memory still to come.
const SET: &str = r#"
boot_deadline_s = 1200

[partition.a]
program = ["/bin/sleep", "100000"]
pin = "0"
node = 0
memory_mib = 192

[partition.b]
program = ["/bin/sleep", "100000"]
pin = "2"
node = 1
memory_mib = 192
cpu_weight = 200

[partition.c]
program = ["/bin/sleep", "100000"]
memory_mib = 1200
"#;

/// What must hold of it, and of the guest that is its host.
const REQUIREMENTS: &str = include_str!("fixtures/requirements-nested.toml");
/// What is done in the guest, by name.
const FAULTS: &str = include_str!("verify_fixture/faults.py");

#[test]
fn each_fault_of_a_host_flips_exactly_the_requirements_that_it_must() {
    if !guests_are_there() {
        return;
    }
    if std::env::var_os("BULKHEAD_FAULTS").is_none() {
        return skip(Need::Long, "BULKHEAD_FAULTS=1 boots guests within a guest, some ten minutes");
    }
    let own = std::env::current_exe().expect("this test");
    let cache = bulkhead::cli::cache_folder();
    let dir = tempfile::tempdir().expect("the test's own");
    let swap = dir.path().join("swap");
    fs::File::create(&swap).and_then(|file| file.set_len(256 << 20)).expect("the test's own");
    let program = env!("CARGO_BIN_EXE_bulkhead");
    let mut command = Command::new(program);
    command.args(["exec", "--accel", "tcg", "--cpus", "3", "--memory", "4GiB", "--guest-nodes", "2"]);
    let text = |path: &std::path::Path| path.to_str().expect("a path of text").to_owned();
    for shown in [program.to_owned(), text(&own), text(&cache)] {
        command.args(["--ro", &shown]);
    }
    command.args(["--disk", &text(&swap), "--env", &format!("BULKHEAD_CACHE={}", text(&cache)), "--"]);
    command.arg(own).args([
        "verify_faults_nested::within",
        "--exact",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the program runs");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    // It takes long: what it says is shown as it comes.
    let passed = lines.inspect(|line| println!("{line}")).filter(|line| line.contains("1 passed")).count();
    let ended = child.wait().expect("it is ours");
    assert!(ended.success() && passed == 1, "{ended}");
}

/// Runs in the guest.
#[test]
#[ignore = "started by the test above, in a guest of two memory nodes"]
fn within() {
    let nodes = fs::read_to_string("/sys/devices/system/node/online").expect("this kernel has nodes");
    assert_eq!((nodes.trim(), std::process::id() > 1), ("0-1", true), "a guest of our own");
    assert_eq!(
        statfs("/sys/fs/cgroup").expect("groups").filesystem_type(),
        nix::sys::statfs::CGROUP2_SUPER_MAGIC
    );
    let bench = Bench::real();
    let script = bench.file("faults.py", "");
    fs::write(&script, FAULTS).expect("the test's own files");
    let act = |words: &[&str]| {
        println!("{}", words.join(" "));
        let done = Command::new("python3").arg(&script).args(words).output().expect("python");
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    };
    act(&["prepare"]);
    let mut plant = Plant::start(bench, SET, REQUIREMENTS.to_owned());
    assert_eq!(plant.look(&[]), Flipped::new());
    for (name, wanted, make, undo) in [
        ("huge pages gone", &["host.huge"][..], "huge 0", "huge 8"),
        ("somebody takes what was promised", &["host.memory"], "fill", "free"),
        ("swapped", &["host.swap"], "swap", "unswap"),
        ("nobody keeps the clock", &["host.clock.kept"], "clock unsync", "clock good"),
        ("the clock drifts", &["host.clock.error"], "clock drift", "clock good"),
        ("a CPU is off", &["host.cpus"], "cpu 0", "cpu 1"),
        ("a governor saves power", &["host.governors"], "governor powersave", "governor performance"),
    ] {
        let words = |text: &'static str| text.split(' ').collect::<Vec<_>>();
        plant.fault(name, wanted, |_| act(&words(make)), |_| act(&words(undo)));
    }
    for (name, from, to) in [("a", "0", "1"), ("b", "1", "0")] {
        let pid = plant.partition(name).pid.to_string();
        plant.fault(
            &format!("{name}: its memory moved to the other node"),
            &[&format!("{name}.memory"), &format!("{name}.place"), "ab.nodes"],
            |_| act(&["move", &pid, from, to]),
            |_| act(&["move", &pid, to, from]),
        );
    }
    let (weight, is_old) = plant.partition("b").group("cpu.shares", "cpu.weight");
    assert!(!is_old);
    plant.fault(
        "b: weight halved, in a group of the second version",
        &["b.place", "b.weight"],
        |_| fs::write(&weight, "100").expect("a weight"),
        |_| fs::write(&weight, "200").expect("a weight"),
    );
    plant.end();
}
