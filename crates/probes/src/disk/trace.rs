//! What is kept of a phase while it runs: latencies, bytes per window, the longest operations and what the scheduler
//! counted around them.
//!
//! An operation begins when the one before ended, so no stretch of the phase belongs to nobody. Its bytes count for
//! the window in which it ended.

use std::time::{Duration, Instant};

use crate::accounts::Witness;
use crate::detail::{DiskWindows, Stretch, Witnessed};
use crate::worst::Worst;
use units::histogram::{DenseHistogram, Histogram};
use units::{Bytes, Millis, Nanos};

/// Longest operations that are kept of a phase: a measurement has up to twenty phases.
const STALLS_KEPT: usize = 16;
/// Lengths of the windows.
const WINDOWS_MS: [u64; 3] = [50, 200, 1000];

/// A phase while it runs.
#[derive(Debug)]
pub struct Trace {
    begin: Instant,
    last: Duration,
    bytes: u64,
    latency: DenseHistogram,
    windows: [Vec<u64>; WINDOWS_MS.len()],
    stalls: Worst,
    witness: Witness,
}

/// A phase when it is over.
#[derive(Debug)]
pub struct Traced {
    /// Bytes of all operations.
    pub bytes: Bytes,
    /// From the begin until it was finished.
    pub elapsed_ns: Nanos,
    /// Latency of single operations, nanoseconds.
    pub latency_ns: Histogram,
    /// Bytes per complete window.
    pub windows: Vec<DiskWindows>,
    /// The longest operations.
    pub stalls: Vec<Stretch>,
    /// What the scheduler counted around them.
    pub witnessed: Vec<Witnessed>,
}

impl Trace {
    /// The phase begins now.
    pub fn starting_now() -> Self {
        let (latency, stalls) = (DenseHistogram::new(), Worst::of(STALLS_KEPT));
        let windows = std::array::from_fn(|_| Vec::new());
        let mut witness = Witness::of_this_thread();
        witness.begin(0);
        Self { begin: Instant::now(), last: Duration::ZERO, bytes: 0, latency, windows, stalls, witness }
    }

    /// An operation of this many bytes has just ended.
    pub fn ended(&mut self, bytes: u64) {
        self.ended_after(bytes);
    }

    /// The same; returns the time since the begin, so that the caller need not look at the clock again.
    pub fn ended_after(&mut self, bytes: u64) -> Duration {
        let now = self.begin.elapsed();
        self.ended_at(now, bytes);
        now
    }

    fn ended_at(&mut self, now: Duration, bytes: u64) {
        let nanos = |time: Duration| Nanos::from_duration(time).get();
        let length = nanos(now.saturating_sub(self.last));
        self.latency.record(length);
        let is_among_longest = self.stalls.offer(nanos(self.last), length);
        let stretch =
            Stretch { start_ns: Nanos::from_nanos(nanos(self.last)), length_ns: Nanos::from_nanos(length) };
        self.witness.ended(nanos(now), stretch, is_among_longest);
        self.bytes += bytes;
        let millis = nanos(now) / 1_000_000;
        for (window_ms, filled) in WINDOWS_MS.iter().zip(&mut self.windows) {
            let window = usize::try_from(millis / window_ms).unwrap_or(usize::MAX);
            // Windows in which no operation ended hold zero; a phase is at most hours long, so this stays small.
            if filled.len() <= window {
                filled.resize(window.saturating_add(1), 0);
            }
            if let Some(slot) = filled.get_mut(window) {
                *slot += bytes;
            }
        }
        self.last = now;
    }

    /// Time since the begin.
    pub fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// The phase is over; the window that its last operation cut off is left out.
    pub fn finish(self) -> Traced {
        let elapsed_ns = Nanos::from_duration(self.elapsed());
        let windows = WINDOWS_MS
            .into_iter()
            .zip(self.windows)
            .map(|(window_ms, mut bytes)| {
                bytes.pop();
                DiskWindows { window_ms: Millis::from_millis(window_ms), bytes }
            })
            .collect();
        let stretch = |(start, length)| Stretch {
            start_ns: Nanos::from_nanos(start),
            length_ns: Nanos::from_nanos(length),
        };
        let stalls: Vec<Stretch> = self.stalls.longest_first().into_iter().map(stretch).collect();
        Traced {
            bytes: Bytes::from_bytes(self.bytes),
            elapsed_ns,
            latency_ns: self.latency.to_histogram(),
            windows,
            witnessed: self.witness.finish(&stalls),
            stalls,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_fall_into_the_window_in_which_the_operation_ended() {
        let mut trace = Trace::starting_now();
        for (at_ms, bytes) in [(10, 1), (40, 2), (60, 4), (430, 8), (431, 16)] {
            trace.ended_at(Duration::from_millis(at_ms), bytes);
        }
        let traced = trace.finish();
        assert_eq!(traced.bytes.get(), 31);
        assert_eq!(traced.windows[0].bytes, [3, 4, 0, 0, 0, 0, 0, 0]);
        assert_eq!(traced.windows[1].bytes, [7, 0]);
        assert!(traced.windows[2].bytes.is_empty());
        assert_eq!(traced.latency_ns.count(), 5);
        let longest = traced.stalls[0];
        assert_eq!((longest.start_ns.get(), longest.length_ns.get()), (60_000_000, 370_000_000));
        assert_eq!(traced.latency_ns.sum(), 431_000_000);
    }
}
