//! Processes that stand still: all their threads are held by the kernel for us, as a debugger holds them, and go on when we end.
//! A signal would do as well, but it would stay if we were killed.
//!
//! Source: `ptrace(2)`, `PTRACE_SEIZE`, `PTRACE_INTERRUPT`, and what becomes of tracees whose tracer ends.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use units::Reason;

/// Names of programs that keep a clock, as the kernel has them: 15 letters at most.
const CLOCKS: [&str; 6] = ["chronyd", "ntpd", "systemd-timesyn", "ptp4l", "phc2sys", "timemaster"];
/// Looks at most until nothing is found that is not held.
const MOST_LOOKS: usize = 100;
/// How often a thread that is to stop, or to go on, is looked at.
const LOOK: Duration = Duration::from_millis(1);
/// How long a thread may take to stop.
const STOPS_WITHIN: Duration = Duration::from_secs(5);
/// One that the kernel blocks for longer runs nothing of its own before it stops: it may wait for a child that is held.
const BLOCKED_AFTER: Duration = Duration::from_millis(200);

/// Whether a process is one of those that are to stand still.
type IsMeant = Box<dyn Fn(i32) -> bool>;

/// Processes, found or held.
pub struct HeldProcesses {
    is_meant: IsMeant,
    held: BTreeSet<i32>,
}

impl HeldProcesses {
    /// Those that keep the clock here.
    ///
    /// # Errors
    /// There are none.
    pub fn clocks() -> Result<Self, Reason> {
        let is_one = |pid: i32| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            CLOCKS.contains(&name.trim_end())
        };
        let missing = || format!("no clock service runs: looked for {}", CLOCKS.join(", ")).into();
        Self::found(Box::new(is_one)).ok_or_else(missing)
    }

    /// All of a partition that are not this program.
    ///
    /// # Errors
    /// There are none.
    pub fn of_partition() -> Result<Self, Reason> {
        let file = |path: &str| fs::metadata(path).map(|about| (about.dev(), about.ino())).ok();
        let ours = file("/proc/self/exe");
        // The kernel's own threads have no file, nor has a first thread that has ended before others.
        let is_one = move |pid: i32| {
            let mut threads = numbers(&format!("/proc/{pid}/task"));
            let theirs = threads.find_map(|thread| file(&format!("/proc/{pid}/task/{thread}/exe")));
            theirs.is_some() && theirs != ours
        };
        Self::found(Box::new(is_one)).ok_or_else(|| "no program runs in the partition".into())
    }

    fn found(is_meant: IsMeant) -> Option<Self> {
        let is_there = numbers("/proc").any(&is_meant);
        is_there.then(|| Self { is_meant, held: BTreeSet::new() })
    }

    /// Stops all their threads, and those that they make meanwhile.
    ///
    /// # Errors
    /// The kernel does not let us: they are another user's. They do not stop, or there are more and more of them.
    pub fn hold(mut self) -> Result<Self, Reason> {
        for _ in 0..MOST_LOOKS {
            // What still ran at the last look may have made others since.
            let left = self.not_held();
            if left.is_empty() && self.held.is_empty() {
                return Err("what was to stand still has just ended".into());
            }
            if left.is_empty() {
                return Ok(self);
            }
            for (process, thread) in left {
                self.hold_thread(process, thread)
                    .map_err(|why| format!("process {process} cannot be stopped: {why}"))?;
            }
        }
        let left = self.not_held().len();
        Err(format!(
            "processes are made faster than they can be stopped: after {MOST_LOOKS} looks, {} threads stand still and {left} go on",
            self.held.len()
        )
        .into())
    }

    /// Processes and their threads.
    fn not_held(&self) -> Vec<(i32, i32)> {
        let processes = numbers("/proc").filter(|process| (self.is_meant)(*process));
        let threads = processes.flat_map(|process| {
            numbers(&format!("/proc/{process}/task")).map(move |thread| (process, thread))
        });
        threads
            .filter(|(process, thread)| !self.held.contains(thread) && !has_ended(*process, *thread))
            .collect()
    }

    fn hold_thread(&mut self, process: i32, thread: i32) -> Result<(), Reason> {
        let pid = Pid::from_raw(thread);
        match ptrace::seize(pid, ptrace::Options::empty()).and_then(|()| ptrace::interrupt(pid)) {
            Ok(()) => {}
            // EPERM is also what the kernel says of one that has ended and that nobody has waited for.
            Err(error) if error == Errno::ESRCH || has_ended(process, thread) => return Ok(()),
            Err(error) => return Err(error.to_string().into()),
        }
        let since = Instant::now();
        loop {
            match waitpid(pid, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => {
                    if since.elapsed() >= BLOCKED_AFTER && state(process, thread) == Some(b'D') {
                        break;
                    }
                    if since.elapsed() >= STOPS_WITHIN {
                        let within = STOPS_WITHIN.as_secs();
                        return Err(format!("its thread {thread} does not stop within {within} s").into());
                    }
                    thread::sleep(LOOK);
                }
                // It has ended meanwhile.
                Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) | Err(Errno::ESRCH | Errno::ECHILD) => {
                    return Ok(());
                }
                Ok(_) => break,
                Err(error) => return Err(error.to_string().into()),
            }
        }
        self.held.insert(thread);
        Ok(())
    }
}

