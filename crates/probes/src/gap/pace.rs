//! When the gap loop turns to its next batch, by time or by number of reads, without reading a clock for it.
//!
//! ```text
//!  batch 0                 batch 1                        last batch
//!  ├──check──check──check──┼──check──check──check──┼ … ──┤
//! ```
//!
//! Between two checks the loop only compares; at a check it looks whether the job is to end.

use crate::bounds::Bounds;
use units::Hertz;

/// What to do at a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Go on in the same batch.
    Stay,
    /// This batch is complete.
    Next,
    /// The job is to end.
    Leave,
}

/// Decides when a batch is over.
pub trait Pace {
    /// Called once with the first read.
    fn begin(&mut self, first: u64);
    /// Called after every read; whether it is time to ask [`Pace::turn`].
    fn is_due(&mut self, now: u64) -> bool;
    /// Called when due.
    fn turn(&mut self, now: u64) -> Turn;
}

/// Equal spans of time.
#[derive(Debug)]
pub struct ByTime<'a> {
    bounds: Bounds<'a>,
    batch_ticks: u64,
    check_ticks: u64,
    deadline_ticks: u64,
    batch_end: u64,
    due: u64,
    deadline: u64,
}

/// A check ten times per second costs nothing and ends the loop soon enough.
const CHECKS_PER_S: u64 = 10;

fn ticks_left(bounds: &Bounds<'_>, rate: Hertz) -> u64 {
    u64::try_from(bounds.left().as_nanos() * u128::from(rate.get()) / 1_000_000_000).unwrap_or(u64::MAX)
}

impl<'a> ByTime<'a> {
    /// Batches of `batch_ticks` each on a counter of this rate.
    pub fn new(batch_ticks: u64, rate: Hertz, bounds: Bounds<'a>) -> Self {
        Self {
            bounds,
            batch_ticks: batch_ticks.max(1),
            check_ticks: (rate.get() / CHECKS_PER_S).max(1),
            deadline_ticks: ticks_left(&bounds, rate),
            batch_end: 0,
            due: 0,
            deadline: 0,
        }
    }
}

impl Pace for ByTime<'_> {
    fn begin(&mut self, first: u64) {
        self.batch_end = first.saturating_add(self.batch_ticks);
        self.deadline = first.saturating_add(self.deadline_ticks);
        self.due = self.batch_end.min(first.saturating_add(self.check_ticks));
    }

    #[inline]
    fn is_due(&mut self, now: u64) -> bool {
        now >= self.due
    }

    #[cold]
    #[inline(never)]
    fn turn(&mut self, now: u64) -> Turn {
        if self.bounds.is_stopped() || now >= self.deadline {
            return Turn::Leave;
        }
        let over = now >= self.batch_end;
        if over {
            self.batch_end = self.batch_end.saturating_add(self.batch_ticks);
        }
        self.due = self.batch_end.min(now.saturating_add(self.check_ticks));
        if over { Turn::Next } else { Turn::Stay }
    }
}

/// Equal numbers of reads.
#[derive(Debug)]
pub struct ByReads<'a> {
    bounds: Bounds<'a>,
    reads: u64,
    batches: u64,
    batch: u64,
    left_in_batch: u64,
    left_to_check: u64,
    deadline_ticks: u64,
    deadline: u64,
}

/// Reads between two checks: some milliseconds where a read takes tens of nanoseconds.
const READS_PER_CHECK: u64 = 1 << 18;

impl<'a> ByReads<'a> {
    /// `reads` in all, spread over the batches so that none differs by more than one.
    pub fn new(reads: u64, batches: u32, rate: Hertz, bounds: Bounds<'a>) -> Self {
        let mut pace = Self {
            bounds,
            reads,
            batches: u64::from(batches).max(1),
            batch: 0,
            left_in_batch: 0,
            left_to_check: 0,
            deadline_ticks: ticks_left(&bounds, rate),
            deadline: 0,
        };
        pace.left_in_batch = pace.reads_of_batch(0);
        pace.left_to_check = pace.left_in_batch.min(READS_PER_CHECK);
        pace
    }

    fn reads_of_batch(&self, batch: u64) -> u64 {
        self.reads / self.batches + u64::from(batch < self.reads % self.batches)
    }
}

impl Pace for ByReads<'_> {
    fn begin(&mut self, first: u64) {
        self.deadline = first.saturating_add(self.deadline_ticks);
    }

    #[inline]
    fn is_due(&mut self, _now: u64) -> bool {
        self.left_to_check -= 1;
        self.left_to_check == 0
    }

    #[cold]
    #[inline(never)]
    fn turn(&mut self, now: u64) -> Turn {
        if self.bounds.is_stopped() || now >= self.deadline {
            return Turn::Leave;
        }
        self.left_in_batch -= self.left_in_batch.min(READS_PER_CHECK);
        let over = self.left_in_batch == 0;
        if over {
            self.batch += 1;
            self.left_in_batch = self.reads_of_batch(self.batch).max(1);
        }
        self.left_to_check = self.left_in_batch.min(READS_PER_CHECK);
        if over { Turn::Next } else { Turn::Stay }
    }
}
