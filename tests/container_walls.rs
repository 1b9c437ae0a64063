//! How containers are walled off, read from the kernel: as Docker and Podman do it, each wall off by name, and every probe
//! with an answer behind them. And the other side of it: a native agent is started as a container's is, so that only
//! the walls differ.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use bulkhead::model::experiment::{Capabilities, DiskBacking, PlatformSpec};
use bulkhead::model::journal::PlatformState;
use bulkhead::platforms::ledger::Ledger;
use bulkhead::platforms::{Cancel, Instance, InstanceSpec, Platform, PlatformContext, make};
use bulkhead::units::names::PlatformKind;
use skips::{Need, skip};

/// What Docker's default set is in `/proc/PID/status`.
const DOCKERS_CAPABILITIES: &str = "00000000a80425fb";

fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_bulkhead"))
}

fn container() -> PlatformSpec {
    PlatformSpec::of_kind(PlatformKind::Container)
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// A platform that was looked at; none, with a line why, where it is not to be had and not required.
fn surveyed(spec: &PlatformSpec, run: &Path) -> Option<(Box<dyn Platform>, PlatformState)> {
    let context = PlatformContext {
        counter_hz: None,
        exe: binary(),
        ledger: Ledger::open(run).expect("a ledger"),
        cache: run.join("cache"),
        seed: 7,
        may_destroy: false,
    };
    let mut platform = make(spec, &context);
    let state = platform.survey(&Cancel::new());
    if let Some(reason) = &state.unavailable {
        skip(Need::Container, reason);
        return None;
    }
    Some((platform, state))
}

fn started(platform: &mut dyn Platform, run: &Path) -> Box<dyn Instance> {
    let scratch = run.join("scratch");
    fs::create_dir_all(&scratch).expect("made");
    let spec = InstanceSpec { scratch, ..InstanceSpec::default() };
    platform.start(&spec, &Cancel::new()).expect("it starts")
}

/// The agent's process, as this host sees it.
fn agent_of(instance: &dyn Instance) -> u32 {
    let processes = instance.processes();
    // A native agent has its open file's number for a name.
    if let [only] = processes.as_slice() {
        return *only;
    }
    let is_agent = |pid: &u32| read(*pid, "comm").trim() == "bulkhead";
    processes.into_iter().find(is_agent).expect("an agent is among its processes")
}

fn read(pid: u32, file: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
}

fn status(pid: u32, key: &str) -> String {
    let status = read(pid, "status");
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {key} in {status}")).trim().to_owned()
}

fn property<'a>(state: &'a PlatformState, name: &str) -> &'a str {
    let found = state.properties.iter().find(|(key, _)| key == name);
    found.map_or_else(|| panic!("no {name} among {:?}", state.properties), |(_, value)| value.as_str())
}

fn run_folder() -> tempfile::TempDir {
    // 0700, like the home folder of root: nobody else passes through.
    tempfile::Builder::new().prefix("bulkhead-run-").tempdir().expect("a folder")
}

#[test]
fn a_container_has_dockers_filter_and_capabilities_and_its_root_is_nobody_outside() {
    let run = run_folder();
    let Some((mut platform, state)) = surveyed(&container(), run.path()) else { return };
    assert!(property(&state, "seccomp").starts_with("Docker's default filter"), "{:?}", state.properties);
    assert!(property(&state, "walls read back").starts_with("Seccomp: 2"), "{:?}", state.properties);
    let mut instance = started(platform.as_mut(), run.path());
    let pid = agent_of(instance.as_ref());
    assert_eq!(
        (status(pid, "Seccomp").as_str(), status(pid, "CapEff").as_str()),
        ("2", DOCKERS_CAPABILITIES)
    );
    assert_eq!(status(pid, "CapBnd"), DOCKERS_CAPABILITIES);
    let users = property(&state, "users").to_owned();
    if is_root() {
        let outside = status(pid, "Uid").split_whitespace().next().unwrap_or_default().to_owned();
        // Where the host does not allow it, the reason is among the properties.
        let is_own = users.starts_with(&format!("its own: root is user {outside} outside"));
        assert!(
            (is_own && outside != "0") || users.starts_with("the host's, root is root: "),
            "{users}, {outside}"
        );
        println!("users: {users}");
    }
    instance.end();
    let left: Vec<_> = fs::read_dir(run.path().join("scratch")).expect("there").flatten().collect();
    assert!(left.is_empty(), "its folder for files is gone: {left:?}");
}

