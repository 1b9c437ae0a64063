//! What both halves of a link need besides their ring: the peer's life, a wait with its deadline, and the fault that has
//! ended a half.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Gone, Result};
use crate::layout::MOST_MESSAGE;
use crate::link::{Health, Link};
use crate::ring::{Fault, Progress, Watch};
use crate::wait::{Heartbeat, Patience, Then, spin_time};

/// How long a heart may stand still before its owner counts as gone, unless set otherwise.
pub const GONE_AFTER: Duration = Duration::from_secs(2);

/// What both halves need besides their ring: the peer's life, and the fault that ended this half's.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) link: Arc<Link>,
    heartbeat: Heartbeat,
    pub(crate) gone_after: Duration,
    pub(crate) spin: Duration,
    fault: Option<Fault>,
}

impl Guard {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        let heartbeat = Heartbeat::new(link.peer.beat());
        Self { link, heartbeat, gone_after: GONE_AFTER, spin: spin_time(), fault: None }
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
                let silent = self.heartbeat.feel(self.link.peer.beat(), self.gone_after);
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
