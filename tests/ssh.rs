//! The platform `ssh` against a real sshd behind a virtual cable.

use crate::ssh_fixture;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use bulkhead::cli::{Asking, known_hosts};
use bulkhead::model::experiment::{PlatformSpec, SshSpec};
use bulkhead::model::journal::FailureKind;
use bulkhead::model::partition::set::SetErrors;
use bulkhead::model::system::System;
use bulkhead::partition::place::SeenHost;
use bulkhead::platforms::ledger::Ledger;
use bulkhead::platforms::ssh::run_there;
use bulkhead::platforms::{Broken, Cancel, Instance, InstanceSpec, Platform, PlatformContext, make};
use bulkhead::probes::job::Job;
use bulkhead::probes::params::{GapParams, ProbeSpec};
use bulkhead::units::{Bytes, Millis};
use ssh_fixture::{Server, missing, run};

fn platform(spec: &PlatformSpec, run: &Path) -> Box<dyn Platform> {
    let context = PlatformContext {
        may_destroy: false,
        exe: env!("CARGO_BIN_EXE_bulkhead").into(),
        ledger: Ledger::open(run).expect("a ledger"),
        cache: run.to_owned(),
        counter_hz: None,
        seed: 1,
    };
    make(spec, &context)
}

fn start(platform: &mut dyn Platform, run: &Path) -> Result<Box<dyn Instance>, Broken> {
    let memory_wanted = Bytes::from_bytes(0);
    let spec = InstanceSpec { memory_wanted, scratch: run.to_owned(), ..InstanceSpec::default() };
    platform.start(&spec, &Cancel::new())
}

fn gap(millis: u64) -> Job {
    let params = GapParams { duration_ms: Millis::from_millis(millis), ..GapParams::default() };
    Job {
        id: 1,
        probe: Some(ProbeSpec::Gap(params)),
        deadline_ms: Millis::from_millis(millis + 30_000),
        ..Job::default()
    }
}

fn reason(broken: &Broken) -> (FailureKind, String) {
    match broken {
        Broken::Failed(failure) => (failure.kind, failure.reason.clone()),
        Broken::Interrupted => panic!("nobody interrupted"),
    }
}

#[test]
fn a_machine_behind_ssh_is_measured_and_left_as_it_was() {
    if missing() {
        return;
    }
    let server = Server::start(1);
    let run = tempfile::tempdir().expect("a folder");
    let mut platform = platform(&server.spec(), run.path());
    let state = platform.survey(&Cancel::new());
    assert_eq!(state.unavailable, None);
    let mut instance =
        start(&mut *platform, run.path()).unwrap_or_else(|broken| panic!("{:?}", reason(&broken)));
    assert_eq!(server.folders(), 1);
    for id in 1..=2 {
        instance.begin(&Job { id, ..gap(50) }, &Cancel::new()).expect("it begins");
        let reply = instance.finish(&Cancel::new()).expect("it ends");
        assert!(reply.report.expect("a report").is_ok());
    }
    // The fork probe starts the agent's own file, which is gone from the folder by now.
    let fork = ProbeSpec::default_of(bulkhead::probes::ProbeKind::Fork);
    instance.begin(&Job { id: 3, probe: Some(fork), ..gap(50) }, &Cancel::new()).expect("it begins");
    let reply = instance.finish(&Cancel::new()).expect("it ends");
    assert!(reply.report.expect("a report").is_ok());
    instance.end();
    server.wait_until_clean();
}

#[test]
fn a_machine_behind_ssh_says_what_it_is_made_of_and_is_left_as_it_was() {
    if missing() {
        return;
    }
    let server = Server::start(4);
    let text = format!(
        "[host.far]\nfrom = \"ssh:root@{}\"\n[partition.a]\nprogram = [\"/bin/true\"]\n",
        server.address
    );
    let system = System::from_toml(&text, "s").expect("a system");
    let ask = |ssh: &SshSpec| {
        let cancel = Cancel::new();
        let asking = Asking { exe: Path::new(env!("CARGO_BIN_EXE_bulkhead")), ssh, cancel: &cancel };
        let mut notes = Vec::new();
        let known = known_hosts(&system, Path::new(&server.path("")), &asking, &mut notes);
        known.map(|known| (known, notes)).map_err(|faults| SetErrors::of(faults, &text).to_string())
    };
    let ssh = server.spec().ssh.expect("an ssh platform");
    let (known, notes) = ask(&ssh).unwrap_or_else(|error| panic!("{error}"));
    // It is this machine, behind a cable.
    let here = SeenHost::of_this_host().expect("this host");
    assert_eq!(known[0].shape.nodes, here.shape.nodes);
    // Its cards are those of its network namespace, its disks this machine's.
    let silent = notes.iter().any(|note| note.starts_with("host.far: disks left out"));
    assert_eq!(silent, !here.disks.is_empty(), "{notes:?}");
    let key = SshSpec { identity: Some(server.path("stranger")), ..ssh.clone() };
    let refused = ask(&key).expect_err("a stranger");
    assert!(refused.contains("line 2: host.far.from: ") && refused.contains("authorized_keys"), "{refused}");
    let cancel = Cancel::new();
    let there = SshSpec { destinations: vec![format!("root@{}", server.address)], ..ssh };
    let exe = Path::new(env!("CARGO_BIN_EXE_bulkhead"));
    let much =
        run_there(&there, exe, &["doctor", "--host-file", "-"], 10, &cancel).expect_err("more than that");
    assert!(much.to_string().contains("more than the 10 bytes"), "{much}");
    let wrong = run_there(&there, exe, &["doctor", "--no-such-option"], 1000, &cancel).expect_err("it fails");
    assert!(wrong.to_string().contains("--no-such-option"), "{wrong}");
    server.wait_until_clean();
}