#[test]
fn each_wall_can_be_switched_off_by_name() {
    let run = run_folder();
    let spec = PlatformSpec {
        seccomp: Some(false),
        capabilities: Some(Capabilities::All),
        user_namespace: is_root().then_some(false),
        namespaces: Some(false),
        ..container()
    };
    let Some((mut platform, state)) = surveyed(&spec, run.path()) else { return };
    assert_eq!(property(&state, "seccomp"), "none: switched off in the experiment");
    assert!(property(&state, "capabilities").ends_with("all there are"));
    let mut instance = started(platform.as_mut(), run.path());
    let pid = agent_of(instance.as_ref());
    let own = std::process::id();
    assert_eq!(status(pid, "Seccomp"), status(own, "Seccomp"));
    if is_root() {
        assert_eq!(
            (status(pid, "CapEff"), status(pid, "Uid")),
            (status(own, "CapBnd"), "0\t0\t0\t0".to_owned())
        );
        assert!(property(&state, "users").ends_with("switched off in the experiment"));
    }
    let namespace =
        |pid: u32, kind: &str| fs::metadata(format!("/proc/{pid}/ns/{kind}")).map(|m| m.ino()).ok();
    for kind in ["pid", "net", "ipc", "uts"] {
        assert_eq!(namespace(pid, kind), namespace(own, kind), "{kind}");
    }
    assert_ne!(namespace(pid, "mnt"), namespace(own, "mnt"), "its files are its own");
    instance.end();
}

#[test]
fn a_wall_that_cannot_be_had_is_a_reason_or_a_refusal() {
    if !is_root() {
        return skip(Need::Root, "an ordinary user's containers always have a user namespace");
    }
    let run = run_folder();
    let loops = PlatformSpec { disk: Some(DiskBacking::Loop), ..container() };
    if let Some((_, state)) = surveyed(&loops, run.path()) {
        assert_eq!(property(&state, "users"), "the host's, root is root: its block device is the host's");
    }
    let must = PlatformSpec { label: "must".to_owned(), user_namespace: Some(true), ..loops };
    let context = PlatformContext {
        counter_hz: None,
        exe: binary(),
        ledger: Ledger::open(run.path()).expect("a ledger"),
        cache: run.path().join("cache"),
        seed: 7,
        may_destroy: false,
    };
    let refused = make(&must, &context).survey(&Cancel::new()).unavailable.expect("it is refused");
    assert!(refused.contains("user_namespace = true, but its block device"), "{refused}");
}

/// Small, and everything: each probe on a container with all walls.
const EVERYTHING: &str = r#"
name = "walls"
seed = 5

[repeat]
min = 1
max = 1
budget_s = 600

[[platform]]
label = "container"
kind = "container"

[probe.gap]
duration_ms = 200
[probe.fwq]
iterations = 50_000
samples = 200
[probe.ftq]
quantum_us = 200
duration_ms = 1200
[probe.wakeup]
period_us = 1000
duration_ms = 300
[probe.frames]
rate_hz = 60
iterations = 200_000
frames = 20
[probe.cpu]
iterations = 1_000_000
samples = 3
[probe.syscall]
duration_ms = 400
[probe.fork]
duration_ms = 4000
[probe.exit]
duration_ms = 50
[probe.lock]
duration_ms = 400
[probe.linpack]
n = 200
samples = 2
[probe.build]
files = 2
functions = 4
[probe.mem-latency]
max_size_mib = 16
duration_ms = 2
[probe.mem-bandwidth]
max_size_mib = 16
duration_ms = 2
[probe.pages]
size_mib = 16
warm_passes = 2
[probe.disk]
file_size_mib = 8
block_sizes_kib = [64]
modes = ["buffered", "fsync", "direct"]
duration_ms = 400
[probe.net]
message_bytes = [1, 1_400]
duration_ms = 200
[probe.mpi]
message_bytes = [1, 65_536]
duration_ms = 200
[probe.share]
duration_ms = 250
settle_ms = 250
"#;

