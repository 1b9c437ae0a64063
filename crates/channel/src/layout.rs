//! Where everything lies in a section.
//!
//! ```text
//!      0  mark · version, checksum · size · writer, links      (written once per start)
//!     64  state word                                            (read while waiting)
//!    128  heartbeat                                             (own cache line: it changes all the time)
//!    256  directory: per link  peer · offset · capacity         (at most 64)
//!   4096  link blocks, 256 bytes each:  tail, session  │ 128 bytes on:  head, acknowledged session
//!  20480  rings, one per link, each a power of two
//! ```
//!
//! Tail and head are 128 bytes apart, because processors fetch cache lines in pairs.

use crate::error::{Error, Result};
use crate::words::{Foreign, Own};

/// Version of the layout; both sides must agree.
pub const VERSION: u32 = 1;

/// Longest message, in bytes: 16 MiB.
pub const MOST_MESSAGE: u64 = 16 << 20;

/// Most rings that one section can hold.
pub const MOST_LINKS: usize = 64;

/// Ring capacities are powers of two from here …
const LEAST_CAPACITY: u64 = 4096;
/// … to here.
const MOST_CAPACITY: u64 = 1 << 30;
/// Bytes of the smallest section: header, link blocks, one ring of 4 KiB.
pub const LEAST_BYTES: u64 = RINGS_AT + LEAST_CAPACITY;

/// "bulkhead" as a number whose first byte in memory is the first letter.
pub(crate) const MARK: u64 = u64::from_le_bytes(*b"bulkhead");

pub(crate) const HEADER_WORDS: usize = 512;
const MARK_AT: usize = 0;
const VERSION_AT: usize = 1;
const SIZE_AT: usize = 2;
const WRITER_AT: usize = 3;
pub(crate) const STATE_AT: usize = 8;
pub(crate) const BEAT_AT: usize = 16;
const DIRECTORY_AT: usize = 32;
const ENTRY_WORDS: usize = 4;

const LINKS_AT: usize = HEADER_WORDS;
pub(crate) const LINK_WORDS: usize = 32;
const RINGS_AT: u64 = (LINKS_AT + MOST_LINKS * LINK_WORDS) as u64 * 8;

/// Words of a link block. How far this side has written into its ring.
pub(crate) const TAIL: usize = 0;
/// This side's session: its generation and a count, with `CLOSED` when it ended.
pub(crate) const SESSION: usize = 1;
/// How far this side has read the other's ring.
pub(crate) const HEAD: usize = 16;
/// The other side's session that `TAIL` and `HEAD` belong to.
pub(crate) const ACK: usize = 17;

/// Set in a session that was closed in good order.
pub(crate) const CLOSED: u64 = 1 << 63;

/// One outgoing ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) peer: u32,
    pub(crate) offset: u64,
    pub(crate) capacity: u64,
}

/// Who writes a section, and which rings it holds.
///
/// ```
/// use channel::Layout;
/// let layout = Layout::new(1).ring(2, 1 << 20).ring(3, 64 << 10);
/// assert_eq!(layout.bytes(), 20480 + (1 << 20) + (64 << 10));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    pub(crate) writer: u32,
    pub(crate) entries: Vec<Entry>,
}

impl Layout {
    /// A section that `writer` writes. Numbers are given by whoever sets the parties up.
    pub fn new(writer: u32) -> Self {
        Self { writer, entries: Vec::new() }
    }

    /// With a ring to `peer`. The capacity is rounded up to a power of two, 4 KiB … 1 GiB.
    #[must_use]
    pub fn ring(mut self, peer: u32, capacity: u64) -> Self {
        let capacity = capacity.clamp(LEAST_CAPACITY, MOST_CAPACITY).next_power_of_two();
        let offset = self.bytes();
        self.entries.push(Entry { peer, offset, capacity });
        self
    }

    /// Bytes that the memory must have at least.
    pub fn bytes(&self) -> u64 {
        RINGS_AT + self.entries.iter().map(|entry| entry.capacity).sum::<u64>()
    }

    /// The largest capacity of each of `peers` rings that fits into memory of this size, if any does.
    pub fn capacity_for(bytes: u64, peers: u64) -> Option<u64> {
        let each = bytes.checked_sub(RINGS_AT)?.checked_div(peers)?;
        let capacity = 1_u64.checked_shl(each.checked_ilog2()?)?;
        (capacity >= LEAST_CAPACITY).then_some(capacity.min(MOST_CAPACITY))
    }

    pub(crate) fn link_to(&self, peer: u32) -> Option<(usize, Entry)> {
        self.entries.iter().copied().enumerate().find(|(_, entry)| entry.peer == peer)
    }

    /// Whether it can be laid out in memory of this size.
    pub(crate) fn check(&self, bytes: u64, what: &str) -> Result<()> {
        let count = self.entries.len();
        if count == 0 || count > MOST_LINKS {
            return Err(Error::BadLayout(format!("wanted 1 to {MOST_LINKS} rings, got {count}")));
        }
        for (at, entry) in self.entries.iter().enumerate() {
            if self.link_to(entry.peer).is_some_and(|(first, _)| first != at) {
                return Err(Error::BadLayout(format!("wanted one ring to {}, got two", entry.peer)));
            }
        }
        if bytes < self.bytes() {
            return Err(Error::TooSmall { what: what.to_owned(), wanted: self.bytes(), got: bytes });
        }
        Ok(())
    }

