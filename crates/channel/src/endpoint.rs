//! The two ends of a link: send and receive, with deadlines or without waiting.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::guard::Guard;
use crate::link::{Established, Handshake, claim, establish};
use crate::receiver::Receiver;
use crate::section::{PeerSection, Section};
use crate::sender::Sender;

/// A link to one peer: both directions.
#[derive(Debug)]
pub struct Endpoint {
    sender: Sender,
    receiver: Receiver,
}

impl Endpoint {
    /// Waits until peer `number`, which writes the section `peer`, connects to us, too.
    ///
    /// # Errors
    /// Names what is in the way: no ring in one of the layouts, another version, a damaged or cut section, a link that
    /// has an endpoint already, or a peer that did not come in time.
    pub fn connect(section: &Section, number: u32, peer: &PeerSection, timeout: Duration) -> Result<Self> {
        establish(section, number, peer, timeout).map(Self::over)
    }

    fn over((link, producer, consumer): Established) -> Self {
        let ends = || Guard::new(Arc::clone(&link));
        Self { sender: Sender::new(ends(), producer), receiver: Receiver::new(ends(), consumer) }
    }

    /// Starts over, with the peer's present run; what was under way in either direction is lost.
    pub fn reconnect(&mut self, timeout: Duration) -> Result<()> {
        let (gone_after, spin) = (self.sender.guard.gone_after, self.sender.guard.spin);
        let link = Arc::clone(&self.sender.guard.link);
        *self = Self::over(link.establish_again(timeout)?);
        self.set_gone_after(gone_after);
        self.set_spin(spin);
        Ok(())
    }

    /// Sets for how long the peer's heart may stand still (it beats every 20 ms) before it counts as gone.
    pub fn set_gone_after(&mut self, time: Duration) {
        self.sender.guard.gone_after = time;
        self.receiver.guard.gone_after = time;
    }

    /// Sets for how long a wait spins before it yields and sleeps. Usual are 50 µs, and nothing where this process may
    /// run on one CPU only, since the peer may need that very CPU: whoever knows that it has another one says so here.
    pub fn set_spin(&mut self, time: Duration) {
        self.sender.guard.spin = time;
        self.receiver.guard.spin = time;
    }

    /// The peer's number.
    pub fn peer(&self) -> u32 {
        self.sender.peer()
    }

    /// Sends a message of at most 16 MiB, waiting for room. See [`Sender::send`].
    pub fn send(&mut self, message: &[u8], timeout: Duration) -> Result<()> {
        self.sender.send(&[message], timeout)
    }

    /// Sends a message if there is room for all of it. See [`Sender::try_send`].
    pub fn try_send(&mut self, message: &[u8]) -> Result<bool> {
        self.sender.try_send(&[message])
    }

    /// Waits for a message and returns its length. See [`Receiver::receive`].
    pub fn receive(&mut self, buffer: &mut [u8], timeout: Duration) -> Result<usize> {
        self.receiver.receive(&mut [buffer], timeout)
    }

    /// The length of a message, if a whole one is there. See [`Receiver::try_receive`].
    pub fn try_receive(&mut self, buffer: &mut [u8]) -> Result<Option<usize>> {
        self.receiver.try_receive(&mut [buffer])
    }

    /// The sending half: gathered, partial sends.
    pub fn sender(&mut self) -> &mut Sender {
        &mut self.sender
    }

    /// The receiving half: scattered, partial receives, and looks at what is there.
    pub fn receiver(&mut self) -> &mut Receiver {
        &mut self.receiver
    }

    /// Both halves, for two threads. The link is closed when both are dropped.
    pub fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }
}

/// A link that is being made by a caller that must not wait. Dropping it gives the link up.
#[derive(Debug)]
pub struct Connecting {
    handshake: Handshake,
}

impl Connecting {
    /// Begins to connect to peer `number`, which writes the section `peer`.
    ///
    /// # Errors
    /// Our layout has no ring to the peer, or the link has an endpoint already.
    pub fn begin(section: &Section, number: u32, peer: &PeerSection) -> Result<Self> {
        Ok(Self { handshake: Handshake::begin(claim(section, number)?, peer, number) })
    }

    /// Goes on, without waiting; the endpoint once the peer has connected to us, too. Not to be called after that.
    ///
    /// # Errors
    /// As [`Endpoint::connect`]. [`crate::Error::NotReady`], [`crate::Error::NotASection`] and [`crate::Error::Damaged`]
    /// may pass when the peer is just starting: call again.
    pub fn step(&mut self) -> Result<Option<Endpoint>> {
        Ok(self.handshake.step()?.map(Endpoint::over))
    }
}

/// What is left of a time that began at `started`.
pub(crate) fn left(started: Instant, timeout: Duration) -> Duration {
    timeout.saturating_sub(started.elapsed())
}
