//! A thread of a guest.

use super::program::Program;
use crate::packed::Packed;
use crate::random::Stream;
use crate::time::{Span, Time};

/// What a thread is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// The last operation is over.
    Asking,
    /// So much CPU time is left of an operation.
    Working { left: Span, kernel: bool },
    /// Spins for this lock; its guest knows since when.
    Spinning { lock: u32 },
    /// Sleeps for this mutex.
    Blocked { lock: u32 },
    /// Pays so much more CPU time for this, which has to do with that lock.
    Paying { left: Span, bill: Bill, lock: u32 },
    /// Spins until other virtual CPUs have acknowledged an interrupt.
    Awaiting,
    /// Waits for its timer.
    Sleeping,
    /// Nothing more, ever, since then.
    Done(Time),
}

/// What costs CPU time besides a thread's own operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bill {
    /// It has got the lock and does not see it yet: others read the cache line first.
    Handover,
    /// It halts, or goes to sleep, and will have to come back.
    Halt,
    /// It tells the host that it spins.
    Exit,
    /// It wakes who has halted.
    Kick,
    /// It sends interrupts.
    Send,
}

/// How a thread waits for a lock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    /// Since when.
    pub(super) since: Time,
    /// Spinning since it last asked for help.
    pub(super) spun: Span,
    /// Spinning in all its earlier waits.
    pub(super) before: Span,
}

impl Wait {
    /// Of somebody who has not waited yet.
    pub(super) const NONE: Self = Self { since: Time::ZERO, spun: Span::ZERO, before: Span::ZERO };
}

pub(super) struct Thread {
    pub(super) program: Box<dyn Program>,
    /// Made when its program first draws from it.
    pub(super) random: Option<Box<Stream>>,
    pub(super) doing: Doing,
    /// Where it is, if it is on one.
    pub(super) on: Packed,
    /// Which of its guest's kinds of threads it is: its priority, and where it may run.
    pub(super) kind: u16,
    /// Locks it holds.
    pub(super) locks: u16,
    pub(super) cpu: Span,
    pub(super) kernel: Span,
    pub(super) spin: Span,
}

impl Thread {
    /// Whether the guest's scheduler must leave it where it is.
    pub(super) fn is_in_kernel(&self) -> bool {
        let works = matches!(self.doing, Doing::Working { kernel: true, .. });
        self.locks > 0 || works || self.is_spinning() || matches!(self.doing, Doing::Paying { .. })
    }

    /// Whether it uses a CPU and gets nothing done.
    pub(super) const fn is_spinning(&self) -> bool {
        match self.doing {
            Doing::Spinning { .. } | Doing::Awaiting => true,
            Doing::Paying { bill, .. } => matches!(bill, Bill::Handover | Bill::Halt | Bill::Exit),
            _ => false,
        }
    }

    /// The lock it waits for.
    pub(super) const fn waits_for(&self) -> Option<u32> {
        match self.doing {
            Doing::Spinning { lock } | Doing::Blocked { lock } => Some(lock),
            Doing::Paying { lock, .. } if self.is_spinning() => Some(lock),
            _ => None,
        }
    }

    /// When it finished.
    pub(super) const fn ended(&self) -> Option<Time> {
        if let Doing::Done(at) = self.doing { Some(at) } else { None }
    }

    /// So much CPU time went by on it, and did so much work.
    pub(super) fn pass(&mut self, span: Span, work: Span) {
        self.cpu += work;
        if self.is_spinning() {
            self.spin += span;
        }
        match &mut self.doing {
            Doing::Working { left, kernel } => {
                *left = left.less(work);
                if *kernel {
                    self.kernel += span;
                }
            }
            Doing::Paying { left, bill, .. } => {
                *left = left.less(span);
                if matches!(bill, Bill::Kick | Bill::Send) {
                    self.kernel += span;
                }
            }
            Doing::Asking
            | Doing::Spinning { .. }
            | Doing::Awaiting
            | Doing::Sleeping
            | Doing::Blocked { .. }
            | Doing::Done(_) => {}
        }
    }
}