#[test]
fn every_probe_has_an_answer_behind_the_walls() {
    let folder = run_folder();
    let file = folder.path().join("walls.toml");
    fs::write(&file, EVERYTHING).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_bulkhead"))
        .args(["measure", "--json", "--out", "run", "--experiment"])
        .arg(&file)
        .current_dir(folder.path())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("nothing can be measured") {
        return skip(Need::Container, said);
    }
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).expect(&said);
    let properties = results["platforms"][0]["properties"].to_string();
    assert!(properties.contains("walls read back"), "{properties}");
    let page = fs::read_to_string(folder.path().join("run/report.html")).expect("a report");
    assert!(page.contains("default filter"), "the page has the walls, too");
    // What cannot be measured here is refused with a reason; nothing dies, hangs or talks nonsense.
    let failures = results["failures"].as_array().cloned().unwrap_or_default();
    for failure in &failures {
        println!("failure: {failure}");
    }
    let network = is_root();
    let may_fail = |probe: &str| matches!(probe, "net" | "mpi" | "share") && !network;
    let measured: Vec<(String, bool)> = results["cells"]
        .as_array()
        .expect("cells")
        .iter()
        .map(|cell| {
            let probe = cell["cell"]["probe"].as_str().unwrap_or_default().to_owned();
            let figures = cell["metrics"].as_array().map_or(0, Vec::len);
            (probe, figures > 0)
        })
        .collect();
    assert_eq!(measured.len(), 19, "{measured:?}: {said}");
    let silent: Vec<&String> =
        measured.iter().filter(|(probe, has)| !has && !may_fail(probe)).map(|(probe, _)| probe).collect();
    let reasons = serde_json::to_string(&failures).unwrap_or_default();
    assert!(silent.iter().all(|probe| reasons.contains(&format!("\"{probe}\""))), "{silent:?}: {reasons}");
    for kind in ["\"died\"", "\"hung\"", "\"garbage\"", "\"start\""] {
        assert!(!reasons.contains(kind), "{reasons}");
    }
}

#[test]
fn a_native_agent_is_started_as_a_containers_is() {
    let run = run_folder();
    let native = PlatformSpec::of_kind(PlatformKind::Native);
    let (mut hosts, state) = surveyed(&native, run.path()).expect("the host is there");
    let Some((mut walled, _)) = surveyed(&container(), run.path()) else { return };
    let (mut bare, mut boxed) = (started(hosts.as_mut(), run.path()), started(walled.as_mut(), run.path()));
    let (bare_pid, boxed_pid) = (agent_of(bare.as_ref()), agent_of(boxed.as_ref()));
    let environment = |pid: u32| {
        let text = read(pid, "environ");
        text.split('\0').map(str::to_owned).collect::<std::collections::BTreeSet<String>>()
    };
    assert_eq!(environment(bare_pid), environment(boxed_pid));
    let session = |pid: u32| {
        let id = i32::try_from(pid).expect("a number");
        nix::unistd::getsid(Some(nix::unistd::Pid::from_raw(id))).map(nix::unistd::Pid::as_raw)
    };
    assert_eq!(
        session(bare_pid),
        Ok(i32::try_from(bare_pid).expect("a number")),
        "it leads a session of its own"
    );
    let file =
        |pid: u32| fs::metadata(format!("/proc/{pid}/exe")).map(|m| (m.dev(), m.ino())).expect("readable");
    let same_device = fs::metadata(run.path()).expect("there").dev() == file(bare_pid).0;
    assert!(file(bare_pid) == file(boxed_pid) || !same_device, "both run the very same file");
    // Depth below the top of each hierarchy, and that the last part is nobody else's.
    let groups = |pid: u32| -> Vec<(String, usize, bool)> {
        let own = |path: &str| path.rsplit('/').next().is_some_and(|name| name.starts_with("bulkhead-"));
        let text = read(pid, "cgroup");
        let lines = text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        lines.map(|(name, path)| (name.to_owned(), path.matches('/').count(), own(path))).collect()
    };
    println!("{} {:?}", property(&state, "cgroups"), groups(bare_pid));
    if is_root() {
        assert_eq!(groups(bare_pid), groups(boxed_pid));
    }
    bare.end();
    boxed.end();
}

