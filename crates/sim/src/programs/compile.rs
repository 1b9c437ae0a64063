//! A compile job: mostly its own work; now and then it enters the kernel, which takes spinlocks for short. The sample is
//! the time from the first instruction to the end; what is done are entries into the kernel.
//!
//! ```text
//!  own work ─► kernel ─► take a lock ─ hold it ─ give it back ─► … so many locks … ─► own work
//!  exponential  exponential            exponential
//! ```
//! The shape is that of the kernel compilation in Friebel and Biemueller's paper on lock-holder preemption (2008), which
//! gives its CPU time and how much of it goes into spinning. Lengths are exponential because only means are known.

use super::exponential;
use crate::guest::{Moment, Op, Program, Seen};
use crate::random::Stream;
use crate::time::{Span, Time};

/// What a compile job is like.
#[derive(Debug, Clone, Copy)]
pub struct CompilePlan {
    /// CPU time in all, waiting for locks left out.
    pub work: Span,
    /// Mean of its own work between two entries into the kernel.
    pub between: Span,
    /// Mean time in the kernel outside locks per entry.
    pub kernel: Span,
    /// Mean time a lock is held.
    pub hold: Span,
    /// Locks taken per entry, one after the other.
    pub locks_per_entry: u32,
    /// Share of the acquisitions that go to lock 0; the others are even.
    pub hot_share: f64,
    /// Locks there are.
    pub locks: u32,
}

/// The program.
#[derive(Debug, Clone)]
pub struct Compile {
    plan: CompilePlan,
    left: Span,
    stage: Stage,
    entries: u64,
    began: Option<Time>,
    took: Option<Span>,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Own,
    Kernel,
    /// So many locks are still to be taken in this entry.
    Locks(u32),
    Hold(u32, u32),
    Release(u32, u32),
}

impl Compile {
    /// With this plan.
    pub const fn new(plan: CompilePlan) -> Self {
        Self { plan, left: plan.work, stage: Stage::Own, entries: 0, began: None, took: None }
    }

    /// Takes a piece of this mean off the work that is left.
    fn piece(&mut self, mean: Span, random: &mut Stream) -> Span {
        let piece = exponential(mean, random).min(self.left);
        self.left = self.left.less(piece);
        piece
    }

    fn lock(&self, random: &mut Stream) -> u32 {
        let others = self.plan.locks.saturating_sub(1);
        if others == 0 || random.unit() < self.plan.hot_share {
            return 0;
        }
        u32::try_from(1 + random.below(others.into())).unwrap_or(0)
    }
}

impl Program for Compile {
    fn next(&mut self, moment: Moment<'_>) -> Op {
        let began = *self.began.get_or_insert(moment.now);
        let random = moment.random.stream();
        match self.stage {
            Stage::Release(lock, more) => {
                self.stage = Stage::Locks(more);
                return Op::Release(lock);
            }
            Stage::Hold(lock, more) => {
                self.stage = Stage::Release(lock, more);
                return Op::Kernel(self.piece(self.plan.hold, random));
            }
            _ => {}
        }
        if self.left.is_zero() {
            self.took = self.took.or(Some(moment.now.since(began)));
            return Op::Finish;
        }
        match self.stage {
            Stage::Kernel => {
                self.entries += 1;
                self.stage = Stage::Locks(if self.plan.locks == 0 { 0 } else { self.plan.locks_per_entry });
                Op::Kernel(self.piece(self.plan.kernel, random))
            }
            Stage::Locks(more) if more > 0 => {
                let lock = self.lock(random);
                self.stage = Stage::Hold(lock, more - 1);
                Op::Acquire(lock)
            }
            _ => {
                self.stage = Stage::Kernel;
                Op::Work(self.piece(self.plan.between, random))
            }
        }
    }

    fn seen(&self) -> Seen {
        Seen { samples: self.took.into_iter().collect(), done: self.entries, ..Seen::default() }
    }

    fn is_finite(&self) -> bool {
        true
    }
}
