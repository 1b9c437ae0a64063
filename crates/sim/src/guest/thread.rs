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
    /// Waits for its timer.
    Sleeping,
    /// Nothing more, ever, since then.
    Done(Time),
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
    /// Higher ones are preferred.
    pub(super) priority: u8,
    /// The only virtual CPU it may use.
    pub(super) bound: Packed,
    /// Where it is, if it is on one.
    pub(super) on: Packed,
    /// Locks it holds.
    pub(super) locks: u32,
    pub(super) cpu: Span,
    pub(super) kernel: Span,
    pub(super) spin: Span,
}

impl Thread {
    /// Whether the guest's scheduler must leave it where it is.
    pub(super) fn is_in_kernel(&self) -> bool {
        self.locks > 0 || matches!(self.doing, Doing::Working { kernel: true, .. } | Doing::Spinning { .. })
    }

    /// When it finished.
    pub(super) const fn ended(&self) -> Option<Time> {
        if let Doing::Done(at) = self.doing { Some(at) } else { None }
    }

    /// Whether it may use its guest's virtual CPU `index`.
    pub(super) fn may_use(&self, index: u32) -> bool {
        self.bound.get().is_none_or(|bound| bound == index)
    }

    /// So much CPU time went by on it, and did so much work.
    pub(super) fn pass(&mut self, span: Span, work: Span) {
        self.cpu += work;
        match &mut self.doing {
            Doing::Working { left, kernel } => {
                *left = left.less(work);
                if *kernel {
                    self.kernel += span;
                }
            }
            Doing::Spinning { .. } => self.spin += span,
            Doing::Asking | Doing::Sleeping | Doing::Done(_) => {}
        }
    }
}
