//! The memory load: streaming writes through an array beyond the last-level cache, where memory allows.

use super::stressors::{Done, Stressor};
use crate::arena::Arena;
use crate::error::WorkError;
use crate::machine::{available_memory, last_level_cache};
use crate::streams::Width;
use units::{Bytes, Mebibytes};

/// Largest array, per thread.
const MOST: u64 = 256 << 20;
/// Words written between two looks at the stop flag: 1 MiB.
const WORDS: usize = 128 * 1024;

/// Streaming writes, one thread.
pub struct Streaming {
    arena: Arena,
    width: Width,
    place: usize,
    value: u64,
}

impl Streaming {
    /// One of `threads` that stream at once: all of them together take at most a quarter of the memory left.
    ///
    /// # Errors
    /// There is not that much memory.
    pub fn new(threads: u32) -> Result<Self, WorkError> {
        let beyond = last_level_cache().map_or(MOST, |cache| cache.get().saturating_mul(2));
        let quarter =
            available_memory().map_or(u64::MAX, |memory| memory.get() / 4 / u64::from(threads.max(1)));
        let size = beyond.min(MOST).min(quarter).max(Mebibytes::from_mib(1).to_bytes().get());
        Ok(Self { arena: Arena::new(Bytes::from_bytes(size))?, width: Width::widest(), place: 0, value: 0 })
    }
}

impl Stressor for Streaming {
    fn round(&mut self) -> Result<Done, WorkError> {
        let words = self.arena.words_mut();
        let end = (self.place + WORDS).min(words.len());
        let piece = words.get_mut(self.place..end).unwrap_or_default();
        self.value = self.value.wrapping_add(1);
        let bytes = piece.len() as u64 * 8;
        self.width.write(piece, self.value);
        self.place = if end == words.len() { 0 } else { end };
        Ok(Done::of(bytes))
    }
}