#[test]
fn strangers_are_refused_on_both_sides() {
    if missing() {
        return;
    }
    let server = Server::start(2);
    let run = tempfile::tempdir().expect("a folder");
    let refusal = |change: &dyn Fn(&mut SshSpec)| {
        let mut spec = server.spec();
        change(spec.ssh.as_mut().expect("an ssh platform"));
        platform(&spec, run.path()).survey(&Cancel::new()).unavailable.expect("it is refused")
    };
    let stranger = std::fs::read_to_string(server.path("stranger.pub")).expect("a key");
    std::fs::write(server.path("other_hosts"), format!("{} {stranger}", server.address)).expect("a file");
    std::fs::write(server.path("no_hosts"), "").expect("a file");
    let changed = refusal(&|ssh| ssh.known_hosts = Some(server.path("other_hosts")));
    assert!(changed.contains("host key is another one"), "{changed}");
    let unknown = refusal(&|ssh| ssh.known_hosts = Some(server.path("no_hosts")));
    assert!(unknown.contains("host key is not known"), "{unknown}");
    assert_eq!(
        std::fs::read_to_string(server.path("no_hosts")).expect("it is there"),
        "",
        "nothing was learned"
    );
    let key = refusal(&|ssh| ssh.identity = Some(server.path("stranger")));
    assert!(key.contains("authorized_keys"), "{key}");
    let port = refusal(&|ssh| ssh.port = Some(2));
    assert!(port.contains("is sshd running"), "{port}");
    let name = refusal(&|ssh| ssh.destinations = vec!["no-such-machine.invalid".to_owned()]);
    assert!(name.contains("no-such-machine.invalid"), "{name}");
    assert_eq!(server.folders(), 0);
}

#[test]
fn a_machine_that_vanishes_half_way_is_a_recorded_failure() {
    if missing() {
        return;
    }
    let server = Server::start(3);
    let run_folder = tempfile::tempdir().expect("a folder");
    let mut platform = platform(&server.spec(), run_folder.path());
    let mut instance =
        start(&mut *platform, run_folder.path()).unwrap_or_else(|b| panic!("{:?}", reason(&b)));
    instance.begin(&gap(120_000), &Cancel::new()).expect("it begins");
    // The cable is cut: packets vanish, nobody says goodbye.
    run(&["ip", "link", "set", &server.near, "down"]);
    let cut = Instant::now();
    let broken = instance.finish(&Cancel::new()).expect_err("nothing can come");
    let (kind, text) = reason(&broken);
    assert!(matches!(kind, FailureKind::Died | FailureKind::Hung), "{kind:?} {text}");
    assert!(cut.elapsed() < Duration::from_secs(60), "it took {:?}", cut.elapsed());
    instance.end();
    // The same with a server whose sessions are killed: noticed at once, and cleaned up over there.
    run(&["ip", "link", "set", &server.near, "up"]);
    let mut instance =
        start(&mut *platform, run_folder.path()).unwrap_or_else(|b| panic!("{:?}", reason(&b)));
    instance.begin(&gap(120_000), &Cancel::new()).expect("it begins");
    let pids = Command::new("ip").args(["netns", "pids", &server.namespace]).output().expect("a list");
    for pid in String::from_utf8_lossy(&pids.stdout).split_whitespace() {
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if command.contains("bulkhead\0agent") || command.contains("/bulkhead\0agent") {
            run(&["kill", "-9", pid]);
        }
    }
    let (kind, text) = reason(&instance.finish(&Cancel::new()).expect_err("it was killed"));
    assert_eq!(kind, FailureKind::Died, "{text}");
    instance.end();
    server.wait_until_clean();
}
