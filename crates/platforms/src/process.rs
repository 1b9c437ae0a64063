//! A child process that carries an agent on its standard input and output: written down in the ledger, killed with
//! its group, reaped; its error output is kept.

use std::io;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::console::Console;
use super::ledger::{Ledger, Thing, Ticket};
use super::link::HostEnd;
use super::spawn::{Bond, ending, spawn};

/// How long the last words of a dead child may take to arrive.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Most descendants that are listed.
const MOST_DESCENDANTS: usize = 1024;
/// How often a child that is to end is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// A running child with its console and its entry in the ledger.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    console: Console,
    ledger: Ledger,
    ticket: Option<Ticket>,
    ended: Option<String>,
}

impl Process {
    /// Starts `command` with piped standard streams. Its output and input become the link, its error output the
    /// console. `name` is what messages call it.
    ///
    /// # Errors
    /// When the process cannot be started or written down; nothing of it is left then.
    pub fn start(
        name: &str,
        mut command: Command,
        cpus: Option<u32>,
        ledger: &Ledger,
    ) -> io::Result<(Self, HostEnd)> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        ledger.mark(&mut command);
        let mut child = spawn(command, Bond::DiesWithUs, cpus)?;
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
            return Err(io::Error::other("a child without pipes"));
        };
        let ticket = Thing::process(child.id()).map(|thing| ledger.record(thing)).transpose();
        let console = Console::follow(stderr.into());
        match (ticket, console) {
            (Ok(ticket), Ok(console)) => {
                let name = name.to_owned();
                let ledger = ledger.clone();
                let process = Self { name, child, console, ledger, ticket, ended: None };
                Ok((process, HostEnd::new(stdout.into(), stdin.into())))
            }
            (Err(error), _) | (_, Err(error)) => {
                child.kill()?;
                child.wait()?;
                Err(error)
            }
        }
    }

    /// Its number; nobody else can get it until it has been reaped.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Processes below it: its children, theirs, and so on, as far as the kernel lists them; at most 1024.
    pub fn descendants(&self) -> Vec<u32> {
        let mut found: Vec<u32> = Vec::new();
        let mut looked = 0;
        let mut next = Some(self.child.id());
        while let Some(parent) = next {
            for child in children(parent) {
                if found.len() < MOST_DESCENDANTS && !found.contains(&child) {
                    found.push(child);
                }
            }
            next = found.get(looked).copied();
            looked += 1;
        }
        found
    }

    /// Last lines of its error output.
    pub fn console_tail(&self) -> Vec<String> {
        self.console.tail()
    }

    /// How it ended, when it has.
    pub fn how_it_ended(&mut self) -> Option<String> {
        if self.ended.is_none() && self.is_dead() {
            self.kill_group();
            self.reap();
        }
        self.ended.clone()
    }

    /// Whether it waits to be reaped.
    fn is_dead(&self) -> bool {
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let Ok(pid) = i32::try_from(self.child.id()) else { return false };
        !matches!(waitid(Id::Pid(Pid::from_raw(pid)), look), Ok(WaitStatus::StillAlive))
    }

    /// Kills whoever is left of its group. Only before it is reaped: until then nobody else can get its number.
    fn kill_group(&self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            // Nobody left is as good.
            let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }

    fn reap(&mut self) {
        let how = match self.child.wait() {
            Ok(status) => ending(status),
            Err(error) => format!("is gone ({error})"),
        };
        self.ended = Some(format!("{} {how}", self.name));
        if let Some(ticket) = self.ticket.take() {
            self.ledger.undone(ticket);
        }
    }

    /// Waits until it has ended, at most `grace`; true when it has.
    pub fn wait(&mut self, grace: Duration) -> bool {
        let until = Instant::now() + grace;
        while self.how_it_ended().is_none() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        true
    }

    /// Sends it SIGTERM, unless it has ended.
    pub fn ask_to_end(&mut self) {
        if self.how_it_ended().is_none()
            && let Ok(pid) = i32::try_from(self.child.id())
        {
            // One that just ended is as good.
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
    }

    /// Kills it with its group, and reaps it.
    pub fn end(&mut self) {
        if self.how_it_ended().is_none() {
            self.kill_group();
            self.reap();
        }
        self.console.settle(LAST_WORDS);
    }
}

/// Children of a process; each of its threads has its own.
fn children(parent: u32) -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{parent}/task")) else { return Vec::new() };
    threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|text| text.split_ascii_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<u32>>())
        .collect()
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
