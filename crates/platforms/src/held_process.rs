//! A process of another time, found again: named by number, start time and boot, held by a descriptor (pidfd), and asked
//! for whose folder it was started. Only then is it sent a signal, through the descriptor: a number that was given to
//! another process in between reaches nobody.
//!
//! ```text
//!  number ─► pidfd ─► start time, boot: the one that was written down? ─► environment: started for this folder? ─► signal
//!               └─ everything read by number is true of what the pidfd holds as long as that still runs ────────────┘
//! ```
//!
//! Children that were not waited for need none of this: until then nobody else can get their number.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, io};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};
use units::Reason;

/// In the environment of everything that is written down: for which folder it was started.
pub const MARK: &str = "BULKHEAD_STARTED_FOR";
/// How often members of a group are looked for anew: some may be forking.
const ROUNDS: u32 = 64;
/// How long a process may be seen without an environment before that counts: longer than memory takes to be given back.
const PATIENCE: Duration = Duration::from_secs(3);

/// Writes down in the command's environment for which folder it is started.
pub fn mark(command: &mut Command, folder: &Path) {
    command.env(MARK, folder);
}

/// What `/proc/PID/stat` says of a process.
struct Stat {
    is_dead: bool,
    parent: u32,
    group: u32,
    start_ticks: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::read(&String::from_utf8_lossy(&text))
    }

    fn read(text: &str) -> Option<Self> {
        // A process may call itself anything: the name in parentheses may contain anything; the fields after the last one cannot.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        Some(Self {
            is_dead: matches!(fields.first().copied(), Some("Z" | "X")),
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            start_ticks: fields.get(19)?.parse().ok()?,
        })
    }
}

/// Number that names this boot of the machine; empty when it does not say.
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// When process `pid` started, in ticks since boot; `None` when there is none or it is only waiting to be reaped.
pub fn start_ticks(pid: u32) -> Option<u64> {
    Stat::of(pid).filter(|stat| !stat.is_dead).map(|stat| stat.start_ticks)
}

/// Children of process `parent` that are not dead, in the order in which they were started.
///
/// # Errors
/// There is no `/proc`.
pub fn children(parent: u32) -> io::Result<Vec<u32>> {
    let child = |pid| Stat::of(pid).filter(|stat| !stat.is_dead && stat.parent == parent);
    let mut found: Vec<(u64, u32)> = pids()?.filter_map(|pid| Some((child(pid)?.start_ticks, pid))).collect();
    found.sort_unstable();
    Ok(found.into_iter().map(|(_, pid)| pid).collect())
}

/// Children of process `parent`, also those that seem dead: of one whose first thread has ended others may go on.
///
/// # Errors
/// There is no `/proc`.
pub fn all_children(parent: u32) -> io::Result<Vec<u32>> {
    Ok(pids()?.filter(|pid| Stat::of(*pid).is_some_and(|stat| stat.parent == parent)).collect())
}

/// Numbers of all processes.
fn pids() -> io::Result<impl Iterator<Item = u32>> {
    let names = fs::read_dir("/proc")?.flatten().map(|entry| entry.file_name());
    Ok(names.filter_map(|name| name.to_str()?.parse().ok()))
}

/// Whether a process with this environment was started for `folder`.
fn is_marked(environment: &[u8], folder: &Path) -> bool {
    let wanted = [MARK.as_bytes(), b"=", folder.as_os_str().as_bytes()].concat();
    environment.split(|byte| *byte == 0).any(|one| one == wanted)
}

/// A process that was started for a folder of ours.
#[derive(Debug)]
pub struct HeldProcess {
    pid: u32,
    fd: OwnedFd,
}

impl HeldProcess {
    /// Finds the process with that number, start and boot that was started for `folder`; none when it is gone.
    ///
    /// # Errors
    /// There is such a process, and nothing shows that it was started for this folder: it is left alone.
    pub fn find(pid: u32, start: u64, boot: &str, folder: &Path) -> Result<Option<Self>, Reason> {
        if pid <= 1 || pid == std::process::id() {
            return Err(format!("refused to end process {pid}").into());
        }
        if boot_id() != boot {
            return Ok(None);
        }
        let Some(held) = Self::hold(pid).map_err(|error| format!("process {pid} cannot be held: {error}"))?
        else {
            return Ok(None);
        };
        if start_ticks(pid) != Some(start) {
            return Ok(None);
        }
        let Some(environment) = held.environment() else { return Ok(None) };
        match environment {
            Ok(environment) if is_marked(&environment, folder) => Ok(Some(held)),
            Ok(_) => Err(format!(
                "refused to end process {pid}: nothing shows that it was started for {}; look what it is (ps {pid})",
                folder.display()
            ).into()),
            Err(error) => {
                Err(format!("refused to end process {pid}: for whom it runs cannot be read: {error}").into())
            }
        }
    }

