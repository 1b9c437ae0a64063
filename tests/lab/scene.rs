//! What the tests of labs share: platforms in a folder of their own, and looking into namespaces from outside.

use std::collections::BTreeSet;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use bulkhead::cli::cache_folder;
use bulkhead::model::platform::PlatformSpec;
use bulkhead::platforms::lab::{Lab, Port, inside};
use bulkhead::platforms::ledger::Ledger;
use bulkhead::platforms::{Cancel, Instance, InstanceSpec, Platform, PlatformContext, make};
use bulkhead::units::Bytes;
use skips::{Need, skip};

/// Far more than anything here takes; a hang must not hang the test.
pub const DEADLINE: Duration = Duration::from_secs(120);
/// A port that nobody listens on (discard).
const CLOSED_PORT: u16 = 9;

/// The lab; none, and the test is skipped, where there is none.
#[track_caller]
pub fn lab(hosts: u32) -> Option<Lab> {
    match Lab::build(hosts) {
        Ok(lab) => Some(lab),
        Err(reason) => {
            skip(Need::Network, reason);
            None
        }
    }
}

/// A platform with a run directory of its own.
pub struct Bench {
    pub run: tempfile::TempDir,
    pub platform: Box<dyn Platform>,
}

pub fn context(run: &Path) -> PlatformContext {
    PlatformContext {
        may_destroy: false,
        counter_hz: None,
        exe: PathBuf::from(env!("CARGO_BIN_EXE_bulkhead")),
        ledger: Ledger::open(run).expect("a ledger"),
        cache: cache_folder(),
        seed: 7,
    }
}

/// None, and the test is skipped, where there is no such platform.
#[track_caller]
pub fn bench(spec: &PlatformSpec) -> Option<Bench> {
    let run = tempfile::Builder::new().prefix("bulkhead-run-").tempdir().expect("a run directory");
    let mut platform = make(spec, &context(run.path()));
    let state = platform.survey(&Cancel::new());
    if let Some(reason) = state.unavailable {
        // One that is named is one more; the platform itself takes another where it must.
        let of_kind = Need::named(spec.kind.as_str()).expect("what can be missing");
        skip(if spec.runtime.is_some() { Need::Runc } else { of_kind }, reason);
        return None;
    }
    Some(Bench { run, platform })
}

impl Bench {
    /// Starts an instance that is plugged in at `port`.
    pub fn start(&mut self, number: u32, port: &Port) -> Box<dyn Instance> {
        let scratch = self.run.path().join(format!("scratch-{number}"));
        fs::create_dir_all(&scratch).expect("a scratch folder");
        let spec = InstanceSpec {
            rank: 0,
            number,
            memory_wanted: Bytes::from_bytes(16 << 20),
            disk_wanted: Bytes::from_bytes(8 << 20),
            scratch,
            host: port.host,
            port: Some(port.clone()),
        };
        let started = self.platform.start(&spec, &Cancel::new());
        started.unwrap_or_else(|broken| panic!("instance {number} does not start: {broken:?}"))
    }
}

/// Whether a machine with this address answers: a datagram to a port that nobody listens on comes back as "refused"
/// from a stack that has the address, and never otherwise.
pub fn is_there(from: &Port, address: IpAddr) -> bool {
    let asked = inside(&from.namespace, || {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect((address, CLOSED_PORT))?;
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        socket.send(b"is anybody there?")?;
        socket.recv(&mut [0; 16])
    });
    asked.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// The same, asked again until the deadline.
pub fn assert_answers(from: &Port, address: IpAddr) {
    let begun = Instant::now();
    while !is_there(from, address) {
        assert!(begun.elapsed() < DEADLINE, "{address} does not answer from host {}", from.host);
    }
}

/// Names of the interfaces at `port`'s host.
pub fn interfaces(port: &Port) -> BTreeSet<String> {
    interfaces_in(&port.namespace)
}

/// Names of the interfaces that the processes of this run's containers see, each as often as there are such processes.
pub fn interfaces_of_containers(run: &Path) -> Vec<BTreeSet<String>> {
    let mark = run.file_name().expect("a name").to_string_lossy().into_owned();
    // Only a container has a folder of the run mounted.
    let is_container = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/mountinfo")).is_ok_and(|mounts| mounts.contains(&mark))
    };
    let containers = processes().into_iter().filter(is_container);
    let namespaces = containers.filter_map(|pid| fs::File::open(format!("/proc/{pid}/ns/net")).ok());
    namespaces.map(|namespace| interfaces_in(&namespace)).collect()
}

fn interfaces_in(namespace: &impl AsFd) -> BTreeSet<String> {
    inside(namespace, || {
        let all = nix::net::if_::if_nameindex()?;
        Ok(all.iter().map(|interface| interface.name().to_string_lossy().into_owned()).collect())
    })
    .expect("interfaces can be listed")
}

/// `net:[4026532345]`, as links below `/proc` name the namespace.
pub fn name_of(namespace: &OwnedFd) -> String {
    let link = fs::read_link(format!("/proc/self/fd/{}", namespace.as_raw_fd())).expect("it is open");
    link.to_string_lossy().into_owned()
}

/// Processes that run in the namespace.
pub fn processes_in(namespace: &str) -> Vec<u32> {
    let runs_there = |pid: &u32| target(&PathBuf::from(format!("/proc/{pid}/ns/net"))) == namespace;
    processes().into_iter().filter(runs_there).collect()
}

/// Namespaces that a process holds open.
pub fn held_by(pid: u32) -> BTreeSet<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.map(|entry| target(&entry.path())).filter(|target| target.starts_with("net:[")).collect()
}

/// Everything that keeps the namespace alive: processes in it, descriptors, mounts.
pub fn what_keeps(namespace: &str) -> Vec<String> {
    let mut found: Vec<String> =
        processes_in(namespace).into_iter().map(|pid| format!("process {pid}")).collect();
    for pid in processes() {
        if held_by(pid).contains(namespace) {
            found.push(format!("a descriptor of process {pid}"));
        }
        let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        if mounts.contains(namespace) {
            found.push(format!("a mount of process {pid}"));
        }
    }
    found
}

fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("proc").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn target(link: &Path) -> String {
    fs::read_link(link).map(|target| target.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Processes whose temporary folder this is.
pub fn processes_of(folder: &Path) -> Vec<String> {
    let mark = format!("TMPDIR={}", folder.display());
    let is_ours = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
    };
    processes().into_iter().filter(is_ours).map(|pid| format!("process {pid}")).collect()
}
