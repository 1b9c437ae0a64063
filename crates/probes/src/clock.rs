//! The cycle counter, and what it is worth: rate, cost of a read, resolution.
//!
//! x86: `rdtsc` (Intel SDM vol. 2B), not serialised: the probes look at differences of hundreds of ticks, and a
//! fence costs half a read more. aarch64: `cntvct_el0` (Arm ARM D13). The rate is not believed but measured against
//! `CLOCK_MONOTONIC_RAW`, which no time daemon slews.

#![expect(unsafe_code, reason = "reading the cycle counter is an intrinsic or an instruction")]

use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

use crate::error::WorkError;
use units::facts::ClockFacts;
use units::{Hertz, Nanos};

/// Shortest time over which a rate is measured: the error of the two anchors, some 50 ns each, is then 10 ppm.
const SHORTEST_CALIBRATION: Duration = Duration::from_millis(10);

/// Reads the cycle counter.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[expect(clippy::inline_always, reason = "a call around one instruction would be measured with it")]
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 CPU has rdtsc; user space may read it unless CR4.TSD is set, which Linux only does for a
    // process that asks for it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Reads the cycle counter.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
#[expect(clippy::inline_always, reason = "a call around one instruction would be measured with it")]
pub fn ticks() -> u64 {
    let value: u64;
    // SAFETY: Linux lets user space read the virtual counter; reading it changes nothing.
    unsafe {
        core::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack, preserves_flags));
    }
    value
}

/// Name of the counter.
pub const COUNTER_NAME: &str = if cfg!(target_arch = "x86_64") { "tsc" } else { "cntvct" };

/// The same instant on both clocks.
#[derive(Debug, Clone, Copy)]
pub struct Anchor {
    ticks: u64,
    raw_ns: u64,
}

impl Anchor {
    /// Reads both clocks as close together as this machine allows.
    ///
    /// # Errors
    /// The kernel has no `CLOCK_MONOTONIC_RAW`.
    pub fn take() -> Result<Self, WorkError> {
        let mut best: Option<(u64, Self)> = None;
        for _ in 0..16 {
            let before = ticks();
            let raw_ns = monotonic_raw_ns()?;
            let width = ticks().saturating_sub(before);
            if best.is_none_or(|(narrowest, _)| width < narrowest) {
                best = Some((width, Self { ticks: before + width / 2, raw_ns }));
            }
        }
        best.map(|(_, anchor)| anchor).ok_or_else(|| WorkError::Unfit("the clocks could not be read".into()))
    }

    /// The rate of the counter since this anchor; waits until enough time has passed to measure it.
    ///
    /// # Errors
    /// The counter stands still, or the kernel has no `CLOCK_MONOTONIC_RAW`.
    pub fn rate_since(&self) -> Result<Hertz, WorkError> {
        let least = u64::try_from(SHORTEST_CALIBRATION.as_nanos()).unwrap_or(u64::MAX);
        let mut now = Self::take()?;
        while now.raw_ns.saturating_sub(self.raw_ns) < least {
            now = Self::take()?;
        }
        let (ran, took) = (now.ticks.saturating_sub(self.ticks), now.raw_ns - self.raw_ns);
        let hz = u128::from(ran) * 1_000_000_000 / u128::from(took.max(1));
        match u64::try_from(hz) {
            Ok(hz) if hz > 0 => Ok(Hertz::from_hz(hz)),
            _ => Err(WorkError::Unfit(format!(
                "the cycle counter ({COUNTER_NAME}) moved by {ran} ticks in {took} ns: it cannot be used as a clock"
            ))),
        }
    }
}

fn monotonic_raw_ns() -> Result<u64, WorkError> {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC_RAW)
        .map_err(|errno| WorkError::system("read CLOCK_MONOTONIC_RAW", errno))?;
    Ok(nanos(&time))
}

fn nanos(time: &nix::sys::time::TimeSpec) -> u64 {
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec()).unwrap_or(0)
}

/// CPU time the calling thread has taken so far.
///
/// # Errors
/// The kernel has no `CLOCK_THREAD_CPUTIME_ID`.
pub fn thread_cpu_time() -> Result<Nanos, WorkError> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map(|time| Nanos::from_nanos(nanos(&time)))
        .map_err(|errno| WorkError::system("read the CPU time of a thread", errno))
}

/// Ticks as nanoseconds, with the fraction.
pub fn ticks_to_ns(ticks: f64, rate: Hertz) -> f64 {
    ticks * 1e9 / rate.as_f64()
}

/// What the cycle counter is worth here.
pub fn counter_facts(rate: Hertz) -> ClockFacts {
    let (cost, step) = cost_and_step(ticks);
    ClockFacts {
        name: COUNTER_NAME.to_owned(),
        read_ns: ticks_to_ns(cost, rate),
        resolution_ns: ticks_to_ns(step, rate),
    }
}

/// What the clock behind [`Instant`] is worth here.
pub fn monotonic_facts() -> ClockFacts {
    let origin = Instant::now();
    let (read_ns, resolution_ns) =
        cost_and_step(|| u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX));
    ClockFacts { name: "CLOCK_MONOTONIC".to_owned(), read_ns, resolution_ns }
}

/// Median cost of a read over 64 rows of reads, and the smallest step other than zero, both in the clock's unit.
fn cost_and_step(read: impl Fn() -> u64) -> (f64, f64) {
    const ROWS: usize = 64;
    const READS: u32 = 128;
    let mut step = u64::MAX;
    let mut costs: Vec<f64> = (0..ROWS)
        .map(|_| {
            let first = read();
            let mut last = first;
            for _ in 0..READS {
                let now = read();
                let moved = now.saturating_sub(last);
                step = if moved > 0 { step.min(moved) } else { step };
                last = now;
            }
            last.saturating_sub(first) as f64 / f64::from(READS)
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    (costs.get(ROWS / 2).copied().unwrap_or(0.0), if step == u64::MAX { 0.0 } else { step as f64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_moves_forward_and_its_rate_is_repeatable() {
        let anchor = Anchor::take().unwrap();
        let first = anchor.rate_since().unwrap();
        let second = Anchor::take().unwrap().rate_since().unwrap();
        let ratio = first.as_f64() / second.as_f64();
        assert!((0.99..1.01).contains(&ratio), "{first:?} against {second:?}");
        let facts = counter_facts(first);
        assert!(facts.read_ns > 0.0 && facts.resolution_ns > 0.0, "{facts:?}");
        assert!(monotonic_facts().read_ns > 0.0);
    }

    #[test]
    fn cpu_time_of_a_thread_grows_with_its_work() {
        let before = thread_cpu_time().unwrap();
        let start = ticks();
        while thread_cpu_time().unwrap() <= before {
            std::hint::spin_loop();
        }
        assert!(ticks() > start);
    }
}
