//! The receiving half of a ring. Everything it reads was written by a peer that may want to harm it.

use super::bytes::{Drainer, scatter};
use super::{
    Fault, Frame, Kind, Progress, Short, Watch, first_half, frame_bytes, index, stamp_of, still, word_at,
};
use crate::atomic::{acquire, release};
use crate::layout::{HEAD, MOST_MESSAGE, SESSION, TAIL};
use crate::words::{Foreign, Own, SMALL};

/// Where the words of one direction lie, and which session they belong to.
#[derive(Debug)]
pub(crate) struct Consumer {
    ring: Foreign,
    words: usize,
    theirs: Foreign,
    control: Own,
    capacity: u64,
    /// Session of the sender, whose tail and frames are read.
    session: u64,
    stamp: u32,
    /// Lower half of the header of a message's first frame.
    first: u64,
    head: u64,
    /// What the sender was told.
    given_back: u64,
    /// The sender's tail as last seen, which was possible.
    tail: u64,
    sequence: u32,
    /// A message that has come in part: total and received bytes.
    open: Option<(u64, u64)>,
    dropped: u64,
}

impl Consumer {
    /// `capacity` bytes of the ring, a power of two; both indices are zero when the link comes up.
    pub(crate) fn new(ring: Foreign, capacity: u64, theirs: Foreign, control: Own, session: u64) -> Self {
        Self {
            ring,
            words: usize::try_from(capacity / 8).unwrap_or(0),
            theirs,
            control,
            capacity,
            session,
            stamp: stamp_of(session),
            first: first_half(stamp_of(session)),
            head: 0,
            given_back: 0,
            tail: 0,
            sequence: 0,
            open: None,
            dropped: 0,
        }
    }

    /// Total and received bytes of the message that has come in part.
    pub(crate) fn open(&self) -> Option<(usize, usize)> {
        self.open.map(|(total, got)| (index(total), index(got)))
    }

    /// Messages that the sender began and gave up.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The word of the sender's that changes when a frame comes, and what it was when it was last looked at.
    pub(crate) fn watched(&self) -> Watch {
        Watch { at: TAIL, seen: self.tail }
    }

