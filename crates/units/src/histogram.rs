//! Log-linear histogram of ticks: full `u64` range, bounded memory, stated error, exact time.
//!
//! Values below 128 have a bucket each. From there on every power of two is cut into 128 buckets of equal width,
//! so a bucket's width is at most 1/128 of its lower edge: reading a value off the histogram errs by < 0.79 %.
//! Each bucket keeps the *count* and the *sum* of its values, so time-weighted figures (influence) are exact at
//! every bucket edge. There are 7424 buckets: 116 KiB, of which an undisturbed loop touches a few cache lines.
//!
//! ```text
//!  value   0 … 127 | 128 … 255 | 256 … 511 | 512 … 1023 | …
//!  width        1  |      1    |      2    |      4     |
//! ```

mod written;

use serde::{Deserialize, Serialize};

/// log2 of the number of buckets per power of two.
pub const PRECISION_BITS: u32 = 7;
/// Buckets per power of two.
const PER_OCTAVE: usize = 1 << PRECISION_BITS;
/// Number of buckets that cover all of `u64`.
pub const BUCKETS: usize = PER_OCTAVE * (64 - PRECISION_BITS as usize + 1);
/// Upper bound of the relative error of a value read off the histogram.
pub const RELATIVE_ERROR: f64 = 1.0 / PER_OCTAVE as f64;

/// The bucket that holds `value`.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "both casts are of numbers below 2 * PER_OCTAVE")]
pub const fn bucket_of(value: u64) -> usize {
    if value < PER_OCTAVE as u64 {
        return value as usize;
    }
    let exponent = value.ilog2();
    let shift = exponent - PRECISION_BITS;
    ((shift as usize) << PRECISION_BITS) + (value >> shift) as usize
}

/// The smallest value of a bucket.
pub const fn lower_edge(bucket: usize) -> u64 {
    if bucket < PER_OCTAVE {
        return bucket as u64;
    }
    let shift = (bucket >> PRECISION_BITS) - 1;
    ((bucket & (PER_OCTAVE - 1)) as u64 + PER_OCTAVE as u64) << shift
}

/// The largest value of a bucket.
pub const fn upper_edge(bucket: usize) -> u64 {
    if bucket + 1 >= BUCKETS { u64::MAX } else { lower_edge(bucket + 1) - 1 }
}

/// Histogram while it is being filled: dense, made once, never grows.
#[derive(Debug, Clone)]
pub struct DenseHistogram {
    counts: Box<[u64]>,
    sums: Box<[u64]>,
}

impl Default for DenseHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl DenseHistogram {
    /// An empty histogram; every page of it is touched, so filling it takes no page fault.
    pub fn new() -> Self {
        // A non-zero fill followed by a clear makes the allocator hand out real pages.
        let mut fresh =
            Self { counts: vec![1; BUCKETS].into_boxed_slice(), sums: vec![1; BUCKETS].into_boxed_slice() };
        fresh.clear();
        fresh
    }

    /// Forgets every value.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        self.sums.fill(0);
    }

    /// Adds one value. Sums wrap only after 2^64 ticks in one bucket: two centuries at 3 GHz.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let bucket = bucket_of(value);
        // `bucket_of` never reaches BUCKETS; `get_mut` lets the compiler keep the check cheap and total.
        if let (Some(count), Some(sum)) = (self.counts.get_mut(bucket), self.sums.get_mut(bucket)) {
            *count += 1;
            *sum = sum.wrapping_add(value);
        }
    }

    /// Adds `count` values of the same size.
    pub fn record_many(&mut self, value: u64, count: u64) {
        let bucket = bucket_of(value);
        if let (Some(slot), Some(sum)) = (self.counts.get_mut(bucket), self.sums.get_mut(bucket)) {
            *slot += count;
            *sum = sum.wrapping_add(value.wrapping_mul(count));
        }
    }

    /// The filled buckets, as they are written down.
    pub fn to_histogram(&self) -> Histogram {
        let buckets = self
            .counts
            .iter()
            .zip(self.sums.iter())
            .enumerate()
            .filter(|(_, (count, _))| **count > 0)
            .map(|(index, (count, sum))| Bucket {
                index: u16::try_from(index).unwrap_or(u16::MAX),
                count: *count,
                sum: *sum,
            })
            .collect();
        Histogram { buckets }
    }
}

/// One filled bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Which bucket; see [`lower_edge`] and [`upper_edge`].
    pub index: u16,
    /// How many values fell into it.
    pub count: u64,
    /// Their sum, exact, in the unit of the values.
    pub sum: u64,
}

impl Bucket {
    /// Smallest value this bucket may hold.
    pub fn lower(&self) -> u64 {
        lower_edge(usize::from(self.index))
    }

