//! Waiting: spin for a measured time, then yield, then sleep politely; and telling a slow peer from a dead one.
//!
//! ```text
//!  spin 50 µs ──► yield until 200 µs ──► sleep 20 µs, 40, … 1 ms ──► deadline
//!  (not at all where this process has one CPU)
//! ```

use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

const SPIN: Duration = Duration::from_micros(50);
const YIELD: Duration = Duration::from_micros(200);
const SHORTEST_SLEEP: Duration = Duration::from_micros(20);
const LONGEST_SLEEP: Duration = Duration::from_millis(1);
/// Rounds between two looks at the clock while spinning: a look costs about as much as this many pauses.
const ROUNDS_PER_LOOK: u32 = 32;
/// Looks for news in such a round where the CPU's pause is not used: about as long.
const LOOKS_WITHOUT_PAUSE: u32 = 256;
/// A pause from here on is an emulator's; the longest of a CPU is about 45 ns (Intel's since Skylake, 140 cycles).
const LONG_PAUSE: Duration = Duration::from_nanos(80);
/// A wait without an end is a mistake; this one is a week.
const LONGEST_WAIT: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long to spin at most: nothing where spinning would keep the peer from running.
pub(crate) fn spin_time() -> Duration {
    static TIME: OnceLock<Duration> = OnceLock::new();
    *TIME.get_or_init(|| {
        let alone = thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1);
        if alone { Duration::ZERO } else { SPIN }
    })
}

/// Whether the CPU's pause takes as little as on CPUs that are not emulated, where a spinning thread should say that it
/// spins. An emulator leaves its translated code for it (QEMU's TCG: 130 ns against 25), longer than a message takes.
fn pause_is_quick() -> bool {
    const PAUSES: u32 = 16;
    static QUICK: OnceLock<bool> = OnceLock::new();
    *QUICK.get_or_init(|| {
        let once = |_| {
            let started = Instant::now();
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
            started.elapsed()
        };
        // The shortest: whatever came between made the others longer.
        (0..5).map(once).min().is_none_or(|shortest| shortest < LONG_PAUSE * PAUSES)
    })
}

/// One wait, with its deadline.
pub(crate) struct Patience {
    started: Option<Instant>,
    /// Since when nothing has moved.
    idle: Option<Instant>,
    timeout: Duration,
    spin: Duration,
    rounds: u32,
    sleep: Duration,
}

/// What to do after a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// Look again.
    Look,
    /// Look again, and also whether the peer is alive.
    LookAtPeer,
    /// The deadline has passed.
    GiveUp,
}

impl Patience {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self::spinning(timeout, spin_time())
    }

    /// With another time to spin than is usual.
    pub(crate) fn spinning(timeout: Duration, spin: Duration) -> Self {
        Self {
            started: None,
            idle: None,
            timeout: timeout.min(LONGEST_WAIT),
            spin,
            rounds: 0,
            sleep: SHORTEST_SLEEP,
        }
    }

    /// Something has moved: spin again.
    pub(crate) fn refresh(&mut self) {
        (self.idle, self.sleep) = (None, SHORTEST_SLEEP);
    }

    /// Pauses in the way that fits the time already waited.
    pub(crate) fn pause(&mut self) -> Then {
        self.pause_until(|| false)
    }

    /// The same, and not longer than until there is news: that is looked for all the time while spinning, and nothing
    /// else is.
    #[inline]
    pub(crate) fn pause_until(&mut self, news: impl Fn() -> bool) -> Then {
        if self.timeout.is_zero() {
            return Then::GiveUp;
        }
        self.rounds = self.rounds.wrapping_add(1);
        // However often there is news: the time passes.
        if !self.rounds.is_multiple_of(ROUNDS_PER_LOOK)
            && self.sleep == SHORTEST_SLEEP
            && !self.spin.is_zero()
        {
            let pauses = pause_is_quick();
            let looks = if pauses { ROUNDS_PER_LOOK } else { LOOKS_WITHOUT_PAUSE };
            for _ in 0..looks {
                if news() {
                    return Then::Look;
                }
                if pauses {
                    std::hint::spin_loop();
                }
            }
        }
        self.rest()
    }

    /// What comes after a while of spinning.
    fn rest(&mut self) -> Then {
        let now = Instant::now();
        let waited = now - *self.started.get_or_insert(now);
        let Some(left) = self.timeout.checked_sub(waited).filter(|left| !left.is_zero()) else {
            return Then::GiveUp;
        };
        let idle = now - *self.idle.get_or_insert(now);
        if idle < self.spin {
            return Then::Look;
        }
        if idle < YIELD.max(self.spin) {
            thread::yield_now();
            return Then::Look;
        }
        thread::sleep(self.sleep.min(left));
        self.sleep = (self.sleep * 2).min(LONGEST_SLEEP);
        Then::LookAtPeer
    }
}

/// What is known about a peer's heart.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    beat: u64,
    looked: Instant,
    silent: Duration,
}

impl Heartbeat {
    pub(crate) fn new(beat: u64) -> Self {
        Self { beat, looked: Instant::now(), silent: Duration::ZERO }
    }

    /// How long the heart has stood still while somebody looked, if longer than `gone_after`.
    ///
    /// Time between two looks counts for an eighth of `gone_after` at most: a caller that was stopped itself, or
    /// whose whole host was, gives the peer time to beat again.
    pub(crate) fn feel(&mut self, beat: u64, gone_after: Duration) -> Option<Duration> {
        let now = Instant::now();
        let passed = (now - self.looked).min(gone_after / 8);
        self.looked = now;
        if beat == self.beat {
            self.silent += passed;
        } else {
            (self.beat, self.silent) = (beat, Duration::ZERO);
        }
        (self.silent >= gone_after).then_some(self.silent)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_at_its_deadline_and_sleeps_longer_and_longer_until_then() {
        let started = Instant::now();
        let mut patience = Patience::new(Duration::from_millis(30));
        let mut sleeps = 0;
        loop {
            match patience.pause() {
                Then::GiveUp => break,
                Then::LookAtPeer => sleeps += 1,
                Then::Look => {}
            }
        }
        assert!(started.elapsed() >= Duration::from_millis(30));
        assert_eq!(patience.sleep, LONGEST_SLEEP);
        assert!((6..=40).contains(&sleeps), "30 ms in sleeps of 20 µs to 1 ms: {sleeps}");
    }

    #[test]
    fn a_caller_that_did_not_look_for_long_gives_the_peer_time_to_beat() {
        let gone_after = Duration::from_millis(800);
        let mut heartbeat = Heartbeat::new(7);
        heartbeat.looked = Instant::now().checked_sub(Duration::from_secs(60)).expect("a minute ago");
        assert_eq!(heartbeat.feel(7, gone_after), None);
        assert!(heartbeat.silent <= gone_after / 8);
    }

    #[test]
    fn a_heart_that_stands_still_while_watched_is_dead_and_one_that_beats_again_is_not() {
        let gone_after = Duration::from_millis(8);
        let mut heartbeat = Heartbeat::new(1);
        let deadline = Instant::now() + Duration::from_secs(20);
        while heartbeat.feel(1, gone_after).is_none() {
            assert!(Instant::now() < deadline, "never seen dead");
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(heartbeat.feel(2, gone_after), None);
    }
}