    /// Whether the sender has written anything that was not looked at, or something is left of what was.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.head != self.tail || self.theirs.load_around(TAIL) != self.tail
    }

    /// Whether what was read up to now belongs to the session: to be asked after reading, before believing.
    #[inline]
    fn check(&self) -> Result<bool, Fault> {
        acquire();
        still(self.theirs.load(SESSION), self.session)
    }

    /// Tells the sender what has been read.
    fn give_back(&mut self) {
        if self.given_back != self.head {
            self.given_back = self.head;
            release();
            self.control.store(HEAD, self.head);
        }
    }

    /// Whether a frame is there. Reads the sender's tail only when all that was seen has been taken.
    fn has_frame(&mut self) -> Result<bool, Fault> {
        if self.tail != self.head {
            return Ok(true);
        }
        self.give_back();
        let mut tail = self.theirs.load(TAIL);
        let closed = self.check()?;
        if closed && tail == self.head {
            // The last frames may have come between the two looks, and are older than the end.
            acquire();
            tail = self.theirs.load(TAIL);
            self.check()?;
            if tail == self.head {
                return Err(Fault::Closed);
            }
        }
        let ahead = tail.wrapping_sub(self.head);
        if ahead > self.capacity || !tail.is_multiple_of(super::ALIGN) {
            let wanted = self.head.saturating_add(self.capacity);
            return Err(Fault::Garbled { what: "index of what it has written", wanted, got: tail });
        }
        self.tail = tail;
        Ok(ahead != 0)
    }

    /// The frame at the head, read once and found possible.
    fn frame(&self) -> Result<Frame, Fault> {
        let at = word_at(self.head);
        let words = [self.ring.load_around(at), self.ring.load_around(at + 1)];
        self.check()?;
        let frame = Frame::decode(words)?;
        let garbled = |what, wanted: u64, got: u64| Err(Fault::Garbled { what, wanted, got });
        let (length, number) = (u64::from(frame.length), u64::from(frame.number));
        let there = self.tail.wrapping_sub(self.head) - super::ALIGN;
        if frame.stamp != self.stamp {
            return garbled("session stamp of a frame", self.stamp.into(), frame.stamp.into());
        }
        if length.next_multiple_of(super::ALIGN) > there {
            return garbled("length of a frame", there, length);
        }
        if frame.kind == Kind::First {
            let wanted = self.sequence.wrapping_add(1);
            if frame.sequence != wanted {
                return garbled("sequence number", wanted.into(), frame.sequence.into());
            }
            if number > MOST_MESSAGE {
                return garbled("length of a message", MOST_MESSAGE, number);
            }
            if length > number || (length == 0 && number > 0) {
                return garbled("length of a first frame", number, length);
            }
            return Ok(frame);
        }
        let Some((total, got)) = self.open else {
            return garbled("frame that goes on with no message", 0, number);
        };
        if frame.sequence != self.sequence {
            return garbled("sequence number", self.sequence.into(), frame.sequence.into());
        }
        if number != got {
            return garbled("offset of a frame", got, number);
        }
        if length == 0 || length > total - got {
            return garbled("length of a later frame", total - got, length);
        }
        Ok(frame)
    }

    /// Marks a frame as read, once its data were taken and belong to the session.
    fn take(&mut self, frame: &Frame) {
        let got = match (frame.kind, self.open) {
            (Kind::First, open) => {
                self.dropped += u64::from(open.is_some());
                self.sequence = frame.sequence;
                0
            }
            (Kind::Next, open) => open.map_or(0, |(_, got)| got),
        };
        let total = match (frame.kind, self.open) {
            (Kind::Next, Some((total, _))) => total,
            _ => u64::from(frame.number),
        };
        let got = got + u64::from(frame.length);
        self.open = (got < total).then_some((total, got));
        self.advance(frame.length.into());
    }

    /// Goes on behind a frame with so much data.
    #[inline]
    fn advance(&mut self, length: u64) {
        self.head = self.head.wrapping_add(frame_bytes(length));
        if self.head.wrapping_sub(self.given_back) >= self.capacity / 8 {
            self.give_back();
        }
    }

    /// Receives a message that is wholly there and fits into so few words.
    #[inline]
    pub(crate) fn receive_short(&mut self, words: &mut [u64]) -> Result<Short, Fault> {
        self.receive_few(words.len() * 8, |ring, at, length| {
            ring.load_words(at, words.get_mut(..length.div_ceil(8)).unwrap_or_default());
        })
    }

    /// The same into bytes, [`SMALL`] at most.
    #[inline]
    pub(crate) fn receive_bytes(&mut self, bytes: &mut [u8]) -> Result<Short, Fault> {
        self.receive_few(bytes.len().min(SMALL), |ring, at, length| {
            ring.load_few(at, bytes.get_mut(..length).unwrap_or_default());
        })
    }

    /// `load` gets the ring, the first word of the data, and how many bytes they are.
    ///
    /// All that is not exactly as it should be is left to the long way, which finds out what it is. Nothing of what is read
    /// counts before the session was looked at behind it.
    #[inline]
    fn receive_few(
        &mut self,
        most: usize,
        load: impl FnOnce(&Foreign, usize, usize),
    ) -> Result<Short, Fault> {
        let mut tail = self.tail;
        if tail == self.head {
            tail = self.theirs.load_around(TAIL);
            if tail == self.head {
                return self.has_frame().map(|there| if there { Short::Longer } else { Short::Nothing });
            }
            acquire();
        }
        let at = word_at(self.head);
        let (first, second) = (self.ring.load_around(at), self.ring.load_around(at + 1));
        let length = index(first >> 32);
        let wanted = first & !u64::from(u32::MAX) | u64::from(self.sequence.wrapping_add(1));
        let ahead = tail.wrapping_sub(self.head);
        let is_usual = first & u64::from(u32::MAX) == self.first
            && second == wanted
            && length <= most
            && frame_bytes(length as u64) <= ahead
            && ahead <= self.capacity
            && tail.is_multiple_of(super::ALIGN)
            && self.open.is_none();
        if !is_usual {
            return Ok(Short::Longer);
        }
        load(&self.ring, at + 2, length);
        acquire();
        if self.theirs.load_around(SESSION) != self.session {
            return Ok(Short::Longer);
        }
        (self.tail, self.sequence) = (tail, self.sequence.wrapping_add(1));
        self.advance(length as u64);
        Ok(Short::Message(length))
    }

    /// Receives as much of one message as is there. A message that has come in part goes on at its place in `parts`.
    pub(crate) fn receive(&mut self, parts: &mut [&mut [u8]]) -> Result<Progress, Fault> {
        let room = parts.iter().map(|part| part.len() as u64).fold(0, u64::saturating_add);
        let mut moved = false;
        // What was seen earlier, then what is there now: however fast the peer writes, a call ends.
        let mut looked = false;
        loop {
            if self.head == self.tail {
                if looked || !self.has_frame()? {
                    break;
                }
                looked = true;
            }
            let frame = self.frame()?;
            let (total, from) = match (frame.kind, self.open) {
                (Kind::Next, Some((total, got))) => (total, got),
                _ => (u64::from(frame.number), 0),
            };
            if total > room {
                return Err(Fault::Small { needed: index(total) });
            }
            let mut drainer = Drainer::new(&self.ring, self.words, self.head.wrapping_add(super::ALIGN));
            scatter(&mut drainer, parts, index(from), index(frame.length.into()));
            self.check()?;
            self.take(&frame);
            moved = true;
            if self.open.is_none() {
                return Ok(Progress::Whole(index(total)));
            }
        }
        let (done, total) = self.open().map_or((0, 0), |(total, got)| (got, total));
        Ok(if moved { Progress::Part { done, total } } else { Progress::Nothing })
    }

    /// Total length of the message that begins at the head, and how much of it the first frame has.
    pub(crate) fn peek(&mut self) -> Result<Option<(usize, usize)>, Fault> {
        if !self.has_frame()? {
            return Ok(None);
        }
        let frame = self.frame()?;
        let begins = frame.kind == Kind::First;
        Ok(begins.then(|| (index(frame.number.into()), index(frame.length.into()))))
    }

    /// Copies bytes of the frame at the head, which `peek` found to have `there` bytes. Returns how many.
    pub(crate) fn peek_at(&self, there: usize, offset: usize, buffer: &mut [u8]) -> Result<usize, Fault> {
        let count = there.saturating_sub(offset).min(buffer.len());
        let from = self.head.wrapping_add(super::ALIGN).wrapping_add(offset as u64);
        if let Some(buffer) = buffer.get_mut(..count).filter(|_| count > 0) {
            Drainer::new(&self.ring, self.words, from).get(buffer);
        }
        self.check()?;
        Ok(count)
    }
}
