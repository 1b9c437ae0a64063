//! One saved machine in a file: its devices' state, what of its memory is not zero, and checksums of both.
//!
//! ```text
//!  state │ memory's extents, one after the other │ header (JSON) │ its length │ its CRC-32 │ "BLKHSAVE"
//! ```
//! The header comes last because what it says is known last. Numbers are little-endian. A file that is shorter, longer or
//! different anywhere is refused: its length must be what the header adds up to, and every byte of it is under a checksum.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use crc32fast::Hasher;
use nix::errno::Errno;
use nix::unistd::{Whence, lseek64};
use serde::{Deserialize, Serialize};
use units::Reason;

const MAGIC: &[u8; 8] = b"BLKHSAVE";
/// Length, checksum, magic.
const TRAILER_BYTES: usize = 16;
/// Longest header that is read.
const MOST_HEADER_BYTES: u64 = 4 << 20;
/// Most that is kept of one machine: usual are 70 MB.
const MOST_KEPT_BYTES: u64 = 256 << 20;
/// Memory is looked through in pages.
const PAGE: usize = 4096;
/// Bytes read and written at once.
const CHUNK: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    shape: String,
    state_bytes: u64,
    state_crc32: u32,
    memory_bytes: u64,
    memory_crc32: u32,
    /// Place in the memory, length.
    extents: Vec<(u64, u64)>,
}

/// A saved machine whose header and state were found whole.
#[derive(Debug)]
pub struct Image {
    file: File,
    header: Header,
    state: Vec<u8>,
}

/// Writes a machine of this shape.
///
/// # Errors
/// It cannot be written, or there is more of it than is kept.
pub fn write(to: &mut File, shape: &str, state: &[u8], memory: &File) -> io::Result<()> {
    to.write_all(state)?;
    let mut pages = Pages { to, crc: Hasher::new(), extents: Vec::new(), bytes: 0 };
    let memory_bytes = memory.metadata()?.len();
    let mut at = 0;
    while let Some((begin, end)) = data(memory, at)? {
        pages.keep(memory, begin, end.min(memory_bytes))?;
        at = end;
    }
    let (memory_crc32, extents) = (pages.crc.finalize(), pages.extents);
    let header = Header {
        shape: shape.to_owned(),
        state_bytes: state.len() as u64,
        state_crc32: crc32fast::hash(state),
        memory_bytes,
        memory_crc32,
        extents,
    };
    let header = serde_json::to_vec(&header)?;
    let length = u32::try_from(header.len()).map_err(|_| io::Error::other("its header is too long"))?;
    to.write_all(&header)?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(&crc32fast::hash(&header).to_le_bytes())?;
    to.write_all(MAGIC)
}

/// Where there is something in a file in memory, from `at` on.
fn data(memory: &File, at: u64) -> io::Result<Option<(u64, u64)>> {
    let seek = |at: u64, whence| -> io::Result<Option<u64>> {
        match lseek64(memory.as_fd(), i64::try_from(at).map_err(io::Error::other)?, whence) {
            Ok(found) => Ok(Some(u64::try_from(found).map_err(io::Error::other)?)),
            Err(Errno::ENXIO) => Ok(None),
            Err(error) => Err(error.into()),
        }
    };
    let Some(begin) = seek(at, Whence::SeekData)? else { return Ok(None) };
    Ok(seek(begin, Whence::SeekHole)?.map(|end| (begin, end)))
}

/// What of the memory was written so far.
struct Pages<'a> {
    to: &'a mut File,
    crc: Hasher,
    extents: Vec<(u64, u64)>,
    bytes: u64,
}

