//! What the guest's cache may hold of a file that host and guest lock against each other.
//!
//! The guest's kernel keeps what it has read until it is told of other times or another size, and it asks for those only when what it was
//! told last has expired. For most files that is after a second. Who locks a file means what it reads from then on: so what was told
//! of such a file expires at once, and every `read` in the guest asks first. What was told of it before the first lock may still
//! hold: the answer to that lock comes when it does not.
//!
//! ```text
//!  told, valid for a second ──► opened to be read and written: looked up anew, valid for no time
//!         │                 └─► locked: answered when the second is over, valid for no time from now on
//!         └ nothing read or written yet: nothing is cached, answered at once
//! ```

use std::time::{Duration, Instant};

use rustix::fs::{FileType, OFlags, Stat};

use crate::attributes::{LONG, SHORT};
use crate::handles::is_settled;
use crate::message::Result;
use crate::nodes::Stamp;
use crate::server::{Files, Outcome};
use crate::written::Own;

/// For how long an answer may lie before the guest's kernel reads it.
const ON_THE_WAY: Duration = Duration::from_millis(100);
/// Nanoseconds by which told times differ from each other while the clock has not moved on: more than one, so that each is new.
const NUDGES: u32 = 3;

/// What the guest's kernel may hold of a file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Held {
    /// Whether it may be locked against others: nothing that was told is believed without asking.
    pub is_shared: bool,
    /// Whether it was locked.
    pub is_locked: bool,
    /// Whether something of it was read or written.
    pub is_filled: bool,
    /// What of it is the guest's own work.
    pub own: Own,
    /// Until when attributes that were told are believed.
    believed: Option<Instant>,
    nudge: u32,
}

impl Held {
    /// What was told last is asked for before it is used.
    pub const fn is_not_believed(&mut self) {
        self.believed = None;
    }
}

impl Files {
    /// For how long what is now told of a node may be believed.
    pub(crate) fn tell(&mut self, id: u64) -> Result<Duration> {
        let (is_writable, is_second) = (self.is_writable(id)?, self.is_second());
        let Ok(node) = self.nodes.get_mut(id) else { return Ok(if is_writable { SHORT } else { LONG }) };
        if !is_writable {
            return Ok(LONG);
        }
        // What is opened without being checked has a size that the first `read` must ask for.
        let is_unchecked = is_second && node.kind == FileType::RegularFile;
        let validity = if node.held.is_shared || is_unchecked { Duration::ZERO } else { SHORT };
        node.held.believed = (!validity.is_zero()).then(|| Instant::now() + validity);
        Ok(validity)
    }

    /// How much is added to the nanoseconds of a change, so that the guest's kernel takes it for another: within one tick of the host's
    /// clock a second change would have the same time.
    pub(crate) fn nudge(&mut self, id: u64, found: &Stat) -> u32 {
        let Ok(node) = self.nodes.get_mut(id) else { return 0 };
        if !node.held.is_locked || is_settled(Stamp::of(found).modified()) {
            return 0;
        }
        node.held.nudge = node.held.nudge % NUDGES + 1;
        node.held.nudge
    }

    /// Whether a file that is opened must be looked up first: what is both read and written is likely to be locked soon.
    pub(crate) fn must_be_told_anew(&mut self, id: u64, wanted: OFlags) -> Result<bool> {
        let node = self.nodes.get_mut(id)?;
        if !wanted.contains(OFlags::RDWR) || node.held.is_shared {
            return Ok(false);
        }
        node.held.is_shared = true;
        Ok(node.held.believed.is_some_and(|until| until > Instant::now()))
    }

    /// Something of a file goes into the guest's cache.
    pub(crate) fn fills(&mut self, id: u64) {
        if let Ok(node) = self.nodes.get_mut(id) {
            node.held.is_filled = true;
        }
    }

    /// A lock's outcome, told when the guest no longer believes what it was told before.
    pub(crate) fn locked(&mut self, id: u64, outcome: Outcome) -> Result<Outcome> {
        if !self.is_writable(id)? {
            return Ok(outcome);
        }
        let held = &mut self.nodes.get_mut(id)?.held;
        (held.is_shared, held.is_locked) = (true, true);
        let until = held.believed.map(|until| until + ON_THE_WAY).filter(|_| held.is_filled);
        let Some(until) = until.filter(|until| *until > Instant::now()) else { return Ok(outcome) };
        let patient = move || std::thread::sleep(until.saturating_duration_since(Instant::now()));
        Ok(match outcome {
            Outcome::Done(body) => Outcome::Waits(Box::new(move || {
                patient();
                Ok(body)
            })),
            Outcome::Waits(job) => Outcome::Waits(Box::new(move || {
                let outcome = job();
                if outcome.is_ok() {
                    patient();
                }
                outcome
            })),
            Outcome::Silent => Outcome::Silent,
        })
    }
}
