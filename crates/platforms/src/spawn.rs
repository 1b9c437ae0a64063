//! Starting children that do not outlive us: in a session of their own, killed by the kernel with their parent, held to
//! some CPUs.
//!
//! A session, and not just a process group, because kernels with automatic groups (`sched(7)`, "autogroup") share CPUs out
//! between sessions: OCI runtimes give each container a session, and a native agent that shared its own with whatever else
//! was started from the same terminal would be measured beside all of that.
//!
//! The kernel's "signal on the parent's death" means the *thread* that started the child. So every child is started
//! by one thread that lives as long as the program, whoever asks.

#![expect(unsafe_code, reason = "what a child does between fork and exec can only be said with pre_exec")]

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use nix::sched::{CloneFlags, CpuSet, sched_getaffinity, sched_setaffinity, setns};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid, setsid};

use crate::container::ContainerReach;

/// What a child is bound by. Either way it has a session of its own, so that Ctrl-C does not reach it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bond {
    /// Killed with us.
    DiesWithUs,
    /// Outlives us.
    OutlivesUs,
}

/// Starts a child, held to the first `cpus` CPUs of ours if set.
///
/// # Errors
/// When the program cannot be started or held to the CPUs.
pub fn spawn(mut command: Command, bond: Bond, cpus: Option<u32>) -> io::Result<Child> {
    let cpus = cpus.map(first_cpus).transpose()?;
    let parent = Pid::this();
    let in_child = move || {
        setsid()?;
        if bond == Bond::DiesWithUs {
            set_pdeathsig(Signal::SIGKILL)?;
            // The parent may have died before the line above.
            if getppid() != parent {
                return Err(io::ErrorKind::NotConnected.into());
            }
        }
        if let Some(set) = &cpus {
            sched_setaffinity(Pid::from_raw(0), set)?;
        }
        Ok(())
    };
    // SAFETY: only system calls are made between fork and exec; nothing allocates, locks or panics there.
    unsafe { command.pre_exec(in_child) };
    let (answer, outcome) = channel();
    spawner()?
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .send((command, answer))
        .map_err(|_| io::Error::other("the thread that starts children is gone"))?;
    outcome.recv().map_err(|_| io::Error::other("the thread that starts children is gone"))?
}

/// Lets the child of `command` run in a network namespace. Needs `CAP_SYS_ADMIN`.
pub fn enter(command: &mut Command, namespace: Arc<OwnedFd>) {
    let in_child = move || Ok(setns(namespace.as_fd(), CloneFlags::CLONE_NEWNET)?);
    // SAFETY: only a system call is made between fork and exec; nothing allocates, locks or panics there.
    unsafe { command.pre_exec(in_child) };
}

/// Lets the child of `command` begin its life in the cgroup whose opened `cgroup.procs` this is.
pub fn enter_group(command: &mut Command, procs: File) {
    let in_child = move || {
        // 0 is who writes.
        (&procs).write_all(b"0")
    };
    // SAFETY: only a system call is made between fork and exec; nothing allocates, locks or panics there.
    unsafe { command.pre_exec(in_child) };
}

/// Keeps nothing open over the next exec but the standard streams and these: whoever called may have left others open.
///
/// # Errors
/// The kernel refuses, or has no such call (before Linux 5.11).
pub fn hand_on_only(descriptors: &[i32]) -> io::Result<()> {
    const FIRST: u32 = 3;
    // SAFETY: only marks descriptors; nothing is closed here.
    let done = unsafe { libc::syscall(libc::SYS_close_range, FIRST, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    for number in descriptors {
        // SAFETY: one that is not open is an error; no descriptor is owned by this.
        if unsafe { libc::fcntl(*number, libc::F_SETFD, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Lets the child of `command`, an OCI runtime, find a container's files there.
pub fn enter_reach(command: &mut Command, reach: ContainerReach) {
    let in_child = move || Ok(reach.enter()?);
    // SAFETY: only system calls are made between fork and exec; nothing allocates, locks or panics there.
    unsafe { command.pre_exec(in_child) };
}

/// A command to start, and where to send the child.
type Request = (Command, Sender<io::Result<Child>>);

/// The thread that starts all children.
fn spawner() -> io::Result<&'static Mutex<Sender<Request>>> {
    static SPAWNER: OnceLock<Mutex<Sender<Request>>> = OnceLock::new();
    if let Some(spawner) = SPAWNER.get() {
        return Ok(spawner);
    }
    let (requests, inbox) = channel::<Request>();
    std::thread::Builder::new().name("spawner".to_owned()).spawn(move || {
        for (mut command, answer) in inbox {
            // Whoever asked may have been cancelled; the child is then reaped by nobody, but ended with us.
            let _ = answer.send(command.spawn());
        }
    })?;
    Ok(SPAWNER.get_or_init(|| Mutex::new(requests)))
}

/// Numbers of the CPUs this process may run on, ascending.
pub fn own_cpus() -> Vec<usize> {
    let granted = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    (0..CpuSet::count()).filter(|cpu| granted.is_set(*cpu).unwrap_or(false)).collect()
}

fn first_cpus(count: u32) -> io::Result<CpuSet> {
    let mut set = CpuSet::new();
    for cpu in own_cpus().into_iter().take(count as usize) {
        set.set(cpu)?;
    }
    Ok(set)
}

/// How a process ended, in words: `ended with exit status 3`, `was killed by SIGKILL`.
pub fn ending(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit status {code}"),
        (None, Some(number)) => {
            let name =
                Signal::try_from(number).map_or_else(|_| format!("signal {number}"), |s| s.to_string());
            format!("was killed by {name}")
        }
        (None, None) => format!("ended ({status})"),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_child_outlives_the_thread_that_asked_for_it() {
        let asked = std::thread::spawn(|| {
            let mut command = Command::new("cat");
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            spawn(command, Bond::DiesWithUs, Some(1)).expect("cat runs")
        });
        let mut child = asked.join().expect("no panic");
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it lives");
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        assert_eq!(allowed.map(str::trim), own_cpus().first().map(ToString::to_string).as_deref());
        drop(child.stdin.take());
        assert_eq!(ending(child.wait().expect("reaped")), "ended with exit status 0");
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let error = spawn(Command::new("/nonexistent/program"), Bond::DiesWithUs, None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
