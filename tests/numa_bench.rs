//! Asked and given placement agree: on this host, and on a guest that looks like a big one, with 16 CPUs (one of them
//! offline), 4 memory nodes, huge pages on one of them, and cgroups of version 2 with all controllers, in which the trial
//! runs as on a real host and starts a QEMU of its own for each partition.
//!
//! ```text
//!  test ─► bulkhead exec --cpus 16 --guest-nodes 4 ─► guest: this program ─► QEMU, paused, placed, read back
//! ```
//! `BULKHEAD_PLACEMENTS=200` makes it as many valid and as many invalid partitions (about 1.5 s each when translated),
//! `BULKHEAD_SEED` other ones. Needs QEMU and a guest kernel.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::placement_fixture::cases::Dice;
use crate::placement_fixture::run;
use bulkhead::model::system::HostShape;
use bulkhead::partition::place::{HostNode, HostTopology, HugePages, Rights, possible_on};
use bulkhead::units::Bytes;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use skips::{Need, skip};

/// Partitions of each sort when none is named: what takes about half a minute in a translated guest.
const FEW: u64 = 8;

/// Makes the guest such a host as the trial wants: CPU 15 offline, 16 huge pages on node 2; then the trial, with a real
/// block device for limits of devices.
const SCRIPT: &str = "
set -e
echo 0 > /sys/devices/system/cpu/cpu15/online
echo 16 > /sys/devices/system/node/node2/hugepages/hugepages-2048kB/nr_hugepages
echo \"bench: CPUs $(cat /sys/devices/system/cpu/online), nodes $(cat /sys/devices/system/node/online), \
controllers $(cat /sys/fs/cgroup/cgroup.controllers)\"
status=0
\"$@\" || status=$?
left=$(find /sys/fs/cgroup -mindepth 1 -type d | wc -l)
echo \"bench: $left groups left, handed down: $(cat /sys/fs/cgroup/cgroup.subtree_control)\"
exit $status
";

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(usual)
}

fn seed() -> u64 {
    number("BULKHEAD_SEED", 2026)
}

/// Whether QEMU is there; the test is skipped where not.
#[track_caller]
fn has_qemu() -> bool {
    let found = Command::new("qemu-system-x86_64").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !found {
        skip(Need::Vm, "no qemu-system-x86_64");
    }
    found
}

/// Variable that says what the trial is: a seed, how many partitions of each sort, and perhaps a block device.
const TRIAL: &str = "BULKHEAD_PLACEMENT_TRIAL";

fn this_program() -> PathBuf {
    std::env::current_exe().expect("this program")
}

/// Words that make this program the trial.
const BE_THE_TRIAL: [&str; 4] = ["--ignored", "--exact", "numa_bench::the_trial", "--nocapture"];

#[test]
#[ignore = "started by the tests below, with BULKHEAD_PLACEMENT_TRIAL"]
fn the_trial() {
    let words = std::env::var(TRIAL).expect("what the trial is");
    let mut words = words.split_whitespace();
    let mut number = || words.next().and_then(|word| word.parse().ok()).expect("a number");
    let (seed, count) = (number(), number());
    let tally = run(seed, count, words.next().map(Path::new)).expect("a trial");
    println!("{}", tally.words());
    assert!(tally.is_clean());
}

/// 16 CPUs of which 15 does not run, 4 nodes of 1 GiB, 8 huge pages on node 1, all rights.
fn big_host() -> HostTopology {
    let node = |number: u32| HostNode {
        number,
        cpus: format!("{}-{}", number * 4, if number == 3 { 14 } else { number * 4 + 3 })
            .parse()
            .expect("CPUs"),
        memory: Bytes::from_bytes(1 << 30),
        available: Bytes::from_bytes(640 << 20),
        huge_free: if number == 1 { 8 } else { 0 },
    };
    HostTopology {
        online: "0-14".parse().expect("CPUs"),
        present: "0-15".parse().expect("CPUs"),
        nodes: (0..4).map(node).collect(),
        memory: Bytes::from_bytes(4 << 30),
        available: Bytes::from_bytes(3 << 30),
        huge: HugePages { size: Bytes::from_bytes(2 << 20), free: 8 },
        rights: Rights { realtime: 99, nice: -20 },
    }
}

#[test]
fn what_is_called_possible_is_and_what_is_called_impossible_is_not() {
    let host = big_host();
    let mut dice = Dice { random: Xoshiro256PlusPlus::seed_from_u64(5), host: &host, unified: true };
    let mut kinds = BTreeSet::new();
    let (mut huge, mut one_to_one) = (0, 0);
    for _ in 0..2000 {
        let case = dice.valid();
        assert_eq!(possible_on(&host, &case.asked), Ok(()), "{case:?}");
        huge += usize::from(case.asked.hugepages);
        let pinned = case.asked.pin.as_ref().map(|pin| pin.numbers().len());
        one_to_one += usize::from(pinned == Some(case.asked.cpus as usize));
        let (case, kind) = dice.invalid();
        assert!(possible_on(&host, &case.asked).is_err(), "{kind}: {case:?}");
        kinds.insert(kind);
    }
    assert_eq!(kinds.len(), 13, "{kinds:?}");
    assert!(huge > 20 && one_to_one > 200, "{huge} {one_to_one}");
}

#[test]
fn asked_and_given_agree_on_this_host() {
    if has_qemu() {
        try_this_host();
    }
}

