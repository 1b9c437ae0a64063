//! Processes that stand still: all their threads are held by the kernel for us, as a debugger holds them, and go on when we end.
//! A signal would do as well, but it would stay if we were killed.
//!
//! Source: `ptrace(2)`, `PTRACE_SEIZE`, `PTRACE_INTERRUPT`, and what becomes of tracees whose tracer ends.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use units::Reason;

/// Names of programs that keep a clock, as the kernel has them: 15 letters at most.
const CLOCKS: [&str; 6] = ["chronyd", "ntpd", "systemd-timesyn", "ptp4l", "phc2sys", "timemaster"];
/// Looks at most until no new thread is found.
const MOST_LOOKS: usize = 100;

/// Processes, found or held.
pub struct HeldProcesses {
    processes: Vec<i32>,
    held: BTreeSet<i32>,
}

impl HeldProcesses {
    /// Those that keep the clock here.
    ///
    /// # Errors
    /// There are none.
    pub fn clocks() -> Result<Self, Reason> {
        let is_one = |pid: &i32| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            CLOCKS.contains(&name.trim_end())
        };
        let found = Self { processes: numbers("/proc").filter(is_one).collect(), held: BTreeSet::new() };
        if found.processes.is_empty() {
            return Err(format!("no clock service runs: looked for {}", CLOCKS.join(", ")).into());
        }
        Ok(found)
    }

    /// All of a partition that are not this program.
    ///
    /// # Errors
    /// There are none.
    pub fn of_partition() -> Result<Self, Reason> {
        let file =
            |pid: &str| fs::metadata(format!("/proc/{pid}/exe")).map(|about| (about.dev(), about.ino())).ok();
        let ours = file("self");
        // The kernel's own threads have no file.
        let is_one = |pid: &i32| file(&pid.to_string()).is_some_and(|theirs| Some(theirs) != ours);
        let found = Self { processes: numbers("/proc").filter(is_one).collect(), held: BTreeSet::new() };
        if found.processes.is_empty() {
            return Err("no program runs in the partition".into());
        }
        Ok(found)
    }

    /// Stops all their threads.
    ///
    /// # Errors
    /// The kernel does not let us: they are another user's.
    pub fn hold(mut self) -> Result<Self, Reason> {
        for process in self.processes.clone() {
            // A thread that still ran may have made another one.
            for _ in 0..MOST_LOOKS {
                let threads: Vec<i32> =
                    numbers(&format!("/proc/{process}/task")).filter(|id| !self.held.contains(id)).collect();
                if threads.is_empty() {
                    break;
                }
                for thread in threads {
                    self.hold_thread(thread)
                        .map_err(|error| format!("process {process} cannot be stopped: {error}"))?;
                }
            }
        }
        if self.held.is_empty() {
            return Err("what was to stand still has just ended".into());
        }
        Ok(self)
    }

    fn hold_thread(&mut self, thread: i32) -> Result<(), Errno> {
        let pid = Pid::from_raw(thread);
        let outcome = ptrace::seize(pid, ptrace::Options::empty())
            .and_then(|()| ptrace::interrupt(pid))
            .and_then(|()| waitpid(pid, Some(WaitPidFlag::__WALL)));
        match outcome {
            // It has ended meanwhile.
            Err(Errno::ESRCH | Errno::ECHILD) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => {
                self.held.insert(thread);
                Ok(())
            }
        }
    }
}

impl Drop for HeldProcesses {
    fn drop(&mut self) {
        for thread in &self.held {
            let _ = ptrace::detach(Pid::from_raw(*thread), None);
        }
    }
}

/// Entries of a folder of `/proc` that are numbers.
fn numbers(folder: &str) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
