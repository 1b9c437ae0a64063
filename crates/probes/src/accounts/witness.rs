//! Reads the scheduler's counters of the calling thread around its longest stretches, while a probe runs.
//!
//! ```text
//!  stretches   ─▪─▪─▪▪─▪────────────▪─▪─▪─▪▪─▪─▪─▪──────────────────▪─
//!  readings       ▲     └ among the longest: ▲        ▲             ▲
//!                 └──────── at most once per 200 times what a reading costs ──────────┘
//! ```
//! A reading costs a microsecond (tens of them in a translated guest), so all of them together take 0.5 % of the time at
//! most, besides those after the stretches that are among the longest so far: some hundred in a whole run.
//! Source: `/proc/thread-self/schedstat`, Documentation/scheduler/sched-stats.rst.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use crate::detail::{Stretch, WORST_KEPT, Witnessed};
use units::Nanos;

/// The counters of the thread that opens it.
const COUNTERS: &str = "/proc/thread-self/schedstat";
/// A reading is due after so many times what one costs.
const SPARING: u64 = 200;
/// Readings of which the cheapest says what one costs.
const TRIALS: u32 = 8;
/// Longest text of the counters: three numbers of 64 bits.
const TEXT_BYTES: usize = 96;
/// Most stretches with readings that are kept before those that are no longer among the longest are left out.
const MOST_KEPT: usize = 16 * WORST_KEPT;

/// CPU time and waiting time of a thread so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counters {
    ran_ns: u64,
    waited_ns: u64,
}

impl Counters {
    fn parse(text: &[u8]) -> Option<Self> {
        let mut numbers = std::str::from_utf8(text).ok()?.split_ascii_whitespace().map(str::parse);
        Some(Self { ran_ns: numbers.next()?.ok()?, waited_ns: numbers.next()?.ok()? })
    }
}

/// Looks at the counters of one thread, and keeps what they said around its longest stretches.
#[derive(Debug)]
pub struct Witness {
    /// None where the kernel does not tell, or has ceased to.
    file: Option<File>,
    last: Counters,
    last_ns: u64,
    others_ns: u64,
    every_ns: u64,
    kept: Vec<Witnessed>,
}

impl Witness {
    /// Opens the counters of the calling thread, which alone may use it. Takes all memory it will need.
    pub fn of_this_thread() -> Self {
        let mut kept = vec![NOTHING; MOST_KEPT];
        kept.clear();
        let file = File::open(COUNTERS).ok();
        let mut witness =
            Self { file, last: Counters::default(), last_ns: 0, others_ns: 0, every_ns: 0, kept };
        let cost = (0..TRIALS).map(|_| {
            let began = Instant::now();
            witness.look(0);
            Nanos::from_duration(began.elapsed()).get()
        });
        witness.every_ns = cost.min().unwrap_or(0).saturating_mul(SPARING);
        witness
    }

    /// Stretches begin now; times are on any clock that the caller uses throughout.
    pub fn begin(&mut self, now_ns: u64) {
        self.look(now_ns);
        self.others_ns = 0;
    }

    /// A stretch has just ended. `is_among_longest` says whether it is one of those that are kept so far.
    #[inline]
    pub fn ended(&mut self, now_ns: u64, stretch: Stretch, is_among_longest: bool) {
        if is_among_longest {
            self.testify(now_ns, stretch);
            return;
        }
        self.others_ns = self.others_ns.saturating_add(stretch.length_ns.get());
        if now_ns.saturating_sub(self.last_ns) >= self.every_ns {
            self.begin(now_ns);
        }
    }

    /// What is known of the stretches that were the longest in the end.
    pub fn finish(mut self, worst: &[Stretch]) -> Vec<Witnessed> {
        self.kept.retain(|seen| worst.contains(&seen.stretch));
        self.kept.truncate(WORST_KEPT);
        self.kept
    }

    #[cold]
    fn testify(&mut self, now_ns: u64, stretch: Stretch) {
        let before = self.last;
        let others_ns = Nanos::from_nanos(self.others_ns);
        if !self.look(now_ns) {
            return;
        }
        self.others_ns = 0;
        if self.kept.len() >= MOST_KEPT {
            // Shorter than what came since, they are hardly among the longest any more.
            self.kept.sort_by_key(|seen| std::cmp::Reverse(seen.stretch.length_ns));
            self.kept.truncate(MOST_KEPT / 2);
        }
        self.kept.push(Witnessed {
            stretch,
            others_ns,
            ran_ns: Nanos::from_nanos(self.last.ran_ns.saturating_sub(before.ran_ns)),
            waited_ns: Nanos::from_nanos(self.last.waited_ns.saturating_sub(before.waited_ns)),
        });
    }

