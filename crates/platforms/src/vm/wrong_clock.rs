//! A guest with a clock that is wrong on purpose: it runs a tenth too fast, and its time of day is set forward in the
//! middle of the first job and back before the second. Proves that the host's clock finds it out.

#![expect(unsafe_code, reason = "adjtimex has no safe wrapper")]

use std::io;
use std::time::Duration;

use super::pid1::say;

/// Microseconds that the clock gains per timer tick of 10 000; Linux allows 9 000 … 11 000 (`adjtimex(2)`).
const TICK_US: libc::c_long = 11_000;
/// How far the time of day is set forward.
pub const STEP: Duration = Duration::from_secs(3);
/// How far it is set back before the second job.
pub const STEP_BACK: Duration = Duration::from_secs(1);
/// When it is set forward, after the first probe's thread was seen: the clock was compared with the host's before, however long
/// that took.
const STEP_AFTER: Duration = Duration::from_secs(1);
/// How often it is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Parts per million by which the clock runs too fast from now on.
pub const WRONG_BY_PPM: f64 = 100_000.0;

/// Makes the clocks of this guest wrong.
pub fn make_wrong() {
    adjust(libc::ADJ_TICK, |wanted| wanted.tick = TICK_US);
    let later = std::thread::Builder::new().name("clock".to_owned()).spawn(|| {
        while !probe_runs() {
            std::thread::sleep(LOOK_EVERY);
        }
        std::thread::sleep(STEP_AFTER);
        move_by(STEP, 1);
    });
    if let Err(error) = later {
        say(&format!("rehearsal: no thread for the clock: {error}"));
    }
}

/// Whether a thread of a probe is there.
fn probe_runs() -> bool {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let mut names = tasks.filter_map(|task| std::fs::read(task.path().join("comm")).ok());
    names.any(|name| name.starts_with(b"probe"))
}

/// Sets the time of day back; to be called between two jobs.
pub fn set_back() {
    move_by(STEP_BACK, -1);
}

/// Moves the time of day by whole seconds, in one step of the kernel's: read and set again, it would lose what passes in between.
fn move_by(step: Duration, sign: libc::time_t) {
    let seconds = libc::time_t::try_from(step.as_secs()).unwrap_or(0);
    adjust(libc::ADJ_SETOFFSET, |wanted| wanted.time.tv_sec = sign * seconds);
}

fn adjust(modes: libc::c_uint, set: impl FnOnce(&mut libc::timex)) {
    // SAFETY: timex is plain data, of which all zeroes are a value.
    let mut wanted: libc::timex = unsafe { std::mem::zeroed() };
    wanted.modes = modes;
    set(&mut wanted);
    // SAFETY: the kernel reads and writes the one structure it is given.
    if unsafe { libc::adjtimex(&raw mut wanted) } < 0 {
        say(&format!("rehearsal: adjtimex: {}", io::Error::last_os_error()));
    }
}
