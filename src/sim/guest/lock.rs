//! Spinlocks of a guest's kernel.
//!
//! ```text
//!  test-and-set  free ─► whoever of the spinning ones runs just now gets it, at random
//!  ticket        handed to who has waited longest, whether its virtual CPU runs or not
//!  paravirtual   as ticket, but who waits long halts its virtual CPU and is woken when it is its turn
//! ```
//! The orders are those of Linux's locks before 2.6.25, from 2.6.25 on (FIFO tickets), and of the paravirtual ones since
//! 3.12, as the methodology's workshop paper and the kernel's documentation describe them.

use std::collections::VecDeque;

use super::waits::Waits;
use crate::sim::time::Span;

/// In which order waiting threads get a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// In none: whoever looks first.
    TestAndSet,
    /// First come, first served.
    Ticket,
}

/// What a virtual CPU does that has spun for long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLongWait {
    /// It goes on spinning.
    Spin,
    /// After so much spinning it tells the host (a hypercall, or the CPU notices the pauses), and after as much again.
    Help(Span),
    /// After so much spinning it halts, and is woken when the lock is handed to it.
    Halt(Span),
}

/// What became of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LockReport {
    /// How often it was taken.
    pub taken: u64,
    /// How long those who did not get it at once waited, by the clock.
    pub waits: Waits,
}

/// A lock; threads are numbers within its guest.
#[derive(Debug, Clone)]
pub(super) struct Lock {
    kind: LockKind,
    pub(super) holder: Option<u32>,
    waiting: VecDeque<u32>,
    pub(super) report: LockReport,
}

impl Lock {
    pub(super) fn new(kind: LockKind) -> Self {
        Self { kind, holder: None, waiting: VecDeque::new(), report: LockReport::default() }
    }

    /// Gives it to `thread` if it is free, else lets it wait.
    pub(super) fn acquire(&mut self, thread: u32) -> bool {
        if self.try_take(thread) {
            return true;
        }
        self.waiting.push_back(thread);
        false
    }

    /// Whether a waiting thread has it by now: it was handed over, or is free and this one looks first.
    pub(super) fn look(&mut self, thread: u32) -> bool {
        if self.holder == Some(thread) {
            return true;
        }
        let got = self.try_take(thread);
        if got {
            self.waiting.retain(|waiting| *waiting != thread);
        }
        got
    }

    fn try_take(&mut self, thread: u32) -> bool {
        let free = self.holder.is_none();
        if free {
            self.holder = Some(thread);
            self.report.taken += 1;
        }
        free
    }

    /// Gives it back and says who has it next. `spins` tells who of the waiting spins at this moment, `any` picks one of
    /// so many.
    pub(super) fn release(
        &mut self,
        spins: impl Fn(u32) -> bool,
        any: impl FnOnce(usize) -> usize,
    ) -> Option<u32> {
        self.holder = None;
        let place = match self.kind {
            LockKind::Ticket => (!self.waiting.is_empty()).then_some(0)?,
            LockKind::TestAndSet => {
                let spinning: Vec<usize> =
                    (0..self.waiting.len()).filter(|place| spins(self.waiting[*place])).collect();
                *spinning.get(if spinning.len() > 1 { any(spinning.len()) } else { 0 })?
            }
        };
        let next = self.waiting.remove(place)?;
        self.holder = Some(next);
        self.report.taken += 1;
        Some(next)
    }

    /// Threads that wait for it.
    pub(super) fn waiting(&self) -> impl Iterator<Item = u32> + '_ {
        self.waiting.iter().copied()
    }
}
