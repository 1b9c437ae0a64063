//! The sending half of a link.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::guard::{Guard, Step, check_length};
use crate::layout::MOST_MESSAGE;
use crate::ring::{Fault, Producer, Progress, total_of};
use crate::words::SMALL;

/// Longest short message: it fits into every ring and every first frame.
const MOST_SHORT: usize = 1024;

/// Sends messages to one peer.
#[derive(Debug)]
pub struct Sender {
    pub(crate) guard: Guard,
    ring: Producer,
}

impl Sender {
    pub(crate) fn new(guard: Guard, ring: Producer) -> Self {
        Self { guard, ring }
    }

    /// The peer's number.
    pub fn peer(&self) -> u32 {
        self.guard.link.number
    }

    /// Longest message that [`Sender::try_send`] can take: what fits into the empty ring.
    pub fn most_at_once(&self) -> u64 {
        self.ring.most_whole().min(MOST_MESSAGE)
    }

    /// Sends the parts as one message of 0 to 16 MiB. One longer than the ring is streamed while the peer reads.
    ///
    /// When the time is over or the peer goes, the peer drops what it got of the message as soon as the next begins.
    #[inline]
    pub fn send(&mut self, parts: &[&[u8]], timeout: Duration) -> Result<()> {
        self.guard.standing()?;
        if let [part] = parts
            && part.len() <= SMALL
        {
            let sent = self.ring.send_short(&[], part);
            if self.guard.keep(sent, 0)? {
                return Ok(());
            }
        }
        self.send_in_parts(parts, timeout)
    }

    fn send_in_parts(&mut self, parts: &[&[u8]], timeout: Duration) -> Result<()> {
        check_length(total_of(parts), MOST_MESSAGE)?;
        self.ring.give_up();
        let ring = &mut self.ring;
        let sent = self.guard.wait(timeout, "wait for room to send to", |guard| {
            let progress = guard.keep(ring.send_part(parts), 0)?;
            Ok(Step::of(progress, ring.watched(), |_| ()))
        });
        self.ring.give_up();
        sent
    }

    /// Sends the parts as one message if there is room for all of it; false if there is none now.
    pub fn try_send(&mut self, parts: &[&[u8]]) -> Result<bool> {
        self.guard.standing()?;
        check_length(total_of(parts), self.ring.most_whole())?;
        let sent = self.ring.send_whole(parts);
        self.guard.keep(sent, 0)
    }

    /// Sends a short message if there is room for all of it: words, of little end, and behind them bytes. The shortest way
    /// there is; the receiver sees a message like any other.
    ///
    /// # Errors
    /// As [`Sender::try_send`], and more than 1 KiB.
    #[inline]
    pub fn try_send_short(&mut self, head: &[u64], rest: &[u8]) -> Result<bool> {
        self.guard.standing()?;
        let length = head.len().saturating_mul(8).saturating_add(rest.len());
        if length > MOST_SHORT {
            return Err(Error::TooLong { length: length as u64, most: MOST_SHORT as u64 });
        }
        let sent = self.ring.send_short(head, rest);
        self.guard.keep(sent, 0)
    }

    /// Begins a message, or goes on with the one that was begun, as far as there is room.
    ///
    /// Call it with the same parts until it says [`Progress::Whole`]. Any other send gives the message up, and so does
    /// [`Sender::give_up`].
    pub fn try_send_part(&mut self, parts: &[&[u8]]) -> Result<Progress> {
        self.guard.standing()?;
        check_length(total_of(parts), MOST_MESSAGE)?;
        let progress = self.ring.send_part(parts);
        self.guard.keep(progress, 0)
    }

    /// Gives up a message that was begun in parts; the peer drops what it got of it.
    pub fn give_up(&mut self) {
        self.ring.give_up();
    }

    /// Whether a message was begun in parts and is not yet whole.
    pub fn is_open(&self) -> bool {
        self.ring.is_open()
    }

    /// Waits until the peer has read everything.
    pub fn flush(&mut self, timeout: Duration) -> Result<()> {
        self.guard.standing()?;
        let ring = &mut self.ring;
        self.guard.wait(timeout, "wait until everything was read by", |guard| {
            if guard.keep(ring.is_drained(), 0)? {
                return Ok(Step::Done(()));
            }
            // Who has closed reads no more.
            match ring.check() {
                Err(fault @ Fault::Closed) => guard.keep(Err(fault), 0),
                _ => Ok(Step::Idle(ring.watched())),
            }
        })
    }

    /// Looks whether the peer lives, without waiting. For callers that only use what does not wait.
    pub fn check_peer(&mut self) -> Result<()> {
        self.guard.standing()?;
        self.guard.look_at_peer()
    }
}
