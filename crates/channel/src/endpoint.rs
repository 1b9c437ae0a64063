//! The two ends of a link: send and receive, with deadlines or without waiting.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, Gone, Result};
use crate::layout::MOST_MESSAGE;
use crate::link::{Established, Handshake, Health, Link, claim, establish};
use crate::receiver::Receiver;
use crate::ring::{Fault, Progress, Watch};
use crate::section::{PeerSection, Section};
use crate::sender::Sender;
use crate::wait::{Patience, Pulse, Then, spin_time};

/// How long a heart may stand still before its owner counts as gone, unless set otherwise.
pub const GONE_AFTER: Duration = Duration::from_secs(2);

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
    /// As [`Endpoint::connect`]. [`Error::NotReady`], [`Error::NotASection`] and [`Error::Damaged`] may pass when the
    /// peer is just starting: call again.
    pub fn step(&mut self) -> Result<Option<Endpoint>> {
        Ok(self.handshake.step()?.map(Endpoint::over))
    }
}

/// What both halves need besides their ring: the peer's life, and the fault that ended this half's.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) link: Arc<Link>,
    pulse: Pulse,
    gone_after: Duration,
    spin: Duration,
    fault: Option<Fault>,
}

impl Guard {
    fn new(link: Arc<Link>) -> Self {
        let pulse = Pulse::new(link.peer.beat());
        Self { link, pulse, gone_after: GONE_AFTER, spin: spin_time(), fault: None }
    }

    /// Passes a result on; a fault stays.
    #[inline]
    pub(crate) fn keep<T>(&mut self, result: std::result::Result<T, Fault>, room: usize) -> Result<T> {
        result.map_err(|fault| {
            if !matches!(fault, Fault::Small { .. }) {
                self.fault = Some(fault);
            }
            self.error(fault, room)
        })
    }

    /// The fault that has ended this half, if one has.
    #[inline]
    pub(crate) fn standing(&self) -> Result<()> {
        if self.fault.is_none() { Ok(()) } else { self.fallen() }
    }

    #[cold]
    fn fallen(&self) -> Result<()> {
        self.fault.map_or(Ok(()), |fault| Err(self.error(fault, 0)))
    }

    fn error(&self, fault: Fault, room: usize) -> Error {
        let peer = self.link.number;
        match fault {
            Fault::Restarted => Error::PeerRestarted { peer },
            Fault::Closed => Error::PeerGone { peer, how: Gone::Closed },
            Fault::Garbled { what, wanted, got } => Error::Garbled { peer, what, wanted, got },
            Fault::Small { needed } => Error::BufferTooSmall { needed, got: room },
        }
    }

    /// Looks whether the peer lives, when there was nothing to do.
    pub(crate) fn look_at_peer(&mut self) -> Result<()> {
        let peer = self.link.number;
        let fault = match self.link.health() {
            Health::Well => {
                let silent = self.pulse.feel(self.link.peer.beat(), self.gone_after);
                let how = silent.map(Gone::Silent);
                self.link.peer.memory().check_size()?;
                return how.map_or(Ok(()), |how| Err(Error::PeerGone { peer, how }));
            }
            // Not kept: what it had sent before can still be read.
            Health::Ended => return Err(self.error(Fault::Closed, 0)),
            Health::Restarted => Fault::Restarted,
            Health::Damaged(got) => Fault::Garbled { what: "state word", wanted: 0, got },
        };
        self.keep(Err(fault), 0)
    }

    /// Calls `step` until it returns something, pausing in between.
    pub(crate) fn wait<T>(
        &mut self,
        timeout: Duration,
        doing: &str,
        mut step: impl FnMut(&mut Self) -> Result<Step<T>>,
    ) -> Result<T> {
        let mut patience = Patience::spinning(timeout, self.spin);
        loop {
            let watch = match step(self)? {
                Step::Done(value) => return Ok(value),
                Step::Moved(watch) => {
                    patience.refresh();
                    watch
                }
                Step::Idle(watch) => watch,
            };
            let block = self.link.block();
            let then = patience.pause_until(|| block.load_around(watch.at) != watch.seen);
            let health = if then == Then::Look { Ok(()) } else { self.look_at_peer() };
            if then == Then::Look || (then == Then::LookAtPeer && health.is_ok()) {
                continue;
            }
            // It may have sent something just before it went; that comes first.
            if let Step::Done(value) = step(self)? {
                return Ok(value);
            }
            health?;
            return Err(Error::Timeout {
                doing: format!("{doing} peer {}", self.link.number),
                after: timeout,
            });
        }
    }
}

/// What one look of a wait found.
pub(crate) enum Step<T> {
    /// What was waited for.
    Done(T),
    /// Something moved.
    Moved(Watch),
    /// Nothing moved.
    Idle(Watch),
}

impl<T> Step<T> {
    /// Whether a ring's progress is what was waited for.
    pub(crate) fn of(progress: Progress, watch: Watch, done: impl FnOnce(usize) -> T) -> Self {
        match progress {
            Progress::Whole(length) => Self::Done(done(length)),
            Progress::Part { .. } => Self::Moved(watch),
            Progress::Nothing => Self::Idle(watch),
        }
    }
}

/// Refuses what is too long to be sent at all.
pub(crate) fn check_length(length: u64, most: u64) -> Result<()> {
    let most = most.min(MOST_MESSAGE);
    if length > most { Err(Error::TooLong { length, most }) } else { Ok(()) }
}

/// What is left of a time that began at `started`.
pub(crate) fn left(started: Instant, timeout: Duration) -> Duration {
    timeout.saturating_sub(started.elapsed())
}
