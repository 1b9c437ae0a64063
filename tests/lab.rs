//! Labs: instances on one machine reach each other over namespaces, bridges, cables and cards, and nothing of it is
//! left afterwards. Needs root.

#[path = "lab/scene.rs"]
mod scene;

use std::collections::BTreeSet;
use std::net::{TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io};

use bulkhead::model::platform::{Accelerator, NicModel, PlatformSpec};
use bulkhead::platforms::lab::{Lab, Port, inside, tap};
use bulkhead::platforms::reaper::Reaper;
use bulkhead::platforms::{Cancel, Instance, Reach, make};
use bulkhead::units::Mebibytes;
use bulkhead::units::clock_wire::{ClockAnswer, ClockQuestion};
use bulkhead::units::names::PlatformKind;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use scene::{
    Bench, DEADLINE, assert_answers, bench, held_by, interfaces, is_there, lab, name_of, processes_in,
};
use skips::{Need, skip};

/// Makes this test program the one that is killed; its value is a file that it writes when everything is up.
const VICTIM: &str = "BULKHEAD_TEST_LAB_VICTIM";

#[test]
fn hosts_reach_each_other_and_nothing_else() {
    let Some(mut lab) = lab(3) else { return };
    let ports: Vec<Port> = (0..3).map(|host| lab.port(host, true).expect("a port")).collect();
    let ear = inside(&ports[1].namespace, || UdpSocket::bind((ports[1].address, ports[1].first_port)));
    let ear = ear.expect("the address is there");
    ear.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    // From host 2 to host 1 the way leads over the bridge of host 0.
    let mouth = inside(&ports[2].namespace, || UdpSocket::bind((ports[2].address, ports[2].first_port)));
    let mouth = mouth.expect("the address is there");
    mouth.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    mouth.send_to(b"echo?", (ports[1].address, ports[1].first_port)).expect("a way");
    let mut bytes = [0; 100];
    let (length, from) = ear.recv_from(&mut bytes).expect("heard");
    assert_eq!((&bytes[..length], from), (&b"echo?"[..], (ports[2].address, ports[2].first_port).into()));
    ear.send_to(b"echo!", from).expect("a way back");
    assert_eq!(mouth.recv(&mut bytes).expect("heard"), 5);

    // Nothing leaves: there is no route at all, not a way that is blocked.
    let outside = inside(&ports[0].namespace, || TcpStream::connect("192.0.2.1:80")).expect_err("no way out");
    assert_eq!(outside.kind(), io::ErrorKind::NetworkUnreachable);
    let only = interfaces(&ports[0]);
    assert!(["lo", "bridge", "cable1", "cable2"].iter().all(|name| only.contains(*name)), "{only:?}");
    // And the program's threads are where they were.
    let links = fs::read_dir("/proc/self/task").expect("threads").flatten();
    let homes: BTreeSet<_> =
        links.filter_map(|task| fs::read_link(task.path().join("ns/net")).ok()).collect();
    assert_eq!(homes.len(), 1, "{homes:?}");
    assert!(ports.iter().all(|port| !homes.contains(std::path::Path::new(&name_of(&port.namespace)))));
}

