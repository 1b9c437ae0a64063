//! Which owner in the guest holds and awaits which range: the host's kernel knows no processes of the guest, so whether they wait
//! for each other in a circle, and who holds what another asks for, is looked up here. Pure.

use std::collections::{HashMap, HashSet};

/// Kinds of locks (fcntl(2)).
pub const READ: u32 = 0;
/// See [`READ`].
pub const WRITE: u32 = 1;
/// See [`READ`].
pub const NONE: u32 = 2;

/// A range of a file, both ends in it, and how it is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// First byte.
    pub start: u64,
    /// Last byte.
    pub end: u64,
    /// [`READ`], [`WRITE`] or [`NONE`].
    pub kind: u32,
}

impl Range {
    const fn overlaps(self, other: Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    const fn excludes(self, other: Self) -> bool {
        self.overlaps(other) && (self.kind == WRITE || other.kind == WRITE)
    }
}

#[derive(Debug, Clone, Copy)]
struct Wait {
    ticket: u64,
    node: u64,
    owner: u64,
    range: Range,
}

/// What is held and awaited.
#[derive(Debug, Default)]
pub struct Ranges {
    held: HashMap<u64, Vec<(u64, Range)>>,
    waiting: Vec<Wait>,
    tickets: u64,
}

impl Ranges {
    /// An owner has locked a range, or given it back.
    pub fn set(&mut self, node: u64, owner: u64, range: Range) {
        let held = self.held.entry(node).or_default();
        let mut left = Vec::with_capacity(held.len() + 2);
        for (who, old) in held.drain(..) {
            if who != owner || !old.overlaps(range) {
                left.push((who, old));
                continue;
            }
            if old.start < range.start {
                left.push((who, Range { end: range.start - 1, ..old }));
            }
            if old.end > range.end {
                left.push((who, Range { start: range.end + 1, ..old }));
            }
        }
        if range.kind != NONE {
            left.push((owner, range));
        }
        *held = left;
        if held.is_empty() {
            self.held.remove(&node);
        }
    }

    /// An owner has given back all it has of a file.
    pub fn release(&mut self, node: u64, owner: u64) {
        self.set(node, owner, Range { start: 0, end: u64::MAX, kind: NONE });
    }

    /// Whether nobody has anything of a file.
    pub fn is_free(&self, node: u64) -> bool {
        !self.held.contains_key(&node)
    }

    /// Owners that hold what excludes this, with what they hold.
    pub fn in_the_way(&self, node: u64, owner: u64, range: Range) -> Vec<(u64, Range)> {
        let held = self.held.get(&node).into_iter().flatten();
        held.filter(|(who, old)| *who != owner && old.excludes(range)).copied().collect()
    }

    /// An owner begins to wait, by a ticket; none when somebody who is in its way waits for it, directly or not.
    pub fn begin_to_wait(&mut self, node: u64, owner: u64, range: Range) -> Option<u64> {
        let mut seen = HashSet::new();
        let mut ahead: Vec<u64> =
            self.in_the_way(node, owner, range).into_iter().map(|(who, _)| who).collect();
        while let Some(who) = ahead.pop() {
            if who == owner {
                return None;
            }
            if seen.insert(who) {
                let waits = self.waiting.iter().filter(|wait| wait.owner == who);
                ahead.extend(
                    waits.flat_map(|wait| self.in_the_way(wait.node, who, wait.range)).map(|(who, _)| who),
                );
            }
        }
        self.tickets += 1;
        self.waiting.push(Wait { ticket: self.tickets, node, owner, range });
        Some(self.tickets)
    }

    /// Whether an owner waits for anything of a file.
    pub fn is_awaited(&self, node: u64, owner: u64) -> bool {
        self.waiting.iter().any(|wait| (wait.node, wait.owner) == (node, owner))
    }

    /// It waits no more.
    pub fn end_to_wait(&mut self, ticket: u64) {
        self.waiting.retain(|wait| wait.ticket != ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn range(start: u64, end: u64, kind: u32) -> Range {
        Range { start, end, kind }
    }

    #[test]
    fn a_range_given_back_splits_what_is_held() {
        let mut ranges = Ranges::default();
        ranges.set(1, 7, range(0, 29, WRITE));
        ranges.set(1, 7, range(10, 19, NONE));
        let holders = |ranges: &Ranges, at| ranges.in_the_way(1, 8, range(at, at, READ)).len();
        assert_eq!(
            (holders(&ranges, 9), holders(&ranges, 10), holders(&ranges, 19), holders(&ranges, 20)),
            (1, 0, 0, 1)
        );
        // A reader's excludes writers only.
        ranges.set(1, 7, range(0, 5, READ));
        assert_eq!(holders(&ranges, 3), 0);
        assert_eq!(ranges.in_the_way(1, 8, range(3, 3, WRITE)), [(7, range(0, 5, READ))]);
        ranges.release(1, 7);
        assert!(ranges.held.is_empty());
    }

    #[test]
    fn a_circle_is_found_however_long() {
        let mut ranges = Ranges::default();
        for owner in 0..5 {
            ranges.set(owner, owner, range(0, 0, WRITE));
        }
        for owner in 0..4 {
            assert!(ranges.begin_to_wait(owner + 1, owner, range(0, 9, READ)).is_some());
        }
        assert_eq!(ranges.begin_to_wait(0, 4, range(0, 0, WRITE)), None);
        // Elsewhere in the file nobody is in the way.
        let ticket = ranges.begin_to_wait(0, 4, range(1, 1, WRITE)).unwrap();
        ranges.end_to_wait(ticket);
        assert_eq!(ranges.waiting.len(), 4);
    }
}
