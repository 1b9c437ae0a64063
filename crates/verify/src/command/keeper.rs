//! Who starts a user's test and ends all that this has started: a process of its own, to which the kernel gives every orphan below it
//! (`PR_SET_CHILD_SUBREAPER`, prctl(2)), whatever session, group or variables that has.
//!
//! ```text
//!  verify ── socket ──► bulkhead keep-test PROGRAM …  ─► the program ─► whatever that starts
//!     └ is done, or killed ─► the socket ends ─┐              └ has ended ─┐
//!                                              └───────────────────────────┴─► all that is left is killed ─► the program's exit code
//! ```
//! Children are killed, and those that become ours by that, until there are none: none of their numbers can be another process's,
//! since nobody but us waits for them.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, write};
use platforms::held_process::children;
use platforms::spawn::{Bond, spawn};
use rustix::process::{PidfdFlags, pidfd_open};
use units::Reason;

/// The verb with which it is started.
pub const KEEP_VERB: &str = "keep-test";

/// How long it is looked for what is left: whoever starts others faster than they are killed wins.
const SWEEPS_WITHIN: Duration = Duration::from_secs(10);
/// How often.
const LOOK: Duration = Duration::from_millis(1);
/// Bytes of why a program could not be started.
const LONGEST_REASON: u64 = 4096;
/// Exit code where it could not be started; the socket says why.
const NOT_STARTED: u8 = 127;
/// Exit codes of signals begin here.
const SIGNALLED: i32 = 128;

/// A program that runs below a process of its own.
pub(super) struct Kept {
    /// That process.
    pub process: Child,
    socket: UnixStream,
}

impl Kept {
    /// Starts `keeper`: this program, with [`KEEP_VERB`] and the words of the other one.
    ///
    /// # Errors
    /// This program cannot be started once more.
    pub fn start(mut keeper: Command) -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        keeper.stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)));
        Ok(Self { process: spawn(keeper, Bond::OutlivesUs, None)?, socket })
    }

    /// Ends the program, if it still runs, and all that it has started.
    ///
    /// # Errors
    /// Why it could not be started, or how it ended cannot be known.
    pub fn end(mut self) -> Result<io::Result<ExitStatus>, Reason> {
        let mut why = String::new();
        // What is to be read is there already, if anything is.
        let _ = self.socket.set_nonblocking(true);
        let _ = (&self.socket).take(LONGEST_REASON).read_to_string(&mut why);
        drop(self.socket);
        let until = Instant::now() + SWEEPS_WITHIN * 2;
        while matches!(self.process.try_wait(), Ok(None)) {
            if Instant::now() >= until {
                let _ = self.process.kill();
            }
            thread::sleep(LOOK);
        }
        if why.is_empty() { Ok(self.process.wait()) } else { Err(why.into()) }
    }
}

/// What that process does: starts the program that its words say, and ends with its exit code.
pub fn keep(words: &[OsString]) -> ExitCode {
    let started = set_child_subreaper(true).map_err(io::Error::from).and_then(|()| program(words));
    let mut child = match started {
        Ok(child) => child,
        Err(error) => {
            let _ = write(io::stdin(), error.to_string().as_bytes());
            return ExitCode::from(NOT_STARTED);
        }
    };
    wait(&child);
    // Where it has ended nobody is killed: it waits to be reaped.
    let _ = child.kill();
    let ended = child.wait();
    sweep();
    let code =
        ended.ok().and_then(|status| status.code().or(status.signal().map(|signal| SIGNALLED + signal)));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

fn program(words: &[OsString]) -> io::Result<Child> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    spawn(command, Bond::DiesWithUs, None)
}

/// Until the program has ended, or whoever wanted it is gone.
fn wait(child: &Child) {
    let number = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    // Without such a descriptor its end is found by whoever wanted it: after its time.
    let ended = number.and_then(|number| pidfd_open(number, PidfdFlags::empty()).ok());
    let stdin = io::stdin();
    let mut watched = vec![PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    watched.extend(ended.as_ref().map(|ended| PollFd::new(ended.as_fd(), PollFlags::POLLIN)));
    while matches!(poll(&mut watched, PollTimeout::NONE), Err(nix::errno::Errno::EINTR)) {}
}

/// Kills whoever is left.
fn sweep() {
    let until = Instant::now() + SWEEPS_WITHIN;
    while Instant::now() < until {
        let left = children(std::process::id()).unwrap_or_default();
        for pid in left.iter().filter_map(|pid| i32::try_from(*pid).ok()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        while matches!(waitpid(None, Some(WaitPidFlag::WNOHANG)), Ok(status) if status != WaitStatus::StillAlive)
        {
        }
        if left.is_empty() {
            return;
        }
        thread::sleep(LOOK);
    }
}
