//! A policy's own moments, as many as it likes, of which the machine knows the next one at most.
//!
//! ```text
//!  set ─► by time ─► due: those that have come            machine: `ticked` when it looks, `ask` after every event
//! ```

use std::collections::BTreeSet;

use crate::time::Time;

/// Timers, each of somebody.
#[derive(Debug, Clone)]
pub struct Timers<T> {
    waiting: BTreeSet<(Time, T)>,
    /// The next one as far as the machine was told.
    told: Option<Time>,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self { waiting: BTreeSet::new(), told: None }
    }
}

impl<T: Ord + Copy> Timers<T> {
    /// One more; the same twice is one.
    pub fn set(&mut self, at: Time, of: T) {
        self.waiting.insert((at, of));
    }

    /// Takes out the first of those that have come.
    pub fn due(&mut self, now: Time) -> Option<T> {
        let first = self.waiting.first().copied().filter(|(at, _)| *at <= now)?;
        self.waiting.remove(&first);
        Some(first.1)
    }

    /// The machine looks at the clock: what it was told of up to now is over.
    pub fn ticked(&mut self, now: Time) {
        self.told = self.told.filter(|told| *told > now);
    }

    /// A moment that the machine does not know of yet, for `Policy::extra_tick`.
    pub fn ask(&mut self) -> Option<Time> {
        let next = self.waiting.first().map(|(at, _)| *at)?;
        if self.told.is_some_and(|told| told <= next) {
            return None;
        }
        self.told = Some(next);
        self.told
    }
}