#[test]
fn every_hosts_clock_answers_from_everywhere_and_ends_with_the_lab() {
    let Some(mut lab) = lab(2) else { return };
    let ports = [lab.port(0, true).expect("a port"), lab.port(1, true).expect("a port")];
    let ask = |from: &Port, to: &Port| -> io::Result<ClockAnswer> {
        inside(&from.namespace, || {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.connect(to.clock)?;
            socket.set_read_timeout(Some(Duration::from_secs(20)))?;
            let question = ClockQuestion { nonce: 3, number: 4 };
            socket.send(&question.encode())?;
            let mut bytes = [0; 100];
            let length = socket.recv(&mut bytes)?;
            let answer =
                ClockAnswer::decode(&bytes[..length]).filter(|answer| question.is_answered_by(answer));
            answer.ok_or_else(|| io::Error::other("no answer to the question"))
        })
    };
    let mut last = 0;
    for (from, to) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let answer = ask(&ports[from], &ports[to]).expect("it answers");
        assert!(answer.received_ns.get() > last, "one clock for all, and it runs");
        last = answer.sent_ns.get();
    }
    drop(lab);
    let gone = ask(&ports[0], &ports[0]).expect_err("its clock ended");
    assert_eq!(gone.kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn ports_are_dealt_out_and_refused_when_there_is_no_such_host() {
    let Some(mut lab) = lab(2) else { return };
    let shared: Vec<Port> = [0, 0, 1].map(|host| lab.port(host, true).expect("a port")).into();
    assert_eq!(shared[0].address, shared[1].address);
    assert_eq!(shared[1].first_port - shared[0].first_port, 100);
    assert_ne!(shared[0].address, shared[2].address);
    assert_eq!(shared[2].first_port, shared[0].first_port, "counted on each host");
    let own = [lab.port(0, false).expect("a port"), lab.port(0, false).expect("a port")];
    assert_ne!(own[0].address, own[1].address);
    assert!(lab.port(2, false).expect_err("two hosts").to_string().contains("of 2 hosts"));
    let full = (0..300).find_map(|_| lab.port(1, true).err()).expect("an end");
    assert!(full.to_string().contains("no room"), "{full}");
}

#[test]
fn native_instances_run_in_the_namespace_of_their_host() {
    let Some(mut lab) = lab(2) else { return };
    let Some(mut native) = bench(&PlatformSpec::of_kind(PlatformKind::Native)) else { return };
    assert_eq!(native.platform.reach(), Reach::LabSharedAddress);
    let ports: Vec<Port> = [0, 1, 1].map(|host| lab.port(host, true).expect("a port")).into();
    let mut instances: Vec<_> = (0..).zip(&ports).map(|(number, port)| native.start(number, port)).collect();
    let population = |host: usize| processes_in(&name_of(&ports[host].namespace)).len();
    assert_eq!((population(0), population(1)), (1, 2));
    for instance in &mut instances {
        instance.end();
    }
    assert_eq!((population(0), population(1)), (0, 0));
}

#[test]
fn containers_of_any_runtime_answer_at_addresses_of_their_own() {
    for runtime in [None, Some("crun"), Some("runc")] {
        let label = runtime.map_or("container", |name| name).to_owned();
        let spec = PlatformSpec {
            label,
            runtime: runtime.map(str::to_owned),
            ..PlatformSpec::of_kind(PlatformKind::Container)
        };
        let Some(mut lab) = lab(2) else { return };
        let Some(mut containers) = bench(&spec) else { continue };
        assert_eq!(containers.platform.reach(), Reach::Lab);
        let ports = [lab.port(0, false).expect("a port"), lab.port(1, false).expect("a port")];
        let before = ports.each_ref().map(interfaces);
        let mut first = containers.start(0, &ports[0]);
        let mut second = containers.start(1, &ports[1]);
        for from in &ports {
            assert_answers(from, ports[0].address);
            assert_answers(from, ports[1].address);
        }
        let seen = scene::interfaces_of_containers(containers.run.path());
        assert!(seen.len() == 2 && seen.iter().all(|seen| seen.contains("eth0")), "{seen:?}");
        first.end();
        assert!(!is_there(&ports[1], ports[0].address), "it is gone");
        // Another one takes its place at once.
        let mut again = containers.start(0, &ports[0]);
        assert_answers(&ports[1], ports[0].address);
        again.end();
        second.end();
        assert_eq!(ports.each_ref().map(interfaces), before, "nothing is left plugged in");
    }
}

fn vm(nic: NicModel, nics: u32) -> PlatformSpec {
    PlatformSpec {
        nic: Some(nic),
        nics: Some(nics),
        cpus: Some(1),
        accelerator: Accelerator::Tcg,
        memory_mib: Some(Mebibytes::from_mib(256)),
        ..PlatformSpec::of_kind(PlatformKind::Vm)
    }
}

#[test]
fn guests_answer_with_every_kind_of_card() {
    let Some(mut lab) = lab(2) else { return };
    let kinds = [
        (vm(NicModel::Virtio, 1), "virtio_net", 0),
        (vm(NicModel::E1000, 1), "e1000", 1),
        (vm(NicModel::Rtl8139, 2), "8139cp", 0),
    ];
    let hosts = [lab.port(0, true).expect("a port"), lab.port(1, true).expect("a port")];
    let before = hosts.each_ref().map(interfaces);
    let mut running: Vec<(Bench, Box<dyn Instance>, Port)> = Vec::new();
    for (spec, driver, host) in kinds {
        let Some(mut guests) = bench(&spec) else { return };
        assert_eq!(guests.platform.reach(), Reach::Lab);
        let port = lab.port(host, false).expect("a port");
        let instance = guests.start(0, &port);
        let seen = &instance.facts().nics;
        assert_eq!(seen.len(), spec.nics.unwrap_or(1) as usize, "{seen:?}");
        assert!(seen.iter().all(|card| card.contains(driver)), "{seen:?}");
        running.push((guests, instance, port));
    }
    // A container between the guests.
    if let Some(mut containers) = bench(&PlatformSpec::of_kind(PlatformKind::Container)) {
        let port = lab.port(1, false).expect("a port");
        let instance = containers.start(0, &port);
        running.push((containers, instance, port));
    }
    for from in &hosts {
        for (_, _, port) in &running {
            assert_answers(from, port.address);
        }
    }
    for (_, instance, _) in &mut running {
        instance.end();
    }
    assert!(!is_there(&hosts[0], running[0].2.address), "it is gone");
    assert_eq!(hosts.each_ref().map(interfaces), before, "nothing is left plugged in");
}

/// Only under KVM, and where the kernel has the module.
#[test]
fn a_guests_card_is_carried_by_the_hosts_kernel() {
    if let Err(error) = fs::OpenOptions::new().read(true).write(true).open("/dev/vhost-net") {
        return skip(Need::Vhost, format!("/dev/vhost-net: {error}"));
    }
    let spec = PlatformSpec { accelerator: Accelerator::Kvm, ..vm(NicModel::Virtio, 1) };
    let run = tempfile::tempdir().expect("a folder");
    let context = scene::context(run.path());
    let state = make(&spec, &context).survey(&Cancel::new());
    if let Some(reason) = state.unavailable {
        return skip(Need::Kvm, reason);
    }
    assert!(state.properties.iter().any(|(_, value)| value.contains("(vhost)")), "{:?}", state.properties);
    let (Some(mut lab), Some(mut guests)) = (lab(1), bench(&spec)) else { return };
    let (host, port) = (lab.port(0, true).expect("a port"), lab.port(0, false).expect("a port"));
    let mut instance = guests.start(0, &port);
    assert_answers(&host, port.address);
    instance.end();
}

/// In a thread whose file systems are its own, so that the machine keeps its device.
#[test]
fn without_the_tap_device_it_says_what_to_load() {
    let Some(mut lab) = lab(1) else { return };
    let port = lab.port(0, false).expect("a port");
    let refused = std::thread::spawn(move || {
        let none: Option<&str> = None;
        unshare(CloneFlags::CLONE_NEWNS).expect("root may");
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).expect("root may");
        mount(Some("none"), "/dev/net", Some("tmpfs"), MsFlags::empty(), none).expect("root may");
        tap::open(&port, false).expect_err("there is no device").to_string()
    });
    let refused = refused.join().expect("no panic");
    assert!(refused.contains("/dev/net/tun") && refused.contains("modprobe tun"), "{refused}");
}

