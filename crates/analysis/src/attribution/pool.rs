//! Lost time by length of gap, from which each source takes its part. What was taken is gone: no time is given twice.

use probes::detail::GapDetail;
use units::Ticks;
use units::histogram::Histogram;

/// Stretches of one bucket differ by no more than this (its relative error is below 0.8 %).
const SAME_LENGTH: f64 = 0.02;

/// Gaps of about one length.
#[derive(Debug, Clone, Copy)]
struct Cell {
    /// Mean length of the gaps, nanoseconds.
    length: f64,
    /// How many are left; fractions come from sources that took a part of a gap.
    count: f64,
    /// Their time that is left, nanoseconds.
    time: f64,
}

impl Cell {
    /// Takes at most `nanos`; returns what was taken.
    fn take(&mut self, nanos: f64) -> f64 {
        let took = nanos.clamp(0.0, self.time);
        if self.time > 0.0 {
            self.count *= 1.0 - took / self.time;
            self.time -= took;
        }
        took
    }
}

/// Lost time, ascending by length.
#[derive(Debug, Clone, Default)]
pub(super) struct Pool {
    cells: Vec<Cell>,
}

impl Pool {
    /// The gaps longer than 1 µs, as the metric `lost_share` counts them.
    pub(super) fn of(gap: &GapDetail) -> Self {
        let gaps = Histogram::merge_all(&gap.batches);
        let (hz, microsecond) =
            (gap.counter_hz.as_f64(), Ticks::from_ticks(gap.counter_hz.get() / 1_000_000).get());
        if gap.counter_hz.get() == 0 {
            return Self { cells: Vec::new() };
        }
        let long = gaps.buckets().iter().filter(|bucket| bucket.upper() > microsecond && bucket.count > 0);
        let cell = |(count, ticks): (f64, f64)| {
            let time = ticks * 1e9 / hz;
            Cell { length: time / count, count, time }
        };
        Self { cells: long.map(|bucket| cell((bucket.count as f64, bucket.sum as f64))).collect() }
    }

    /// What lies beyond `typical` in all values longer than `longest_usual`, nanoseconds.
    pub(super) fn beyond(lengths: &Histogram, longest_usual: f64, typical: f64) -> Self {
        let cell = |(count, sum): (f64, f64)| {
            let length = sum / count;
            Cell { length, count, time: (length - typical) * count }
        };
        let filled = lengths.buckets().iter().filter(|bucket| bucket.count > 0);
        let cells = filled.map(|bucket| cell((bucket.count as f64, bucket.sum as f64)));
        Self { cells: cells.filter(|cell| cell.length > longest_usual && cell.time > 0.0).collect() }
    }

    /// Both together.
    pub(super) fn joined(mut self, other: Self) -> Self {
        self.cells.extend(other.cells);
        self.cells.sort_by(|a, b| a.length.total_cmp(&b.length));
        self
    }

    /// Takes up to `nanos` from what is nearest in length to one stretch; nothing where none is about as long.
    pub(super) fn take_at(&mut self, length: f64, nanos: f64) -> f64 {
        let distance = |cell: &Cell| (cell.length / length.max(1.0)).ln().abs();
        let near = self.cells.iter_mut().filter(|cell| distance(cell) < SAME_LENGTH);
        near.min_by(|a, b| distance(a).total_cmp(&distance(b))).map_or(0.0, |cell| cell.take(nanos))
    }

    /// All time that is left.
    pub(super) fn left(&self) -> f64 {
        self.cells.iter().map(|cell| cell.time).sum()
    }

    /// Takes up to `nanos` from the longest gaps down to those of `shortest`.
    pub(super) fn take_longest(&mut self, nanos: f64, shortest: f64) -> f64 {
        let mut wanted = nanos.max(0.0);
        for cell in self.cells.iter_mut().rev().filter(|cell| cell.length >= shortest) {
            wanted -= cell.take(wanted);
        }
        nanos.max(0.0) - wanted
    }

