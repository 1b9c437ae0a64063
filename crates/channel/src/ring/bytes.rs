//! Copying between slices and a ring that wraps: the ring's side is always whole words, the slices may be anything.

use crate::words::{Foreign, Own};

/// Index of the word that holds a position, and how many words follow it before the ring wraps.
fn place(position: u64, words: usize) -> (usize, usize) {
    let at = usize::try_from(position / 8).unwrap_or(0) & words.wrapping_sub(1);
    (at, words.saturating_sub(at))
}

/// Writes bytes one after the other into a ring, from an aligned position.
pub(super) struct Filler<'a> {
    ring: &'a Own,
    words: usize,
    position: u64,
    word: [u8; 8],
    filled: usize,
}

impl<'a> Filler<'a> {
    pub(super) fn new(ring: &'a Own, position: u64) -> Self {
        Self { ring, words: ring.len(), position, word: [0; 8], filled: 0 }
    }

    pub(super) fn put(&mut self, mut bytes: &[u8]) {
        if self.filled > 0 {
            bytes = self.fill_word(bytes);
        }
        let (whole, rest) = bytes.split_at_checked(bytes.len() & !7).unwrap_or((&[], bytes));
        self.put_words(whole);
        if !rest.is_empty() {
            self.fill_word(rest);
        }
    }

    /// Adds to the word that is not full; returns what it had no room for.
    fn fill_word<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let room = self.word.get_mut(self.filled..).unwrap_or_default();
        let count = room.len().min(bytes.len());
        for (to, from) in room.iter_mut().zip(bytes) {
            *to = *from;
        }
        self.filled += count;
        if self.filled == 8 {
            self.finish();
        }
        bytes.get(count..).unwrap_or_default()
    }

    /// Stores the word that is not full, padded with zeros, if there is one.
    pub(super) fn finish(&mut self) {
        if self.filled > 0 {
            let (at, _) = place(self.position, self.words);
            self.ring.store(at, u64::from_le_bytes(self.word));
            self.position = self.position.wrapping_add(8);
            (self.word, self.filled) = ([0; 8], 0);
        }
    }

    fn put_words(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (at, until_wrap) = place(self.position, self.words);
            let count = bytes.len().min(until_wrap.saturating_mul(8));
            let Some((now, later)) = bytes.split_at_checked(count).filter(|_| count > 0) else { return };
            self.ring.store_bytes(at, now);
            self.position = self.position.wrapping_add(now.len() as u64);
            bytes = later;
        }
    }
}

/// Reads bytes one after the other out of a ring, from any position.
pub(super) struct Drainer<'a> {
    ring: &'a Foreign,
    words: usize,
    position: u64,
    word: [u8; 8],
    used: usize,
}

impl<'a> Drainer<'a> {
    pub(super) fn new(ring: &'a Foreign, words: usize, position: u64) -> Self {
        let mut drainer = Self { ring, words, position: position & !7, word: [0; 8], used: 8 };
        let skipped = usize::try_from(position & 7).unwrap_or(0);
        if skipped > 0 {
            drainer.load_word();
            drainer.used = skipped;
        }
        drainer
    }

    pub(super) fn get(&mut self, mut bytes: &mut [u8]) {
        if self.used < 8 {
            bytes = self.drain_word(bytes);
        }
        let (whole, rest) = bytes.split_at_mut(bytes.len() & !7);
        self.get_words(whole);
        if !rest.is_empty() {
            self.load_word();
            self.drain_word(rest);
        }
    }

    fn load_word(&mut self) {
        let (at, _) = place(self.position, self.words);
        self.word = self.ring.load(at).to_le_bytes();
        self.used = 0;
        self.position = self.position.wrapping_add(8);
    }

    /// Takes from the word that is not used up; returns what is still to be filled.
    fn drain_word<'b>(&mut self, bytes: &'b mut [u8]) -> &'b mut [u8] {
        let left = self.word.get(self.used..).unwrap_or_default();
        let count = left.len().min(bytes.len());
        for (to, from) in bytes.iter_mut().zip(left) {
            *to = *from;
        }
        self.used += count;
        bytes.get_mut(count..).unwrap_or_default()
    }

    fn get_words(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            let (at, until_wrap) = place(self.position, self.words);
            let count = bytes.len().min(until_wrap.saturating_mul(8));
            if count == 0 {
                return;
            }
            let (now, later) = bytes.split_at_mut(count);
            self.ring.load_bytes(at, now);
            self.position = self.position.wrapping_add(now.len() as u64);
            bytes = later;
        }
    }
}

/// The part of `parts`, seen as one, from `from` with `length` bytes, piece by piece.
pub(super) fn range<'a>(parts: &'a [&'a [u8]], from: usize, length: usize) -> impl Iterator<Item = &'a [u8]> {
    let mut skip = from;
    let mut left = length;
    parts.iter().filter_map(move |part| {
        let here = part.get(skip..).unwrap_or_default();
        skip = skip.saturating_sub(part.len());
        let piece = here.get(..left.min(here.len())).unwrap_or_default();
        left -= piece.len();
        (!piece.is_empty()).then_some(piece)
    })
}

/// Fills `parts`, seen as one, from `from` with `length` bytes out of the ring.
pub(super) fn scatter(drainer: &mut Drainer<'_>, parts: &mut [&mut [u8]], from: usize, length: usize) {
    let mut skip = from;
    let mut left = length;
    for part in parts {
        let size = part.len();
        if skip < size && left > 0 {
            let here = part.get_mut(skip..).unwrap_or_default();
            let count = left.min(here.len());
            drainer.get(here.get_mut(..count).unwrap_or_default());
            left -= count;
        }
        skip = skip.saturating_sub(size);
    }
}
