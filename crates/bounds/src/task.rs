//! Tasks: what asks for CPU time. The sporadic task model of Mok (1983) with arbitrary deadlines (Lehoczky 1990), release
//! jitter and blocking (Audsley, Burns, Richardson, Tindell, Wellings 1993).

use units::Nanos;

use crate::answer::Malformed;
use crate::exact::Time;

/// A task: jobs that arrive with a least distance, each with some work and a deadline.
///
/// ```text
///  arrival ──jitter──► released ──── waits, runs ────► end          response: from arrival to end
///     └──────────────── deadline ───────────────────────────┤
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    execution: Nanos,
    period: Nanos,
    deadline: Nanos,
    jitter: Nanos,
    blocking: Nanos,
    priority: u32,
}

impl Task {
    /// Jobs of at most `execution` that arrive every `period` or less often, due when the next one may arrive.
    ///
    /// # Errors
    /// One of them is 0 ns.
    pub const fn new(execution: Nanos, period: Nanos) -> Result<Self, Malformed> {
        if period.get() == 0 {
            return Err(Malformed::NoPeriod);
        }
        if execution.get() == 0 {
            return Err(Malformed::NoExecution);
        }
        let none = Nanos::ZERO;
        Ok(Self { execution, period, deadline: period, jitter: none, blocking: none, priority: 0 })
    }

    /// Due so long after arrival; also longer than the period.
    #[must_use]
    pub const fn with_deadline(self, deadline: Nanos) -> Self {
        Self { deadline, ..self }
    }

    /// Released up to so long after arrival.
    #[must_use]
    pub const fn with_jitter(self, jitter: Nanos) -> Self {
        Self { jitter, ..self }
    }

    /// For so much CPU time work may run first that it does not yield to: a lock held, or a part that is not preemptible, of
    /// a task of lower priority (or of a later deadline). Once per busy period, as under priority ceilings (Sha, Rajkumar,
    /// Lehoczky 1990) and the stack resource policy (Baker 1991).
    #[must_use]
    pub const fn with_blocking(self, blocking: Nanos) -> Self {
        Self { blocking, ..self }
    }

    /// For fixed priorities: the larger number comes first, as with `SCHED_FIFO`.
    #[must_use]
    pub const fn with_priority(self, priority: u32) -> Self {
        Self { priority, ..self }
    }

    /// Most work of a job.
    pub const fn execution(&self) -> Nanos {
        self.execution
    }

    /// Least distance of arrivals.
    pub const fn period(&self) -> Nanos {
        self.period
    }

    /// Allowed response.
    pub const fn deadline(&self) -> Nanos {
        self.deadline
    }

    /// Most time from arrival to release.
    pub const fn jitter(&self) -> Nanos {
        self.jitter
    }

    /// Most work that comes first though it should not.
    pub const fn blocking(&self) -> Nanos {
        self.blocking
    }

    /// Fixed priority; the larger number comes first.
    pub const fn priority(&self) -> u32 {
        self.priority
    }

    pub(crate) const fn c(&self) -> Time {
        self.execution.get() as Time
    }

    pub(crate) const fn t(&self) -> Time {
        self.period.get() as Time
    }

    pub(crate) const fn d(&self) -> Time {
        self.deadline.get() as Time
    }

    pub(crate) const fn j(&self) -> Time {
        self.jitter.get() as Time
    }

    pub(crate) const fn b(&self) -> Time {
        self.blocking.get() as Time
    }

    /// Work released in a window of this length, 0 excluded from its end, that begins with a release after full jitter.
    pub(crate) const fn released(&self, window: Time) -> Time {
        (window + self.j()).div_ceil(self.t()).saturating_mul(self.c())
    }

    /// From release after full jitter to the deadline; below zero when it is due before it is released.
    pub(crate) const fn slack(&self) -> i128 {
        self.deadline.get() as i128 - self.jitter.get() as i128
    }
}

/// Gives each task a priority of its own by deadline, the shortest first: optimal among fixed priorities for deadlines up to
/// the period, without jitter or blocking (Leung and Whitehead 1982). Of equal ones the earlier in the slice comes first.
pub fn deadline_monotonic(tasks: &mut [Task]) {
    let mut order: Vec<&mut Task> = tasks.iter_mut().collect();
    order.sort_by_key(|task| task.deadline);
    for (priority, task) in (1..).zip(order.into_iter().rev()) {
        task.priority = priority;
    }
}
