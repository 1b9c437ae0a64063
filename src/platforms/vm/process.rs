//! QEMU as a child process that cannot outlive us: started, killed by its id, reaped.
//!
//! ```text
//!  keeper thread:  fork+exec ──► waits (does not reap) ──► under the lock: reap, note how it ended
//!  others:                kill, under the same lock, only while it is not reaped
//! ```
//!
//! The kernel kills a child when the *thread* that forked it ends (`PR_SET_PDEATHSIG`), so the thread that forks is one
//! that waits for the child's end and for nothing else. As the id stays taken until the child is reaped, nobody else's
//! process can be hit.

#![expect(unsafe_code, reason = "descriptors are handed to the child between fork and exec")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, getpid, getppid};

/// How long a killed process may take to go; longer means it hangs in the kernel.
const REAP_TIMEOUT: Duration = Duration::from_secs(20);

/// A child process with its keeper.
#[derive(Debug)]
pub struct KeptProcess {
    pid: Pid,
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    ended: Mutex<Option<ExitStatus>>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<ExitStatus>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptProcess {
    /// Starts `command` in its own process group; `inherited` keep their numbers in the child. They are closed here.
    pub fn start(mut command: Command, inherited: Vec<OwnedFd>) -> io::Result<Self> {
        command.process_group(0);
        let numbers: Vec<i32> = inherited.iter().map(AsRawFd::as_raw_fd).collect();
        let parent = getpid();
        let prepare = move || prepare_child(&numbers, parent);
        // SAFETY: prepare_child only makes system calls that are safe between fork and exec; it allocates nothing.
        unsafe { command.pre_exec(prepare) };
        let shared = Arc::new(Shared::default());
        let (started, start) = sync_channel(1);
        let keepers = Arc::clone(&shared);
        let keeper = std::thread::Builder::new().name("qemu keeper".to_owned()).spawn(move || {
            let child = command.spawn();
            drop((command, inherited));
            match child {
                Ok(child) => keep(child, &keepers, &started),
                Err(error) => drop(started.send(Err(error))),
            }
        })?;
        let pid = start.recv().map_err(|_| io::Error::other("the keeper thread ended"))??;
        Ok(Self { pid, shared, keeper: Some(keeper) })
    }

    /// Its process id, which is also its group's.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// How it ended; none while it runs.
    pub fn ended(&self) -> Option<ExitStatus> {
        *self.shared.lock()
    }

    /// Waits for its end, at most so long.
    pub fn wait(&self, timeout: Duration) -> Option<ExitStatus> {
        let (ended, _) = self
            .shared
            .changed
            .wait_timeout_while(self.shared.lock(), timeout, |ended| ended.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        *ended
    }

    /// Kills it if it still runs, and reaps it. Safe to call twice.
    pub fn kill(&mut self) {
        {
            let ended = self.shared.lock();
            if ended.is_none() {
                // It cannot be gone: it is reaped only under this lock.
                let _ = kill(self.pid, Signal::SIGKILL);
            }
        }
        if self.wait(REAP_TIMEOUT).is_some()
            && let Some(keeper) = self.keeper.take()
        {
            // The keeper has nothing to return, and a panic in it was printed.
            let _ = keeper.join();
        }
    }
}

impl Drop for KeptProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

fn keep(
    mut child: std::process::Child,
    shared: &Shared,
    started: &std::sync::mpsc::SyncSender<io::Result<Pid>>,
) {
    let pid = Pid::from_raw(child.id().cast_signed());
    // The receiver waits for this message and for nothing else.
    let _ = started.send(Ok(pid));
    while waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) == Err(Errno::EINTR) {}
    let mut ended = shared.lock();
    *ended = Some(child.wait().unwrap_or_else(|_| ExitStatus::from_raw(0)));
    shared.changed.notify_all();
}

/// Runs in the child between fork and exec.
fn prepare_child(inherited: &[i32], parent: Pid) -> io::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if getppid() != parent {
        return Err(io::Error::from(Errno::ESRCH));
    }
    for number in inherited {
        // SAFETY: the descriptor is open: the parent holds it until the fork is over.
        let fd = unsafe { BorrowedFd::borrow_raw(*number) };
        fcntl(fd.as_fd(), FcntlArg::F_SETFD(FdFlag::empty()))?;
    }
    Ok(())
}

/// An exit status as a sentence.
pub fn describe(name: &str, status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("{name} ended with exit status {code}"),
        (None, Some(signal)) => {
            let signal_name = Signal::try_from(signal).map_or("unknown", Signal::as_str);
            format!("{name} was killed by signal {signal} ({signal_name})")
        }
        (None, None) => format!("{name} ended"),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn it_outlives_the_thread_that_asked_and_dies_by_its_id() {
        let mut sleeper = Command::new("sleep");
        sleeper.arg("600").stdin(Stdio::null());
        let mut kept =
            std::thread::spawn(move || KeptProcess::start(sleeper, vec![]).unwrap()).join().unwrap();
        assert_eq!(kept.wait(Duration::from_millis(100)), None, "the asking thread's end must not kill it");
        let pid = kept.pid();
        kept.kill();
        kept.kill();
        assert!(describe("sleep", kept.ended().unwrap()).contains("signal 9 (SIGKILL)"));
        assert_eq!(kill(pid, None), Err(Errno::ESRCH), "it must be reaped");
    }

    #[test]
    fn descriptors_arrive_under_their_numbers() {
        let (read, write) = io::pipe().unwrap();
        let write = OwnedFd::from(write);
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("echo here >&{}; exit 3", write.as_raw_fd()));
        let kept = KeptProcess::start(shell, vec![write]).unwrap();
        assert_eq!(io::read_to_string(read).unwrap(), "here\n");
        let status = kept.wait(Duration::from_secs(20)).unwrap();
        assert_eq!(describe("sh", status), "sh ended with exit status 3");
    }

    #[test]
    fn what_does_not_start_is_an_error() {
        assert!(KeptProcess::start(Command::new("/nowhere/qemu"), vec![]).is_err());
    }
}
