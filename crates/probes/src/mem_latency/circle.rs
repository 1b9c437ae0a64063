//! A circle of addresses: each load gives the address of the next one, and nothing else is on the way.
//!
//! With indices instead of addresses every load would have to add the begin of the array to its index, which on most
//! CPUs takes a cycle more than the load itself: a fifth of what the first cache takes.

#![expect(unsafe_code, reason = "only loads through bare addresses take no longer than the memory does")]

use std::marker::PhantomData;
use std::ptr::with_exposed_provenance;

/// Elements of an array that lead to each other by their addresses.
#[derive(Debug)]
pub struct Circle<'a> {
    first: usize,
    /// Nobody changes the words while their addresses are followed.
    words: PhantomData<&'a mut [u64]>,
}

impl<'a> Circle<'a> {
    /// Turns links into addresses: every word at a multiple of `stride` holds the index of another such word. What holds
    /// something else leads to the first word from now on.
    pub fn close(words: &'a mut [u64], stride: usize) -> Option<Self> {
        let (length, stride) = (words.len(), stride.max(1));
        if length == 0 {
            return None;
        }
        let first = words.as_mut_ptr().expose_provenance();
        for word in words.iter_mut().step_by(stride) {
            let index = usize::try_from(*word).unwrap_or(0);
            let index = if index < length && index.is_multiple_of(stride) { index } else { 0 };
            *word = (first + index * size_of::<u64>()) as u64;
        }
        Some(Self { first, words: PhantomData })
    }

    /// Where to begin.
    pub const fn start(&self) -> Place<'_> {
        Place { address: self.first, circle: PhantomData }
    }
}

/// A place in a circle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// Of an element of the circle, always.
    address: usize,
    circle: PhantomData<&'a [u64]>,
}

impl Place<'_> {
    /// The place so many loads further on.
    #[inline(never)]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "what was an address is as wide as one")]
    pub fn after(self, loads: u32) -> Self {
        let mut address = self.address;
        for _ in 0..loads {
            // SAFETY: a place is that of an element of a circle; `close` has made each of them hold the address of an
            // element, within the words it was given and exposed, and these are borrowed as long as the place is.
            address = unsafe { with_exposed_provenance::<u64>(address).read() } as usize;
        }
        Self { address, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_the_links() {
        let mut words = vec![4, 99, 0, 99, 6, 99, 2, 99];
        let circle = Circle::close(&mut words, 2).unwrap();
        let at = |loads: u32| (circle.start().after(loads).address - circle.first) / 8;
        assert_eq!([0, 1, 2, 3, 4, 5].map(at), [0, 4, 6, 2, 0, 4]);
    }

    #[test]
    fn links_that_lead_outside_lead_to_the_begin() {
        let mut words = vec![2, 0, 4, 0];
        let circle = Circle::close(&mut words, 2).unwrap();
        assert_eq!(circle.start().after(2), circle.start(), "4 is beyond the words");
        let mut odd = vec![1, 7];
        let circle = Circle::close(&mut odd, 2).unwrap();
        assert_eq!(circle.start().after(1), circle.start(), "1 is no element");
        assert!(Circle::close(&mut [], 1).is_none());
    }
}