    /// What stands in its environment; `None` when it is gone. While a process ends (its memory goes before itself) or
    /// becomes another program there is none, it cannot be read, or reading ends in the middle as if that were all: what
    /// is read counts when it is read twice.
    fn environment(&self) -> Option<io::Result<Vec<u8>>> {
        let until = Instant::now() + PATIENCE;
        let read = || fs::read(format!("/proc/{}/environ", self.pid));
        loop {
            let (first, again) = (read(), read());
            // Still there: then what was read is its own.
            if self.is_gone(Duration::ZERO) {
                return None;
            }
            let is_settled = match (&first, &again) {
                (Ok(first), Ok(again)) => first == again && !again.is_empty(),
                (_, Err(error)) => error.raw_os_error() != Some(nix::libc::ESRCH),
                (Err(_), Ok(_)) => false,
            };
            if is_settled || Instant::now() >= until {
                return Some(again);
            }
            self.is_gone(Duration::from_millis(10));
        }
    }

    fn hold(pid: u32) -> io::Result<Option<Self>> {
        let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
        match pidfd_open(number, PidfdFlags::empty()) {
            Ok(fd) => Ok(Some(Self { pid, fd })),
            // The second: it is a thread, so the number is no process's any more.
            Err(rustix::io::Errno::SRCH | rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Every process in a cgroup, which must be one that we made: what is in it is ours.
    ///
    /// # Errors
    /// As the system says; a group that is gone has none.
    pub fn all_in_group(group: &Path) -> io::Result<Vec<Self>> {
        let members = || match fs::read_to_string(group.join("cgroup.procs")) {
            Ok(text) => Ok(text.lines().filter_map(|line| line.parse::<u32>().ok()).collect::<Vec<_>>()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        let mut found = Vec::new();
        for pid in members()?.into_iter().filter(|pid| *pid > 1 && *pid != std::process::id()) {
            // Asked again: the number may have changed hands before it was held.
            if let Some(held) = Self::hold(pid)?
                && members()?.contains(&pid)
                && !held.is_gone(Duration::ZERO)
            {
                found.push(held);
            }
        }
        Ok(found)
    }

    /// Sends it a signal. That it has ended meanwhile is no error.
    ///
    /// # Errors
    /// As the system says.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let Some(signal) = rustix::process::Signal::from_named_raw(signal as i32) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        match pidfd_send_signal(&self.fd, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Kills it, and the group that it leads. While it is there, stopped, nobody else can have its group's number; so the
    /// others go first, each through a descriptor of its own.
    ///
    /// # Errors
    /// As the system says.
    pub fn kill_group(&self) -> io::Result<()> {
        let leads = Stat::of(self.pid).is_some_and(|stat| stat.group == self.pid);
        if leads && !self.is_gone(Duration::ZERO) {
            self.signal(Signal::SIGSTOP)?;
            for _ in 0..ROUNDS {
                let others = self.others_of_group()?;
                if others.is_empty() {
                    break;
                }
                for other in others {
                    other.signal(Signal::SIGKILL)?;
                    other.is_gone(Duration::from_millis(50));
                }
            }
        }
        self.signal(Signal::SIGKILL)
    }

    fn others_of_group(&self) -> io::Result<Vec<Self>> {
        let mut found = Vec::new();
        for pid in pids()? {
            let is_member = |pid| Stat::of(pid).is_some_and(|stat| stat.group == self.pid && !stat.is_dead);
            if pid == self.pid || !is_member(pid) {
                continue;
            }
            // Asked again: the number may have changed hands before it was held.
            if let Some(held) = Self::hold(pid)?
                && is_member(pid)
                && !held.is_gone(Duration::ZERO)
            {
                found.push(held);
            }
        }
        Ok(found)
    }

    /// Whether it has ended, waiting for that at most `patience`.
    pub fn is_gone(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, timeout) {
                Ok(count) if count > 0 => return true,
                Err(nix::errno::Errno::EINTR) if !left.is_zero() => {}
                _ => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::Stdio;

    use super::*;

    /// Memory is given back before the process is gone: for tens of milliseconds it has no environment and still a number.
    #[test]
    fn a_process_that_is_just_ending_is_waited_for() {
        let folder = Path::new("/started/for");
        for _ in 0..5 {
            let mut command = Command::new("tail");
            mark(command.args(["-c", "300000000"]).stdin(Stdio::piped()).stdout(Stdio::null()), folder);
            let mut child = command.spawn().unwrap();
            let (pid, start) = (child.id(), start_ticks(child.id()).unwrap());
            let find = || HeldProcess::find(pid, start, &boot_id(), folder);
            assert!(find().unwrap().is_some());
            let (mut input, zeros) = (child.stdin.take().unwrap(), vec![0; 100_000]);
            for _ in 0..2000 {
                input.write_all(&zeros).unwrap();
            }
            find().unwrap().unwrap().signal(Signal::SIGKILL).unwrap();
            let until = Instant::now() + Duration::from_secs(60);
            while find().unwrap().is_some() {
                assert!(Instant::now() < until, "it does not end");
            }
            child.wait().unwrap();
        }
    }
}
