//! Sets the guest's clock by the host's: that of a machine counts whole seconds, and what was said at the wake-up lies as long as the
//! wake-up took. The server of the host's files is asked, since theirs are the times that the guest compares its own with.
//!
//! ```text
//!  guest  ask ─────────── answer      the time that was said is that of the middle, give or take half of the way
//!              host: now
//! ```
//! It is asked several times, and the quickest answer counts (as in the Network Time Protocol, RFC 5905, section 10).

use std::fs::File;
use std::time::Duration;

use files::clock::{TIME, VALUE_BYTES, since_1970};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime, clock_settime};
use rustix::fs::fgetxattr;
use units::Reason;

use super::super::pid1::in_context;

/// How often it is asked.
const ASKED: usize = 8;

/// Asks the server, through anything of the file system of `trees`.
pub fn set_by_host(trees: &File) -> Result<(), Reason> {
    let failed = || in_context::<nix::Error>("the clock");
    let mut quickest: Option<(Duration, Duration)> = None;
    for _ in 0..ASKED {
        let mut value = [0; VALUE_BYTES];
        let asked = since_start().map_err(failed())?;
        let length = fgetxattr(trees, TIME, &mut value).map_err(in_context("the host's clock"))?;
        let way = since_start().map_err(failed())?.saturating_sub(asked);
        let said =
            value.get(..length).and_then(since_1970).ok_or("the host's clock: an answer was cut short")?;
        if quickest.is_none_or(|(quickest, _)| way < quickest) {
            quickest = Some((way, said.saturating_sub(asked + way / 2)));
        }
    }
    let (_, began) = quickest.ok_or("the host's clock was not asked")?;
    set_to(began + since_start().map_err(failed())?)
}

/// Sets it to a time since 1970.
pub fn set_to(since_1970: Duration) -> Result<(), Reason> {
    clock_settime(ClockId::CLOCK_REALTIME, TimeSpec::from_duration(since_1970))
        .map_err(in_context("setting the clock"))
}

fn since_start() -> nix::Result<Duration> {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from)
}
