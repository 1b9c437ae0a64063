//! The sending half of a ring.

use super::bytes::{Filler, range};
use super::{
    Fault, Frame, Kind, Progress, Watch, first_half, fragment_bytes, frame_bytes, index, low_half, stamp_of,
    still, total_of, word_at,
};
use crate::atomic::{acquire, release};
use crate::layout::{HEAD, SESSION, TAIL};
use crate::words::{Foreign, Own};

/// Where the words of one direction lie, and which session they belong to.
#[derive(Debug)]
pub(crate) struct Producer {
    ring: Own,
    control: Own,
    theirs: Foreign,
    capacity: u64,
    /// Session of the receiver, whose head is read.
    session: u64,
    stamp: u32,
    /// Lower half of the header of a message's first frame.
    first: u64,
    tail: u64,
    /// The receiver's head as last seen, which was possible.
    head: u64,
    sequence: u32,
    /// A message that was begun: total and sent bytes.
    open: Option<(u64, u64)>,
}

impl Producer {
    /// `mine` and `session` are the two sides' sessions; both indices are zero when the link comes up.
    pub(crate) fn new(ring: Own, control: Own, theirs: Foreign, mine: u64, session: u64) -> Self {
        let capacity = ring.len() as u64 * 8;
        let stamp = stamp_of(mine);
        let first = first_half(stamp);
        Self {
            ring,
            control,
            theirs,
            capacity,
            session,
            stamp,
            first,
            tail: 0,
            head: 0,
            sequence: 0,
            open: None,
        }
    }

    /// Longest message that `try_send` can send, in an empty ring.
    pub(crate) fn most_whole(&self) -> u64 {
        let fragment = fragment_bytes(self.capacity);
        let full = self.capacity / frame_bytes(fragment);
        let left = self.capacity - full * frame_bytes(fragment);
        full * fragment + left.saturating_sub(super::ALIGN)
    }

    /// Whether the receiver is still in the same session and did not close.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Fault> {
        let closed = still(self.theirs.load_around(SESSION), self.session)?;
        if closed { Err(Fault::Closed) } else { Ok(()) }
    }

    /// Whether so much room is there. Looks at the receiver's head only when what was seen last is not enough.
    #[inline]
    fn has_room(&mut self, bytes: u64) -> Result<bool, Fault> {
        if self.capacity - self.tail.wrapping_sub(self.head) >= bytes {
            Ok(true)
        } else {
            self.look_for_room(bytes)
        }
    }

    fn look_for_room(&mut self, bytes: u64) -> Result<bool, Fault> {
        let head = self.theirs.load(HEAD);
        acquire();
        still(self.theirs.load(SESSION), self.session)?;
        let most = self.tail.wrapping_sub(self.head);
        if head.wrapping_sub(self.head) > most || !head.is_multiple_of(super::ALIGN) {
            return Err(Fault::Garbled { what: "index of what it has read", wanted: self.tail, got: head });
        }
        self.head = head;
        Ok(self.capacity - self.tail.wrapping_sub(head) >= bytes)
    }

    /// The word of the receiver's that changes when there is more room, and what it was when it was last looked at.
    pub(crate) fn watched(&self) -> Watch {
        Watch { at: HEAD, seen: self.head }
    }

    /// Whether the receiver has taken everything.
    pub(crate) fn is_drained(&mut self) -> Result<bool, Fault> {
        self.has_room(self.capacity)
    }

    /// Sends all of a message, or nothing. A message that was begun in parts is given up.
    pub(crate) fn send_whole(&mut self, parts: &[&[u8]]) -> Result<bool, Fault> {
        self.check()?;
        let total = total_of(parts);
        let fragment = fragment_bytes(self.capacity);
        let headers = total.div_ceil(fragment).max(1) * super::ALIGN;
        if !self.has_room(headers + total.next_multiple_of(super::ALIGN))? {
            return Ok(false);
        }
        self.open = None;
        Ok(matches!(self.advance(parts)?, Progress::Whole(_)))
    }

    /// Sends a short message, all of it or nothing: words, then bytes.
    ///
    /// A message that was begun in parts is given up.
    #[inline]
    pub(crate) fn send_short(&mut self, head: &[u64], rest: &[u8]) -> Result<bool, Fault> {
        self.check()?;
        let length = (head.len() * 8 + rest.len()) as u64;
        if !self.has_room(frame_bytes(length))? {
            return Ok(false);
        }
        self.open = None;
        self.sequence = self.sequence.wrapping_add(1);
        // As `Frame::encode` writes it.
        let front = [self.first | length << 32, u64::from(self.sequence) | length << 32];
        self.ring.store_frame(word_at(self.tail), front, head, rest);
        self.tail = self.tail.wrapping_add(frame_bytes(length));
        release();
        self.control.store_around(TAIL, self.tail);
        Ok(true)
    }

    /// Begins a message or goes on with it, as far as there is room.
    pub(crate) fn send_part(&mut self, parts: &[&[u8]]) -> Result<Progress, Fault> {
        self.check()?;
        self.advance(parts)
    }

    /// The next message begins anew, even if one was begun.
    pub(crate) fn give_up(&mut self) {
        self.open = None;
    }

    /// Whether a message was begun and not ended.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    fn advance(&mut self, parts: &[&[u8]]) -> Result<Progress, Fault> {
        let total = total_of(parts);
        let mut moved = false;
        loop {
            // A different length is a different message.
            let sent = self.open.filter(|(of, _)| *of == total).map(|(_, sent)| sent);
            let length = (total - sent.unwrap_or(0)).min(fragment_bytes(self.capacity));
            if !self.has_room(frame_bytes(length))? {
                let part = Progress::Part { done: index(sent.unwrap_or(0)), total: index(total) };
                return Ok(if moved { part } else { Progress::Nothing });
            }
            self.put_frame(parts, total, sent, length);
            moved = true;
            let done = sent.unwrap_or(0) + length;
            if done == total {
                self.open = None;
                return Ok(Progress::Whole(index(total)));
            }
            self.open = Some((total, done));
        }
    }

    /// Writes one frame, for which there is room, and publishes it.
    fn put_frame(&mut self, parts: &[&[u8]], total: u64, sent: Option<u64>, length: u64) {
        if sent.is_none() {
            self.sequence = self.sequence.wrapping_add(1);
        }
        let (kind, number) = sent.map_or((Kind::First, total), |sent| (Kind::Next, sent));
        let frame = Frame {
            kind,
            stamp: self.stamp,
            length: low_half(length),
            sequence: self.sequence,
            number: low_half(number),
        };
        let mut filler = Filler::new(&self.ring, self.tail);
        for word in frame.encode() {
            filler.put(&word.to_le_bytes());
        }
        for piece in range(parts, index(sent.unwrap_or(0)), index(length)) {
            filler.put(piece);
        }
        filler.finish();
        self.tail = self.tail.wrapping_add(frame_bytes(length));
        release();
        self.control.store(TAIL, self.tail);
    }
}