#[test]
fn a_container_sees_none_of_the_hosts_mounts_below_sys() {
    sees_none_of_the_hosts_mounts_below_sys(None);
}

/// It has ways of its own to mount.
#[test]
fn nor_does_one_of_runc() {
    let is_there = Command::new("runc").arg("--version").output().is_ok_and(|output| output.status.success());
    if !is_there {
        return skip(Need::Runc, "no runc");
    }
    if !is_root() {
        return skip(Need::Root, "runc wants a cgroup of its own");
    }
    sees_none_of_the_hosts_mounts_below_sys(Some("runc"));
}

fn sees_none_of_the_hosts_mounts_below_sys(runtime: Option<&str>) {
    let usual = PlatformSpec { runtime: runtime.map(str::to_owned), ..container() };
    let shared = PlatformSpec { user_namespace: Some(false), ..usual.clone() };
    for spec in [Some(usual), is_root().then_some(shared)].into_iter().flatten() {
        let run = run_folder();
        let Some((mut platform, state)) = surveyed(&spec, run.path()) else { return };
        let mut instance = started(platform.as_mut(), run.path());
        assert_sys_is_walled_off(
            agent_of(instance.as_ref()),
            property(&state, "users").starts_with("its own"),
        );
        instance.end();
    }
}

/// Mounts of a process as the kernel tells them: place, kind, whether it can be written through.
fn mounts_of(pid: u32) -> Vec<(String, String, bool)> {
    let line = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(4);
        let (place, options) = (fields.next()?.to_owned(), fields.next()?);
        let kind = after.split(' ').next()?.to_owned();
        Some((place, kind, options.split(',').any(|option| option == "rw")))
    };
    read(pid, "mountinfo").lines().filter_map(line).collect()
}

fn assert_sys_is_walled_off(pid: u32, has_users: bool) {
    let of_sys: Vec<_> = mounts_of(pid).into_iter().filter(|(place, ..)| place.starts_with("/sys")).collect();
    for (place, kind, is_writable) in &of_sys {
        assert!(!is_writable, "{place} can be written: {of_sys:?}");
        // What hides something is empty memory.
        assert!(kind == "sysfs" || kind == "tmpfs", "{place} is {kind}: {of_sys:?}");
        assert!(has_users || kind == "tmpfs" || place == "/sys", "a sysfs of its own: {of_sys:?}");
    }
    let inside = PathBuf::from(format!("/proc/{pid}/root"));
    let entries = |path: &str| fs::read_dir(inside.join(path)).into_iter().flatten().count();
    // Places of the host's mounts, and what Docker hides.
    for empty in [
        "sys/fs/cgroup",
        "sys/kernel/tracing",
        "sys/firmware",
        "sys/devices/virtual/powercap",
        "proc/asound",
        "proc/acpi",
        "proc/scsi",
    ] {
        assert_eq!(entries(empty), 0, "{empty}");
    }
    for hidden in ["proc/keys", "proc/timer_list", "proc/timer_stats", "proc/kcore"] {
        let head = fs::File::open(inside.join(hidden)).map(|mut file| file.read(&mut [0]).unwrap_or(0));
        assert_eq!(head.unwrap_or(0), 0, "{hidden}");
    }
    // What probes read is there.
    assert!(entries("sys/devices/system/cpu") > 0 && entries("sys/devices/system/clocksource") > 0);
    assert!(read(pid, "root/proc/interrupts").contains("CPU0"));
}
