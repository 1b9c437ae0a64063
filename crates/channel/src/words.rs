//! Windows into memory: what is ours can be written, what is a peer's can only be read.
//!
//! A place outside the window reads as zero and swallows stores, or the index goes around and is inside: no index, whoever
//! made it, reaches anything else. Bytes are copied word by word, each word once.

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

    /// Stores the word at an index that goes around ([`Span::around`]).
    #[inline]
    pub(crate) fn store_around(&self, at: usize, value: u64) {
        self.0.around(at).store(value, Ordering::Relaxed);
    }

    /// Stores a frame from an index that goes around: words, and behind them bytes, the last word of which is filled up
    /// with zeros.
    #[inline]
    pub(crate) fn store_frame(&self, at: usize, front: [u64; 2], head: &[u64], rest: &[u8]) {
        let mut at = at;
        for value in front {
            self.store_around(at, value);
            at += 1;
        }
        for value in head {
            self.store_around(at, *value);
            at += 1;
        }
        if let Ok(word) = <[u8; 8]>::try_from(rest) {
            // What counts to the nanosecond is mostly one word, and a loop's preparations are longer than that.
            self.store_around(at, u64::from_le_bytes(word));
            return;
        }
        let (whole, last) = rest.as_chunks::<8>();
        for bytes in whole {
            self.store_around(at, u64::from_le_bytes(*bytes));
            at += 1;
        }
        if !last.is_empty() {
            self.store_around(at, little_end(last));
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

    /// Loads the word at an index that goes around ([`Span::around`]).
    #[inline]
    pub(crate) fn load_around(&self, at: usize) -> u64 {
        self.0.around(at).load(Ordering::Relaxed)
    }

    /// Loads words from an index that goes around.
    #[inline]
    pub(crate) fn load_words(&self, at: usize, values: &mut [u64]) {
        for (value, at) in values.iter_mut().zip(at..) {
            *value = self.load_around(at);
        }
    }

    /// Loads bytes the same way: a few, word by word.
    #[inline]
    pub(crate) fn load_few(&self, at: usize, bytes: &mut [u8]) {
        if let Ok(word) = <&mut [u8; 8]>::try_from(&mut *bytes) {
            *word = self.load_around(at).to_le_bytes();
            return;
        }
        let (whole, rest) = bytes.as_chunks_mut::<8>();
        let behind = at + whole.len();
        for (to, at) in whole.iter_mut().zip(at..) {
            *to = self.load_around(at).to_le_bytes();
        }
        if !rest.is_empty() {
            for (to, from) in rest.iter_mut().zip(self.load_around(behind).to_le_bytes()) {
                *to = from;
            }
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
