//! What messages are filled with: bytes that follow from a seed and their place, so that any piece of any message can be
//! checked without keeping a copy of it.

use crate::rendezvous::hello::mix;

/// Bytes that are the same wherever they are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern(u64);

impl Pattern {
    /// From a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    const fn word(self, index: u64) -> [u8; 8] {
        mix(self.0.wrapping_add(index)).to_le_bytes()
    }

    /// Fills `bytes`, the first of which has place 0.
    pub fn fill(self, bytes: &mut [u8]) {
        for (index, chunk) in (0u64..).zip(bytes.chunks_mut(8)) {
            chunk.iter_mut().zip(self.word(index)).for_each(|(slot, byte)| *slot = byte);
        }
    }

    /// Whether `bytes` are what stands from place `at` on.
    pub fn matches(self, bytes: &[u8], at: usize) -> bool {
        let into = at % 8;
        let (head, rest) = bytes.split_at(bytes.len().min((8 - into) % 8));
        let index = (at / 8) as u64;
        let begins = self.word(index);
        let head_fits = head.iter().zip(begins.iter().skip(into)).all(|(a, b)| a == b);
        let first = index + u64::from(into > 0);
        head_fits
            && (first..).zip(rest.chunks(8)).all(|(index, chunk)| {
                self.word(index).get(..chunk.len()).is_some_and(|expected| expected == chunk)
            })
    }

    /// Whether `bytes` are a piece of an endless row of messages of `message` bytes each, `at` bytes from its start.
    pub fn matches_in_row(self, bytes: &[u8], at: u64, message: usize) -> bool {
        let message = message.max(1);
        let mut place = usize::try_from(at % message as u64).unwrap_or(0);
        let mut rest = bytes;
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(rest.len().min(message - place));
            if !self.matches(piece, place) {
                return false;
            }
            (rest, place) = (later, 0);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_fits_its_place_and_no_other() {
        let pattern = Pattern::new(9);
        let mut whole = vec![0; 103];
        pattern.fill(&mut whole);
        for from in 0..20 {
            for to in from + 1..whole.len() {
                assert!(pattern.matches(&whole[from..to], from), "{from}..{to}");
                let mut changed = whole[from..to].to_vec();
                let last = changed.len() - 1;
                changed[last] ^= 1;
                assert!(!pattern.matches(&changed, from), "{from}..{to}");
            }
        }
        assert!(!pattern.matches(&whole[1..50], 0));
        assert!(!Pattern::new(10).matches(&whole, 0));
    }

    #[test]
    fn rows_of_messages_begin_again_after_each() {
        let pattern = Pattern::new(1);
        for message in [1, 7, 8, 30] {
            let mut one = vec![0; message];
            pattern.fill(&mut one);
            let row: Vec<u8> = one.iter().copied().cycle().take(100).collect();
            for at in [0, 1, 29, 64] {
                assert!(pattern.matches_in_row(&row[at..], at as u64, message), "{message} from {at}");
            }
            assert!(message == 1 || !pattern.matches_in_row(&row[1..], 0, message));
        }
    }
}
