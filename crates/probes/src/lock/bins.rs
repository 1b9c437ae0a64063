//! Waits by their highest bit: counts and accumulated ticks, in memory that never grows.

use crate::detail::MOST_WAIT_BINS;

/// What one thread waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Waits {
    counts: [u64; MOST_WAIT_BINS],
    ticks: [u64; MOST_WAIT_BINS],
    longest: u64,
}

impl Waits {
    pub(super) const fn new() -> Self {
        Self { counts: [0; MOST_WAIT_BINS], ticks: [0; MOST_WAIT_BINS], longest: 0 }
    }

    /// Adds a wait of so many ticks.
    #[inline]
    pub(super) fn record(&mut self, wait: u64) {
        let bin = wait.max(1).ilog2() as usize;
        if let (Some(count), Some(ticks)) = (self.counts.get_mut(bin), self.ticks.get_mut(bin)) {
            *count += 1;
            *ticks = ticks.saturating_add(wait);
        }
        self.longest = self.longest.max(wait);
    }

    /// Adds those of another thread.
    pub(super) fn add(&mut self, other: &Self) {
        let pairs =
            self.counts.iter_mut().chain(&mut self.ticks).zip(other.counts.iter().chain(&other.ticks));
        for (mine, its) in pairs {
            *mine = mine.saturating_add(*its);
        }
        self.longest = self.longest.max(other.longest);
    }

    /// Counts and ticks up to the last bin that holds a wait, and the longest wait.
    pub(super) fn to_parts(&self) -> (Vec<u64>, Vec<u64>, u64) {
        let filled = self.counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        let cut = |all: &[u64; MOST_WAIT_BINS]| all.iter().take(filled).copied().collect();
        (cut(&self.counts), cut(&self.ticks), self.longest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bins_agree_with_counting_one_by_one(
            mine in prop::collection::vec(0u64..1 << 50, 0..80), its in prop::collection::vec(0u64..4, 0..80)) {
            let (mut one, mut other) = (Waits::new(), Waits::new());
            for wait in &mine { one.record(*wait); }
            for wait in &its { other.record(*wait); }
            one.add(&other);
            let (counts, ticks, longest) = one.to_parts();
            let all: Vec<u64> = mine.into_iter().chain(its).collect();
            for bin in 0..MOST_WAIT_BINS {
                let low = if bin == 0 { 0 } else { 1u64 << bin };
                let high = (1u128 << (bin + 1)) - 1;
                let inside: Vec<u64> = all.iter().copied().filter(|w| *w >= low && u128::from(*w) <= high).collect();
                prop_assert_eq!(counts.get(bin).copied().unwrap_or(0), inside.len() as u64, "bin {}", bin);
                prop_assert_eq!(ticks.get(bin).copied().unwrap_or(0), inside.iter().sum::<u64>(), "bin {}", bin);
            }
            prop_assert_eq!(longest, all.iter().copied().max().unwrap_or(0));
            prop_assert_eq!(counts.len(), ticks.len());
            prop_assert!(counts.last().is_none_or(|last| *last > 0));
        }
    }

    #[test]
    fn the_largest_wait_has_a_bin() {
        let mut waits = Waits::new();
        waits.record(u64::MAX);
        waits.record(u64::MAX);
        let (counts, ticks, longest) = waits.to_parts();
        assert_eq!((counts.len(), counts[63], ticks[63], longest), (64, 2, u64::MAX, u64::MAX));
    }
}
