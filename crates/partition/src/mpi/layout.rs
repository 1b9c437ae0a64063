//! Which rank is in which partition: as many in each as possible, neighbours together.
//!
//! ```text
//!  5 ranks, 2 partitions:   0 1 2 | 3 4
//! ```

use platforms::vm::guest::MOST_SECTIONS;
use units::Reason;

/// Most ranks: each has a section, and each partition has all of them.
pub const MOST_RANKS: u32 = MOST_SECTIONS as u32;
/// Partitions unless said otherwise.
pub const USUAL_PARTITIONS: u32 = 2;

/// Ranks spread over partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Ranks of each partition.
    ranks: Vec<u32>,
}

impl Layout {
    /// Spreads `ranks` over `partitions`.
    ///
    /// # Errors
    /// When that many cannot be, in words for the user.
    pub fn of(ranks: u32, partitions: Option<u32>) -> Result<Self, Reason> {
        if !(1..=MOST_RANKS).contains(&ranks) {
            return Err(format!(
                "wanted 1 to {MOST_RANKS} ranks, which is as many as a partition can see channels of, got {ranks}"
            ).into());
        }
        let partitions = partitions.unwrap_or(USUAL_PARTITIONS.min(ranks));
        if !(1..=ranks).contains(&partitions) {
            return Err(format!(
                "wanted 1 to {ranks} partitions for {ranks} ranks, at least one rank in each, got {partitions}"
            ).into());
        }
        let (each, more) = (ranks / partitions, ranks % partitions);
        Ok(Self { ranks: (0..partitions).map(|place| each + u32::from(place < more)).collect() })
    }

    /// Ranks of each partition, in order.
    pub fn per_partition(&self) -> &[u32] {
        &self.ranks
    }

    /// All of them.
    pub fn ranks(&self) -> u32 {
        self.ranks.iter().sum()
    }

    /// For each rank the number of its partition, from 0.
    pub fn homes(&self) -> Vec<usize> {
        let place = |(place, count): (usize, &u32)| std::iter::repeat_n(place, *count as usize);
        self.ranks.iter().enumerate().flat_map(place).collect()
    }

    /// Ranks of the fullest partition.
    pub fn most(&self) -> u32 {
        self.ranks.iter().copied().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_spread_in_blocks() {
        let layout = Layout::of(5, Some(2)).unwrap();
        assert_eq!(layout.per_partition(), [3, 2]);
        assert_eq!(layout.homes(), [0, 0, 0, 1, 1]);
        assert_eq!((layout.ranks(), layout.most()), (5, 3));
        assert_eq!(Layout::of(8, Some(8)).unwrap().per_partition(), [1; 8]);
        assert_eq!(Layout::of(1, None).unwrap().per_partition(), [1]);
        assert_eq!(Layout::of(3, None).unwrap().per_partition(), [2, 1]);
    }

    #[test]
    fn what_cannot_be_spread_is_said() {
        for (ranks, partitions, part) in
            [(0, None, "got 0"), (65, None, "got 65"), (2, Some(3), "got 3"), (2, Some(0), "got 0")]
        {
            let said = Layout::of(ranks, partitions).unwrap_err();
            assert!(said.to_string().contains(part), "{said}");
        }
    }
}
