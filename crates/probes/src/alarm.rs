//! Sleeping until a due time, on the clock that nobody sets: absolute, so that what comes late does not move what comes
//! after. Source: `clock_nanosleep(2)`.

use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

use crate::error::WorkError;

/// `CLOCK_MONOTONIC` in nanoseconds.
///
/// # Errors
/// The kernel has no `CLOCK_MONOTONIC`.
#[inline]
pub fn now_ns() -> Result<u64, WorkError> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_err(|errno| WorkError::system("read CLOCK_MONOTONIC", errno))?;
    let seconds = u64::try_from(now.tv_sec()).unwrap_or(0);
    Ok(seconds * 1_000_000_000 + u64::try_from(now.tv_nsec()).unwrap_or(0))
}

/// Sleeps until `CLOCK_MONOTONIC` says `due_ns`; returns at once when it does already. Signals do not shorten it.
///
/// # Errors
/// The kernel refuses.
#[inline]
pub fn sleep_until(due_ns: u64) -> Result<(), WorkError> {
    let seconds = i64::try_from(due_ns / 1_000_000_000).unwrap_or(i64::MAX);
    let nanos = i64::try_from(due_ns % 1_000_000_000).unwrap_or(0);
    let due = TimeSpec::new(seconds, nanos);
    loop {
        match clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &due) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(WorkError::system("sleep until a due time", errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_wakes_before_the_due_time_and_never_waits_for_one_that_has_passed() {
        let begin = now_ns().unwrap();
        sleep_until(begin + 3_000_000).unwrap();
        assert!(now_ns().unwrap() >= begin + 3_000_000);
        sleep_until(begin).unwrap();
        sleep_until(0).unwrap();
    }
}