    /// Largest value this bucket may hold.
    pub fn upper(&self) -> u64 {
        upper_edge(usize::from(self.index))
    }
}

/// The filled buckets, ascending by index, each index once.
///
/// Written as one list of numbers, three for each bucket: the step from the index before it (from 0 at the first), the count of its values,
/// and their sum less the count times the bucket's lower edge. The lower edge of bucket i is i below 128, from there on
/// (i mod 128 + 128) × 2^(i div 128 − 1). Older files have a list `[index, count, sum]` for each bucket.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "written::Written", into = "written::Written")]
pub struct Histogram {
    buckets: Vec<Bucket>,
}

impl Histogram {
    /// The filled buckets, ascending.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// How many values were recorded.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.count).fold(0, u64::saturating_add)
    }

    /// Sum of all values, exact.
    pub fn sum(&self) -> u128 {
        self.buckets.iter().map(|bucket| u128::from(bucket.sum)).sum()
    }

    /// Adds every value of `other`.
    #[must_use]
    pub fn merged(&self, other: &Self) -> Self {
        Self::merge_all([self, other])
    }

    /// One histogram with every value of all.
    pub fn merge_all<'a>(histograms: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all: std::collections::BTreeMap<u16, Bucket> = std::collections::BTreeMap::new();
        for bucket in histograms.into_iter().flat_map(|histogram| histogram.buckets.iter()) {
            let slot = all.entry(bucket.index).or_insert(Bucket { index: bucket.index, count: 0, sum: 0 });
            slot.count = slot.count.saturating_add(bucket.count);
            slot.sum = slot.sum.saturating_add(bucket.sum);
        }
        Self { buckets: all.into_values().collect() }
    }

    /// From values, for tests and simulations.
    pub fn from_values(values: impl IntoIterator<Item = u64>) -> Self {
        let mut dense = DenseHistogram::new();
        values.into_iter().for_each(|value| dense.record(value));
        dense.to_histogram()
    }

    /// Whether a histogram that came from outside keeps the rules above: ascending, known buckets, sums that the
    /// counts allow. Anything a guest sends passes this check before it is believed.
    pub fn is_well_formed(&self) -> bool {
        let ascending = self.buckets.windows(2).all(|pair| matches!(pair, [a, b] if a.index < b.index));
        ascending
            && self.buckets.iter().all(|bucket| {
                let (count, sum) = (u128::from(bucket.count), u128::from(bucket.sum));
                usize::from(bucket.index) < BUCKETS
                    && bucket.count > 0
                    && sum >= count * u128::from(bucket.lower())
                    && sum <= count * u128::from(bucket.upper())
            })
    }
}

impl From<written::Written> for Histogram {
    fn from(written::Written(buckets): written::Written) -> Self {
        Self { buckets }
    }
}

impl From<Histogram> for written::Written {
    fn from(histogram: Histogram) -> Self {
        Self(histogram.buckets)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn edges_tile_the_whole_range() {
        assert_eq!(lower_edge(0), 0);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        for bucket in 1..BUCKETS {
            assert_eq!(lower_edge(bucket), upper_edge(bucket - 1) + 1, "bucket {bucket}");
        }
    }

    proptest! {
        #[test]
        fn a_value_lies_inside_its_bucket_and_the_bucket_is_narrow(value: u64) {
            let bucket = bucket_of(value);
            let (lower, upper) = (lower_edge(bucket), upper_edge(bucket));
            prop_assert!(lower <= value && value <= upper);
            prop_assert!((upper - lower) as f64 <= RELATIVE_ERROR * lower as f64);
        }

        #[test]
        fn merging_is_recording_together(a in prop::collection::vec(0u64..1 << 40, 0..60),
                                         b in prop::collection::vec(0u64..1 << 40, 0..60)) {
            let merged = Histogram::from_values(a.clone()).merged(&Histogram::from_values(b.clone()));
            let together = Histogram::from_values(a.into_iter().chain(b));
            prop_assert_eq!(&merged, &together);
            prop_assert!(merged.is_well_formed());
        }
    }

    #[test]
    fn a_forged_histogram_is_found_out() {
        let forged: Histogram = serde_json::from_str("[[5,2,10],[5,1,5]]").expect("shape is right");
        assert!(!forged.is_well_formed());
        let impossible: Histogram = serde_json::from_str("[[5,2,99]]").expect("shape is right");
        assert!(!impossible.is_well_formed());
        let beyond: Histogram = serde_json::from_str("[[65000,1,1]]").expect("shape is right");
        assert!(!beyond.is_well_formed());
    }
}
