//! Influence and `bound_p`: the time-weighted distribution of gaps and stalls.
//!
//! Source: Lourot 2010, *Integration of safety-critical real-time applications on platform virtualization*.
//! `influence(t)` = (sum of all durations longer than t) / (sum of all durations); `bound_p` = the smallest t with
//! influence(t) ≤ 1 − p. A rare gap counts as long as it lasts.
//!
//! Error: exact at every upper edge of a histogram bucket, because buckets keep exact sums. Between edges `influence`
//! reads the edge below, so it is never too small; `bound` answers with an upper edge and is too large by less than
//! [`units::histogram::RELATIVE_ERROR`].

use units::Ticks;
use units::histogram::{Bucket, Histogram};

/// One point of the influence curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InfluencePoint {
    /// Upper edge of a bucket.
    pub longer_than_ticks: Ticks,
    /// Share of the time that gaps longer than that make up.
    pub influence: f64,
}

/// The influence curve at the upper edge of every filled bucket, ascending. Empty when no time was recorded.
pub fn curve(histogram: &Histogram) -> Vec<InfluencePoint> {
    let total = histogram.sum();
    if total == 0 {
        return Vec::new();
    }
    let mut beyond = total;
    histogram
        .buckets()
        .iter()
        .map(|bucket| {
            beyond = beyond.saturating_sub(u128::from(bucket.sum));
            InfluencePoint { longer_than_ticks: edge(bucket), influence: beyond as f64 / total as f64 }
        })
        .collect()
}

/// Share of the time made up by gaps longer than `longer_than`; 0 when no time was recorded.
pub fn influence(histogram: &Histogram, longer_than: Ticks) -> f64 {
    let total = histogram.sum();
    if total == 0 {
        return 0.0;
    }
    let beyond: u128 = histogram
        .buckets()
        .iter()
        .filter(|bucket| bucket.upper() > longer_than.get())
        .map(|bucket| u128::from(bucket.sum))
        .sum();
    beyond as f64 / total as f64
}

/// The smallest bucket edge t with influence(t) ≤ 1 − p; none when no time was recorded or `p` is not in 0 … 1.
pub fn bound(histogram: &Histogram, p: f64) -> Option<Ticks> {
    if !(0.0..=1.0).contains(&p) {
        return None;
    }
    curve(histogram).into_iter().find(|point| point.influence <= 1.0 - p).map(|point| point.longer_than_ticks)
}

/// The upper edge of a bucket.
fn edge(bucket: &Bucket) -> Ticks {
    Ticks::from_ticks(bucket.upper())
}

/// One range of the thesis's table: gaps of `from_ticks` up to but not including `to_ticks`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decade {
    /// Smallest gap of the range.
    pub from_ticks: Ticks,
    /// First gap beyond the range; the last range ends at the largest number.
    pub to_ticks: Ticks,
    /// Gaps in it.
    pub count: u64,
    /// What each counts: 1, 10, 100 …
    pub importance: u64,
    /// Count times importance as a share of all ranges.
    pub influence: f64,
}

/// Ranges that cover every tick count: `[0, 10)`, `[10, 100)` … `[10^19, 2^64)`.
const DECADES: usize = 20;

/// The decade table of a histogram, up to the largest range that holds a gap. Empty when there are none.
///
/// A bucket of the histogram that straddles a power of ten counts where most of its gaps must lie, judged by their
/// mean: below 128 ticks nothing straddles, above at most 0.8 % of the range next to the power does.
pub fn decades(histogram: &Histogram) -> Vec<Decade> {
    let mut counts = [0u64; DECADES];
    for bucket in histogram.buckets().iter().filter(|bucket| bucket.count > 0) {
        let mean = (bucket.sum / bucket.count).min(bucket.upper());
        let decade = mean.checked_ilog10().unwrap_or(0);
        if let Some(count) = usize::try_from(decade).ok().and_then(|decade| counts.get_mut(decade)) {
            *count = count.saturating_add(bucket.count);
        }
    }
    let filled = counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
    decades_from_counts(counts.get(..filled).unwrap_or(&[]))
}

/// The decade table of counts per range, the first being `[0, 10)`; counts beyond the twentieth are left out.
pub fn decades_from_counts(counts: &[u64]) -> Vec<Decade> {
    let weighted = |(index, count): (usize, &u64)| importance(index) as f64 * *count as f64;
    let total: f64 = counts.iter().take(DECADES).enumerate().map(weighted).sum();
    counts
        .iter()
        .take(DECADES)
        .enumerate()
        .map(|(index, count)| Decade {
            from_ticks: Ticks::from_ticks(if index == 0 { 0 } else { importance(index) }),
            to_ticks: Ticks::from_ticks(importance(index).saturating_mul(10)),
            count: *count,
            importance: importance(index),
            influence: if total > 0.0 { weighted((index, count)) / total } else { 0.0 },
        })
        .collect()
}

/// `bound_p` of a decade table: the end of the first range beyond which at most the share 1 − p lies.
pub fn bound_from_decades(decades: &[Decade], p: f64) -> Option<Ticks> {
    let mut beyond: f64 = decades.iter().map(|decade| decade.influence).sum();
    if !(0.0..=1.0).contains(&p) || beyond <= 0.0 {
        return None;
    }
    // The shares are floats that were normalised: their sum is 1 up to rounding.
    decades
        .iter()
        .find(|decade| {
            beyond -= decade.influence;
            beyond <= 1.0 - p + 1e-12
        })
        .map(|decade| decade.to_ticks)
}

/// 10^index; the ranges end before it overflows.
fn importance(index: usize) -> u64 {
    u32::try_from(index).ok().and_then(|index| 10u64.checked_pow(index)).unwrap_or(u64::MAX)
}
