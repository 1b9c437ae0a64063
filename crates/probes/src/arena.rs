//! Memory for the probes: page-aligned, on huge pages where the kernel gives them, every page touched.
//!
//! Huge pages keep page faults and TLB misses out of what is measured; whether they were really given is asked
//! afterwards, because the advice is often ignored.

#![expect(unsafe_code, reason = "anonymous mappings cannot be made or freed without it")]

use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::slice;

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::error::WorkError;
use crate::machine::huge_page_bytes;
use units::Bytes;

/// Size of a huge page; where they are larger, the advice is simply ignored.
const HUGE_PAGE: usize = 2 * 1024 * 1024;

/// A private mapping seen as 64-bit words.
#[derive(Debug)]
pub struct Arena {
    mapping: NonNull<c_void>,
    mapped: usize,
    first: NonNull<u64>,
    words: usize,
    huge: Option<bool>,
}

// SAFETY: an arena owns its mapping alone; nothing in it belongs to a thread.
unsafe impl Send for Arena {}
// SAFETY: shared access only reads.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps and touches `size`, rounded up to whole words.
    ///
    /// # Errors
    /// The kernel does not give that much memory.
    pub fn new(size: Bytes) -> Result<Self, WorkError> {
        let words = size.to_usize().div_ceil(8).max(1);
        let wanted = || format!("map {size} of memory for the probe's arrays");
        // One huge page more than needed, so that the words can begin on a huge-page boundary.
        let length = words
            .checked_mul(8)
            .and_then(|bytes| bytes.checked_add(HUGE_PAGE))
            .and_then(NonZeroUsize::new)
            .ok_or_else(|| WorkError::system(wanted(), std::io::ErrorKind::OutOfMemory))?;
        // SAFETY: a fresh anonymous private mapping at an address of the kernel's choice overlaps nothing.
        let mapping = unsafe {
            mmap_anonymous(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE)
        }
        .map_err(|errno| WorkError::system(wanted(), errno))?;
        let skip = mapping.as_ptr().align_offset(HUGE_PAGE).min(HUGE_PAGE);
        // SAFETY: `skip` is at most the huge page that was mapped beyond `words`.
        let first = unsafe { mapping.byte_add(skip) }.cast::<u64>();
        let mut arena = Self { mapping, mapped: length.get(), first, words, huge: None };
        arena.touch();
        Ok(arena)
    }

    fn touch(&mut self) {
        let before = huge_page_bytes();
        // SAFETY: advice on our own mapping changes no contents. A refusal shows in the count below.
        let _ = unsafe { madvise(self.first.cast(), self.words * 8, MmapAdvise::MADV_HUGEPAGE) };
        // No child of ours needs it, and a fork need not copy the tables of its pages.
        // SAFETY: as before; the contents of this process stay.
        let _ = unsafe { madvise(self.first.cast(), self.words * 8, MmapAdvise::MADV_DONTFORK) };
        self.words_mut().fill(1);
        if self.words * 8 >= HUGE_PAGE {
            let wanted = (self.words * 8) as u64 / 2;
            self.huge = before.zip(huge_page_bytes()).map(|(b, a)| a.saturating_sub(b) >= wanted);
        }
    }

    /// Whether at least half of it lies on huge pages; none when it is too small for that, or nobody knows.
    pub fn huge_pages(&self) -> Option<bool> {
        self.huge
    }

    /// Its size.
    pub fn size(&self) -> Bytes {
        Bytes::from_bytes(self.words as u64 * 8)
    }

    /// All words.
    pub fn words(&self) -> &[u64] {
        // SAFETY: `first` begins `words` initialised, aligned words of a mapping that lives as long as `self`.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.words) }
    }

    /// All words, to be changed.
    pub fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as in `words`; `&mut self` makes this the only access.
        unsafe { slice::from_raw_parts_mut(self.first.as_ptr(), self.words) }
    }

    /// All words as floats.
    pub fn floats(&self) -> &[f64] {
        // SAFETY: as in `words`; a float is as wide and as aligned as a word, and any bits are a valid float.
        unsafe { slice::from_raw_parts(self.first.cast::<f64>().as_ptr(), self.words) }
    }

    /// All words as floats, to be changed.
    pub fn floats_mut(&mut self) -> &mut [f64] {
        // SAFETY: as in `floats`; `&mut self` makes this the only access.
        unsafe { slice::from_raw_parts_mut(self.first.cast::<f64>().as_ptr(), self.words) }
    }

    /// All bytes, to be changed; page-aligned, as `O_DIRECT` wants them.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `words_mut`; any byte is a valid `u8`, and any bytes are a valid `u64`.
        unsafe { slice::from_raw_parts_mut(self.first.cast::<u8>().as_ptr(), self.words * 8) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, whole, and nobody can borrow from it any more.
        let _ = unsafe { munmap(self.mapping, self.mapped) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_aligned_touched_and_writable() {
        let mut arena = Arena::new(Bytes::from_bytes(3 * 1024 * 1024 + 5)).unwrap();
        assert_eq!(arena.words().len(), (3 * 1024 * 1024 + 5_usize).div_ceil(8));
        assert_eq!(arena.words().as_ptr().align_offset(4096), 0);
        assert!(arena.words().iter().all(|word| *word == 1));
        *arena.words_mut().last_mut().unwrap() = 7;
        assert_eq!(arena.words().last(), Some(&7));
        assert_eq!(arena.bytes_mut().len(), arena.words().len() * 8);
        *arena.floats_mut().first_mut().unwrap() = 1.5;
        assert_eq!(arena.words().first(), Some(&1.5_f64.to_bits()));
        assert_eq!(arena.floats().len(), arena.words().len());
    }

    #[test]
    fn more_than_the_address_space_is_refused_in_words() {
        let error = Arena::new(Bytes::from_bytes(u64::MAX)).unwrap_err().to_string();
        assert!(error.starts_with("could not map"), "{error}");
    }
}