impl Drop for HeldProcesses {
    fn drop(&mut self) {
        let until = Instant::now() + STOPS_WITHIN;
        loop {
            // One that waited for a child that was held stops only when that has gone on.
            self.held.retain(|thread| {
                ptrace::detach(Pid::from_raw(*thread), None) == Err(Errno::ESRCH)
                    && !has_ended(*thread, *thread)
            });
            if self.held.is_empty() || Instant::now() >= until {
                return;
            }
            thread::sleep(LOOK);
        }
    }
}

/// Whether it is gone, or is only there until somebody has waited for it.
fn has_ended(process: i32, thread: i32) -> bool {
    matches!(state(process, thread), None | Some(b'Z' | b'X' | b'x'))
}

/// A thread's state as the kernel writes it; none of one that is gone.
fn state(process: i32, thread: i32) -> Option<u8> {
    match fs::read(format!("/proc/{process}/task/{thread}/stat")) {
        // Its name may hold everything but what follows it.
        Ok(stat) => stat.get(stat.iter().rposition(|byte| *byte == b')')? + 2).copied(),
        Err(error) => {
            let is_gone =
                error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(Errno::ESRCH as i32);
            (!is_gone).then_some(b'?')
        }
    }
}

/// Entries of a folder of `/proc` that are numbers.
fn numbers(folder: &str) -> impl Iterator<Item = i32> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};

    use nix::sys::signal::{Signal, killpg};

    use super::*;

    /// A program and all that it makes: a group, which ends with this.
    struct Group(Child);

    impl Group {
        fn start(script: &str) -> Self {
            let command = &mut Command::new("/bin/sh");
            Self(command.args(["-c", script]).process_group(0).spawn().expect("it starts"))
        }

        fn number(&self) -> i32 {
            i32::try_from(self.0.id()).expect("a number of a process")
        }

        /// Its processes that have not ended, with their states.
        fn all(&self) -> Vec<(i32, u8)> {
            let all = numbers("/proc").filter(|pid| group_of(*pid) == Some(self.number()));
            all.filter_map(|pid| Some((pid, state(pid, pid)?)))
                .filter(|(_, state)| !b"ZX".contains(state))
                .collect()
        }

        fn find(&self) -> Option<HeldProcesses> {
            let number = self.number();
            HeldProcesses::found(Box::new(move |pid| group_of(pid) == Some(number)))
        }
    }

    impl Drop for Group {
        fn drop(&mut self) {
            let _ = killpg(Pid::from_raw(self.number()), Signal::SIGKILL);
            let _ = self.0.wait();
        }
    }

    fn group_of(pid: i32) -> Option<i32> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat).into_owned();
        stat.rsplit_once(") ")?.1.split(' ').nth(2)?.parse().ok()
    }

    fn wait_until(what: &str, is_so: impl Fn() -> bool) {
        let until = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(Instant::now() < until, "{what}");
            thread::sleep(LOOK);
        }
    }

    #[test]
    fn what_is_forked_while_others_are_stopped_stands_still_too() {
        let group = Group::start("while :; do sleep 1 & sleep 0.01; done");
        wait_until("it forks", || group.all().len() > 20);
        for _ in 0..5 {
            let held = group.find().expect("it runs").hold().expect("it is ours");
            let all = group.all();
            assert!(all.iter().all(|(_, state)| b"tD".contains(state)), "{all:?}");
            thread::sleep(Duration::from_millis(100));
            let numbers = |all: &[(i32, u8)]| all.iter().map(|(pid, _)| *pid).collect::<BTreeSet<_>>();
            let last = numbers(&all);
            assert_eq!(numbers(&group.all()), last, "nobody was forked, and nobody ended");
            drop(held);
            wait_until("it goes on", || !numbers(&group.all()).is_subset(&last));
        }
    }

    #[test]
    fn what_has_ended_and_was_not_waited_for_is_not_stopped() {
        let group = Group::start("exec sleep 1000");
        let mut ended = Command::new("/bin/true").process_group(group.number()).spawn().expect("it starts");
        let number = i32::try_from(ended.id()).expect("a number of a process");
        wait_until("it ends", || state(number, number) == Some(b'Z'));
        let mut held = group.find().expect("it runs").hold().expect("the other one is ours");
        assert_eq!(held.held, BTreeSet::from([group.number()]));
        // It may end after it was looked at.
        assert_eq!(held.hold_thread(number, number), Ok(()));
        drop(held);
        let only = HeldProcesses::found(Box::new(move |pid| pid == number)).expect("it is still there");
        let why = only.hold().map(drop).expect_err("nothing is left of it").to_string();
        assert!(why.contains("has just ended"), "{why}");
        ended.wait().expect("it is ours");
    }
}