impl Pages<'_> {
    fn keep(&mut self, memory: &File, begin: u64, end: u64) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK];
        let mut at = begin;
        while at < end {
            let length = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
            let chunk = chunk.get_mut(..length).unwrap_or_default();
            memory.read_exact_at(chunk, at)?;
            let mut place = at;
            let mut rest = &*chunk;
            while !rest.is_empty() {
                let zeros = pages_while(rest, true);
                let (_, after) = rest.split_at(zeros);
                let (kept, after) = after.split_at(pages_while(after, false));
                place += zeros as u64;
                self.add(place, kept)?;
                place += kept.len() as u64;
                rest = after;
            }
            at += length as u64;
        }
        Ok(())
    }

    fn add(&mut self, at: u64, kept: &[u8]) -> io::Result<()> {
        let length = kept.len() as u64;
        if length == 0 {
            return Ok(());
        }
        self.bytes += length;
        if self.bytes > MOST_KEPT_BYTES {
            return Err(io::Error::other(format!(
                "there is more of it than is kept ({MOST_KEPT_BYTES} bytes)"
            )));
        }
        match self.extents.last_mut() {
            Some((begin, so_far)) if *begin + *so_far == at => *so_far += length,
            _ => self.extents.push((at, length)),
        }
        self.crc.update(kept);
        self.to.write_all(kept)
    }
}

/// Bytes at the beginning that are whole pages of zeros, or none of them.
fn pages_while(bytes: &[u8], zeros: bool) -> usize {
    const ZEROS: [u8; PAGE] = [0; PAGE];
    let pages = bytes.chunks(PAGE).take_while(|page| (ZEROS.get(..page.len()) == Some(page)) == zeros);
    pages.map(<[u8]>::len).sum()
}

impl Image {
    /// Opens one of this shape. The memory is looked at when it is [filled in](Self::fill).
    ///
    /// # Errors
    /// It is of another shape, or damaged.
    pub fn open(mut file: File, shape: &str) -> Result<Self, Reason> {
        let header = header(&mut file)?;
        if header.shape != shape {
            return Err("it is of another machine".into());
        }
        let mut state = Vec::new();
        file.rewind()
            .and_then(|()| (&file).take(header.state_bytes).read_to_end(&mut state))
            .map_err(|error| in_words(&error))?;
        if crc32fast::hash(&state) != header.state_crc32 {
            return Err("its state is damaged".into());
        }
        Ok(Self { file, header, state })
    }

    /// State of its devices.
    pub fn state(&self) -> &[u8] {
        &self.state
    }

    /// How much memory it has.
    pub const fn memory_bytes(&self) -> u64 {
        self.header.memory_bytes
    }

    /// Fills in a memory that is empty. After an error what is in it is of no use.
    ///
    /// # Errors
    /// It is damaged, or cannot be read or written.
    pub fn fill(mut self, memory: &File) -> Result<(), Reason> {
        let mut crc = Hasher::new();
        let mut chunk = vec![0; CHUNK];
        self.file.seek(SeekFrom::Start(self.header.state_bytes)).map_err(|error| in_words(&error))?;
        for (begin, length) in &self.header.extents {
            let (mut at, end) = (*begin, begin + length);
            while at < end {
                let length = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
                let chunk = chunk.get_mut(..length).unwrap_or_default();
                self.file.read_exact(chunk).map_err(|error| in_words(&error))?;
                crc.update(chunk);
                memory.write_all_at(chunk, at).map_err(|error| in_words(&error))?;
                at += length as u64;
            }
        }
        if crc.finalize() == self.header.memory_crc32 { Ok(()) } else { Err("its memory is damaged".into()) }
    }
}

/// The header of a file that is as long as it says.
fn header(file: &mut File) -> Result<Header, Reason> {
    let cut = || Reason::from("it is cut, or no saved machine");
    let length = file.metadata().map_err(|error| in_words(&error))?.len();
    let trailer_at = length.checked_sub(TRAILER_BYTES as u64).ok_or_else(cut)?;
    let mut trailer = [0; TRAILER_BYTES];
    file.read_exact_at(&mut trailer, trailer_at).map_err(|error| in_words(&error))?;
    let (fields, magic) = trailer.split_at(8);
    let number = |at: usize| {
        let bytes = fields.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u32::from_le_bytes)
    };
    let header_bytes = u64::from(number(0));
    if magic != MAGIC || header_bytes > MOST_HEADER_BYTES {
        return Err(cut());
    }
    let header_at = trailer_at.checked_sub(header_bytes).ok_or_else(cut)?;
    let mut text = vec![0; usize::try_from(header_bytes).unwrap_or_default()];
    file.read_exact_at(&mut text, header_at).map_err(|error| in_words(&error))?;
    if crc32fast::hash(&text) != number(4) {
        return Err("its header is damaged".into());
    }
    let header: Header = serde_json::from_slice(&text).map_err(|error| format!("its header: {error}"))?;
    if is_sound(&header) && header.kept_bytes() == Some(header_at) { Ok(header) } else { Err(cut()) }
}

