//! What an analysis answers: a bound, or why there is none; schedulable, or what is missed.

use units::Nanos;

use crate::exact::MOST_STEPS;

/// Numbers that describe nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A task, server or table repeats every 0 ns.
    #[error("a period of 0 ns; give at least 1 ns")]
    NoPeriod,
    /// A task without work.
    #[error("an execution time of 0 ns; give at least 1 ns, or leave the task out")]
    NoExecution,
    /// More than there is, or in the wrong order: a budget beyond its deadline, a deadline beyond its period.
    #[error("{what} of {got} is more than {most_of} of {most}; lower it")]
    TooMuch {
        /// What is too large.
        what: &'static str,
        /// Its value.
        got: Nanos,
        /// What limits it.
        most_of: &'static str,
        /// The largest value.
        most: Nanos,
    },
    /// A weight of 0, or more than all weights together.
    #[error("a weight of {weight} of {total} in all; give at least 1, and at most all")]
    Weight {
        /// The weight.
        weight: u64,
        /// All weights.
        total: u64,
    },
    /// A window of a table that ends outside, or begins before the one before it has ended.
    #[error(
        "window {number} of the table (counted from 0, by start) ends outside of it or overlaps; move it"
    )]
    Window {
        /// Its number, in the order of starts.
        number: usize,
    },
    /// Nobody takes part.
    #[error("0 {what}; give at least 1")]
    None {
        /// What there are none of.
        what: &'static str,
    },
}

/// Why a policy guarantees no CPU time that an analysis could count on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoGuarantee {
    /// Xen's credit scheduler, capped or not, beside others.
    #[error(
        "Xen's credit scheduler promises shares in the long run only: who wakes may be preferred any number of times, so a cap \
         says the most that a VM gets, never the least"
    )]
    Credit,
    /// A quota that several CPUs draw from.
    #[error(
        "several virtual CPUs draw from one quota, first come first served: the others can take all of it, so a single one has \
         no guarantee; give each its own quota"
    )]
    SharedQuota,
    /// Global earliest deadline first of servers on several CPUs.
    #[error(
        "servers that migrate between CPUs have no supply of their own in these analyses; pin each virtual CPU, or test all \
         servers together with the sufficient test of global EDF"
    )]
    Global,
    /// Policies of which nothing is proven: Xen's credit2, gangs, one queue for all CPUs.
    #[error(
        "nobody has proven what this policy gives at least in a window; choose budgets, slots or a table where a bound is needed"
    )]
    NotProven,
    /// Shares by weight where those who take part are not known.
    #[error(
        "a share by weight is a guarantee only while the sum of all weights is known; give the largest sum that there can be"
    )]
    UnknownWeights,
}

/// Why there is no bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoBound {
    /// More is asked for than is supplied in the long run: unbounded.
    #[error(
        "unbounded: {needs_ppm} ppm of a CPU are asked for in the long run and {gives_ppm} ppm are supplied; ask for less or \
         supply more"
    )]
    Overload {
        /// Millionths of a CPU that are asked for, rounded up.
        needs_ppm: u64,
        /// Millionths of a CPU that are supplied, rounded down.
        gives_ppm: u64,
    },
    /// All of the supply is asked for, and what was late at the start is never caught up on.
    #[error(
        "not known: exactly all that is supplied is asked for, so the busy period never ends and the method does not either; \
         supply a little more"
    )]
    EndlessBusyPeriod,
    /// The policy promises nothing.
    #[error("no bound: {0}")]
    NoGuarantee(#[from] NoGuarantee),
    /// A test that is only sufficient does not accept them.
    #[error(
        "not known: the sufficient test of global EDF does not accept these tasks, which may be schedulable nevertheless; pin \
         them to CPUs and test each"
    )]
    NotAccepted,
    /// [`MOST_STEPS`] were taken.
    #[error(
        "not known: not decided within {MOST_STEPS} steps; choose periods with a short common multiple, or supply more"
    )]
    TooLong,
    /// The answer does not fit into 64 bits.
    #[error("not known: longer than 584 years, which do not fit into 64 bits; give smaller numbers")]
    BeyondRange,
}

/// The longest time from a job's arrival (before its jitter) to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Longest {
    /// So long at most.
    pub response: Nanos,
    /// Whether some legal run takes that long: the bound is the worst case. Otherwise the worst case may be less.
    pub is_reached: bool,
}

/// What is missed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Miss {
    /// In the long run.
    #[error("{needs_ppm} ppm of a CPU are asked for in the long run, and {gives_ppm} ppm are supplied")]
    Overload {
        /// Millionths of a CPU that are asked for, rounded up.
        needs_ppm: u64,
        /// Millionths of a CPU that are supplied, rounded down.
        gives_ppm: u64,
    },
    /// A job is late.
    #[error("task {task} (counted from 0) takes {response} or longer; its deadline is {deadline}")]
    Late {
        /// Its place in the slice of tasks.
        task: usize,
        /// A response that is too long, not the longest one.
        response: Nanos,
        /// What was allowed.
        deadline: Nanos,
    },
    /// More is due in a window than is supplied in it.
    #[error("in a window of {window}, {demand} are due and {supply} supplied")]
    Demand {
        /// Length of the window.
        window: Nanos,
        /// Work that arrives and is due within it; saturates.
        demand: Nanos,
        /// What is supplied at least.
        supply: Nanos,
    },
}

/// Whether all deadlines are met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Always.
    Schedulable,
    /// Not always. Where the supply or the test is only a bound: it is not shown that they are met.
    NotSchedulable(Miss),
    /// Nobody knows.
    Undecided(NoBound),
}

impl Verdict {
    /// Whether it is proven that all deadlines are met.
    pub const fn is_schedulable(&self) -> bool {
        matches!(self, Self::Schedulable)
    }
}
