//! Who in a guest waits for what, and whether that can ever end.
//!
//! ```text
//!  thread ── waits for ──► lock ── held by ──► thread ── waits for ──► lock ── … ─► the first one again: a deadlock
//!                                                └─ has ended: so is this
//! ```
//! A thread waits for one lock at a time, so following the arrows from the one that has just begun to wait finds every
//! circle (Coffman, Elphick, Shoshani 1971, with single resources).

use super::Guest;
use crate::guest::thread::{Doing, Thread};

impl Guest {
    /// Whether what thread `number` has just begun leaves somebody waiting for ever.
    pub(super) fn is_deadlock(&self, number: u32) -> bool {
        match self.threads[number as usize].doing {
            Doing::Spinning { .. } => self.waits_for_ever(number),
            // What it still holds, nobody will give back.
            Doing::Done(_) => {
                let holds = |lock: &&super::Lock| lock.holder == Some(number);
                self.threads[number as usize].locks > 0
                    && self.locks.iter().filter(holds).any(|lock| lock.waiting().next().is_some())
            }
            _ => false,
        }
    }

    /// Whether thread `first`, which has just begun to wait, waits for itself or for somebody who has ended.
    fn waits_for_ever(&self, first: u32) -> bool {
        let mut at = first;
        for _ in 0..=self.threads.len() {
            let Some(lock) = self.threads[at as usize].waits_for() else {
                return self.threads[at as usize].ended().is_some();
            };
            match self.locks[lock as usize].holder {
                None => return false,
                Some(holder) if holder == first => return true,
                // It was handed over, only that its virtual CPU has not run since.
                Some(holder) if holder == at => return false,
                Some(holder) => at = holder,
            }
        }
        false
    }

    /// Whether a thread that waits for this lock holds it, and waits in its queue nevertheless: it was not handed over.
    fn takes_twice(&self, number: u32, lock: u32) -> bool {
        let it = &self.locks[lock as usize];
        it.holder == Some(number) && it.waiting().any(|waiting| waiting == number)
    }

    /// What is said of a thread that holds the lock that it waits for.
    fn own_words(&self, number: u32, lock: u32) -> String {
        if self.takes_twice(number, lock) {
            return format!("thread {number} waits for lock {lock}, which it holds itself");
        }
        let why = match self.place_of(number) {
            Some((_, true)) => "is just about to see it".to_owned(),
            Some((on, false)) => format!("has not seen it: its virtual CPU {on} has no CPU"),
            None => "has not seen it: it is on no virtual CPU".to_owned(),
        };
        format!("thread {number} was handed lock {lock} and {why}")
    }

    /// The virtual CPU that a thread is on, and whether that runs.
    fn place_of(&self, number: u32) -> Option<(u32, bool)> {
        let on = self.threads.get(number as usize).and_then(|thread| thread.on.get())?;
        Some((on, self.cpus.get(on as usize).is_some_and(|cpu| cpu.runs)))
    }

    /// Who holds a lock, and whether it gets on.
    fn holder_words(&self, holder: u32) -> String {
        match self.place_of(holder) {
            Some((_, true)) => format!("held by thread {holder}, which runs"),
            Some((on, false)) => format!("held by thread {holder}, whose virtual CPU {on} has no CPU"),
            None => format!("held by thread {holder}, which is on no virtual CPU"),
        }
    }

    /// Threads that wait, and for what, those that wait for others first: for those who want to know why a simulation does not
    /// end.
    pub fn waiting(&self) -> Vec<String> {
        let words = |(number, thread): (usize, &Thread)| match thread.doing {
            Doing::Awaiting => Some(format!("thread {number} waits for acknowledgements of its interrupts")),
            _ if thread.waits_for().is_some() => {
                let lock = thread.waits_for()?;
                let since = self.waits[number].since;
                let holder = self.locks[lock as usize].holder;
                if u32::try_from(number).is_ok_and(|number| holder == Some(number)) {
                    return Some(format!(
                        "{}; since {since}",
                        self.own_words(u32::try_from(number).ok()?, lock)
                    ));
                }
                let held = holder.map_or_else(|| "free".to_owned(), |holder| self.holder_words(holder));
                let sleeps = matches!(thread.doing, Doing::Blocked { .. });
                let does = if sleeps { "sleeps" } else { "spins" };
                Some(format!("thread {number} {does} for lock {lock} ({held}) since {since}"))
            }
            Doing::Working { left, .. } if thread.program.is_finite() => {
                Some(format!("thread {number} has {left} of its operation left"))
            }
            Doing::Sleeping if thread.program.is_finite() => Some(format!("thread {number} sleeps")),
            _ => None,
        };
        let is_spinning = |thread: &Thread| thread.waits_for().is_some() || thread.is_spinning();
        let all = || self.threads.iter().enumerate();
        let spinning = all().filter(|(_, thread)| is_spinning(thread));
        spinning.chain(all().filter(|(_, thread)| !is_spinning(thread))).filter_map(words).collect()
    }
}