impl Header {
    fn kept_bytes(&self) -> Option<u64> {
        self.extents.iter().try_fold(self.state_bytes, |sum, (_, length)| sum.checked_add(*length))
    }
}

/// Extents are in their order and within the memory.
fn is_sound(header: &Header) -> bool {
    let mut end = 0;
    header.extents.iter().all(|(begin, length)| {
        let is_next = *begin >= end;
        end = begin.saturating_add(*length);
        is_next && end <= header.memory_bytes
    })
}

fn in_words(error: &io::Error) -> String {
    format!("it cannot be read, or memory be had for it: {error}")
}

#[cfg(test)]
mod tests {
    use nix::sys::memfd::{MFdFlags, memfd_create};

    use super::*;

    const SHAPE: &str = "a shape";

    fn memory(bytes: u64) -> File {
        let file = File::from(memfd_create(c"test", MFdFlags::MFD_CLOEXEC).unwrap());
        file.set_len(bytes).unwrap();
        file
    }

    /// A machine with a few pages that are not empty, over the borders of chunks, and one that was written with zeros.
    fn machine() -> (File, Vec<u8>) {
        let memory = memory(8 << 20);
        for (at, byte) in [(0, 1), (4096, 2), (3 << 20, 3), ((4 << 20) - 4096, 4), (4 << 20, 5), (6 << 20, 0)]
        {
            memory.write_all_at(&[byte; PAGE], at).unwrap();
        }
        let mut content = vec![0; 8 << 20];
        memory.read_exact_at(&mut content, 0).unwrap();
        (memory, content)
    }

    fn saved() -> (File, Vec<u8>) {
        let (memory, content) = machine();
        let mut file = tempfile::tempfile().unwrap();
        write(&mut file, SHAPE, b"state of devices", &memory).unwrap();
        (file, content)
    }

    fn restored(file: &File) -> Result<Vec<u8>, Reason> {
        let image = Image::open(file.try_clone().unwrap(), SHAPE)?;
        let memory = memory(image.memory_bytes());
        image.fill(&memory)?;
        let mut content = vec![0; 8 << 20];
        memory.read_exact_at(&mut content, 0).unwrap();
        Ok(content)
    }

    #[test]
    fn what_was_saved_comes_back_and_nothing_empty_was_kept() {
        let (file, content) = saved();
        assert_eq!(restored(&file).unwrap(), content);
        assert_eq!(Image::open(file.try_clone().unwrap(), SHAPE).unwrap().state(), b"state of devices");
        assert!(file.metadata().unwrap().len() < 6 * PAGE as u64, "{}", file.metadata().unwrap().len());
        let error = Image::open(file, "another").unwrap_err();
        assert!(error.to_string().contains("another machine"), "{error}");
    }

    #[test]
    fn any_bit_that_is_not_as_it_was_is_noticed() {
        let (file, _) = saved();
        let length = file.metadata().unwrap().len();
        for at in (0..length).step_by(97).chain(length - 700..length) {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
            assert!(restored(&file).is_err(), "byte {at} of {length}");
            file.write_all_at(&byte, at).unwrap();
        }
        assert!(restored(&file).is_ok());
    }

    #[test]
    fn any_length_but_its_own_is_noticed() {
        let (file, _) = saved();
        let length = file.metadata().unwrap().len();
        file.set_len(length + 1).unwrap();
        assert!(restored(&file).is_err());
        for shorter in (0..length).rev().step_by(211) {
            file.set_len(shorter).unwrap();
            assert!(restored(&file).is_err(), "{shorter} of {length}");
        }
    }
}