/// What the guest of the other test has anyway: most hosts of containers give no controllers away.
#[test]
fn asked_and_given_agree_in_groups_of_this_host() {
    let there = std::fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    let there: Vec<&str> = there.split_whitespace().collect();
    let missing: Vec<_> =
        ["cpuset", "cpu", "memory"].into_iter().filter(|name| !there.contains(name)).collect();
    if !missing.is_empty() {
        return skip(
            Need::Cgroup,
            format!("no cgroups of version 2 with {} in /sys/fs/cgroup", missing.join(", ")),
        );
    }
    if !nix::unistd::geteuid().is_root() {
        return skip(Need::Root, "cgroups need root");
    }
    if has_qemu() {
        try_this_host();
    }
}

fn try_this_host() {
    let mut trial = Command::new(this_program());
    trial.args(BE_THE_TRIAL).env(TRIAL, format!("{} {FEW}", seed())).stdin(Stdio::null());
    let output = trial.output().expect("it runs");
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{complained}");
    assert!(said.contains(&format!("agree for {FEW} of {FEW} valid")), "{said}{complained}");
    assert!(said.contains(&format!("{FEW} of {FEW} invalid ones started nothing")), "{said}{complained}");
}

#[test]
fn asked_and_given_agree_on_a_big_host() {
    if !has_qemu() {
        return;
    }
    let folder = tempfile::tempdir().expect("the test's own files");
    let disk = folder.path().join("disk.img");
    let image = std::fs::File::create(&disk).expect("the test's own files");
    image.set_len(16 << 20).expect("the test's own files");
    let count = number("BULKHEAD_PLACEMENTS", FEW);
    let (mut exec, program) = (Command::new(env!("CARGO_BIN_EXE_bulkhead")), this_program());
    exec.stdin(Stdio::null());
    exec.args(["exec", "--accel", "tcg", "--cpus", "16", "--memory", "4GiB", "--guest-nodes", "4"]);
    exec.args(["--boot-deadline-s", "200", "--user", "0", "--workdir", "/", "--disk"]).arg(read_only(&disk));
    exec.arg("--env").arg(format!("{TRIAL}={} {count} /dev/vda", seed())).arg("--ro").arg(&program);
    exec.args(["--", "/bin/sh", "-c", SCRIPT, "sh"]).arg(&program);
    let output = booted(exec.args(BE_THE_TRIAL));
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    eprintln!("{said}{complained}");
    assert!(output.status.success(), "{said}{complained}");
    assert!(said.contains("CPUs 0-14, nodes 0-3, controllers cpuset cpu io memory"), "no big host: {said}");
    assert!(said.contains(&format!("agree for {count} of {count} valid")), "{said}{complained}");
    assert!(said.contains(&format!("{count} of {count} invalid ones started nothing")), "{said}{complained}");
    // All four were used, that of block devices as well.
    assert!(said.contains("bench: 0 groups left, handed down: cpuset cpu io memory"), "{said}");
}

/// Makes a CPU stop and reserves huge pages, then describes the guest as a host.
const DESCRIBE: &str = "
set -e
echo 0 > /sys/devices/system/cpu/cpu7/online
echo 8 > /sys/devices/system/node/node2/hugepages/hugepages-2048kB/nr_hugepages
exec \"$1\" doctor --host-file -
";

#[test]
fn a_big_host_is_described_as_it_is() {
    if !has_qemu() {
        return;
    }
    let bulkhead = env!("CARGO_BIN_EXE_bulkhead");
    let mut exec = Command::new(bulkhead);
    exec.stdin(Stdio::null()).args(["exec", "--accel", "tcg", "--cpus", "8", "--memory", "2GiB"]);
    exec.args(["--guest-nodes", "4", "--boot-deadline-s", "200", "--user", "0", "--workdir", "/"]);
    exec.args(["--ro", bulkhead, "--", "/bin/sh", "-c", DESCRIBE, "sh", bulkhead]);
    let output = booted(&mut exec);
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{complained}");
    let shape = HostShape::from_toml(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
    let cpus: Vec<String> = shape.nodes.iter().map(|node| node.cpus.to_string()).collect();
    assert_eq!(cpus, ["0-1", "2-3", "4-5", "6"], "{said}");
    let memory: Vec<u64> = shape.nodes.iter().map(|node| node.memory_mib.get()).collect();
    assert!(memory.iter().all(|mib| (300..=512).contains(mib)), "{said}");
    let huge: Vec<u64> = shape.nodes.iter().map(|node| node.hugepages_mib.get()).collect();
    assert_eq!(huge, [0, 0, 16, 0], "{said}");
    assert!(said.contains("# note: CPUs 7 do not run"), "{said}");
}

/// What became of it, once its guest has booted. A translated guest of 16 CPUs on 2 stands still while its kernel starts about
/// once in a hundred times (docs/figures.md has the count). Nothing has been tried in it then, so another one is started, twice at
/// most, and that is said.
fn booted(exec: &mut Command) -> Output {
    for _ in 0..2 {
        let output = exec.output().expect("it runs");
        if !String::from_utf8_lossy(&output.stderr).contains("did not boot within") {
            return output;
        }
        eprintln!("the guest stood still while it booted; another one is started");
    }
    exec.output().expect("it runs")
}

fn read_only(disk: &Path) -> String {
    format!("{},ro", disk.display())
}