    /// Takes up to `nanos` from all gaps in proportion to what they hold.
    pub(super) fn take_evenly(&mut self, nanos: f64) -> f64 {
        let left = self.left();
        let share = if left > 0.0 { (nanos / left).clamp(0.0, 1.0) } else { 0.0 };
        self.cells.iter_mut().map(|cell| cell.take(cell.time * share)).sum()
    }

    /// Takes `count` whole gaps no longer than `longest`, those nearest in length to `typical` first.
    pub(super) fn take_typical(&mut self, count: f64, typical: f64, longest: f64) -> f64 {
        let mut order: Vec<&mut Cell> = self.cells.iter_mut().filter(|cell| cell.length <= longest).collect();
        let distance = |cell: &Cell| (cell.length / typical.max(1.0)).ln().abs();
        order.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
        let (mut wanted, mut took) = (count.max(0.0), 0.0);
        for cell in order.into_iter().filter(|cell| cell.count > 0.0) {
            let share = (wanted / cell.count).min(1.0);
            wanted -= cell.count * share;
            took += cell.take(cell.time * share);
        }
        took
    }

    /// How many gaps are left that are no longer than this.
    pub(super) fn count_up_to(&self, longest: f64) -> f64 {
        self.cells.iter().filter(|cell| cell.length <= longest).map(|cell| cell.count).sum()
    }

    /// Median length of those; 0 when there are none.
    pub(super) fn median_up_to(&self, longest: f64) -> f64 {
        let half = self.count_up_to(longest) / 2.0;
        let mut seen = 0.0;
        let middle = self.cells.iter().filter(|cell| cell.length <= longest).find(|cell| {
            seen += cell.count;
            cell.count > 0.0 && seen >= half
        });
        middle.map_or(0.0, |cell| cell.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Hertz, Nanos};

    fn pool(gaps_ns: &[u64]) -> Pool {
        Pool::of(&GapDetail {
            counter_hz: Hertz::from_hz(1_000_000_000),
            observed_ns: Nanos::from_nanos(gaps_ns.iter().sum()),
            cpu: None,
            batches: vec![Histogram::from_values(gaps_ns.iter().copied())],
            worst: vec![],
        })
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6 * b.abs().max(1.0)
    }

    #[test]
    fn short_gaps_are_no_loss() {
        assert!(near(pool(&[20; 1000]).left(), 0.0));
        assert!(near(pool(&[20, 500, 3000, 100_000]).left(), 103_000.0));
    }

    #[test]
    fn what_is_taken_is_gone() {
        let mut pool = pool(&[3000, 3000, 3000, 100_000]);
        assert!(near(pool.take_longest(60_000.0, 10_000.0), 60_000.0));
        assert!(
            near(pool.take_longest(60_000.0, 10_000.0), 40_000.0),
            "only the long one gives to this source"
        );
        assert!(near(pool.median_up_to(1e6), 3000.0));
        assert!(near(pool.take_typical(2.0, 3000.0, 1e6), 6000.0));
        assert!(near(pool.take_evenly(1e9), 3000.0));
        assert!(near(pool.left(), 0.0));
    }

    #[test]
    fn what_lies_beyond_the_typical_is_what_was_lost() {
        let lengths = Histogram::from_values([100, 100, 100, 1000, 5000]);
        let mut pool = Pool::beyond(&lengths, 300.0, 100.0);
        assert!(near(pool.left(), 900.0 + 4900.0));
        assert!(near(pool.take_at(5000.0, 1e9), 4900.0));
        assert!(near(pool.take_at(5000.0, 1e9), 0.0), "it is gone");
        assert!(near(pool.take_at(2000.0, 1e9), 0.0), "nothing is as long");
        let other = Pool::beyond(&Histogram::from_values([10, 10, 10, 700]), 100.0, 10.0);
        let mut both = pool.joined(other);
        assert!(near(both.take_longest(1000.0, 800.0), 900.0));
        assert!(near(both.left(), 690.0));
    }

    #[test]
    fn the_nearest_in_length_go_first() {
        let mut pool = pool(&[2000, 3000, 3000, 50_000]);
        assert!(near(pool.take_typical(2.0, 3000.0, 1e6), 6000.0));
        assert!(near(pool.count_up_to(1e6), 2.0));
    }
}
