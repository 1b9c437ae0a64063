//! How a rank waits: it spins, then yields, then sleeps, and looks now and then whether to go on at all.

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::error::WorkError;
use crate::rendezvous::Patience;

/// Rounds without progress that are spun.
const SPINS: u32 = 64;
/// Time without progress after which a rank sleeps between two looks.
const AWAKE: Duration = Duration::from_millis(1);
/// Longest sleep: a mailbox wakes nobody.
const NAP: Duration = Duration::from_micros(100);
/// Longest sleep where only connections are waited for, which do wake.
const LONG_NAP: Duration = Duration::from_millis(20);
/// Rounds between two looks at the clock.
const BETWEEN_LOOKS: u32 = 32;

/// What all ranks of an instance wait under.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// How long anything may take.
    pub patience: Patience<'a>,
    /// Set by a rank that gives up: the others need not wait for it.
    pub broken: &'a AtomicBool,
}

/// A connection that is waited for, and whether it is to be read or written.
pub type Watched<'a> = (&'a TcpStream, PollFlags);

/// Waiting without progress so far.
#[derive(Debug)]
pub struct Wait<'a> {
    rules: Rules<'a>,
    rounds: u32,
    since: Option<Instant>,
}

impl<'a> Wait<'a> {
    /// Nothing has been waited for yet.
    pub const fn new(rules: Rules<'a>) -> Self {
        Self { rules, rounds: 0, since: None }
    }

    /// There was progress.
    #[inline]
    pub const fn reset(&mut self) {
        self.rounds = 0;
        self.since = None;
    }

    /// Waits a little; longer the longer nothing has happened. `watched` are the connections waited for, and `mailboxes`
    /// says whether mailboxes are, too. `what` names it all, for an error.
    ///
    /// # Errors
    /// Another rank gave up, patience ran out, or the job is to end.
    #[inline]
    pub fn rest(
        &mut self,
        watched: [Option<Watched<'_>>; 2],
        mailboxes: bool,
        what: impl FnOnce() -> String,
    ) -> Result<(), WorkError> {
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds < SPINS {
            std::hint::spin_loop();
            return Ok(());
        }
        if !self.rounds.is_multiple_of(BETWEEN_LOOKS) {
            thread::yield_now();
            return Ok(());
        }
        self.look(watched, mailboxes, what)
    }

    #[cold]
    fn look(
        &mut self,
        watched: [Option<Watched<'_>>; 2],
        mailboxes: bool,
        what: impl FnOnce() -> String,
    ) -> Result<(), WorkError> {
        if self.rules.broken.load(Ordering::Relaxed) {
            return Err(WorkError::Unfit("another rank of this instance gave up".to_owned()));
        }
        self.rules.patience.check(what)?;
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() < AWAKE {
            thread::yield_now();
            return Ok(());
        }
        // From here on every round is a look.
        self.rounds = SPINS.next_multiple_of(BETWEEN_LOOKS) - 1;
        let mut fds: Vec<PollFd<'_>> =
            watched.iter().flatten().map(|(stream, flags)| PollFd::new(stream.as_fd(), *flags)).collect();
        if mailboxes || fds.is_empty() {
            thread::sleep(NAP);
        } else {
            // A failed poll is an interrupted one; the loop around looks again anyway.
            let _ = poll(&mut fds, PollTimeout::try_from(LONG_NAP).unwrap_or(PollTimeout::ZERO));
        }
        Ok(())
    }
}
