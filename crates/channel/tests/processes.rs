//! Two real processes: one is killed in the middle of a message, restarted, stopped, or simply does not read.
//!
//! The test runs itself again as the other party, with `CHANNEL_PARTY` naming the part it plays.

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use channel::{Endpoint, Error, Gone, Layout, Section};
use common::{HANG, message, open};

const PART: &str = "CHANNEL_PARTY";
const FOLDER: &str = "CHANNEL_FOLDER";
const CAPACITY: u64 = 64 << 10;
const LONG: usize = 4 << 20;

/// The other party; killed if the test ends early.
struct Party {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Party {
    fn start(part: &str, folder: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "--ignored", "the_other_party", "--nocapture", "--test-threads=1"])
            .env(PART, part)
            .env(FOLDER, folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let said = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, said }
    }

    /// Waits until it has said a word.
    fn wait_for(&mut self, word: &str) {
        let mut line = String::new();
        while self.said.read_line(&mut line).expect("its output") > 0 {
            if line.contains(word) {
                return;
            }
            line.clear();
        }
        panic!("it ended without saying {word}");
    }

    fn signal(&self, signal: nix::sys::signal::Signal) {
        let id = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).expect("a process id"));
        nix::sys::signal::kill(id, signal).expect("signalled");
    }

    /// A signal is only on its way when it was sent.
    fn wait_until_stopped(&self) {
        let until = Instant::now() + HANG;
        let stat = format!("/proc/{}/stat", self.child.id());
        let is_stopped = || {
            let text = std::fs::read_to_string(&stat).expect("it lives");
            text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        };
        while !is_stopped() {
            assert!(Instant::now() < until, "it does not stop");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("reaped");
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn my_section(folder: &Path) -> Section {
    Section::create(&folder.join("1"), &Layout::new(1).ring(2, CAPACITY)).expect("a section")
}

/// Waits for the other party's file, which it makes when it starts.
fn connect(section: &Section, folder: &Path) -> Endpoint {
    let deadline = Instant::now() + HANG;
    while Section::open(&folder.join("2")).is_err() {
        assert!(Instant::now() < deadline, "no section of 2");
        std::thread::sleep(Duration::from_millis(1));
    }
    Endpoint::connect(section, 2, &open(folder, 2), HANG).expect("connected")
}

/// What the other process does.
#[test]
#[ignore = "started by the tests, in a process of its own"]
fn the_other_party() {
    let part = std::env::var(PART).expect("started by a test");
    let folder = std::env::var_os(FOLDER).expect("started by a test");
    let folder = Path::new(&folder);
    let section = Section::create(&folder.join("2"), &Layout::new(2).ring(1, CAPACITY)).expect("a section");
    let mut end = Endpoint::connect(&section, 1, &open(folder, 1), HANG).expect("connected");
    println!("\nconnected");
    let mut buffer = vec![0; LONG];
    match part.as_str() {
        "echo" => loop {
            match end.receive(&mut buffer, HANG) {
                Ok(length) => end.send(&buffer[..length], HANG).expect("sent back"),
                Err(Error::PeerGone { how: Gone::Closed, .. }) => return,
                Err(error) => panic!("{error}"),
            }
        },
        "half a message" => {
            // More than the ring: it stays half sent, until this process is killed.
            let error = end.send(&message(1, LONG), HANG).expect_err("nobody reads all of it");
            panic!("{error}");
        }
        "deaf" => std::thread::sleep(HANG),
        other => panic!("no part {other}"),
    }
}

#[test]
fn messages_of_every_length_cross_between_processes() {
    let folder = tempfile::tempdir().expect("a folder");
    let section = my_section(folder.path());
    let mut party = Party::start("echo", folder.path());
    let mut end = connect(&section, folder.path());
    let mut buffer = vec![0; LONG];
    for (number, length) in [1, 8, 63, 4096, 65_536, 1 << 20, LONG].into_iter().enumerate() {
        let sent = message(number as u64, length);
        end.send(&sent, HANG).expect("sent");
        assert_eq!(end.receive(&mut buffer, HANG).expect("the echo"), length);
        assert!(buffer[..length] == sent);
    }
    drop(end);
    assert!(party.child.wait().expect("ended").success());
}

#[test]
fn a_peer_killed_in_the_middle_of_a_message_is_gone_and_its_next_run_is_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let section = my_section(folder.path());
    let mut party = Party::start("half a message", folder.path());
    let mut end = connect(&section, folder.path());
    end.set_gone_after(Duration::from_millis(300));
    let mut buffer = vec![0; LONG];
    // Some of the message has come when it is killed.
    let deadline = Instant::now() + HANG;
    while matches!(
        end.receiver().try_receive_part(&mut [&mut buffer]).expect("alive"),
        channel::Progress::Nothing
    ) {
        assert!(Instant::now() < deadline, "nothing came");
    }
    party.kill();
    let error = end.receive(&mut buffer, HANG).expect_err("half a message");
    assert!(matches!(error, Error::PeerGone { peer: 2, how: Gone::Silent(_) }), "{error}");
    let error = end.send(&message(2, LONG), HANG).expect_err("nobody reads");
    assert!(matches!(error, Error::PeerGone { peer: 2, how: Gone::Silent(_) }), "{error}");

    let mut again = Party::start("echo", folder.path());
    let error = loop {
        match end.receive(&mut buffer, HANG) {
            // Until the new process has come far enough to take the section over.
            Err(Error::PeerGone { .. }) => {}
            Err(error) => break error,
            Ok(length) => panic!("{length} bytes of a message that was never sent whole"),
        }
    };
    assert!(matches!(error, Error::PeerRestarted { peer: 2 }), "{error}");
    assert!(matches!(end.send(b"old link", HANG), Err(Error::PeerRestarted { peer: 2 })));
    end.reconnect(HANG).expect("with its new run");
    end.send(b"again", HANG).expect("sent");
    assert_eq!(end.receive(&mut buffer, HANG).expect("the echo"), 5);
    assert_eq!(&buffer[..5], b"again");
    drop(end);
    assert!(again.child.wait().expect("ended").success());
}

#[test]
fn a_peer_that_does_not_read_is_a_timeout_and_one_that_was_stopped_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let section = my_section(folder.path());
    let mut party = Party::start("deaf", folder.path());
    let mut end = connect(&section, folder.path());
    party.wait_for("connected");
    let error = end.send(&vec![1; LONG], Duration::from_millis(100)).expect_err("it does not read");
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    party.kill();
    drop((end, section));

    let folder = tempfile::tempdir().expect("a folder");
    let section = my_section(folder.path());
    let mut party = Party::start("echo", folder.path());
    let mut end = connect(&section, folder.path());
    party.wait_for("connected");
    end.set_gone_after(Duration::from_millis(200));
    party.signal(nix::sys::signal::Signal::SIGSTOP);
    party.wait_until_stopped();
    end.send(b"are you there", HANG).expect("into the ring");
    let mut buffer = [0; 64];
    let error = end.receive(&mut buffer, HANG).expect_err("it is stopped");
    assert!(matches!(error, Error::PeerGone { how: Gone::Silent(_), .. }), "{error}");
    party.signal(nix::sys::signal::Signal::SIGCONT);
    let length = loop {
        match end.receive(&mut buffer, HANG) {
            Ok(length) => break length,
            // Until its heart has beaten again.
            Err(Error::PeerGone { how: Gone::Silent(_), .. }) => {}
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(&buffer[..length], b"are you there");
}
