//! CPU time of an instance over time, as its host's kernel counts it: how much of it fell between two moments. Pure.
//!
//! ```text
//!  began ├──── slice ────┼──── slice ────┼──── slice ────┤
//!                   from ├──────────────────────┤ to          within a slice CPU time is taken to be spread evenly
//! ```
//! A span whose ends lie in slices that are long against it cannot be told apart from what came before and after: there is
//! no answer then. A log without any CPU time is one of a kernel that does not count it (`schedstats`).

use units::Nanos;
use units::accounts::HostSlice;

/// A slice at an end of a span may have at most this part of the span's length.
const MOST_OF_SPAN: u64 = 4;

/// What was seen from a moment on, without holes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuLog {
    began_ns: Nanos,
    slices: Vec<HostSlice>,
}

impl CpuLog {
    /// Slices in order, the first of which began at `began_ns` of the host's `CLOCK_MONOTONIC`.
    pub const fn new(began_ns: Nanos, slices: Vec<HostSlice>) -> Self {
        Self { began_ns, slices }
    }

    /// CPU time between two moments of the host's `CLOCK_MONOTONIC`; none when they were not watched, or when the looks were
    /// too far apart.
    pub fn between(&self, from: Nanos, to: Nanos) -> Option<Nanos> {
        let span = to.get().checked_sub(from.get())?;
        if self.slices.iter().all(|slice| slice.run_ns == Nanos::ZERO) {
            return None;
        }
        let mut begins = self.began_ns.get();
        let mut inside = 0.0;
        let mut covered = 0u64;
        for slice in &self.slices {
            let ends = slice.at_ns.get();
            let (length, first, last) =
                (ends.saturating_sub(begins), begins.max(from.get()), ends.min(to.get()));
            if let Some(overlap) = last.checked_sub(first).filter(|overlap| *overlap > 0 && length > 0) {
                if overlap < length && length.saturating_mul(MOST_OF_SPAN) > span {
                    return None;
                }
                inside += slice.run_ns.as_f64() * (overlap as f64 / length as f64);
                covered = covered.saturating_add(overlap);
            }
            begins = ends;
        }
        (span > 0 && covered == span).then(|| Nanos::from_nanos(units::metric::saturate(inside)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(began: u64, slices: &[(u64, u64)]) -> CpuLog {
        let slice = |(at, run): &(u64, u64)| HostSlice {
            at_ns: Nanos::from_nanos(*at),
            run_ns: Nanos::from_nanos(*run),
            wait_ns: Nanos::ZERO,
            faults: 0,
        };
        CpuLog::new(Nanos::from_nanos(began), slices.iter().map(slice).collect())
    }

    fn between(log: &CpuLog, from: u64, to: u64) -> Option<u64> {
        log.between(Nanos::from_nanos(from), Nanos::from_nanos(to)).map(Nanos::get)
    }

    #[test]
    fn time_within_a_slice_is_spread_evenly_and_whole_slices_count_whole() {
        let log = log(1000, &[(1010, 10), (1020, 0), (1030, 20), (1040, 8), (1050, 2), (1060, 10)]);
        assert_eq!(between(&log, 1010, 1050), Some(30));
        assert_eq!(between(&log, 1005, 1055), Some(5 + 30 + 5));
        assert_eq!(between(&log, 1000, 1060), Some(50));
    }

    #[test]
    fn what_was_not_watched_or_too_coarsely_is_not_known_and_never_zero() {
        let log = log(1000, &[(1010, 0), (1020, 0), (1030, 0), (1100, 0), (1110, 5)]);
        assert_eq!(between(&log, 999, 1060), None, "before the first look");
        assert_eq!(between(&log, 1010, 1111), None, "after the last");
        assert_eq!(between(&log, 1015, 1035), None, "the ends are guesses");
        assert_eq!(between(&log, 1010, 1050), None, "one end is");
        assert_eq!(between(&log, 1010, 1100), Some(0), "watched, and there was none");
        let uncounted = self::log(1000, &[(1010, 0), (1020, 0)]);
        assert_eq!(between(&uncounted, 1000, 1020), None, "a kernel that counts nothing");
        assert_eq!((between(&log, 1020, 1020), between(&log, 1030, 1020)), (None, None));
    }

    #[test]
    fn hostile_numbers_do_no_harm() {
        let log = log(u64::MAX, &[(0, u64::MAX), (u64::MAX, u64::MAX), (5, 1)]);
        for (from, to) in [(0, u64::MAX), (u64::MAX, 0), (0, 0), (u64::MAX - 1, u64::MAX)] {
            let _ = between(&log, from, to);
        }
    }
}
