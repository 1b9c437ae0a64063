//! Long files that a guest writes from one end to the other: they go to the disk early, and do not stay in the host's memory.
//!
//! The guest keeps them in its own cache (`written` says whether it does). Kept in the host's as well they would push out what others have
//! there, and the `fsync` at their end would wait for all of them.
//!
//! ```text
//!  0           BEGINNING                        end, written a moment ago
//!  ├───────────┼ ─ ─ ─ ─ ─ ─ ─ ─┼───────┼───────┤
//!  │ stays     │ gone           │ on its way to the disk, dropped when it is there
//!  └───────────┴ ─ ─ ─ ─ ─ ─ ─ ─┴───────┴───────┘ a step
//! ```
//! `posix_fadvise(POSIX_FADV_DONTNEED)` (`mm/fadvise.c` of Linux) has the kernel begin to write what is not on the disk, and drop what is.

use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::fs::{Advice, fadvise};

/// The beginning of a file stays in the host's cache: most files are no longer than that, and are read again soon.
const BEGINNING: u64 = 16 << 20;
/// Bytes after which the kernel is told. With half as many 300 MiB took 6 % longer, with twice as many no less.
const STEP: u64 = 8 << 20;
/// Bytes before the end that the disk may still have to write.
const ON_THE_WAY: u64 = 16 << 20;
/// A page that goes on would be written twice.
const PAGE: u64 = 4096;

/// How far a file has come.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stream {
    /// Up to where its bytes were told to the kernel.
    told: u64,
    /// Whether the last of them may still be on their way.
    is_on_the_way: bool,
}

impl Stream {
    /// What the kernel is to be told of next, when the file had so many bytes and these were written: often nothing.
    pub fn next(&mut self, size: u64, written: &Range<u64>) -> Option<Range<u64>> {
        self.told = self.told.min(size).max(BEGINNING);
        let end = written.end - written.end % PAGE;
        if written.start < size || end < self.told + STEP {
            return None;
        }
        (self.told, self.is_on_the_way) = (end, true);
        Some(self.last())
    }

    /// What it is to be told of once more when all is on the disk.
    pub fn rest(&mut self) -> Option<Range<u64>> {
        std::mem::take(&mut self.is_on_the_way).then(|| self.last())
    }

    fn last(&self) -> Range<u64> {
        self.told.saturating_sub(ON_THE_WAY).max(BEGINNING)..self.told
    }
}

/// Tells the kernel. What goes wrong on the way to the disk is for `fsync` to say.
pub fn drop_cached(file: &OwnedFd, part: &Range<u64>) {
    if let Some(length) = NonZeroU64::new(part.end.saturating_sub(part.start)) {
        let _ = fadvise(file, part.start, Some(length), Advice::DontNeed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// What is told while a file is written in pieces of this length.
    fn told(pieces: u64, length: u64) -> Vec<Range<u64>> {
        let mut stream = Stream::default();
        let each = (0..pieces).map(|number| number * length..(number + 1) * length);
        each.filter_map(|piece| stream.next(piece.start, &piece)).collect()
    }

    #[test]
    fn each_step_is_told_once_and_what_was_on_the_way_with_it() {
        let expected = [16..24, 16..32, 24..40].map(|told| told.start * MIB..told.end * MIB);
        for length in [MIB, 128 << 10, 4096] {
            assert_eq!(told(42 * MIB / length, length), expected, "{length}");
        }
        assert_eq!(Stream::default().next(0, &(0..64 * MIB)), Some(48 * MIB..64 * MIB));
        assert_eq!(told(24 * MIB / 1000, 1000), []);
        let odd = told(26 * MIB / 1000, 1000);
        assert!(odd.len() == 1 && odd[0].end.is_multiple_of(PAGE), "whole pages: {odd:?}");
    }

    #[test]
    fn only_what_makes_a_file_longer_is_a_stream() {
        let mut stream = Stream::default();
        assert_eq!(stream.next(40 * MIB, &(20 * MIB..39 * MIB)), None);
        assert_eq!(stream.rest(), None, "nothing was told");
        assert_eq!(stream.next(40 * MIB, &(40 * MIB..41 * MIB)), Some(25 * MIB..41 * MIB));
        // Cut short, and written again.
        assert_eq!(stream.next(20 * MIB, &(20 * MIB..27 * MIB)), None);
        assert_eq!(stream.next(27 * MIB, &(27 * MIB..28 * MIB)), Some(16 * MIB..28 * MIB));
    }

    #[test]
    fn the_rest_is_what_was_still_on_the_way_and_told_once() {
        let mut stream = Stream::default();
        assert_eq!(stream.rest(), None);
        stream.next(0, &(0..40 * MIB));
        stream.next(40 * MIB, &(40 * MIB..41 * MIB));
        assert_eq!((stream.rest(), stream.rest()), (Some(24 * MIB..40 * MIB), None));
    }

    #[test]
    fn what_is_told_is_still_in_the_file() {
        use std::io::{Read, Seek, Write};
        let mut file = tempfile::tempfile().unwrap();
        let data: Vec<u8> = (0..20 * MIB).map(|at| u8::try_from(at / 4001 % 251).unwrap()).collect();
        file.write_all(&data).unwrap();
        let file_again: OwnedFd = file.try_clone().unwrap().into();
        for part in [16 * MIB..20 * MIB, 0..0, 1..5000, 19 * MIB..90 * MIB] {
            drop_cached(&file_again, &part);
        }
        file.sync_all().unwrap();
        drop_cached(&file_again, &(0..20 * MIB));
        let mut again = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut again).unwrap();
        assert!(again == data);
    }
}
