//! Compositional interfaces: the least budget for a period with which a VM's tasks meet their deadlines (Shin and Lee 2003,
//! 2008; the tool CARTS does the same). Found by bisection over the exact tests, to the nanosecond, because more budget
//! never supplies less in any window; not by the linear bound, which asks for more than is needed.

use std::cmp::Ordering;

use units::Nanos;

use crate::answer::{Longest, Malformed, Miss, NoBound, Verdict};
use crate::exact::{Steps, nanos, utilization};
use crate::supply::Supply;
use crate::task::Task;
use crate::{edf, fixed_priority};

/// How tasks are scheduled inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduler {
    /// By fixed priorities.
    FixedPriority,
    /// Earliest deadline first.
    Edf,
}

impl Scheduler {
    /// Whether these tasks meet their deadlines on that supply.
    pub fn test(self, tasks: &[Task], supply: &Supply) -> Verdict {
        self.test_within(tasks, supply, &mut Steps::new())
    }

    fn test_within(self, tasks: &[Task], supply: &Supply, steps: &mut Steps) -> Verdict {
        match self {
            Self::FixedPriority => fixed_priority::test_within(tasks, supply, steps),
            Self::Edf => edf::test_within(tasks, supply, steps),
        }
    }

    /// The longest response of each task on that supply, in their order.
    pub fn responses(self, tasks: &[Task], supply: &Supply) -> Vec<Result<Longest, NoBound>> {
        match self {
            Self::FixedPriority => fixed_priority::responses(tasks, supply),
            Self::Edf => edf::responses(tasks, supply),
        }
    }
}

/// What a budget and a period are given to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// [`Supply::periodic`].
    Periodic,
    /// [`Supply::explicit_deadline`], [`Supply::reservation`].
    ExplicitDeadline {
        /// The budget is given within so long after the period's beginning; no longer than the period.
        deadline: Nanos,
    },
    /// [`Supply::quota`].
    Quota,
}

impl Server {
    /// What it supplies with this period and budget.
    ///
    /// # Errors
    /// As the constructors of [`Supply`] say.
    pub fn supply(self, period: Nanos, budget: Nanos) -> Result<Supply, Malformed> {
        match self {
            Self::Periodic => Supply::periodic(period, budget),
            Self::ExplicitDeadline { deadline } => Supply::explicit_deadline(period, budget, deadline),
            Self::Quota => Supply::quota(budget, period),
        }
    }

    fn largest_budget(self, period: Nanos) -> Nanos {
        match self {
            Self::Periodic | Self::Quota => period,
            Self::ExplicitDeadline { deadline } => deadline.min(period),
        }
    }
}

/// A budget per period that is enough for what runs inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface {
    /// The period.
    pub period: Nanos,
    /// The budget.
    pub budget: Nanos,
    /// When it is due after the period's beginning.
    pub deadline: Nanos,
    /// Whether no smaller budget is enough. Otherwise some smaller one was not decided.
    pub is_least: bool,
}

impl Interface {
    /// As a task of its host: budgets are its jobs.
    ///
    /// # Errors
    /// The budget is 0 ns, because nothing runs inside.
    pub fn as_task(&self) -> Result<Task, Malformed> {
        Ok(Task::new(self.budget, self.period)?.with_deadline(self.deadline))
    }

    /// Budget by period, rounded, to be shown.
    pub const fn bandwidth(&self) -> f64 {
        self.budget.as_f64() / self.period.as_f64()
    }

    /// By bandwidth, exactly; of equal ones the longer period comes first, because it switches less often.
    fn rank(&self, other: &Self) -> Ordering {
        let of = |one: &Self, by: &Self| u128::from(one.budget.get()) * u128::from(by.period.get());
        of(self, other).cmp(&of(other, self)).then(other.period.cmp(&self.period))
    }
}

/// Why no budget is enough.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoInterface {
    /// Not even the largest one.
    #[error(
        "not even a budget of {budget} per {period} is enough: {miss}; choose a shorter period, or ask for less"
    )]
    NotSchedulable {
        /// The largest budget.
        budget: Nanos,
        /// The period.
        period: Nanos,
        /// What is missed with it.
        miss: Miss,
    },
    /// Nobody knows, not even of the largest one.
    #[error(transparent)]
    Undecided(#[from] NoBound),
    /// The numbers describe nothing.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// The least budget per `period` with which these tasks meet all deadlines on that kind of server.
///
/// # Errors
/// Not even the largest budget is enough, or it is not known, or the period is 0 ns.
pub fn least_budget(
    tasks: &[Task],
    scheduler: Scheduler,
    server: Server,
    period: Nanos,
) -> Result<Interface, NoInterface> {
    // All of the search is one question: where steps run out, larger budgets are left, and it says so.
    let mut steps = Steps::new();
    let mut verdict = |budget: u64| -> Result<Verdict, Malformed> {
        let supply = server.supply(period, Nanos::from_nanos(budget))?;
        Ok(scheduler.test_within(tasks, &supply, &mut steps))
    };
    let largest = server.largest_budget(period);
    match verdict(largest.get())? {
        Verdict::Schedulable => {}
        Verdict::NotSchedulable(miss) => {
            return Err(NoInterface::NotSchedulable { budget: largest, period, miss });
        }
        Verdict::Undecided(why) => return Err(why.into()),
    }
    // `enough` is; below `least` nothing is, because less than the tasks ask for in the long run would be supplied.
    let share = (utilization(tasks.iter()).least >> 32).saturating_mul(u128::from(period.get())) >> 32;
    let (mut least, mut enough) = (nanos(share).min(largest).get(), largest.get());
    let mut is_least = true;
    while least < enough {
        let budget = least.midpoint(enough);
        match verdict(budget)? {
            Verdict::Schedulable => enough = budget,
            Verdict::NotSchedulable(_) => least = budget + 1,
            Verdict::Undecided(_) => {
                is_least = false;
                least = budget + 1;
            }
        }
    }
    let budget = Nanos::from_nanos(enough);
    let deadline = match server {
        Server::ExplicitDeadline { deadline } => deadline,
        Server::Periodic | Server::Quota => period,
    };
    Ok(Interface { period, budget, deadline, is_least })
}

/// What one of several periods needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The period.
    pub period: Nanos,
    /// The least budget for it, or why there is none.
    pub interface: Result<Interface, NoInterface>,
}

/// A row for each of these periods.
pub fn rows(tasks: &[Task], scheduler: Scheduler, server: Server, periods: &[Nanos]) -> Vec<Row> {
    let row =
        |period: &Nanos| Row { period: *period, interface: least_budget(tasks, scheduler, server, *period) };
    periods.iter().map(row).collect()
}

/// The row of the least bandwidth, of equal ones that of the longest period; none when no period has an interface.
pub fn least_bandwidth(rows: &[Row]) -> Option<Interface> {
    rows.iter().filter_map(|row| row.interface.as_ref().ok()).min_by(|a, b| a.rank(b)).copied()
}
