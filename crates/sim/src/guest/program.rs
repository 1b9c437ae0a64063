//! Programs: what a thread does, as a sequence of operations.

use crate::random::Draw;
use crate::time::{Span, Time};

/// What a thread does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// So much CPU time in its own code; other threads of the guest may be run in between.
    Work(Span),
    /// So much CPU time in the guest's kernel, which the guest's scheduler does not interrupt.
    Kernel(Span),
    /// Takes a spinlock of the guest's kernel, spinning as long as others have it.
    Acquire(u32),
    /// Gives a spinlock back.
    Release(u32),
    /// Interrupts all other virtual CPUs of the guest that have a thread, and waits until each has acknowledged.
    ShootDown,
    /// Sleeps until this moment, or not at all if that has passed.
    SleepUntil(Time),
    /// Has done its work, for good.
    Finish,
}

/// What a program can know when it is asked.
#[derive(Debug)]
pub struct Moment<'a> {
    /// The guest's clock, which goes on while the guest does not run.
    pub now: Time,
    /// CPU time the thread has had, spinning included; where CPUs slow each other, its work.
    pub cpu: Span,
    /// Its own randomness.
    pub random: Draw<'a>,
}

/// What a program has seen. What a sample is, each program says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// Samples, in order; the first ones where not all had room.
    pub samples: Vec<Span>,
    /// Samples that had no room.
    pub left_out: u64,
    /// Rounds, jobs or operations that were completed.
    pub done: u64,
    /// Of these, or instead of these, how many were late or left out.
    pub missed: u64,
    /// Of the missed ones, how many were aborted.
    pub aborted: u64,
}

/// A thread's program.
pub trait Program: Send {
    /// What it does next. Called when the last operation is over.
    fn next(&mut self, moment: Moment<'_>) -> Op;

    /// When it aborts the operation that it works on, if it does; asked while it has one.
    fn aborts_at(&self) -> Option<Time> {
        None
    }

    /// What it has seen so far.
    fn seen(&self) -> Seen;

    /// Whether it ever comes to [`Op::Finish`]; a simulation is over when all that do have finished.
    fn is_finite(&self) -> bool;
}
