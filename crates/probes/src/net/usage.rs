//! CPU time of what is measured: of the thread that moves the data, and of the whole instance.
//!
//! Networking is done to a large part outside the thread that asks for it: in interrupts, by kernel threads. Only the
//! kernel's totals in `/proc/stat` hold that work, and they are an instance's own only when it has a kernel of its own:
//! in a container, and where both instances run on one kernel, they are everybody's and are left out.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::control::Message;
use crate::clock::thread_cpu_time;
use crate::error::WorkError;
use units::Nanos;

/// Length of the units in `/proc/stat`: `USER_HZ` is 100 on every architecture this program runs on.
const TICK_NS: u64 = 10_000_000;
/// Number of the outermost PID name space (`PROC_PID_INIT_INO` in the kernel's `proc_ns.h`).
const OUTERMOST_PIDS: u64 = 0xEFFF_FFFC;

/// What this instance says of its kernel.
pub fn kernel() -> Message {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).collect();
    let boot = u128::from_str_radix(&digits, 16).unwrap_or(0);
    let outermost = fs::metadata("/proc/self/ns/pid").is_ok_and(|link| link.ino() == OUTERMOST_PIDS);
    Message::Kernel { boot, outermost }
}

/// Whether the totals of `mine` are those of one instance alone, or why not.
pub fn totals_are_ours(mine: &Message, theirs: &Message) -> Result<(), &'static str> {
    match (mine, theirs) {
        (Message::Kernel { boot: 0, .. }, _) | (_, Message::Kernel { boot: 0, .. }) => {
            Err("the kernel does not say which one it is")
        }
        (Message::Kernel { boot: mine, .. }, Message::Kernel { boot: theirs, .. }) if mine == theirs => {
            Err("both instances run on one kernel, whose totals cannot be told apart")
        }
        (Message::Kernel { outermost: true, .. }, Message::Kernel { .. }) => Ok(()),
        _ => Err("this instance is a container, and its kernel's totals are the whole host's"),
    }
}

/// A reading of the clocks of CPU time.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    thread: Nanos,
    system: Option<Nanos>,
}

impl Reading {
    /// Reads them; the whole instance's only when `whole`.
    ///
    /// # Errors
    /// The kernel has no clock of CPU time.
    pub fn take(whole: bool) -> Result<Self, WorkError> {
        let system = if whole { fs::read_to_string("/proc/stat").ok().and_then(|t| busy(&t)) } else { None };
        Ok(Self { thread: thread_cpu_time()?, system })
    }

    /// CPU time since: of the thread, and of the whole instance.
    ///
    /// # Errors
    /// The kernel has no clock of CPU time.
    pub fn since(&self) -> Result<(Nanos, Option<Nanos>), WorkError> {
        let now = Self::take(self.system.is_some())?;
        let system = now.system.zip(self.system).map(|(now, then)| now.saturating_sub(then));
        Ok((now.thread.saturating_sub(self.thread), system))
    }
}

/// CPU time spent on anything: user, nice, system, irq, softirq. Guests are in user already; stolen time is nobody's work
/// here.
fn busy(stat: &str) -> Option<Nanos> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, ..] = fields.as_slice() else { return None };
    let ticks = [user, nice, system, irq, softirq].into_iter().fold(0u64, |sum, n| sum.saturating_add(*n));
    Some(Nanos::from_nanos(ticks.saturating_mul(TICK_NS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_leaves_out_waiting_and_stolen_time() {
        let text = "cpu  100 1 20 9999 55 3 4 777 50 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(busy(text).map(Nanos::get), Some(128 * TICK_NS));
        assert_eq!(busy("cpu 1 2\n"), None);
        assert_eq!(busy(""), None);
    }

    #[test]
    fn totals_count_only_where_each_instance_has_a_kernel() {
        let kernel = |boot, outermost| Message::Kernel { boot, outermost };
        assert!(totals_are_ours(&kernel(1, true), &kernel(2, false)).is_ok());
        assert!(totals_are_ours(&kernel(1, false), &kernel(2, true)).unwrap_err().contains("container"));
        assert!(totals_are_ours(&kernel(1, true), &kernel(1, true)).unwrap_err().contains("one kernel"));
        assert!(totals_are_ours(&kernel(0, true), &kernel(2, true)).is_err());
    }

    #[test]
    fn cpu_time_moves() {
        let before = Reading::take(true).unwrap();
        let mut seen = before.since().unwrap();
        while seen.0 == Nanos::ZERO {
            seen = before.since().unwrap();
        }
        assert!(seen.1.is_some());
    }
}
