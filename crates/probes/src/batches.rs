//! Operations of several threads, counted per span of time, for the system-call and fork probes.
//!
//! ```text
//!  span │      0       │      1       │      2       │        ├┤ operation
//!       ├──┤├───┤├──┤├───┤├──┤├────┤├─────┤├──┤├──┤
//!       └─ 0: 3 in all of this ─┘└─ 1: 4 in this ─┘…    from the last one before the span to the last one in it
//! ```
//! All threads share one time line that begins when they have mustered. An operation counts for the span in which it ended, and takes
//! the time since the one before it: a span in which 18 ended and the 19th nearly did is not 5 % slower than the next, and one in
//! which none ended has no time of its own. The operation that is under way at the end is finished, and counts for the last span:
//! left out, long ones would be missing more often than short ones.

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
            span: self.span.max(Duration::from_nanos(1)),
            spans: vec![Span::default(); self.count as usize],
            last_end: Duration::ZERO,
        }
    }

    /// Adds up the threads. A span lasts as long as its operations took all threads together, divided among them.
    pub fn point(&self, tallies: &[BatchTally]) -> RatePoint {
        let threads = u32::try_from(tallies.len()).unwrap_or(u32::MAX);
        let of_span = |at: usize| tallies.iter().filter_map(move |tally| tally.spans.get(at));
        let lasted = |at: usize| {
            Nanos::from_duration(of_span(at).map(|span| span.took).sum::<Duration>() / threads.max(1))
        };
        let all = 0..self.count as usize;
        RatePoint {
            threads,
            operations: all.clone().map(|at| of_span(at).map(|span| span.operations).sum()).collect(),
            elapsed_ns: all.map(lasted).collect(),
        }
    }
}

/// What one thread did in one span.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    operations: u64,
    took: Duration,
}

/// What one thread did in each span.
#[derive(Debug)]
pub struct BatchTally {
    begin: Instant,
    span: Duration,
    spans: Vec<Span>,
    /// When the last operation ended, from the begin.
    last_end: Duration,
}

impl BatchTally {
    /// Counts operations the last of which ended at `now`; false when the last span is over, and no further one is to begin.
    pub fn count(&mut self, now: Instant, operations: u64) -> bool {
        let end = now.saturating_duration_since(self.begin);
        let at = usize::try_from(end.as_nanos() / self.span.as_nanos()).unwrap_or(usize::MAX);
        let last = self.spans.len().saturating_sub(1);
        if let Some(span) = self.spans.get_mut(at.min(last)) {
            span.operations += operations;
            span.took += end.saturating_sub(self.last_end);
            self.last_end = end;
        }
        at <= last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(spans: Spans, ends: &[(u64, u64)]) -> BatchTally {
        let mut tally = spans.tally();
        let begin = tally.begin;
        for (ms, operations) in ends {
            tally.count(begin + Duration::from_millis(*ms), *operations);
        }
        tally
    }

    fn millis(point: &RatePoint) -> Vec<f64> {
        point.elapsed_ns.iter().map(|elapsed| elapsed.as_f64() / 1e6).collect()
    }

    #[test]
    fn operations_count_for_the_span_in_which_they_ended_and_take_the_time_since_the_one_before() {
        let spans = Spans::over(Millis::from_millis(40), 4);
        let mut tally = made(spans, &[(3, 5), (9, 2), (10, 7), (39, 11)]);
        let after = tally.begin + Duration::from_millis(45);
        assert!(!tally.count(after, 2), "what is under way at the end counts, and is the last");
        let point = spans.point(&[tally]);
        assert_eq!((point.threads, point.operations.clone()), (1, vec![7, 7, 0, 13]));
        assert_eq!(millis(&point), [9.0, 1.0, 0.0, 35.0], "all of the time, and nothing twice");
    }

    #[test]
    fn equal_operations_take_as_long_in_every_span_also_where_few_end() {
        let spans = Spans::over(Millis::from_millis(40), 4);
        for each in [3_u32, 9, 17, 28, 39, 100] {
            let ends: Vec<(u64, u64)> =
                (1..=40_u32.div_ceil(each)).map(|end| (u64::from(each * end), 1)).collect();
            let point = spans.point(&[made(spans, &ends), made(spans, &ends)]);
            let all: f64 = millis(&point).iter().sum();
            let count: u64 = point.operations.iter().sum();
            assert!((all * 2.0 / count as f64 - f64::from(each)).abs() < 1e-9, "{each} ms: {point:?}");
            let spans = millis(&point).into_iter().zip(&point.operations).filter(|(_, count)| **count > 0);
            assert!(
                spans
                    .into_iter()
                    .all(|(took, count)| (took * 2.0 / *count as f64 - f64::from(each)).abs() < 1e-9)
            );
        }
    }
}
