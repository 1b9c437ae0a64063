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

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, OFlags, Stat};

use crate::attributes::{LONG, SHORT};
use crate::message::Result;
use crate::server::{Files, Outcome};
use crate::stamp::Stamp;
use crate::written::Own;

/// For how long an answer may lie before the guest's kernel reads it.
pub const ON_THE_WAY: Duration = Duration::from_millis(100);
/// Nanoseconds by which told times differ from each other while the clock has not moved on: more than one, so that each is new.
const NUDGES: u32 = 3;

/// What the guest's kernel may hold of a file.
#[derive(Debug, Default)]
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
    nudge: Nudge,
}

/// What is added to the time of a file's last change of content.
#[derive(Debug, Default)]
struct Nudge {
    /// What was told, and whether a change since then would show in its times.
    told: Option<(Stamp, bool)>,
    /// What was added to it.
    nanoseconds: u32,
    /// Whether a lock was granted since.
    is_due: Arc<AtomicBool>,
}

impl Nudge {
    fn next(&mut self, stamp: Stamp) -> u32 {
        let is_due = self.is_due.swap(false, Relaxed) || stamp.is_coarse();
        match self.told.replace((stamp, stamp.is_settled())) {
            Some((told, _)) if told != stamp => self.nanoseconds = 0,
            Some((_, false)) if is_due => self.nanoseconds = self.nanoseconds % NUDGES + 1,
            _ => {}
        }
        self.nanoseconds
    }
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
    /// clock a second change would have the same time. That matters to who has locked the file since, and where a tick is a second.
    pub(crate) fn nudge(&mut self, id: u64, found: &Stat) -> u32 {
        let node = self.nodes.get_mut(id).ok().filter(|node| node.kind == FileType::RegularFile);
        node.map_or(0, |node| node.held.nudge.next(Stamp::of(found)))
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
        let is_due = Arc::clone(&held.nudge.is_due);
        let until = held.believed.map(|until| until + ON_THE_WAY).filter(|_| held.is_filled);
        let until = until.filter(|until| *until > Instant::now());
        let granted = move || {
            is_due.store(true, Relaxed);
            if let Some(until) = until {
                std::thread::sleep(until.saturating_duration_since(Instant::now()));
            }
        };
        Ok(match outcome {
            Outcome::Done(body) if until.is_some() => Outcome::Waits(Box::new(move || {
                granted();
                Ok(body)
            })),
            Outcome::Done(body) => {
                granted();
                Outcome::Done(body)
            }
            Outcome::Waits(job) => Outcome::Waits(Box::new(move || job().inspect(|_| granted()))),
            Outcome::Silent => Outcome::Silent,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_tick_is_a_second_each_telling_within_it_differs_and_none_after() {
        let mut found = rustix::fs::stat("/").expect("a stat");
        let now = std::time::UNIX_EPOCH.elapsed().expect("a clock").as_secs();
        (found.st_ctime, found.st_ctime_nsec) = (now.cast_signed(), 0);
        let (recent, mut nudge) = (Stamp::of(&found), Nudge::default());
        let told = [(); 4].map(|()| nudge.next(recent));
        assert_eq!(told, [0, 1, 2, 3]);
        found.st_ctime -= 10;
        let past = Stamp::of(&found);
        assert_eq!([(); 4].map(|()| nudge.next(past)), [0; 4]);
        // Nanoseconds are kept: what is not locked anew is told as it is.
        (found.st_ctime, found.st_ctime_nsec) = (now.cast_signed() + 100, 5);
        assert_eq!([(); 4].map(|()| nudge.next(Stamp::of(&found))), [0; 4]);
    }
}
