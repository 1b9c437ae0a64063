//! A guest with a clock that is wrong on purpose: it runs a tenth too fast, and its time of day is set in the middle of
//! the first job. Proves that the host's clock finds it out.

#![expect(unsafe_code, reason = "adjtimex has no safe wrapper")]

use std::io;
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime, clock_settime};

use super::init::say;

/// Microseconds that the clock gains per timer tick of 10 000; Linux allows 9 000 … 11 000 (`adjtimex(2)`).
const TICK_US: libc::c_long = 11_000;
/// How far the time of day is set forward.
pub const STEP: Duration = Duration::from_secs(3);
/// When, after the first job came: well after its clock was compared with the host's, which takes long in a slow guest.
const STEP_AFTER: Duration = Duration::from_secs(2);

/// Parts per million by which the clock runs too fast from now on.
pub const WRONG_BY_PPM: f64 = 100_000.0;

/// Makes the clocks of this guest wrong.
pub fn make_wrong() {
    if let Err(error) = hurry() {
        say(&format!("rehearsal: adjtimex: {error}"));
    }
    let later = std::thread::Builder::new().name("clock".to_owned()).spawn(|| {
        std::thread::sleep(STEP_AFTER);
        if let Err(error) = step() {
            say(&format!("rehearsal: clock_settime: {error}"));
        }
    });
    if let Err(error) = later {
        say(&format!("rehearsal: no thread for the clock: {error}"));
    }
}

fn hurry() -> io::Result<()> {
    // SAFETY: timex is plain data, of which all zeroes are a value.
    let mut wanted: libc::timex = unsafe { std::mem::zeroed() };
    wanted.modes = libc::ADJ_TICK;
    wanted.tick = TICK_US;
    // SAFETY: the kernel reads and writes the one structure it is given.
    let state = unsafe { libc::adjtimex(&raw mut wanted) };
    if state < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn step() -> nix::Result<()> {
    let now = clock_gettime(ClockId::CLOCK_REALTIME)?;
    clock_settime(ClockId::CLOCK_REALTIME, TimeSpec::from_duration(Duration::from(now) + STEP))
}
