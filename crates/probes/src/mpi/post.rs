//! A rank's ways to all others: sending and receiving whole messages, both at once where both are asked for.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use nix::poll::PollFlags;

use super::mailbox::{Inbox, Outbox};
use super::wait::{Rules, Wait, Watched};
use crate::error::WorkError;
use crate::rendezvous::timed::{broken, gone};

/// Longest piece that is handed to the kernel at once, so that sending and receiving take turns.
const PIECE: usize = 256 << 10;

/// The way to a rank.
#[derive(Debug)]
pub enum Out {
    /// There is none: it is the rank itself.
    Nowhere,
    /// Through memory.
    Box(Outbox),
    /// Over the network; the connection does not block.
    Wire(Arc<TcpStream>),
}

/// The way from a rank.
#[derive(Debug)]
pub enum In {
    /// There is none: it is the rank itself.
    Nowhere,
    /// Through memory.
    Box(Inbox),
    /// Over the network; the connection does not block.
    Wire(Arc<TcpStream>),
}

/// All ways of one rank.
#[derive(Debug)]
pub struct MessagePost<'a> {
    /// Number of this rank.
    pub rank: u32,
    /// Ways to the ranks, in order.
    pub outs: Vec<Out>,
    /// Ways from the ranks, in order.
    pub ins: Vec<In>,
    /// What it waits under.
    pub rules: Rules<'a>,
}

impl MessagePost<'_> {
    /// Ranks in all.
    pub fn ranks(&self) -> u32 {
        u32::try_from(self.outs.len()).unwrap_or(u32::MAX)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The other rank is gone, or the job is to end.
    pub fn send(&mut self, to: u32, message: &[u8]) -> Result<(), WorkError> {
        self.exchange(to, message, to, &mut [])
    }

    /// Receives a message of exactly the buffer's length.
    ///
    /// # Errors
    /// The other rank is gone, or the job is to end.
    pub fn receive(&mut self, from: u32, buffer: &mut [u8]) -> Result<(), WorkError> {
        self.exchange(from, &[], from, buffer)
    }

    /// Sends one message and receives another at the same time, so that two ranks that send to each other do not wait
    /// for each other.
    ///
    /// # Errors
    /// Another rank is gone, or the job is to end.
    pub fn exchange(
        &mut self,
        to: u32,
        message: &[u8],
        from: u32,
        buffer: &mut [u8],
    ) -> Result<(), WorkError> {
        let (Some(out), Some(into)) = (self.outs.get_mut(to as usize), self.ins.get_mut(from as usize))
        else {
            return Err(WorkError::Unfit(format!("there is no rank {to}, or no rank {from}")));
        };
        let (mut sent, mut got) = (0, 0);
        let mut wait = Wait::new(self.rules);
        loop {
            let left = message.get(sent..).unwrap_or_default();
            let room = buffer.get_mut(got..).unwrap_or_default();
            if left.is_empty() && room.is_empty() {
                return Ok(());
            }
            let out_moved = if left.is_empty() { 0 } else { out.step(left, to)? };
            let in_moved = if room.is_empty() { 0 } else { into.step(room, from)? };
            sent += out_moved;
            got += in_moved;
            if out_moved + in_moved > 0 {
                wait.reset();
                continue;
            }
            let (sends, receives) = (sent < message.len(), got < buffer.len());
            let watched = [out.watched().filter(|_| sends), into.watched().filter(|_| receives)];
            let mailboxes = (sends && matches!(out, Out::Box(_))) || (receives && matches!(into, In::Box(_)));
            wait.rest(watched, mailboxes, || {
                if receives {
                    format!("a message from rank {from}")
                } else {
                    format!("rank {to} to take a message")
                }
            })?;
        }
    }
}

impl Out {
    /// Sends what goes now.
    #[inline]
    fn step(&mut self, left: &[u8], to: u32) -> Result<usize, WorkError> {
        match self {
            Self::Nowhere => Err(WorkError::Unfit("a rank does not send to itself".to_owned())),
            Self::Box(outbox) => Ok(outbox.put(left)),
            Self::Wire(stream) => {
                let piece = left.get(..left.len().min(PIECE)).unwrap_or_default();
                match (&**stream).write(piece) {
                    Err(error) if is_later(error.kind()) => Ok(0),
                    other => other.map_err(|error| broken(&format!("messages to rank {to}"), error)),
                }
            }
        }
    }

    fn watched(&self) -> Option<Watched<'_>> {
        match self {
            Self::Wire(stream) => Some((stream, PollFlags::POLLOUT)),
            Self::Nowhere | Self::Box(_) => None,
        }
    }
}

impl In {
    /// Receives what is there.
    #[inline]
    fn step(&mut self, room: &mut [u8], from: u32) -> Result<usize, WorkError> {
        match self {
            Self::Nowhere => Err(WorkError::Unfit("a rank does not receive from itself".to_owned())),
            Self::Box(inbox) => Ok(inbox.take(room)),
            Self::Wire(stream) => match (&**stream).read(room) {
                Ok(0) => Err(gone(&format!("a message from rank {from}"))),
                Err(error) if is_later(error.kind()) => Ok(0),
                other => other.map_err(|error| broken(&format!("messages from rank {from}"), error)),
            },
        }
    }

    fn watched(&self) -> Option<Watched<'_>> {
        match self {
            Self::Wire(stream) => Some((stream, PollFlags::POLLIN)),
            Self::Nowhere | Self::Box(_) => None,
        }
    }
}

fn is_later(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
