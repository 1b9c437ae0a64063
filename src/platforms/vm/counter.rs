//! Rate of the host's cycle counter, to be handed to translated guests, which see the same counter.

#![expect(unsafe_code, reason = "the cycle counter can only be read with an intrinsic")]

use std::time::{Duration, Instant};

use crate::model::units::Hertz;

/// How long it is watched. An error of 1 µs in the two readings makes 2e-5; guests refine the rate by themselves.
const WATCHED: Duration = Duration::from_millis(50);

/// The rate, measured; none on processors without such a counter.
#[cfg(target_arch = "x86_64")]
pub fn rate() -> Option<Hertz> {
    let (begun, first) = (Instant::now(), read());
    std::thread::sleep(WATCHED);
    let (ended, last) = (Instant::now(), read());
    let nanos = ended.duration_since(begun).as_nanos();
    let ticks = u128::from(last.checked_sub(first)?);
    Some(Hertz::from_hz(u64::try_from((ticks * 1_000_000_000).checked_div(nanos)?).ok()?))
}

#[cfg(target_arch = "x86_64")]
fn read() -> u64 {
    // SAFETY: every x86_64 processor has the instruction, and it touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The rate, measured; none on processors without such a counter.
#[cfg(not(target_arch = "x86_64"))]
pub fn rate() -> Option<Hertz> {
    None
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn two_measurements_agree() {
        let (one, other) = (rate().unwrap().as_f64(), rate().unwrap().as_f64());
        assert!((one / other - 1.0).abs() < 0.01, "{one} {other}");
        assert!((1e8..1e11).contains(&one), "{one}");
    }
}
