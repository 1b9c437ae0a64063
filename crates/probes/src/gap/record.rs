//! Where long gaps go: a histogram per batch and the worst 64 with their time stamps. Bounded memory, made and
//! touched before the loop begins.

use super::observe::{GapSink, SHORT_TICKS, ShortGaps};
use crate::detail::Stretch;
use crate::worst::Worst;
use units::histogram::{BUCKETS, DenseHistogram, Histogram};
use units::{Bytes, Hertz, Ticks};

/// The sink of the probe.
#[derive(Debug)]
pub struct Record {
    long: Vec<DenseHistogram>,
    worst: Worst,
    backward: u64,
}

/// One table per batch, every page of it touched.
pub fn short_tables(batches: u32) -> Vec<ShortGaps> {
    let mut tables = vec![[1; SHORT_TICKS]; batches as usize];
    for table in &mut tables {
        table.fill(0);
    }
    tables
}

impl Record {
    /// Room for this many batches.
    pub fn new(batches: u32) -> Self {
        Self { long: (0..batches).map(|_| DenseHistogram::new()).collect(), worst: Worst::new(), backward: 0 }
    }

    /// Memory of this and of its tables.
    pub fn memory(batches: u32) -> Bytes {
        let per_batch = BUCKETS * 2 * size_of::<u64>() + size_of::<ShortGaps>();
        Bytes::from_bytes(u64::from(batches) * per_batch as u64)
    }

    /// How often the counter went backwards.
    pub fn backward(&self) -> u64 {
        self.backward
    }

    /// The histogram of each batch: long gaps and short ones together.
    pub fn histograms(&mut self, short: &[ShortGaps]) -> Vec<Histogram> {
        for (dense, table) in self.long.iter_mut().zip(short) {
            for (gap, count) in (0u64..).zip(table).filter(|(_, count)| **count > 0) {
                dense.record_many(gap, *count);
            }
        }
        self.long.iter().map(DenseHistogram::to_histogram).collect()
    }

    /// The worst gaps, longest first, on the time line of a loop that began at counter value `first`.
    pub fn worst(&self, first: u64, rate: Hertz) -> Vec<Stretch> {
        let nanos = |ticks: u64| Ticks::from_ticks(ticks).to_nanos(rate);
        let stretch = |(start, length): (u64, u64)| Stretch {
            start_ns: nanos(start.saturating_sub(first)),
            length_ns: nanos(length),
        };
        self.worst.longest_first().into_iter().map(stretch).collect()
    }
}

impl GapSink for Record {
    fn long(&mut self, batch: usize, start: u64, gap: u64) {
        if let Some(dense) = self.long.get_mut(batch) {
            dense.record(gap);
        }
        self.worst.offer(start, gap);
    }

    fn backward(&mut self) {
        self.backward += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_are_the_64_longest_with_their_starts() {
        let mut record = Record::new(8);
        // A permutation of 0 … 999, so that long and short ones come mixed.
        for step in 0..1000u64 {
            let rank = step * 373 % 1000;
            record.long(0, 10_000 + step, 2048 + rank);
        }
        let worst = record.worst(10_000, Hertz::from_hz(1_000_000_000));
        let lengths: Vec<u64> = worst.iter().map(|stretch| stretch.length_ns.get()).collect();
        assert_eq!(lengths, (0..64).map(|nth| 2048 + 999 - nth).collect::<Vec<_>>());
        for stretch in &worst {
            let rank = stretch.start_ns.get() * 373 % 1000;
            assert_eq!(stretch.length_ns.get(), 2048 + rank);
        }
    }

    #[test]
    fn short_and_long_gaps_meet_in_one_histogram() {
        let mut tables = short_tables(2);
        tables[1][40] = 3;
        tables[1][2047] = 1;
        let mut record = Record::new(2);
        record.long(1, 0, 1_000_003);
        let histograms = record.histograms(&tables);
        assert!(histograms[0].is_empty());
        assert_eq!((histograms[1].count(), histograms[1].sum()), (5, 120 + 2047 + 1_000_003));
        assert!(histograms[1].is_well_formed());
    }
}
