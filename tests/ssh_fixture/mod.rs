//! An sshd that listens in a network namespace of its own, behind a virtual cable: another machine, for tests.
//!
//! ```text
//!  this test ── veth 10.88.N.1 ══ cable ══ veth 10.88.N.2 ── sshd, in the namespace
//! ```
//! Needs root, iproute2 and sshd (the set-up for tests brings both).

#![allow(dead_code, reason = "each of the programs of tests uses a part of it")]

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bulkhead::cli::cache_folder;
use bulkhead::model::experiment::{PlatformSpec, SshSpec};
use bulkhead::units::names::PlatformKind;
use skips::{Need, skip};

/// A network namespace with an sshd in it; all of it goes when this is dropped.
pub struct Server {
    folder: tempfile::TempDir,
    /// Its namespace.
    pub namespace: String,
    /// Its address there.
    pub address: String,
    /// This end of the cable.
    pub near: String,
    sshd: Option<Child>,
}

/// Runs a program that must end well.
pub fn run(words: &[&str]) {
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
pub fn missing() -> bool {
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
    /// With a number of its own, because tests run at the same time.
    pub fn start(number: u8) -> Self {
        Self::start_with(number, "")
    }

    /// With more lines in its configuration.
    pub fn start_with(number: u8, settings: &str) -> Self {
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
        server.serve(settings);
        server
    }

    fn serve(&mut self, settings: &str) {
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
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nPermitRootLogin yes\n{settings}",
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

    /// A file of its folder.
    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// The machine as a platform.
    pub fn spec(&self) -> PlatformSpec {
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
    pub fn folders(&self) -> usize {
        let entries = std::fs::read_dir(self.folder.path()).expect("it is there");
        entries
            .filter_map(Result::ok)
            .filter(|e| e.file_name().to_string_lossy().starts_with("bulkhead-"))
            .count()
    }

    /// Waits until none of them is left.
    pub fn wait_until_clean(&self) {
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
