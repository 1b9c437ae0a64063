//! Real-time scheduling of the calling thread, as far as the rights allow, and what the kernel holds back of it.
//!
//! Sources: `sched(7)`, `sched_setscheduler(2)`, `mlockall(2)`; the kernel's `scheduler/sched-rt-group` for the throttle.

#![expect(unsafe_code, reason = "no library we use sets a thread's scheduling policy")]

use std::fs;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::mman::{MlockAllFlags, mlockall, munlockall};
use nix::sys::prctl::set_timerslack;

/// What a thread was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// Its `SCHED_FIFO` priority; none for an ordinary thread.
    pub priority: Option<u32>,
    /// What was refused, for the reader of the result.
    pub note: Option<String>,
}

/// Asks for `SCHED_FIFO` for the calling thread; threads and processes it starts do not inherit it. 0 asks for nothing.
///
/// An ordinary thread's timers may be deferred by 50 µs to save power, which would be measured as latency of the machine:
/// that is switched off for the thread (real-time threads never have it).
pub fn become_real_time(priority: u32) -> Granted {
    let refused = if priority == 0 { None } else { set_fifo(priority).err() };
    if priority > 0 && refused.is_none() {
        return Granted { priority: Some(priority), note: None };
    }
    // A kernel without it has no slack to switch off.
    let _ = set_timerslack(1);
    let note = refused.map(|errno| {
        format!(
            "measured as an ordinary thread: SCHED_FIFO priority {priority} was refused ({errno}); run as root, or with \
             CAP_SYS_NICE or an rtprio limit of {priority}"
        )
    });
    Granted { priority: None, note }
}

fn set_fifo(priority: u32) -> Result<(), Errno> {
    let parameters =
        libc::sched_param { sched_priority: i32::try_from(priority).map_err(|_| Errno::EINVAL)? };
    // SAFETY: 0 is the calling thread, and the parameters outlive the call, which only reads them.
    let outcome = unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameters)
    };
    Errno::result(outcome).map(drop)
}

/// Holds all memory of the process in place while it lives.
#[derive(Debug)]
pub struct Locked {
    is_locked: bool,
}

impl Locked {
    /// Locks what is used of what is mapped now. What was never touched stays untouched: filled with memory, stacks and heaps would
    /// be in the way of every later `fork`, which copies the tables of their pages, where locking is allowed and nowhere else. Where
    /// it is refused nothing is lost but certainty: the probes touch what they use.
    pub fn now() -> Self {
        let on_fault = MlockAllFlags::from_bits_retain(libc::MCL_ONFAULT);
        Self { is_locked: mlockall(MlockAllFlags::MCL_CURRENT | on_fault).is_ok() }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if self.is_locked {
            // Unlocking what is locked cannot fail.
            let _ = munlockall();
        }
    }
}

/// How much of each period the real-time threads of a CPU may run in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttle {
    /// Run time per period.
    pub runtime: Duration,
    /// The period.
    pub period: Duration,
}

impl Throttle {
    /// What the kernel says; none when it throttles nothing, or does not say.
    pub fn read() -> Option<Self> {
        let number = |file: &str| -> Option<i64> {
            fs::read_to_string(format!("/proc/sys/kernel/{file}")).ok()?.trim().parse().ok()
        };
        Self::of(number("sched_rt_runtime_us")?, number("sched_rt_period_us")?)
    }

    /// −1 means no limit.
    fn of(runtime_us: i64, period_us: i64) -> Option<Self> {
        let micros = |value: i64| u64::try_from(value).ok().map(Duration::from_micros);
        let (runtime, period) = (micros(runtime_us)?, micros(period_us)?);
        (runtime < period).then_some(Self { runtime, period })
    }

    /// How long real-time threads are held back when they have used up their run time.
    pub fn pause(&self) -> Duration {
        self.period.saturating_sub(self.runtime)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locking_fills_nothing() {
        let resident = || -> u64 {
            let pages = fs::read_to_string("/proc/self/statm").unwrap();
            pages.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        // The untouched stack of a thread that waits.
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let waits = move || assert!(wait.recv().is_err());
        let thread = std::thread::Builder::new().stack_size(256 << 20).spawn(waits).unwrap();
        let before = resident();
        let locked = Locked::now();
        let after = resident();
        drop((locked, end));
        thread.join().unwrap();
        assert!(after < before + (64 << 20) / 4096, "{before} pages, then {after}");
    }

    #[test]
    fn the_throttle_is_the_part_of_the_period_that_is_held_back() {
        let usual = Throttle::of(950_000, 1_000_000).unwrap();
        assert_eq!(usual.pause(), Duration::from_millis(50));
        assert_eq!(Throttle::of(-1, 1_000_000), None);
        assert_eq!(Throttle::of(1_000_000, 1_000_000), None);
    }

    #[test]
    fn an_impossible_priority_is_refused_in_words_and_none_is_nothing_to_refuse() {
        std::thread::spawn(|| {
            let refused = become_real_time(1000);
            assert_eq!(refused.priority, None);
            assert!(refused.note.unwrap().contains("priority 1000 was refused"));
            assert_eq!(become_real_time(0), Granted { priority: None, note: None });
        })
        .join()
        .unwrap();
    }
}
