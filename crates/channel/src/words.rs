//! Windows into memory: what is ours can be written, what is a peer's can only be read.
//!
//! A place outside the window reads as zero and swallows stores, so that no index, whoever made it, reaches anything
//! else. Bytes are copied word by word, each word once.

use std::sync::Arc;

use crate::atomic::Ordering;
use crate::memory::{Memory, Span};

/// Bytes of messages that go the short way of their own accord.
pub(crate) const SMALL: usize = 64;

/// Up to eight bytes as a word, the first one lowest.
#[inline]
fn little_end(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// A window into our own section.
#[derive(Debug, Clone)]
pub(crate) struct Own(Span);

impl Own {
    /// None if the memory has no such words or may not be written.
    pub(crate) fn new(memory: &Arc<Memory>, from: usize, words: usize) -> Option<Self> {
        if memory.is_writable() { Span::new(memory, from, words).map(Self) } else { None }
    }

    #[inline]
    pub(crate) fn load(&self, at: usize) -> u64 {
        self.0.words().get(at).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn store(&self, at: usize, value: u64) {
        if let Some(word) = self.0.words().get(at) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Stores as many whole words as `bytes` has.
    pub(crate) fn store_bytes(&self, at: usize, bytes: &[u8]) {
        let words = self.0.words().get(at..).unwrap_or_default();
        let (lines, rest) = words.as_chunks::<8>();
        let (line_bytes, rest_bytes) = bytes.as_chunks::<64>();
        if line_bytes.len() > lines.len() {
            return;
        }
        for (line, from) in lines.iter().zip(line_bytes) {
            for (word, from) in line.iter().zip(from.as_chunks::<8>().0) {
                word.store(u64::from_le_bytes(*from), Ordering::Relaxed);
            }
        }
        let after = lines.get(line_bytes.len()..).unwrap_or_default().as_flattened();
        for (word, from) in after.iter().chain(rest).zip(rest_bytes.as_chunks::<8>().0) {
            word.store(u64::from_le_bytes(*from), Ordering::Relaxed);
        }
    }

    /// Stores words, and behind them bytes, the last word of which is filled up with zeros; false, and nothing is
    /// stored, where the window ends before all of them.
    #[inline]
    pub(crate) fn store_straight(&self, at: usize, front: [u64; 2], head: &[u64], rest: &[u8]) -> bool {
        let (whole, last) = rest.as_chunks::<8>();
        let count = head.len() + whole.len() + usize::from(!last.is_empty());
        let places = self.0.words().get(at..).and_then(|words| words.split_first_chunk::<2>());
        let Some((begin, places)) = places.and_then(|(begin, rest)| Some((begin, rest.get(..count)?))) else {
            return false;
        };
        for (place, value) in begin.iter().zip(front) {
            place.store(value, Ordering::Relaxed);
        }
        let (heads, places) = places.split_at_checked(head.len()).unwrap_or_default();
        for (place, value) in heads.iter().zip(head) {
            place.store(*value, Ordering::Relaxed);
        }
        for (place, bytes) in places.iter().zip(whole) {
            place.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        if let Some(place) = places.get(whole.len()) {
            place.store(little_end(last), Ordering::Relaxed);
        }
        true
    }

    /// Number of words.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.words().len()
    }
}

/// A window into a peer's section.
#[derive(Debug, Clone)]
pub(crate) struct Foreign(Span);

impl Foreign {
    /// None if the memory has no such words.
    pub(crate) fn new(memory: &Arc<Memory>, from: usize, words: usize) -> Option<Self> {
        Span::new(memory, from, words).map(Self)
    }

    #[inline]
    pub(crate) fn load(&self, at: usize) -> u64 {
        self.0.words().get(at).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Loads a pair of words; zeros where there are none.
    #[inline]
    pub(crate) fn load_pair(&self, at: usize) -> [u64; 2] {
        let pair = self.0.words().get(at..).and_then(|words| words.first_chunk::<2>());
        pair.map_or([0; 2], |[first, second]| [first.load(Ordering::Relaxed), second.load(Ordering::Relaxed)])
    }

    /// Loads words from `at` on and then from the beginning of the first `size`, a power of two.
    #[inline]
    pub(crate) fn load_words(&self, at: usize, size: usize, values: &mut [u64]) {
        match self.0.words().get(at..size).and_then(|words| words.get(..values.len())) {
            Some(places) => {
                for (place, value) in places.iter().zip(values) {
                    *value = place.load(Ordering::Relaxed);
                }
            }
            None => self.load_around(at, size, values.iter_mut()),
        }
    }

    /// Loads up to [`SMALL`] bytes, the same way.
    #[inline]
    pub(crate) fn load_few(&self, at: usize, size: usize, bytes: &mut [u8]) {
        let (whole, rest) = bytes.as_chunks_mut::<8>();
        let count = whole.len() + usize::from(!rest.is_empty());
        if let Some(places) = self.0.words().get(at..size).and_then(|words| words.get(..count)) {
            for (to, place) in whole.iter_mut().zip(places) {
                *to = place.load(Ordering::Relaxed).to_le_bytes();
            }
            if let Some(place) = places.get(whole.len()) {
                for (to, from) in rest.iter_mut().zip(place.load(Ordering::Relaxed).to_le_bytes()) {
                    *to = from;
                }
            }
            return;
        }
        let mut words = [0; SMALL / 8];
        self.load_around(at, size, words.iter_mut().take(count));
        for (to, from) in bytes.iter_mut().zip(words.into_iter().flat_map(u64::to_le_bytes)) {
            *to = from;
        }
    }

    #[cold]
    fn load_around<'v>(&self, at: usize, size: usize, values: impl Iterator<Item = &'v mut u64>) {
        for (at, value) in (at..).zip(values) {
            *value = self.load(at & size.wrapping_sub(1));
        }
    }

    /// Loads as many whole words as `bytes` has room for.
    pub(crate) fn load_bytes(&self, at: usize, bytes: &mut [u8]) {
        let words = self.0.words().get(at..).unwrap_or_default();
        let (lines, rest) = words.as_chunks::<8>();
        let (line_bytes, rest_bytes) = bytes.as_chunks_mut::<64>();
        let whole = line_bytes.len();
        if whole > lines.len() {
            return;
        }
        for (line, to) in lines.iter().zip(line_bytes) {
            for (word, to) in line.iter().zip(to.as_chunks_mut::<8>().0) {
                *to = word.load(Ordering::Relaxed).to_le_bytes();
            }
        }
        let after = lines.get(whole..).unwrap_or_default().as_flattened();
        for (word, to) in after.iter().chain(rest).zip(rest_bytes.as_chunks_mut::<8>().0) {
            *to = word.load(Ordering::Relaxed).to_le_bytes();
        }
    }
}
