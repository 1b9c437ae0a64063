//! Windows into memory: what is ours can be written, what is a peer's can only be read.
//!
//! A place outside the window reads as zero and swallows stores, so that no index, whoever made it, reaches anything
//! else. Bytes are copied word by word, each word once.

use std::sync::Arc;

use crate::atomic::Ordering;
use crate::memory::{Memory, Span};

/// Most words that are stored around a ring's end at once: those of the longest short message, and its frame's.
const MOST_STRAIGHT: usize = 130;

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

    /// Stores a few words one after the other, from `at` on and then from the beginning; their number is a power of two.
    #[inline]
    pub(crate) fn store_around(&self, at: usize, values: impl Iterator<Item = u64>) {
        let words = self.0.words();
        let first = at & words.len().wrapping_sub(1);
        if let Some(straight) = words.get(first..).filter(|straight| straight.len() >= MOST_STRAIGHT) {
            for (word, value) in straight.iter().zip(values) {
                word.store(value, Ordering::Relaxed);
            }
            return;
        }
        for (at, value) in (at..).zip(values) {
            if let Some(word) = words.get(at & words.len().wrapping_sub(1)) {
                word.store(value, Ordering::Relaxed);
            }
        }
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

    /// Loads a few words one after the other, from `at` on and then from the beginning of the first `size`, a power of two.
    #[inline]
    pub(crate) fn load_around(&self, at: usize, size: usize, values: &mut [u64]) {
        let words = self.0.words();
        let straight = words.get(at & size.wrapping_sub(1)..size).and_then(|words| words.get(..values.len()));
        if let Some(straight) = straight {
            for (word, value) in straight.iter().zip(values) {
                *value = word.load(Ordering::Relaxed);
            }
            return;
        }
        for (at, value) in (at..).zip(values) {
            *value = words.get(at & size.wrapping_sub(1)).map_or(0, |word| word.load(Ordering::Relaxed));
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
