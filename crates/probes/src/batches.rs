//! Operations of several threads, counted per equal span of time, for the system-call and fork probes.
//!
//! All threads share one time line that begins when they have mustered. An operation counts for the span in which it
//! ended, so every span lasts exactly as long as the others, and what ends after the last one does not count.

use std::time::{Duration, Instant};

use crate::detail::RatePoint;
use units::{Millis, Nanos};

/// The spans of one number of threads.
#[derive(Debug, Clone, Copy)]
pub struct Spans {
    span: Duration,
    count: u32,
}

impl Spans {
    /// `count` spans over this time.
    pub fn over(duration: Millis, count: u32) -> Self {
        Self { span: duration.to_duration() / count.max(1), count: count.max(1) }
    }

    /// The tally of one thread whose time line begins now.
    pub fn tally(&self) -> BatchTally {
        BatchTally {
            begin: Instant::now(),
            span_ns: self.span.as_nanos().max(1),
            operations: vec![0; self.count as usize],
        }
    }

    /// Adds up the threads.
    pub fn point(&self, tallies: &[BatchTally]) -> RatePoint {
        let threads = u32::try_from(tallies.len()).unwrap_or(u32::MAX);
        let sum = |span: usize| tallies.iter().filter_map(|tally| tally.operations.get(span)).sum();
        RatePoint {
            threads,
            operations: (0..self.count as usize).map(sum).collect(),
            elapsed_ns: vec![Nanos::from_duration(self.span); self.count as usize],
        }
    }
}

/// What one thread did in each span.
#[derive(Debug)]
pub struct BatchTally {
    begin: Instant,
    span_ns: u128,
    operations: Vec<u64>,
}

impl BatchTally {
    /// Counts operations that ended at `now`; false when the last span is over.
    pub fn count(&mut self, now: Instant, operations: u64) -> bool {
        let nanos = now.saturating_duration_since(self.begin).as_nanos();
        let span = usize::try_from(nanos / self.span_ns).unwrap_or(usize::MAX);
        match self.operations.get_mut(span) {
            Some(slot) => {
                *slot += operations;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_count_for_the_span_in_which_they_ended() {
        let spans = Spans::over(Millis::from_millis(40), 4);
        let mut tally = spans.tally();
        let at = |ms| tally.begin + Duration::from_millis(ms);
        let (early, edge, late, after) = (at(3), at(10), at(39), at(40));
        assert!(tally.count(early, 5));
        assert!(tally.count(edge, 7));
        assert!(tally.count(late, 11));
        assert!(!tally.count(after, 100));
        let point = spans.point(&[tally]);
        assert_eq!((point.threads, point.operations), (1, vec![5, 7, 0, 11]));
        assert_eq!(point.elapsed_ns, vec![Nanos::from_nanos(10_000_000); 4]);
    }
}
