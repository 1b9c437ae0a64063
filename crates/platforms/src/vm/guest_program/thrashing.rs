//! Ends a standstill for want of memory: files in memory have most of it, and what programs need is dropped as fast as it is read again.
//!
//! ```text
//!  the kernel tells: all stalled for 6 of 10 s ──► for the third time in a row? ── yes ──► it is asked to kill the largest (SysRq f)
//!                        ▲                                  │ no                                │
//!                        └──────────────────────────────────┴───────────────────────────────────┘
//! ```
//! The kernel itself kills only once nothing at all can be reclaimed, which may take minutes. 60 % for 30 s are what systemd-oomd(8)
//! begins with. As long as nothing stalls, nothing of this runs. Sources: `Documentation/accounting/psi.rst` (monitoring for pressure
//! thresholds), `Documentation/admin-guide/sysrq.rst` of Linux. Who was killed is told by `starved`, as of any other time.

use std::fs::File;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::io::{Errno, write};

use super::aside;
use units::Reason;

/// What is asked of the kernel: all that would run stalled for so many microseconds of so many.
const TRIGGER: &[u8] = b"full 6000000 10000000\0";
/// So many such times in a row are a standstill; it tells of each once.
const STANDSTILL: u32 = 3;
/// What comes later is not in a row.
const IN_A_ROW: Duration = Duration::from_secs(15);

/// Begins. It opens what it needs before the program's tree covers it; under a kernel that does not tell there is none.
pub fn begin() -> Result<(), Reason> {
    let open = |path: &str| File::options().read(true).write(true).open(path).ok();
    let Some(pressure) = open("/proc/pressure/memory") else { return Ok(()) };
    let requests = File::options().write(true).open("/proc/sysrq-trigger");
    let (Ok(requests), Ok(_)) = (requests, write(&pressure, TRIGGER)) else { return Ok(()) };
    aside::start("thrashing", move || watch(&pressure, &requests))
}

fn watch(pressure: &File, requests: &File) {
    let mut streak = Streak::default();
    while kernel_tells(pressure) {
        // Whom it kills, and that there was nobody, the kernel says itself.
        if streak.goes_too_far(Instant::now()) {
            let _: Result<usize, Errno> = write(requests, b"f");
        }
    }
}

/// Waits until the kernel tells; false when it does not any more.
fn kernel_tells(pressure: &File) -> bool {
    let mut waited = [PollFd::new(pressure.as_fd(), PollFlags::POLLPRI)];
    loop {
        match poll(&mut waited, PollTimeout::NONE) {
            Err(nix::Error::EINTR) => {}
            Err(_) => return false,
            Ok(_) => return waited[0].revents().is_some_and(|got| got == PollFlags::POLLPRI),
        }
    }
}

/// How often in a row the kernel has told.
#[derive(Default)]
struct Streak {
    times: u32,
    last: Option<Instant>,
}

impl Streak {
    /// It tells once more, `now`: whether that is a standstill. Then it begins anew.
    fn goes_too_far(&mut self, now: Instant) -> bool {
        let goes_on = self.last.is_some_and(|last| now.saturating_duration_since(last) < IN_A_ROW);
        self.times = if goes_on { self.times + 1 } else { 1 };
        self.last = Some(now);
        if self.times < STANDSTILL {
            return false;
        }
        *self = Self::default();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_still_for_long_is_ended() {
        let (mut streak, begun) = (Streak::default(), Instant::now());
        let seconds = [0, 10, 30, 40, 50, 60, 70, 80, 100];
        let enough = seconds.map(|second| streak.goes_too_far(begun + Duration::from_secs(second)));
        assert_eq!(enough, [false, false, false, false, true, false, false, true, false]);
    }
}
