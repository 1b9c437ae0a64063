//! The samples of a program, of which only so many are kept: a program without an end would fill the memory. What has no room
//! is counted, and told with the figures. Those that are kept are the first ones.

use crate::guest::Seen;
use crate::time::Span;

/// Samples that all threads of a host keep together: 128 MB.
const IN_ALL: u64 = 16_000_000;
/// Samples that a thread keeps at least.
const LEAST: u64 = 16;

/// How many samples each of so many threads keeps.
pub fn room(threads: u64) -> usize {
    usize::try_from((IN_ALL / threads.max(1)).max(LEAST)).unwrap_or(usize::MAX)
}

/// Samples in order.
#[derive(Debug, Clone)]
pub struct Samples {
    kept: Vec<Span>,
    room: usize,
    left_out: u64,
}

impl Samples {
    /// None yet, and room for so many.
    pub const fn new(room: usize) -> Self {
        Self { kept: Vec::new(), room, left_out: 0 }
    }

    /// One more.
    pub fn push(&mut self, sample: Span) {
        if self.kept.len() < self.room {
            self.kept.push(sample);
        } else {
            self.left_out += 1;
        }
    }

    /// How many there were.
    pub const fn count(&self) -> u64 {
        self.kept.len() as u64 + self.left_out
    }

    /// What a program with these samples has seen.
    pub fn seen(&self, done: u64, missed: u64) -> Seen {
        Seen { samples: self.kept.clone(), left_out: self.left_out, done, missed, aborted: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_counted() {
        let mut samples = Samples::new(2);
        (1..=5).for_each(|nanos| samples.push(Span::from_nanos(nanos)));
        let seen = samples.seen(samples.count(), 1);
        assert_eq!((seen.done, seen.left_out, seen.missed), (5, 3, 1));
        assert_eq!(seen.samples, [1, 2].map(Span::from_nanos));
        assert_eq!((room(0), room(1), room(1_000_000_000)), (16_000_000, 16_000_000, 16));
    }
}
