//! Windows into memory: what is ours can be written, what is a peer's can only be read.
//!
//! A place outside the window reads as zero and swallows stores, so that no index, whoever made it, reaches anything
//! else. Bytes are copied word by word, each word once.

use std::sync::Arc;

use crate::atomic::{AtomicU64, Ordering};
use crate::memory::Memory;

#[derive(Debug, Clone)]
struct Window {
    memory: Arc<Memory>,
    from: usize,
    to: usize,
}

impl Window {
    /// Words `[from, from + words)`, if the memory has them.
    fn new(memory: &Arc<Memory>, from: usize, words: usize) -> Option<Self> {
        let to = from.checked_add(words)?;
        memory.words().get(from..to)?;
        Some(Self { memory: Arc::clone(memory), from, to })
    }

    fn words(&self) -> &[AtomicU64] {
        self.memory.words().get(self.from..self.to).unwrap_or_default()
    }

    fn load(&self, at: usize) -> u64 {
        self.words().get(at).map_or(0, |word| word.load(Ordering::Relaxed))
    }
}

/// A window into our own section.
#[derive(Debug, Clone)]
pub(crate) struct Own(Window);

impl Own {
    /// None if the memory has no such words or may not be written.
    pub(crate) fn new(memory: &Arc<Memory>, from: usize, words: usize) -> Option<Self> {
        if memory.is_writable() { Window::new(memory, from, words).map(Self) } else { None }
    }

    pub(crate) fn load(&self, at: usize) -> u64 {
        self.0.load(at)
    }

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

    /// Number of words.
    pub(crate) fn len(&self) -> usize {
        self.0.words().len()
    }
}

/// A window into a peer's section.
#[derive(Debug, Clone)]
pub(crate) struct Foreign(Window);

impl Foreign {
    /// None if the memory has no such words.
    pub(crate) fn new(memory: &Arc<Memory>, from: usize, words: usize) -> Option<Self> {
        Window::new(memory, from, words).map(Self)
    }

    pub(crate) fn load(&self, at: usize) -> u64 {
        self.0.load(at)
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
