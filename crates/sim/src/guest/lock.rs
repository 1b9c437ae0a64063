//! Spinlocks of a guest's kernel.
//!
//! ```text
//!  test-and-set  free ─► whoever of the spinning ones runs just now gets it, at random; none: whoever looks first
//!  ticket        handed to who has waited longest, whether its virtual CPU runs or not
//!  paravirtual   either, but who waits long halts its virtual CPU and is woken: when it is its turn, or (test-and-set)
//!                when the lock is given back and nobody spins
//! ```
//! The orders are those of Linux's locks before 2.6.25, from 2.6.25 on (FIFO tickets), and of the paravirtual ones since
//! 3.12, as the methodology's workshop paper and the kernel's documentation describe them.

use std::collections::VecDeque;

use super::waits::Waits;
use crate::time::Span;

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
    /// How long those who did not get it at once waited, by the host's clock.
    pub waits: Waits,
    /// How long they spun: the same without the time in which they were preempted or halted.
    pub spins: Waits,
}

/// What a thread that waits is doing at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    /// It spins on a CPU.
    Spins,
    /// Its virtual CPU was preempted; it looks when that runs again.
    Preempted,
    /// It has halted its virtual CPU and has to be woken.
    Parked,
}

/// What giving a lock back leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Released {
    /// Whether the thread had it at all.
    pub(super) was_its: bool,
    /// Who is to look now.
    pub(super) tell: Option<u32>,
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

    /// `thread` gives it back. Says whom to tell: who has it next, or who is to be woken to look; nothing happens when it
    /// was not that thread's. `doing` tells what a waiting thread does, `any` picks one of so many.
    pub(super) fn release(
        &mut self,
        thread: u32,
        doing: impl Fn(u32) -> Waiting,
        any: impl FnOnce(usize) -> usize,
    ) -> Released {
        if self.holder != Some(thread) {
            return Released { was_its: false, tell: None };
        }
        self.holder = None;
        let place = match self.kind {
            LockKind::Ticket => (!self.waiting.is_empty()).then_some(0),
            LockKind::TestAndSet => {
                let spins = |place: &usize| doing(self.waiting[*place]) == Waiting::Spins;
                let spinning: Vec<usize> = (0..self.waiting.len()).filter(spins).collect();
                spinning.get(if spinning.len() > 1 { any(spinning.len()) } else { 0 }).copied()
            }
        };
        let next = place.and_then(|place| self.waiting.remove(place));
        self.holder = next;
        self.report.taken += u64::from(next.is_some());
        let parked = || self.waiting.iter().copied().find(|waiting| doing(*waiting) == Waiting::Parked);
        Released { was_its: true, tell: next.or_else(parked) }
    }

    /// Threads that wait for it.
    pub(super) fn waiting(&self) -> impl Iterator<Item = u32> + '_ {
        self.waiting.iter().copied()
    }
}
