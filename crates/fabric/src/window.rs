//! Memory that a program lent us: what it sends, and where it wants to receive.
//!
//! A window is made of a bare address at the border, where the program promised that the memory is there until the
//! operation completes, and used as a slice from then on.

#![expect(unsafe_code, reason = "a program hands over bare addresses")]

use std::marker::PhantomData;

/// Memory that is sent.
#[derive(Debug)]
pub struct Source {
    first: *const u8,
    length: usize,
}

/// Memory that is received into.
#[derive(Debug)]
pub struct Target {
    first: *mut u8,
    length: usize,
    _owned: PhantomData<*mut u8>,
}

// SAFETY: a window is an address and a length; the memory belongs to no thread.
unsafe impl Send for Source {}
// SAFETY: as above.
unsafe impl Send for Target {}

impl Source {
    /// # Safety
    /// `length` bytes from `first` can be read, and nobody writes them, as long as this value lives.
    pub unsafe fn new(first: *const u8, length: usize) -> Self {
        Self { first, length: if first.is_null() { 0 } else { length } }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: promised at `new`.
        unsafe { std::slice::from_raw_parts(self.first, self.length) }
    }
}

impl Target {
    /// # Safety
    /// `length` bytes from `first` can be written, and nobody else reads or writes them, as long as this value lives.
    pub unsafe fn new(first: *mut u8, length: usize) -> Self {
        Self { first, length: if first.is_null() { 0 } else { length }, _owned: PhantomData }
    }

    /// Bytes that fit.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether nothing fits.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Where it begins, to be told to the program.
    pub fn address(&self) -> usize {
        self.first.addr()
    }

    /// The bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        if self.length == 0 {
            return &mut [];
        }
        // SAFETY: promised at `new`.
        unsafe { std::slice::from_raw_parts_mut(self.first, self.length) }
    }

    /// Copies as many of `from`'s first bytes as fit, and returns how many. A program that lends the same memory twice
    /// gets what it asked for.
    pub fn fill(&mut self, from: &Source) -> usize {
        let count = self.length.min(from.length);
        if count > 0 {
            // SAFETY: both were promised at `new` for at least `count` bytes; `copy` allows them to overlap.
            unsafe { std::ptr::copy(from.first, self.first, count) };
        }
        count
    }
}
