//! One level up: whether servers on one CPU, by earliest deadline first, all have their budgets, so that each is the supply
//! that [`crate::Supply::periodic`] and [`crate::Supply::reservation`] say.
//!
//! ```text
//!  A, 2 of 4   ├──────▇▇├▇▇──────┤    deferrable: kept for the end of a period, and full again at once
//!  B, 3 of 6          ├────────▒▒├    in this period of B, A has run for 4 of 6: B has 2, not 3, though 2/4 + 3/6 = 1
//! ```
//!
//! Servers are given as tasks ([`crate::Interface::as_task`]): execution is the budget; of the rest only period and deadline
//! are looked at. Servers that use up their budgets whether somebody wants them or not are tasks: ask [`crate::edf::test`].

use std::cmp::Ordering;

use units::Nanos;

use crate::answer::{Miss, NoBound, Verdict};
use crate::exact::{Rate, Steps, Time, against, nanos, overload_miss};
use crate::task::Task;

/// A whole CPU.
const CPU: Rate = Rate { work: 1, time: 1 };

/// Hard constant-bandwidth servers (`SCHED_DEADLINE`), pinned to one CPU: budgets over deadlines sum up to 1 at most. Exact for
/// deadlines of the period (Abeni and Buttazzo 1998); sufficient for shorter ones, because who wakes late in its period is
/// given up to its density for the rest of it (kernel documentation, `sched-deadline`; Lelli, Scordino, Abeni, Faggioli 2016).
pub fn reservations(servers: &[Task]) -> Verdict {
    let mut dense = Vec::new();
    for server in servers {
        let Ok(task) = Task::new(server.execution(), server.period().min(server.deadline())) else {
            let (demand, none) = (server.execution(), Nanos::ZERO);
            return Verdict::NotSchedulable(Miss::Demand { window: none, demand, supply: none });
        };
        dense.push(task);
    }
    match against(dense.iter(), CPU) {
        Some(Ordering::Less | Ordering::Equal) => Verdict::Schedulable,
        Some(Ordering::Greater) => Verdict::NotSchedulable(overload_miss(dense.iter(), CPU)),
        None => Verdict::Undecided(NoBound::BeyondRange),
    }
}

/// The most that a deferrable server runs in a window with deadlines that end in it: a budget kept for the end of a period,
/// and then one in each period.
const fn kept(server: &Task, window: Time) -> Time {
    let (whole, rest) = (window / server.t(), window % server.t());
    let rest = if rest < server.c() { rest } else { server.c() };
    whole.saturating_mul(server.c()).saturating_add(rest)
}

/// Deferrable servers (Xen's RTDS) with deadlines of their periods. That budgets over periods sum up to 1 is not enough, because
/// a budget that was kept comes on top of the next one (Ghazalie and Baker, "Aperiodic servers in a deadline scheduling
/// environment", 1995). Enough is that each server's budget fits into its own period beside the most that all others run
/// there with deadlines before the end of it: what is not used by then is lost, so nothing older is in the way. Who wakes
/// later in its period misses no more of the rest than the others take. Periods may begin whenever they like, and ties are
/// lost. Sufficient.
pub fn deferrable(servers: &[Task]) -> Verdict {
    let mut steps = Steps::new();
    for server in servers {
        if let Err(why) = steps.take(servers.len()) {
            return Verdict::Undecided(why);
        }
        let window = server.t();
        let work = servers.iter().map(|server| kept(server, window)).fold(0, Time::saturating_add);
        if work > window {
            let (window, demand) = (nanos(window), nanos(work));
            return Verdict::NotSchedulable(Miss::Demand { window, demand, supply: window });
        }
    }
    Verdict::Schedulable
}
