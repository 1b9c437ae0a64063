//! What every load has in common: rounds short enough that it can be stopped soon, and what a round has done.

use std::path::Path;

use super::arithmetic::Arithmetic;
use super::forking::Forking;
use super::interrupt::Pinging;
use super::lock::{Fighting, SpinLock};
use super::mixed::Mixture;
use super::network::Flooding;
use super::outlet::Outlet;
use super::streaming::Streaming;
use super::writing::Writing;
use crate::error::WorkError;
use units::Nanos;
use units::names::LoadKind;

/// Most parts a load can have.
pub const MOST_PARTS: usize = 4;

/// What one round has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Done {
    /// In the unit of [`LoadKind::unit`].
    pub whole: u64,
    /// For each of [`LoadKind::parts`], in its unit.
    pub parts: [u64; MOST_PARTS],
}

impl Done {
    /// A round of a load without parts.
    pub const fn of(whole: u64) -> Self {
        Self { whole, parts: [0; MOST_PARTS] }
    }
}

/// A load in one thread.
pub trait Stressor {
    /// A bounded piece of work, some milliseconds at most; returns how much was done.
    ///
    /// # Errors
    /// It cannot go on.
    fn round(&mut self) -> Result<Done, WorkError>;

    /// How it is done, where there is more than one way.
    fn way(&self) -> Option<String> {
        None
    }

    /// CPU time of the processes it has started and seen end.
    fn children_cpu_time(&self) -> Nanos {
        Nanos::ZERO
    }
}

/// Threads of a load when the experiment does not say: one per CPU granted, but nobody fights alone.
pub fn default_threads(kind: LoadKind, cpus: u32) -> u32 {
    if kind == LoadKind::Lock { cpus.max(2) } else { cpus }
}

/// Where a thread stands in its team.
#[derive(Debug, Clone, Copy)]
pub struct Post<'a> {
    /// Number of the thread, from 0.
    pub number: u32,
    /// Threads in all.
    pub threads: u32,
    /// Where the disk load writes.
    pub scratch: Option<&'a Path>,
    /// What the threads of a team fight for.
    pub lock: &'a std::sync::Arc<SpinLock>,
    /// The way out of the instance; none where packets stay on its loopback device.
    pub outlet: Option<&'a Outlet>,
}

/// Makes the stressor of one thread; none for the control, which has no threads.
///
/// # Errors
/// The machine lacks what the load needs.
pub fn make(kind: LoadKind, post: &Post<'_>) -> Result<Option<Box<dyn Stressor>>, WorkError> {
    Ok(match kind {
        LoadKind::Idle => None,
        LoadKind::Cpu => Some(Box::new(Arithmetic::new())),
        LoadKind::Memory => Some(Box::new(Streaming::new(post.threads)?)),
        LoadKind::Disk => Some(Box::new(Writing::new(post.number, post.scratch)?)),
        LoadKind::Network => Some(Box::new(Flooding::new(post.outlet)?)),
        LoadKind::Interrupt => Some(Box::new(Pinging::new(post.number, post.outlet)?)),
        LoadKind::Fork => Some(Box::new(Forking::new())),
        LoadKind::Lock => Some(Box::new(Fighting::new(post.lock))),
        LoadKind::Mixed => Some(Box::new(Mixture::new(post)?)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_load_has_more_parts_than_are_counted() {
        assert!(LoadKind::ALL.iter().all(|kind| kind.parts().len() <= MOST_PARTS));
    }

    #[test]
    fn a_lock_is_fought_for_by_two_at_least() {
        assert_eq!(default_threads(LoadKind::Lock, 1), 2);
        assert_eq!(default_threads(LoadKind::Lock, 8), 8);
        assert_eq!(default_threads(LoadKind::Cpu, 1), 1);
    }
}
