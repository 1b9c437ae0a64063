//! The 64 longest of any number of stretches, or fewer, in memory that never grows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::detail::WORST_KEPT;

/// Keeps the [`WORST_KEPT`] longest; of equally long ones the first seen.
#[derive(Debug, Clone)]
pub struct Worst {
    /// Length before start, so that they order by length; the shortest kept one is on top.
    kept: BinaryHeap<Reverse<(u64, u64)>>,
    /// What is no longer than this is not among the worst.
    threshold: u64,
    /// How many are kept.
    most: usize,
}

impl Default for Worst {
    fn default() -> Self {
        Self::new()
    }
}

impl Worst {
    /// Empty, with its memory touched, so that the first stretch takes no page fault.
    pub fn new() -> Self {
        Self::of(WORST_KEPT)
    }

    /// The same of no more than so many, at least one and at most [`WORST_KEPT`].
    pub fn of(most: usize) -> Self {
        let most = most.clamp(1, WORST_KEPT);
        let mut kept = BinaryHeap::with_capacity(most);
        kept.extend((0..most as u64).map(|length| Reverse((length, 0))));
        kept.clear();
        Self { kept, threshold: 0, most }
    }

    /// Keeps a stretch if it is among the longest so far, and says whether it is. One comparison when it is not.
    #[inline]
    pub fn offer(&mut self, start: u64, length: u64) -> bool {
        let is_kept = length > self.threshold;
        if is_kept {
            self.keep(start, length);
        }
        is_kept
    }

    fn keep(&mut self, start: u64, length: u64) {
        if self.kept.len() < self.most {
            self.kept.push(Reverse((length, start)));
        } else if let Some(mut shortest) = self.kept.peek_mut() {
            *shortest = Reverse((length, start));
        }
        if self.kept.len() == self.most {
            self.threshold = self.kept.peek().map_or(0, |shortest| shortest.0.0);
        }
    }

    /// `(start, length)` of those kept, longest first, equally long ones by start.
    pub fn longest_first(&self) -> Vec<(u64, u64)> {
        let mut kept: Vec<(u64, u64)> =
            self.kept.iter().map(|Reverse((length, start))| (*start, *length)).collect();
        kept.sort_by_key(|(start, length)| (Reverse(*length), *start));
        kept
    }
}
