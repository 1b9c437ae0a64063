//! A plain copy of the same sizes, by one process: what bandwidth is held against.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::exchange::{clock, nanos};
use model::channel_worker::{Limits, Seen, Totals};
use units::histogram::DenseHistogram;

/// Copies between two looks at the clock, while they are small.
const PER_LOOK: u64 = 32;
/// Copies of at most so many bytes are small.
const SMALL: usize = 4096;

/// Copies a buffer of this size over and over.
pub fn copy(bytes: usize, limits: Limits) -> Seen {
    let (from, mut to) = (vec![1_u8; bytes], vec![0_u8; bytes]);
    let mut once = || black_box(&mut to).copy_from_slice(black_box(&from));
    // The first ones take their pages from the kernel.
    once();
    once();
    let mut each = DenseHistogram::new();
    let (began, most) = (Instant::now(), Duration::from_millis(limits.trips_ms));
    for _ in 0..limits.trips {
        let started = Instant::now();
        once();
        let now = Instant::now();
        each.record(nanos(now - started));
        if now - began >= most {
            break;
        }
    }
    let (began, time) = (Instant::now(), Duration::from_millis(limits.stream_ms));
    let (mut done, per_look) = (0, if bytes <= SMALL { PER_LOOK } else { 1 });
    let stream = loop {
        (0..per_look).for_each(|_| once());
        done += per_look;
        let took = began.elapsed();
        if took >= time {
            break Totals { count: done, ns: nanos(took) };
        }
    };
    Seen { trips_ns: each.to_histogram(), batch: Totals::default(), stream, clock: clock() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_counted_until_the_time_is_over() {
        let limits = Limits { trips: 10, trips_ms: 100, batch_ms: 0, stream_ms: 1 };
        let seen = copy(100, limits);
        assert_eq!(seen.trips_ns.count(), 10);
        assert!(seen.stream.count >= PER_LOOK && seen.stream.ns >= 1_000_000);
    }
}
