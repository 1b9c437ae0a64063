//! The platform `ssh` against a real sshd that listens in a network namespace of its own, behind a virtual cable.
//!
//! ```text
//!  this test ── veth 10.88.N.1 ══ cable ══ veth 10.88.N.2 ── sshd, in the namespace
//! ```
//! Needs root, iproute2 and sshd (the set-up for tests brings both).

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bulkhead::cli::{Asking, cache_folder, known_hosts};
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
use bulkhead::units::names::PlatformKind;
use bulkhead::units::{Bytes, Millis};
use skips::{Need, skip};

/// A network namespace with an sshd in it; all of it goes when this is dropped.
struct Server {
    folder: tempfile::TempDir,
    namespace: String,
    address: String,
    near: String,
    sshd: Option<Child>,
}

fn run(words: &[&str]) {
    let output = Command::new(words[0]).args(&words[1..]).output().expect("it can be started");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The installed sshd, or the one that the set-up unpacked into the cache folder.
fn sshd() -> Option<PathBuf> {
    let unpacked = cache_folder().join("sshd/usr/sbin/sshd");
    [PathBuf::from("/usr/sbin/sshd"), unpacked].into_iter().find(|path| path.is_file())
}

/// Whether these tests cannot run here; they are skipped then.
#[track_caller]
fn missing() -> bool {
    let reason = if !nix::unistd::geteuid().is_root() {
        "a network namespace needs root"
    } else if sshd().is_none() {
        "sshd is missing: ./setup.sh test"
    } else {
        return false;
    };
    skip(Need::Ssh, reason);
    true
}

impl Server {
    fn start(number: u8) -> Self {
        let pid = std::process::id();
        let namespace = format!("bh-ssh-{pid}-{number}");
        let (near, far) =
            (format!("bhs{}n{number}", pid % 100_000), format!("bhs{}f{number}", pid % 100_000));
        let net = format!("10.88.{number}");
        let (here, address) = (format!("{net}.1/24"), format!("{net}.2"));
        let folder = tempfile::tempdir().expect("a folder");
        // From here on, whatever fails, dropping it takes everything away.
        let mut server = Self { folder, namespace, address, near, sshd: None };
        let (namespace, near, address) =
            (server.namespace.clone(), server.near.clone(), server.address.clone());
        run(&["ip", "netns", "add", &namespace]);
        run(&["ip", "link", "add", &near, "type", "veth", "peer", "name", &far, "netns", &namespace]);
        run(&["ip", "address", "add", &here, "dev", &near]);
        run(&["ip", "link", "set", &near, "up"]);
        let inside = |words: &[&str]| run(&[&["ip", "-n", namespace.as_str()][..], words].concat());
        inside(&["address", "add", &format!("{address}/24"), "dev", &far]);
        inside(&["link", "set", &far, "up"]);
        inside(&["link", "set", "lo", "up"]);
        server.serve();
        server
    }

    fn serve(&mut self) {
        let (namespace, address) = (self.namespace.as_str(), self.address.as_str());
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        for key in ["host", "user", "stranger"] {
            run(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", &path(key)]);
        }
        std::fs::copy(path("user.pub"), path("authorized_keys")).expect("a copy");
        let host = std::fs::read_to_string(path("host.pub")).expect("a key");
        std::fs::write(path("known_hosts"), format!("{address} {host}")).expect("a file");
        let config = format!(
            "ListenAddress {address}:22\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nPermitRootLogin yes\n",
            path("host"),
            path("authorized_keys")
        );
        std::fs::write(path("config"), config).expect("a file");
        // sshd drops its rights in an empty folder that the distribution's service makes.
        std::fs::create_dir_all("/run/sshd").expect("a folder");
        let sshd = sshd().expect("looked for before");
        let child = Command::new("ip")
            .args(["netns", "exec", namespace])
            .arg(sshd)
            .args(["-D", "-e", "-f", &path("config")])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sshd");
        self.sshd = Some(child);
        let until = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect((self.address.as_str(), 22)).is_err() {
            assert!(Instant::now() < until, "sshd does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn spec(&self) -> PlatformSpec {
        let ssh = SshSpec {
            destinations: vec![format!("root@{}", self.address)],
            port: None,
            identity: Some(self.path("user")),
            known_hosts: Some(self.path("known_hosts")),
            // The user's own configuration must not matter here.
            config: Some("/dev/null".to_owned()),
            addresses: vec![],
            scratch: Some(self.path("")),
        };
        PlatformSpec { ssh: Some(ssh), ..PlatformSpec::of_kind(PlatformKind::Ssh) }
    }

    /// Folders of agents on the "remote" machine.
    fn folders(&self) -> usize {
        let entries = std::fs::read_dir(self.folder.path()).expect("it is there");
        entries
            .filter_map(Result::ok)
            .filter(|e| e.file_name().to_string_lossy().starts_with("bulkhead-"))
            .count()
    }

    fn wait_until_clean(&self) {
        let until = Instant::now() + Duration::from_secs(20);
        while self.folders() > 0 {
            assert!(Instant::now() < until, "a folder of an agent stayed behind");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut sshd) = self.sshd.take() {
            let _ = sshd.kill();
            let _ = sshd.wait();
        }
        // Sessions of sshd have groups of their own; the namespace knows them all.
        let listed = Command::new("ip").args(["netns", "pids", &self.namespace]).output();
        if let Ok(listed) = listed {
            for pid in String::from_utf8_lossy(&listed.stdout).split_whitespace() {
                let _ = Command::new("kill").args(["-9", pid]).status();
            }
        }
        let _ = Command::new("ip").args(["link", "del", &self.near]).status();
        let _ = Command::new("ip").args(["netns", "del", &self.namespace]).status();
    }
}

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
        let known = known_hosts(&system, server.folder.path(), &asking, &mut notes);
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
