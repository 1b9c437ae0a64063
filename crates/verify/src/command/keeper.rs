//! Who starts a user's test and ends all that this has started: a process of its own, to which the kernel gives every orphan below it
//! (`PR_SET_CHILD_SUBREAPER`, prctl(2)), whatever session, group or variables that has.
//!
//! ```text
//!  verify ── socket ──► bulkhead keep-test PROGRAM …  ─► the program ─► whatever that starts
//!     └ is done, or killed ─► the socket ends ─┐              └ has ended ─┐
//!                                              └───────────────────────────┴─► all that is left is killed ─► a report over the socket
//! ```
//! A test may kill this process as well. Then verify has the orphans, and kills what it did not start; how the test ended is not known.
//! Children are killed, and those that become ours by that, until there are none: none of their numbers can be another process's,
//! since nobody but us waits for them, and only after they were listed.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, write};
use platforms::held_process::all_children;
use platforms::spawn::{Bond, spawn};
use rustix::process::{PidfdFlags, pidfd_open};
use units::Reason;

/// The verb with which it is started.
pub const KEEP_VERB: &str = "keep-test";

/// How long it is looked for what is left: whoever starts others faster than they are killed wins.
const SWEEPS_WITHIN: Duration = Duration::from_secs(10);
/// How often.
const LOOK: Duration = Duration::from_millis(1);
/// Bytes of what it reports.
const LONGEST_REPORT: u64 = 4096;
/// What a report of a program that has ended begins with; its exit code follows, and how many could not be killed.
const ENDED: &str = "ended ";
/// How often those that have ended are waited for, in milliseconds.
const REAPS_EVERY_MS: u16 = 1000;
/// The exit code where nobody knows it.
const UNKNOWN: i32 = -1;
/// Exit codes of signals begin here.
const SIGNALLED: i32 = 128;

/// A program that runs below a process of its own.
pub(super) struct Kept {
    /// That process.
    pub process: Child,
    socket: UnixStream,
    /// Our children before.
    before: BTreeSet<u32>,
}

impl Kept {
    /// Starts `keeper`: this program, with [`KEEP_VERB`] and the words of the other one.
    ///
    /// # Errors
    /// This program cannot be started once more.
    pub fn start(mut keeper: Command) -> io::Result<Self> {
        // Where somebody kills the keeper, we get what it kept.
        set_child_subreaper(true)?;
        let before = all_children(std::process::id())?.into_iter().collect();
        let (socket, theirs) = UnixStream::pair()?;
        keeper.stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)));
        Ok(Self { process: spawn(keeper, Bond::OutlivesUs, None)?, socket, before })
    }

    /// Ends the program, if it still runs, and all that it has started; its exit code, or 128 and its signal.
    ///
    /// # Errors
    /// It could not be started, how it ended is not known, or something goes on that it has started.
    pub fn end(mut self) -> Result<i32, Reason> {
        // It may have been stopped by whom it keeps.
        if let Ok(number) = i32::try_from(self.process.id()) {
            let _ = kill(Pid::from_raw(number), Signal::SIGCONT);
        }
        let _ = self.socket.shutdown(Shutdown::Write);
        let until = Instant::now() + SWEEPS_WITHIN * 2;
        while matches!(self.process.try_wait(), Ok(None)) {
            if Instant::now() >= until {
                let _ = self.process.kill();
            }
            thread::sleep(LOOK);
        }
        let mut report = String::new();
        // What is to be read is there already, if anything is.
        let _ = self.socket.set_nonblocking(true);
        let _ = (&self.socket).take(LONGEST_REPORT).read_to_string(&mut report);
        let Some(told) = report.strip_prefix(ENDED) else {
            if !report.is_empty() {
                return Err(format!("cannot be started: {report}").into());
            }
            self.sweep_up();
            return Err("has ended, and how is not known: something has killed who waited for it".into());
        };
        let mut numbers = told.split_ascii_whitespace().map(str::parse::<i32>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(code)), Some(Ok(0))) => Ok(code),
            (_, Some(Ok(left))) => {
                Err(format!("has left {left} processes behind that could not be killed").into())
            }
            _ => Err("has ended, and how is not known".into()),
        }
    }

    /// Kills what the kernel has given to us when the keeper died: children that we have not started.
    fn sweep_up(&self) {
        let until = Instant::now() + SWEEPS_WITHIN;
        while Instant::now() < until {
            let all = all_children(std::process::id()).unwrap_or_default();
            let left: Vec<u32> = all.into_iter().filter(|pid| !self.before.contains(pid)).collect();
            if left.is_empty() {
                return;
            }
            for pid in left.into_iter().filter_map(|pid| i32::try_from(pid).ok()).map(Pid::from_raw) {
                let _ = kill(pid, Signal::SIGKILL);
                let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
            }
            thread::sleep(LOOK);
        }
    }
}

