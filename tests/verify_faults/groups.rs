//! Faults of the groups that hold partitions: weights, caps, throttles of disks, what threads are put into; a QEMU that is stopped, frozen,
//! or whose devices are served otherwise; the same of what serves its files; and switches that stand still.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use skips::{Need, skip};

use super::{LETTERS, all_of};
use crate::verify_fixture::{Confined, Plant};

pub fn shares(plant: &mut Plant) {
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
    // Of what its file says nothing.
    let (cap, is_old) = plant.partition("c").group("cpu.cfs_quota_us", "cpu.max");
    let lifted = if is_old { "-1" } else { "max" };
    plant.fault(
        "c: a cap that nobody asked for",
        &["c.place"],
        |_| fs::write(&cap, "5000").expect("a cap"),
        |_| fs::write(&cap, lifted).expect("a cap"),
    );
    let pid = plant.partition("d").pid;
    plant.fault(
        "d: its QEMU is stopped",
        &["d.runs"],
        |_| send(pid, Signal::SIGSTOP),
        |_| send(pid, Signal::SIGCONT),
    );
}

fn send(pid: u32, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(pid).expect("a number")), signal).expect("it runs");
}

/// Gives all threads of a process another policy.
fn schedule(pid: u32, policy: &str) {
    let words = ["--all-tasks", policy, "--pid", "0", &pid.to_string()];
    assert!(Command::new("chrt").args(words).status().expect("chrt").success());
}

/// Somebody throttles the disk below all folders and images.
pub fn disks(plant: &mut Plant) {
    for (name, limits) in [("a", "rbps=1048576"), ("d", "wiops=100")] {
        let throttle = plant.partition(name).throttle();
        plant.fault(
            &format!("{name}: the disk below is throttled"),
            &[&format!("{name}.place")],
            |_| throttle.set(limits),
            |_| throttle.lift(),
        );
    }
    let throttle = plant.partition("a").throttle();
    assert_eq!(plant.look(&[]), BTreeMap::new());
    throttle.set("rbps=1048576");
    let flipped = plant.look(&["--no-run"]);
    throttle.lift();
    let wanted = all_of("a", &["place", "runs", "restarts", "sockets"]);
    let wanted = wanted.into_iter().chain(LETTERS.iter().flat_map(|name| all_of(name, &["alone", "test"])));
    let wanted: Vec<String> = wanted.chain(["ab.cpus".to_owned(), "ab.apart".to_owned()]).collect();
    let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
    plant.row("a: the disk below is throttled, nothing run", &wanted, flipped);
}

/// What somebody does to threads of a QEMU, and to the groups that hold it, besides its own one. Where groups are of version 2 alone, its
/// own one is all there is.
pub fn threads(plant: &mut Plant) {
    let there = plant.partition("c");
    let (pid, cpu) = (there.pid, there.threads.first().copied().expect("a virtual CPU"));
    for (what, flips, group, file, text) in [
        (
            "a cap on the thread of its CPU",
            "c.place",
            Confined::thread(pid, cpu, "cpu"),
            "cpu.cfs_quota_us",
            "5000",
        ),
        (
            "a limit on its memory",
            "c.place",
            Confined::process(pid, "memory"),
            "memory.limit_in_bytes",
            "2147483648",
        ),
        ("frozen", "c.runs", Confined::process(pid, "freezer"), "freezer.state", "FROZEN"),
        (
            "the thread of its CPU alone is frozen",
            "c.runs",
            Confined::thread(pid, cpu, "freezer"),
            "freezer.state",
            "FROZEN",
        ),
    ] {
        let Some(group) = group else { continue };
        plant.fault(&format!("c: {what}"), &[flips], |_| group.hold(file, text), |_| group.release());
    }
    let scheduled = |policy: &str| {
        let words = [policy, "--pid", "0", &pid.to_string()];
        assert!(Command::new("chrt").args(words).status().expect("chrt").success());
    };
    plant.fault(
        "c: its devices are served when nobody else wants a CPU",
        &["c.place"],
        |_| scheduled("--idle"),
        |_| scheduled("--other"),
    );
}

/// What somebody does to the process that serves a partition's files, without which its programs wait at the next one.
pub fn file_servers(plant: &mut Plant) {
    let Some(server) = plant.file_server("c") else {
        return skip(Need::Modules, "no process serves files: this guest's kernel has no virtio-fs");
    };
    let pid = server.pid;
    plant.fault(
        "c: its file server is stopped",
        &["c.runs"],
        |_| send(pid, Signal::SIGSTOP),
        |_| send(pid, Signal::SIGCONT),
    );
    for (what, flips, group, file, text) in [
        ("frozen", "c.runs", Confined::process(pid, "freezer"), "freezer.state", "FROZEN"),
        ("capped at 1 % of a CPU", "c.place", Confined::process(pid, "cpu"), "cpu.cfs_quota_us", "1000"),
        (
            "limited in its memory",
            "c.place",
            Confined::process(pid, "memory"),
            "memory.limit_in_bytes",
            "2147483648",
        ),
    ] {
        let Some(group) = group else { continue };
        plant.fault(
            &format!("c: its file server is {what}"),
            &[flips],
            |_| group.hold(file, text),
            |_| group.release(),
        );
    }
    let throttle = server.throttle();
    plant.fault(
        "c: the disk below is throttled for its file server",
        &["c.place"],
        |_| throttle.set("rbps=1048576"),
        |_| throttle.lift(),
    );
    plant.fault(
        "c: its files are served when nobody else wants a CPU",
        &["c.place"],
        |_| schedule(pid, "--idle"),
        |_| schedule(pid, "--other"),
    );
}

/// A switch that stands still. Its supervisor, which would start it anew after some seconds of that, stands still as well.
pub fn switches(plant: &mut Plant) {
    let switch = plant.switch("control.1");
    let pid = switch.pid.expect("it runs");
    let supervisor = switch.supervisor_pid.expect("it has one");
    send(supervisor, Signal::SIGSTOP);
    plant.fault(
        "a switch is stopped",
        &["net.links"],
        |_| send(pid, Signal::SIGSTOP),
        |_| send(pid, Signal::SIGCONT),
    );
    if let Some(group) = Confined::process(pid, "freezer") {
        plant.fault(
            "a switch is frozen",
            &["net.links"],
            |_| group.hold("freezer.state", "FROZEN"),
            |_| group.release(),
        );
    }
    send(supervisor, Signal::SIGCONT);
}
