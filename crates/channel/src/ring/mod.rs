//! The ring's core: frames of one message after the other, in the sender's section; the place read up to, in the
//! receiver's.
//!
//! ```text
//!  sender's section                                     receiver's section
//!  ┌ link block ──────────────┐                         ┌ link block ───────────────┐
//!  │ tail: written up to here │ ───── reads ──────────► │                           │
//!  │                          │ ◄──── reads ─────────── │ head: read up to here     │
//!  ├ ring, a power of two ────┤                         └───────────────────────────┘
//!  │ head▼          tail▼     │      frame = 16 bytes of header, then data, rounded up to 16
//!  │ ....[frame][frame]...... │      word 0: kind 8 │ stamp 24 │ data bytes 32
//!  └──────────────────────────┘      word 1: sequence 32 │ total (first frame) or offset (later ones) 32
//! ```
//!
//! `tail` and `head` count bytes since the session began and never wrap in practice. A message longer than a fragment
//! is several frames; a first frame drops what an unfinished message had brought.
//!
//! The order of things: data, release, `tail`; `tail`, acquire, data; data, release, `head`; `head`, acquire, data.
//! A writer that begins anew first changes its session word, then (release) everything else; who reads looks at the
//! session word last (acquire), as with a sequence lock (Boehm, "Can seqlocks get along with programming language
//! memory models?", 2012).

mod bytes;
mod consumer;
#[cfg(all(test, loom))]
mod loom_tests;
mod producer;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use consumer::Consumer;
pub(crate) use producer::Producer;

use crate::layout::{CLOSED, MOST_MESSAGE};

/// How far a message has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Nothing moved: no message is there, or there is no room.
    Nothing,
    /// A part of the message has moved; call again with the same buffers.
    Part {
        /// Bytes so far.
        done: usize,
        /// Bytes of the message.
        total: usize,
    },
    /// The message of so many bytes is complete.
    Whole(usize),
}

/// What a look for a short message found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Short {
    /// No message is there.
    Nothing,
    /// One of so many bytes was taken.
    Message(usize),
    /// What is there is longer, or in parts; it was left.
    Longer,
}

/// A word of the peer's link block, and the value with which there is nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watch {
    pub(crate) at: usize,
    pub(crate) seen: u64,
}

/// Why a ring cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The session on the other side is another one.
    Restarted,
    /// The other side closed, and everything was read.
    Closed,
    /// An impossible value.
    Garbled { what: &'static str, wanted: u64, got: u64 },
    /// The message does not fit into the caller's buffers; nothing was taken.
    Small { needed: usize },
}

/// Bytes of a frame's header, and what every frame is a multiple of.
const ALIGN: u64 = 16;

/// Largest fragment: publishing it costs little beside copying it, and both sides copy at once from the second one on.
const MOST_FRAGMENT: u64 = 16 * 1024;

/// Data bytes of a full fragment in a ring of this capacity.
fn fragment_bytes(capacity: u64) -> u64 {
    (capacity / 4).clamp(ALIGN, MOST_FRAGMENT)
}

/// Ring bytes that a frame with this much data takes.
#[inline]
fn frame_bytes(data: u64) -> u64 {
    ALIGN + data.next_multiple_of(ALIGN)
}

/// [`Kind::First`] in a header.
const FIRST: u32 = 1;
/// [`Kind::Next`] in a header.
const NEXT: u32 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Begins a message; `number` is its total length.
    First,
    /// Goes on with it; `number` is the offset.
    Next,
}

/// A frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frame {
    kind: Kind,
    stamp: u32,
    length: u32,
    sequence: u32,
    number: u32,
}

impl Frame {
    fn encode(self) -> [u64; 2] {
        let kind = match self.kind {
            Kind::First => FIRST,
            Kind::Next => NEXT,
        };
        [
            u64::from(kind) | u64::from(self.stamp & STAMP_BITS) << 8 | u64::from(self.length) << 32,
            u64::from(self.sequence) | u64::from(self.number) << 32,
        ]
    }

    fn decode(words: [u64; 2]) -> Result<Self, Fault> {
        let [first, second] = words;
        let kind = match low_half(first & 0xff) {
            FIRST => Kind::First,
            NEXT => Kind::Next,
            got => {
                return Err(Fault::Garbled { what: "kind of frame", wanted: NEXT.into(), got: got.into() });
            }
        };
        Ok(Self {
            kind,
            stamp: low_half(first) >> 8,
            length: low_half(first >> 32),
            sequence: low_half(second),
            number: low_half(second >> 32),
        })
    }
}

const STAMP_BITS: u32 = 0x00ff_ffff;

/// Lower half of the header of a message's first frame.
fn first_half(stamp: u32) -> u64 {
    u64::from(FIRST | (stamp & STAMP_BITS) << 8)
}

/// The bits of a session that each of its frames carries.
fn stamp_of(session: u64) -> u32 {
    low_half(session) & STAMP_BITS
}

#[inline]
fn low_half(word: u64) -> u32 {
    u32::try_from(word & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}

/// Whether a session word still names the session, and whether that was closed.
#[inline]
fn still(word: u64, session: u64) -> Result<bool, Fault> {
    if word & !CLOSED == session { Ok(word & CLOSED != 0) } else { Err(Fault::Restarted) }
}

/// Index of the word that holds a position, going around.
#[inline]
fn word_at(position: u64) -> usize {
    usize::try_from(position / 8).unwrap_or(0)
}

/// Total length of all parts.
pub(crate) fn total_of(parts: &[&[u8]]) -> u64 {
    parts.iter().map(|part| part.len() as u64).fold(0, u64::saturating_add)
}

/// A length within a message as an index. Messages are far smaller than any address space.
#[inline]
fn index(length: u64) -> usize {
    usize::try_from(length.min(MOST_MESSAGE)).unwrap_or(0)
}