/// What that process does: starts the program that its words say, ends all that this leaves, and says how it ended.
pub fn keep(words: &[OsString]) -> ExitCode {
    let started = set_child_subreaper(true).map_err(io::Error::from).and_then(|()| program(words));
    let program = match started {
        Ok(program) => program,
        Err(error) => {
            // The socket to verify is our standard input.
            let _ = write(io::stdin(), error.to_string().as_bytes());
            return ExitCode::FAILURE;
        }
    };
    let mut below = Below { program, ended: None };
    below.wait();
    if below.ended.is_none() {
        // It was not waited for, so its number is still its own.
        let _ = kill(program, Signal::SIGKILL);
    }
    let left = below.sweep();
    let report = format!("{ENDED}{} {left}", below.ended.unwrap_or(UNKNOWN));
    let _ = write(io::stdin(), report.as_bytes());
    ExitCode::SUCCESS
}

fn program(words: &[OsString]) -> io::Result<Pid> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    let child = spawn(command, Bond::DiesWithUs, None)?;
    i32::try_from(child.id()).map(Pid::from_raw).map_err(io::Error::other)
}

/// All that runs below us.
struct Below {
    program: Pid,
    /// The program's exit code, or 128 and its signal, once it has ended.
    ended: Option<i32>,
}

impl Below {
    /// Until the program has ended, or whoever wanted it is gone.
    fn wait(&mut self) {
        // Without such a descriptor its end is found a moment later.
        let number = rustix::process::Pid::from_raw(self.program.as_raw());
        let ends = number.and_then(|number| pidfd_open(number, PidfdFlags::empty()).ok());
        let stdin = io::stdin();
        while self.ended.is_none() {
            let mut watched = vec![PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
            watched.extend(ends.as_ref().map(|ends| PollFd::new(ends.as_fd(), PollFlags::POLLIN)));
            let _ = poll(&mut watched, REAPS_EVERY_MS);
            let has_come = |at: usize| watched.get(at).and_then(PollFd::any).unwrap_or(false);
            let (is_over, is_told) = (has_come(1), has_come(0));
            self.reap();
            if is_over {
                // Where whoever started us has children waited for by the kernel (SIGCHLD ignored), nobody knows how it ended.
                self.ended.get_or_insert(UNKNOWN);
            }
            if is_told {
                return;
            }
        }
    }

    /// Waits for those that have ended, orphans too: a test that runs for long may leave many. Whether there are any more.
    fn reap(&mut self) -> bool {
        loop {
            let (pid, code) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => (pid, code),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, SIGNALLED + signal as i32),
                // Real-time signals have no name there, and are waited for all the same.
                Err(Errno::EINTR | Errno::EINVAL) => continue,
                Err(_) => return false,
                Ok(_) => return true,
            };
            if pid == self.program {
                self.ended = Some(code);
            }
        }
    }

    /// Kills whoever is left; how many could not be.
    fn sweep(&mut self) -> usize {
        let until = Instant::now() + SWEEPS_WITHIN;
        loop {
            let left = all_children(std::process::id()).unwrap_or_default();
            for pid in left.iter().filter_map(|pid| i32::try_from(*pid).ok()) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            if !self.reap() {
                return 0;
            }
            if Instant::now() >= until {
                return left.len().max(1);
            }
            thread::sleep(LOOK);
        }
    }
}