/// Everything up, then wait to be killed.
fn be_the_victim(ready: &std::ffi::OsStr) {
    let mut lab = Lab::build(2).expect("the parent could");
    let mut up: Vec<(Bench, Box<dyn Instance>, Reaper)> = Vec::new();
    for kind in [PlatformKind::Native, PlatformKind::Container, PlatformKind::Vm] {
        let spec =
            if kind == PlatformKind::Vm { vm(NicModel::Virtio, 1) } else { PlatformSpec::of_kind(kind) };
        let Some(mut bench) = bench(&spec) else { continue };
        let exe = std::path::Path::new(env!("CARGO_BIN_EXE_bulkhead"));
        let reaper = Reaper::start(bench.run.path(), exe).expect("a reaper");
        let port = lab.port(1, kind == PlatformKind::Native).expect("a port");
        let instance = bench.start(0, &port);
        up.push((bench, instance, reaper));
    }
    fs::write(ready, up.len().to_string()).expect("the parent reads it");
    std::thread::sleep(DEADLINE);
}

#[test]
fn killed_it_leaves_no_namespace() {
    if let Some(ready) = std::env::var_os(VICTIM) {
        return be_the_victim(&ready);
    }
    if lab(1).is_none() {
        return;
    }
    let folder = tempfile::Builder::new().prefix("bulkhead-lab-").tempdir().expect("a folder");
    let ready = folder.path().join("ready");
    let mut victim = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "lab::killed_it_leaves_no_namespace", "--nocapture"])
        .env(VICTIM, &ready)
        .env("TMPDIR", folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("it starts");
    let begun = Instant::now();
    while !ready.exists() {
        assert!(begun.elapsed() < DEADLINE && victim.try_wait().expect("it can be asked").is_none());
        std::thread::sleep(Duration::from_millis(20));
    }
    let held = held_by(victim.id());
    let inhabited = held.iter().filter(|namespace| !processes_in(namespace).is_empty()).count();
    assert!(held.len() >= 2 && inhabited >= 1, "two hosts with something in them: {held:?}");
    victim.kill().expect("it can be killed");
    victim.wait().expect("it ends");
    // The reapers, too: what they have not undone yet would lose its folder with this test.
    let left = || -> Vec<String> {
        let namespaces = held.iter().flat_map(|namespace| scene::what_keeps(namespace));
        namespaces.chain(scene::processes_of(folder.path())).collect()
    };
    let killed = Instant::now();
    while !left().is_empty() {
        assert!(killed.elapsed() < DEADLINE, "left behind: {:?}", left());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn without_root_it_says_what_is_missing() {
    const SAID: &str = "run as root";
    if !nix::unistd::geteuid().is_root() {
        let error = Lab::build(1).expect_err("it needs root");
        assert!(error.to_string().contains(SAID), "{error}");
        return;
    }
    let folder = tempfile::Builder::new().prefix("bulkhead-lab-").tempdir().expect("a folder");
    let readable_by_all = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o777);
    fs::set_permissions(folder.path(), readable_by_all).expect("ours");
    let copy = folder.path().join("test");
    // By a process of its own: what this one writes, a child of another test may hold open for a moment, and then it cannot run.
    let copied = Command::new("cp").arg(std::env::current_exe().expect("this test")).arg(&copy).status();
    assert!(copied.expect("cp runs").success(), "copied");
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"])
        .arg(&copy)
        .args(["--exact", "lab::without_root_it_says_what_is_missing"])
        .output()
        .expect("setpriv runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
