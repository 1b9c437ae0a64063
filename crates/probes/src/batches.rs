//! Operations of several threads, counted per span of time, for the system-call and fork probes.
//!
//! ```text
//!  span │      0       │      1       │      2       │        ├┤ operation
//!       ├──┤├───┤├──┤├───┤├──┤├────┤├─────┤├──┤├──┤
//!       └─ 0: 3 in all of this ─┘└─ 1: 4 in this ─┘…    from the last one before the span to the last one in it
//! ```
//! All threads share one time line that begins when they have mustered. An operation counts for the span in which it ended, and takes
//! the time since the one before it: a span in which 18 ended and the 19th nearly did is not 5 % slower than the next. What ends
//! after the last span does not count.

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

    /// Adds up the threads. A span lasts as long as its operations took a thread on average; a thread that ended none in it is
    /// counted with the span's own length.
    pub fn point(&self, tallies: &[BatchTally]) -> RatePoint {
        let threads = u32::try_from(tallies.len()).unwrap_or(u32::MAX);
        let of_span = |at: usize| tallies.iter().filter_map(move |tally| tally.spans.get(at));
        let lasted = |at: usize| {
            let each = of_span(at).map(|span| if span.operations > 0 { span.took } else { self.span });
            Nanos::from_duration(each.sum::<Duration>() / threads.max(1))
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
    /// Counts operations the last of which ended at `now`; false when the last span is over.
    pub fn count(&mut self, now: Instant, operations: u64) -> bool {
        let end = now.saturating_duration_since(self.begin);
        let at = usize::try_from(end.as_nanos() / self.span.as_nanos()).unwrap_or(usize::MAX);
        let Some(span) = self.spans.get_mut(at) else { return false };
        span.operations += operations;
        span.took += end.saturating_sub(self.last_end);
        self.last_end = end;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(spans: Spans, ends: &[(u64, u64)]) -> BatchTally {
        let mut tally = spans.tally();
        let begin = tally.begin;
        assert!(
            ends.iter().all(|(ms, operations)| tally.count(begin + Duration::from_millis(*ms), *operations))
        );
        tally
    }

    fn millis(point: &RatePoint) -> Vec<f64> {
        point.elapsed_ns.iter().map(|elapsed| elapsed.as_f64() / 1e6).collect()
    }

    #[test]
    fn operations_count_for_the_span_in_which_they_ended_and_take_the_time_since_the_one_before() {
        let spans = Spans::over(Millis::from_millis(40), 4);
        let mut tally = made(spans, &[(3, 5), (9, 2), (10, 7), (39, 11)]);
        let after = tally.begin + Duration::from_millis(40);
        assert!(!tally.count(after, 100));
        let point = spans.point(&[tally]);
        assert_eq!((point.threads, point.operations.clone()), (1, vec![7, 7, 0, 11]));
        assert_eq!(millis(&point), [9.0, 1.0, 10.0, 29.0], "nothing ended in the third");
    }

    #[test]
    fn equal_operations_take_as_long_in_every_span() {
        let spans = Spans::over(Millis::from_millis(40), 4);
        // Every 3 ms: three or four end in a span of 10 ms.
        let ends: Vec<(u64, u64)> = (1..14).map(|end| (3 * end, 1)).collect();
        let point = spans.point(&[made(spans, &ends), made(spans, &ends)]);
        assert_eq!(point.operations, [6, 6, 8, 6]);
        let each = millis(&point).into_iter().zip(&point.operations);
        assert!(each.into_iter().all(|(elapsed, count)| (elapsed * 2.0 / *count as f64 - 3.0).abs() < 1e-9));
    }
}
