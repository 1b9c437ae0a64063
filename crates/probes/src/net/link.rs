//! The control connection of a pair.

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::control::{LONGEST, Message};
use crate::error::WorkError;
use crate::rendezvous::Patience;
use crate::rendezvous::timed::{read_all, write_all};

/// One end of the control connection.
#[derive(Debug)]
pub struct Link<'a> {
    stream: TcpStream,
    /// How long anything may take.
    pub patience: Patience<'a>,
    /// Who is at the other end, for errors: `instance 1`.
    pub other: String,
}

impl<'a> Link<'a> {
    /// Over a connection that has been let in.
    ///
    /// # Errors
    /// The system refused.
    pub fn new(stream: TcpStream, patience: Patience<'a>, other: u32) -> Result<Self, WorkError> {
        stream.set_nodelay(true).map_err(|error| WorkError::system("set TCP_NODELAY", error))?;
        Ok(Self { stream, patience, other: format!("instance {other}") })
    }

    /// Says something.
    ///
    /// # Errors
    /// The other side is gone, or patience ran out.
    pub fn say(&self, message: &Message) -> Result<(), WorkError> {
        write_all(&self.stream, &message.encode(), &self.patience, &self.other)
    }

    /// Hears the next message. `what` reads after "waiting for".
    ///
    /// # Errors
    /// The other side is gone, gave up or sent nonsense, or patience ran out.
    pub fn hear(&self, what: &str) -> Result<Message, WorkError> {
        let what = format!("{} to {what}", self.other);
        let mut length = [0; 2];
        read_all(&self.stream, &mut length, &self.patience, &what)?;
        let length = usize::from(u16::from_le_bytes(length));
        if length > LONGEST {
            return Err(WorkError::Unfit(format!(
                "{} sent a frame of {length} bytes where {LONGEST} are allowed",
                self.other
            )));
        }
        let mut body = [0; LONGEST];
        let body = body.get_mut(..length).unwrap_or_default();
        read_all(&self.stream, body, &self.patience, &what)?;
        match Message::decode(body) {
            Ok(Message::Failed(reason)) => Err(WorkError::Unfit(format!("{} gave up: {reason}", self.other))),
            Ok(message) => Ok(message),
            Err(error) => Err(WorkError::Unfit(format!("{}: {error}", self.other))),
        }
    }

    /// Hears this message and no other.
    ///
    /// # Errors
    /// As [`Link::hear`], or another message came.
    pub fn expect(&self, wanted: &Message, what: &str) -> Result<(), WorkError> {
        let heard = self.hear(what)?;
        if heard == *wanted { Ok(()) } else { Err(self.out_of_step(what, &heard)) }
    }

    /// The error for a message that does not belong here.
    pub fn out_of_step(&self, what: &str, heard: &Message) -> WorkError {
        WorkError::Unfit(format!("{} was to {what} and said {heard:?} instead", self.other))
    }

    /// Waits at most this long until the other side has said something, or is gone.
    pub fn has_news_within(&self, time: Duration) -> bool {
        let mut watched = [PollFd::new(self.stream.as_fd(), PollFlags::POLLIN)];
        let time = PollTimeout::try_from(time).unwrap_or(PollTimeout::ZERO);
        poll(&mut watched, time).is_ok_and(|ready| ready > 0)
    }

    /// Tells the other side why this one gives up, as far as that is still possible.
    pub fn give_up(&self, error: &WorkError) {
        // The other side may be what is broken; it notices the end of the connection anyway.
        let _ = self.say(&Message::Failed(error.to_string()));
    }
}
