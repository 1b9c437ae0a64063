//! Long files that a guest writes from one end to the other: they go to the disk at once, and do not stay in the host's memory.
//!
//! The guest keeps them in its own cache (`written` says whether it does). Kept in the host's as well they would push out what others have
//! there, and the `fsync` at their end would wait for all of them. `RWF_DONTCACHE` (pwritev2(2)) has the kernel begin to write what was
//! handed over, and drop it when that is done; what the host had in its cache before stays there.

use std::collections::HashSet;
use std::io::IoSlice;
use std::os::fd::OwnedFd;

use rustix::fs::Stat;
use rustix::io::{Errno, ReadWriteFlags, pwrite, pwritev2};

use crate::message::Result;

/// `RWF_DONTCACHE` of `linux/fs.h`.
const DONT_CACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);
/// The first Linux whose flag is taken: in 6.14 and 6.15, which had it first, what was written anew while it was being dropped could be
/// lost.
const FIRST_LINUX: (u32, u32) = (6, 16);
/// The beginning of a file stays in the host's cache: most files are no longer than that, and are read again soon.
const BEGINNING: u64 = 16 << 20;
/// Writes shorter than this are not those of a stream: with 128 KiB, each handed to the disk by itself, nothing was gained.
const LONG: u64 = 512 << 10;
/// Part of a page would be read again for the other part.
const PAGE: u64 = 4096;

/// Which writes are a stream's.
#[derive(Debug)]
pub(crate) struct Streams {
    /// Whether the host's kernel can do it.
    is_able: bool,
    /// Devices whose file systems refuse it.
    refused: HashSet<u64>,
}

impl Default for Streams {
    fn default() -> Self {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        Self { is_able: version(&release).is_some_and(|found| found >= FIRST_LINUX), refused: HashSet::new() }
    }
}

impl Streams {
    /// Writes as much as goes of what a guest hands over; `past_cache` says that the host's cache need not keep it.
    ///
    /// # Errors
    /// As pwritev2(2), where nothing was written.
    pub fn write(
        &mut self,
        file: &OwnedFd,
        device: u64,
        place: Place<'_>,
        past_cache: bool,
    ) -> Result<usize> {
        let Place { data, offset, appends } = place;
        let mut how = if appends { ReadWriteFlags::APPEND } else { ReadWriteFlags::empty() };
        if past_cache {
            how |= DONT_CACHE;
        }
        let mut written = 0;
        while let Some(rest) = data.get(written..).filter(|rest| !rest.is_empty()) {
            let at = offset.checked_add(u64::try_from(written).unwrap_or(u64::MAX)).ok_or(Errno::FBIG)?;
            let result = if how.is_empty() {
                pwrite(file, rest, at)
            } else {
                pwritev2(file, &[IoSlice::new(rest)], at, how)
            };
            match result {
                Ok(0) => break,
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP) if how.contains(DONT_CACHE) => {
                    self.refused.insert(device);
                    how -= DONT_CACHE;
                }
                Err(_) if written > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }

    /// Whether a write makes a long file longer, by whole pages.
    pub fn is_stream(&self, before: &Stat, place: &Place<'_>) -> bool {
        let (size, length) = (before.st_size.cast_unsigned(), place.data.len() as u64);
        let begins = if place.appends { size } else { place.offset };
        self.is_able
            && (begins | length).is_multiple_of(PAGE)
            && length >= LONG
            && begins >= BEGINNING.max(size)
            && !self.refused.contains(&before.st_dev)
    }
}

/// What is written, and where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    /// The bytes.
    pub data: &'a [u8],
    /// Where in the file.
    pub offset: u64,
    /// At its end instead, wherever that is by then.
    pub appends: bool,
}

/// The first two numbers of a kernel's release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use rustix::fs::fstat;

    use super::*;

    #[test]
    fn releases_are_compared_as_numbers() {
        assert_eq!(version("6.18.44-fc-v657"), Some((6, 18)));
        assert_eq!(version("6.1.0-37-amd64"), Some((6, 1)));
        assert!(version("10.0").unwrap() > FIRST_LINUX && version("6.9.1").unwrap() < FIRST_LINUX);
        assert_eq!((version(""), version("linux"), version("6")), (None, None, None));
    }

    #[test]
    fn what_is_written_is_there_wherever_it_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stream");
        let mut streams = Streams::default();
        let file: OwnedFd = std::fs::File::create_new(&path).unwrap().into();
        let mut expected = Vec::new();
        for (number, length) in [16 << 20, 1 << 20, 512 << 10, 70_000, 1 << 20, 4096].into_iter().enumerate()
        {
            let data = vec![u8::try_from(number).unwrap() + 1; length];
            let before = fstat(&file).unwrap();
            let offset = u64::try_from(expected.len()).unwrap();
            let place = Place { data: &data, offset, appends: false };
            let is_stream = streams.is_stream(&before, &place);
            assert_eq!(streams.write(&file, before.st_dev, place, is_stream), Ok(length));
            expected.extend(data);
        }
        let place = Place { data: b"changed", offset: 17 << 20, appends: false };
        assert_eq!(streams.write(&file, fstat(&file).unwrap().st_dev, place, false), Ok(7));
        expected[17 << 20..][..7].copy_from_slice(b"changed");
        assert!(std::fs::read(&path).unwrap() == expected, "something else is in the file");
    }

    #[test]
    fn only_what_makes_a_long_file_longer_by_whole_pages_is_a_stream() {
        let folder = tempfile::tempdir().unwrap();
        let file = std::fs::File::create_new(folder.path().join("stream")).unwrap();
        file.set_len(20 << 20).unwrap();
        let before = fstat(&file).unwrap();
        let mut streams = Streams { is_able: true, refused: HashSet::new() };
        let data = vec![0; 1 << 20];
        let is = |streams: &Streams, length: usize, offset: u64, appends: bool| {
            streams.is_stream(&before, &Place { data: &data[..length], offset, appends })
        };
        assert!(is(&streams, 1 << 20, 20 << 20, false) && is(&streams, 512 << 10, 30 << 20, false));
        assert!(is(&streams, 512 << 10, 0, true), "one that is appended lies at the end");
        // Within the file, a short one, parts of pages.
        assert!(!is(&streams, 1 << 20, 19 << 20, false) && !is(&streams, 508 << 10, 20 << 20, false));
        assert!(!is(&streams, 700_000, 20 << 20, false) && !is(&streams, 512 << 10, (20 << 20) + 1, false));
        streams.refused.insert(before.st_dev);
        assert!(!is(&streams, 1 << 20, 20 << 20, false));
        let unable = Streams { is_able: false, refused: HashSet::new() };
        assert!(!is(&unable, 1 << 20, 20 << 20, false));
    }
}