    /// Reads the counters; whether they are known now.
    fn look(&mut self, now_ns: u64) -> bool {
        let Some(file) = &self.file else { return false };
        let mut text = [0; TEXT_BYTES];
        let read = file.read_at(&mut text, 0).ok().and_then(|length| text.get(..length));
        match read.and_then(Counters::parse) {
            Some(counters) => self.last = counters,
            None => self.file = None,
        }
        self.last_ns = now_ns;
        self.file.is_some()
    }
}

/// Fills the memory.
const NOTHING: Witnessed = Witnessed {
    stretch: Stretch { start_ns: Nanos::ZERO, length_ns: Nanos::ZERO },
    others_ns: Nanos::ZERO,
    ran_ns: Nanos::ZERO,
    waited_ns: Nanos::ZERO,
};

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn stretch(start: u64, length: u64) -> Stretch {
        Stretch { start_ns: Nanos::from_nanos(start), length_ns: Nanos::from_nanos(length) }
    }

    #[test]
    fn counters_are_two_numbers() {
        assert_eq!(Counters::parse(b"12 34 5\n"), Some(Counters { ran_ns: 12, waited_ns: 34 }));
        assert_eq!([&b""[..], b"1", b"x 2", b"1 -2", b"\xff 1"].map(Counters::parse), [None; 5]);
    }

    #[test]
    fn sleep_and_work_are_told_apart() {
        let origin = Instant::now();
        let now = || Nanos::from_duration(origin.elapsed()).get();
        let mut witness = Witness::of_this_thread();
        assert!(witness.file.is_some(), "this kernel counts");
        witness.begin(now());
        let slept_from = now();
        std::thread::sleep(Duration::from_millis(20));
        let slept = stretch(slept_from, now() - slept_from);
        witness.ended(now(), slept, true);
        let worked_from = now();
        while now() - worked_from < 20_000_000 {}
        let worked = stretch(worked_from, now() - worked_from);
        witness.ended(now(), worked, true);
        witness.ended(now(), stretch(1, 1), true);
        let seen = witness.finish(&[slept, worked]);
        assert_eq!(seen.iter().map(|seen| seen.stretch).collect::<Vec<_>>(), [slept, worked]);
        let slept_ns = |seen: &Witnessed| seen.slept_at_least().get();
        assert!(slept_ns(&seen[0]) > 15_000_000, "{seen:?}");
        assert!(slept_ns(&seen[1]) < 5_000_000, "{seen:?}");
        let busy = seen[1].ran_at_least().saturating_add(seen[1].waited_at_least());
        assert!(busy.get() > 15_000_000, "{seen:?}");
    }

    #[test]
    fn what_lies_between_two_readings_belongs_to_nobody_alone() {
        let mut witness = Witness::of_this_thread();
        witness.every_ns = 1000;
        witness.begin(0);
        witness.ended(400, stretch(0, 400), false);
        witness.ended(900, stretch(400, 500), false);
        witness.ended(999, stretch(900, 99), true);
        witness.ended(1500, stretch(999, 501), false);
        witness.ended(2100, stretch(1500, 600), false);
        witness.ended(2200, stretch(2100, 100), true);
        let seen = witness.finish(&[stretch(2100, 100), stretch(900, 99)]);
        let others: Vec<u64> = seen.iter().map(|seen| seen.others_ns.get()).collect();
        assert_eq!(others, [900, 0], "a reading was due at 2100");
    }

    #[test]
    fn memory_is_bounded_when_every_stretch_is_longer_than_the_last() {
        let mut witness = Witness::of_this_thread();
        let longest: Vec<Stretch> = (0..5000).map(|length| stretch(length, length)).collect();
        for (now, stretch) in longest.iter().enumerate() {
            witness.ended(now as u64, *stretch, true);
            assert!(witness.kept.len() <= MOST_KEPT);
        }
        let worst = &longest[5000 - WORST_KEPT..];
        assert_eq!(witness.finish(worst).len(), WORST_KEPT);
    }
}