    /// Writes everything but the state and the heartbeat.
    pub(crate) fn write(&self, header: &Own, size: u64) {
        let mut words = vec![0_u64; DIRECTORY_AT + MOST_LINKS * ENTRY_WORDS];
        set(&mut words, MARK_AT, MARK);
        set(&mut words, SIZE_AT, size);
        set(&mut words, WRITER_AT, u64::from(self.writer) | (self.entries.len() as u64) << 32);
        for (number, entry) in self.entries.iter().enumerate() {
            let at = DIRECTORY_AT + number * ENTRY_WORDS;
            set(&mut words, at, entry.peer.into());
            set(&mut words, at + 1, entry.offset);
            set(&mut words, at + 2, entry.capacity);
        }
        let sum = checksum(&words);
        set(&mut words, VERSION_AT, u64::from(VERSION) | u64::from(sum) << 32);
        let fixed = |at: &usize| *at != STATE_AT && *at != BEAT_AT;
        for (at, word) in words.iter().enumerate().filter(|(at, _)| fixed(at)) {
            header.store(at, *word);
        }
    }

    /// Reads and checks a peer's header. `bytes` is what the memory has, whatever the header announces.
    pub(crate) fn read(header: &Foreign, bytes: u64, what: &str) -> Result<Self> {
        let mut words: Vec<u64> =
            (0..DIRECTORY_AT + MOST_LINKS * ENTRY_WORDS).map(|at| header.load(at)).collect();
        let get = |at: usize| words.get(at).copied().unwrap_or(0);
        let what = || what.to_owned();
        if get(MARK_AT) != MARK {
            return Err(Error::NotASection { what: what(), got: get(MARK_AT) });
        }
        let [version, sum] = halves(get(VERSION_AT));
        if version != VERSION {
            return Err(Error::OtherVersion { what: what(), wanted: VERSION, got: version });
        }
        if get(SIZE_AT) > bytes {
            return Err(Error::TooSmall { what: what(), wanted: get(SIZE_AT), got: bytes });
        }
        let [writer, count] = halves(get(WRITER_AT));
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count > MOST_LINKS {
            let how = format!("wanted at most {MOST_LINKS} rings, got {count}");
            return Err(Error::Damaged { what: what(), how });
        }
        let entries: Vec<Entry> = (0..count)
            .map(|number| DIRECTORY_AT + number * ENTRY_WORDS)
            .map(|at| Entry { peer: halves(get(at))[0], offset: get(at + 1), capacity: get(at + 2) })
            .collect();
        for at in [VERSION_AT, STATE_AT, BEAT_AT] {
            set(&mut words, at, 0);
        }
        if checksum(&words) != sum {
            let how = format!("wanted checksum {sum:#010x}, got {:#010x}", checksum(&words));
            return Err(Error::Damaged { what: what(), how });
        }
        for entry in &entries {
            if !entry.fits(bytes) {
                let Entry { peer, offset, capacity } = entry;
                let how = format!(
                    "wanted rings inside of its {bytes} bytes, got one to {peer} of {capacity} bytes at {offset}"
                );
                return Err(Error::Damaged { what: what(), how });
            }
        }
        Ok(Self { writer, entries })
    }
}

impl Entry {
    /// Whether its ring lies in a section of so many bytes, as rings lie.
    fn fits(&self, bytes: u64) -> bool {
        let fits = self.offset.checked_add(self.capacity).is_some_and(|end| end <= bytes);
        let is_size =
            (LEAST_CAPACITY..=MOST_CAPACITY).contains(&self.capacity) && self.capacity.is_power_of_two();
        is_size && fits && self.offset >= RINGS_AT && self.offset.is_multiple_of(LEAST_CAPACITY)
    }

    /// First word and number of words of the ring.
    pub(crate) fn words(&self) -> (usize, usize) {
        let words = |bytes: u64| usize::try_from(bytes / 8).unwrap_or(usize::MAX);
        (words(self.offset), words(self.capacity))
    }
}

/// First word of a link block.
pub(crate) fn link_block(number: usize) -> usize {
    LINKS_AT + number * LINK_WORDS
}

fn set(words: &mut [u64], at: usize, value: u64) {
    if let Some(word) = words.get_mut(at) {
        *word = value;
    }
}

/// The lower and the upper half.
fn halves(word: u64) -> [u32; 2] {
    let half = |word: u64| u32::try_from(word & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    [half(word), half(word >> 32)]
}

/// Fowler, Noll and Vo's hash (FNV-1a, 64 bits), by words instead of bytes and folded: noise is told from a header.
fn checksum(words: &[u64]) -> u32 {
    let sum =
        words.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, word| (sum ^ word).wrapping_mul(0x100_0000_01b3));
    let [low, high] = halves(sum);
    low ^ high
}
