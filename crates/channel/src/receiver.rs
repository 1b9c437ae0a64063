//! The receiving half of a link.

use std::time::Duration;

use crate::error::Result;
use crate::guard::{Guard, Step};
use crate::ring::{Consumer, Fault, Progress, Short};

/// Receives messages from one peer.
#[derive(Debug)]
pub struct Receiver {
    pub(crate) guard: Guard,
    ring: Consumer,
    /// A message that came in part while the caller did not wait: as long as announced, filled as far as it came.
    stash: Option<Vec<u8>>,
}

impl Receiver {
    pub(crate) fn new(guard: Guard, ring: Consumer) -> Self {
        Self { guard, ring, stash: None }
    }

    /// The peer's number.
    pub fn peer(&self) -> u32 {
        self.guard.link.number
    }

    /// Messages that the peer began and gave up.
    pub fn dropped(&self) -> u64 {
        self.ring.dropped()
    }

    /// Whether anything came since the last look: the cheapest of all looks, for those who look at many peers. It does not
    /// see that the peer is gone; one of the others has to be called now and then.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.ring.has_news()
    }

    /// Waits for a message, puts it into the parts, one filled after the other, and returns its length.
    ///
    /// When the time is over, nothing is lost: the next call goes on.
    #[inline]
    pub fn receive(&mut self, parts: &mut [&mut [u8]], timeout: Duration) -> Result<usize> {
        self.guard.standing()?;
        if self.stash.is_none()
            && let [part] = parts
        {
            let received = self.ring.receive_bytes(part);
            if let Short::Message(length) = self.guard.keep(received, part.len())? {
                return Ok(length);
            }
        }
        self.receive_in_parts(parts, timeout)
    }

    fn receive_in_parts(&mut self, parts: &mut [&mut [u8]], timeout: Duration) -> Result<usize> {
        self.unstash(parts)?;
        let room = room(parts);
        let ring = &mut self.ring;
        let received = self.guard.wait(timeout, "wait for a message of", |guard| {
            if let [part] = parts {
                match guard.keep(ring.receive_bytes(part), room)? {
                    Short::Message(length) => return Ok(Step::Done(length)),
                    Short::Nothing => return Ok(Step::Idle(ring.watched())),
                    Short::Longer => {}
                }
            }
            let progress = guard.keep(ring.receive(parts), room)?;
            Ok(Step::of(progress, ring.watched(), |length| length))
        });
        self.stash_what_came(parts);
        received
    }

    /// Puts a message into the parts if a whole one is there, and returns its length.
    ///
    /// Of a message that is longer than the ring, what has come is kept aside until the rest is there.
    pub fn try_receive(&mut self, parts: &mut [&mut [u8]]) -> Result<Option<usize>> {
        self.guard.standing()?;
        let room = room(parts);
        if self.stash.is_none() {
            let progress = self.ring.receive(parts);
            let progress = self.guard.keep(progress, room);
            self.stash_what_came(parts);
            return Ok(whole(progress?));
        }
        if let Some((needed, _)) = self.ring.open().filter(|(total, _)| *total > room) {
            return self.guard.keep(Err(Fault::Small { needed }), room);
        }
        let Some(mut stash) = self.stash.take() else { return Ok(None) };
        // No more than the caller has room for: a message that was given up may be followed by any other.
        let aside = stash.len().min(room);
        let progress = self.ring.receive(&mut [stash.get_mut(..aside).unwrap_or_default()]);
        if let Err(Fault::Small { .. }) = progress {
            // The message was given up by the peer and a longer one begun, of which nothing is kept aside.
            return self.try_receive(parts);
        }
        if let Ok(Progress::Whole(length)) = progress {
            copy(stash.get(..length).unwrap_or_default(), parts);
        } else {
            self.stash = Some(stash);
        }
        self.guard.keep(progress, room).map(whole)
    }

    /// Puts as much of one message as is there into the parts, without copying it twice.
    ///
    /// Call it with the same parts until it says [`Progress::Whole`]; every byte is put where it belongs at once.
    pub fn try_receive_part(&mut self, parts: &mut [&mut [u8]]) -> Result<Progress> {
        self.guard.standing()?;
        self.unstash(parts)?;
        let progress = self.ring.receive(parts);
        self.guard.keep(progress, room(parts))
    }

    /// Takes a message that is wholly there and fits into the words, the last of them padded with whatever was sent there.
    /// The shortest way there is; what is longer is left for the others.
    #[inline]
    pub fn try_receive_short(&mut self, words: &mut [u64]) -> Result<Short> {
        self.guard.standing()?;
        if self.stash.is_some() || self.ring.open().is_some() {
            return Ok(Short::Longer);
        }
        let received = self.ring.receive_short(words);
        self.guard.keep(received, 0)
    }

    /// Looks at the next message without taking it; none while one is being received in parts.
    pub fn peek(&mut self) -> Result<Option<Peek<'_>>> {
        self.guard.standing()?;
        let seen = self.ring.peek();
        let seen = self.guard.keep(seen, 0)?;
        Ok(seen.map(|(length, there)| Peek { receiver: self, length, there }))
    }

    /// Looks whether the peer lives, without waiting. For callers that only use what does not wait.
    pub fn check_peer(&mut self) -> Result<()> {
        self.guard.standing()?;
        self.guard.look_at_peer()
    }

    /// Puts what was kept aside where the caller wants it.
    fn unstash(&mut self, parts: &mut [&mut [u8]]) -> Result<()> {
        let room = room(parts);
        if let (Some(stash), Some((total, got))) = (&self.stash, self.ring.open()) {
            if total > room {
                return self.guard.keep(Err(Fault::Small { needed: total }), room);
            }
            copy(stash.get(..got).unwrap_or_default(), parts);
        }
        self.stash = None;
        Ok(())
    }

    /// Keeps a part aside, since the caller's buffer is the caller's again.
    fn stash_what_came(&mut self, parts: &[&mut [u8]]) {
        if let Some((total, got)) = self.ring.open() {
            let mut stash = vec![0; total];
            let came = parts.iter().flat_map(|part| part.iter()).take(got);
            for (to, from) in stash.iter_mut().zip(came) {
                *to = *from;
            }
            self.stash = Some(stash);
        }
    }
}

/// The next message, still in the ring.
#[derive(Debug)]
pub struct Peek<'a> {
    receiver: &'a mut Receiver,
    length: usize,
    there: usize,
}

impl Peek<'_> {
    /// Bytes of the message.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Bytes of it that can be looked at now: all, or at least the first kilobyte.
    pub fn there(&self) -> usize {
        self.there
    }

    /// Copies bytes from `offset` on, and returns how many were there to be copied.
    ///
    /// The peer may change them until they are received: decide by a copy, and check what was received again.
    pub fn read(&mut self, offset: usize, buffer: &mut [u8]) -> Result<usize> {
        let read = self.receiver.ring.peek_at(self.there, offset, buffer);
        self.receiver.guard.keep(read, 0)
    }
}

fn whole(progress: Progress) -> Option<usize> {
    match progress {
        Progress::Whole(length) => Some(length),
        _ => None,
    }
}

fn room(parts: &[&mut [u8]]) -> usize {
    parts.iter().map(|part| part.len()).fold(0, usize::saturating_add)
}

fn copy(mut from: &[u8], parts: &mut [&mut [u8]]) {
    for part in parts {
        let count = part.len().min(from.len());
        let (now, later) = from.split_at_checked(count).unwrap_or((from, &[]));
        if let Some(part) = part.get_mut(..count) {
            part.copy_from_slice(now);
        }
        from = later;
    }
}
