//! How to do nothing politely: poll, then yield, then nap.
//!
//! ```text
//!  poll ──► after 2000 empty rounds (20 where ranks share processors) yield each time ──► after 4 ms nap 50 µs each time
//! ```

use std::thread;
use std::time::{Duration, Instant};

const ROUNDS: u32 = 2000;
const ROUNDS_SHARED: u32 = 20;
const NAP_AFTER: Duration = Duration::from_millis(4);
const NAP: Duration = Duration::from_micros(50);

/// How long nothing has moved.
#[derive(Debug)]
pub struct Idle {
    limit: u32,
    rounds: u32,
    since: Option<Instant>,
}

impl Idle {
    /// For so many ranks on this machine.
    pub fn new(ranks: u32) -> Self {
        let cpus = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let shared = u32::try_from(cpus).is_ok_and(|cpus| ranks > cpus) || cpus == 1;
        Self { limit: if shared { ROUNDS_SHARED } else { ROUNDS }, rounds: 0, since: None }
    }

    /// Something moved.
    pub fn reset(&mut self) {
        (self.rounds, self.since) = (0, None);
    }

    /// Nothing moved in this round; what to do about it.
    pub fn rest(&mut self) -> Rest {
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds < self.limit {
            return Rest::Poll;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() < NAP_AFTER { Rest::Yield } else { Rest::Nap }
    }
}

/// What to do when nothing moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// Look again.
    Poll,
    /// Let another thread run.
    Yield,
    /// Sleep for a moment.
    Nap,
}

impl Rest {
    /// Does it.
    pub fn take(self) {
        match self {
            // Not even a pause: emulated processors leave their loop for it.
            Self::Poll => {}
            Self::Yield => thread::yield_now(),
            Self::Nap => thread::sleep(NAP),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_finds_nothing_polls_yields_then_naps_and_polls_again_after_something_moved() {
        let mut idle = Idle::new(1000);
        assert_eq!(idle.rest(), Rest::Poll);
        let until = |idle: &mut Idle, rest| while idle.rest() != rest {};
        until(&mut idle, Rest::Yield);
        until(&mut idle, Rest::Nap);
        idle.reset();
        assert_eq!(idle.rest(), Rest::Poll);
    }
}
