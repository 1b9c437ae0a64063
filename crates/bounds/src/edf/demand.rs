//! The processor-demand test: in every window, what arrives and is due within it must be supplied.
//!
//! ```text
//!  demand(t) = Σᵢ max(0, ⌊(t + Jᵢ − Dᵢ)/Tᵢ⌋ + 1)·Cᵢ  (+ the largest Bᵢ of those that are due)  ≤  supplied(t) for all t
//! ```
//!
//! Sources: Baruah, Rosier, Howell, "Algorithms and complexity concerning the preemptive scheduling of periodic, real-time
//! tasks on one processor" (1990); jitter as in Spuri (1996); blocking as in Baker (1991); supply as in Shin and Lee (2003).
//! Windows are tried from the longest one down, as in Zhang and Burns, "Schedulability analysis for real-time systems with
//! EDF scheduling" (2009), on a supply instead of a CPU: what is demanded in a window of t has been supplied after t' ≤ t,
//! so no window between t' and t is in want. Exact for sporadic tasks without blocking; with it, sufficient.

use std::cmp::Ordering;

use units::Nanos;

use crate::answer::{Miss, NoBound, Verdict};
use crate::exact::{HORIZON, Steps, Time, against, hyperperiod, nanos, overload_miss, signed, utilization};
use crate::supply::Supply;
use crate::task::Task;

/// Jobs of a task that are released and due in a window of this length, at most.
fn due(task: &Task, window: Time) -> Time {
    match signed(window) - task.slack() {
        rest @ 0.. => rest.unsigned_abs() / task.t() + 1,
        _ => 0,
    }
}

/// What is due in a window, and what may come before it though it should not.
fn due_in(tasks: &[Task], window: Time) -> Time {
    let jobs = tasks.iter().map(|task| due(task, window).saturating_mul(task.c()));
    jobs.fold(blocked(tasks, window), Time::saturating_add)
}

/// The largest blocking of tasks that are due in a window.
fn blocked(tasks: &[Task], window: Time) -> Time {
    let due = tasks.iter().filter(|task| due(task, window) > 0);
    due.map(Task::b).max().unwrap_or(0)
}

/// The longest window shorter than `end` that ends with a deadline; none when there is none.
fn deadline_before(tasks: &[Task], end: Time) -> Option<Time> {
    let last = |task: &Task| {
        let first = Time::try_from(task.slack().max(0)).ok()?;
        let rest = end.checked_sub(1)?.checked_sub(first)?;
        Some(first + rest / task.t() * task.t())
    };
    tasks.iter().filter_map(last).max()
}

/// The demand-bound function: the most work that is released and due within any window of this length, blocking included.
/// Saturates.
pub fn demand(tasks: &[Task], window: Nanos) -> Nanos {
    nanos(due_in(tasks, Time::from(window.get())))
}

/// No window that is longer can be in want where no shorter one is: what is due in it is at most its share and `excess`.
/// Where less is asked for than supplied, that is less than the supply from there on.
fn longest_below(tasks: &[Task], supply: &Supply) -> Option<Time> {
    let mut excess = supply.most_behind().checked_add(tasks.iter().map(Task::b).max().unwrap_or(0))?;
    for task in tasks {
        let early = u128::try_from((signed(task.t()) - task.slack()).max(0)).ok()?;
        excess = excess.checked_add(task.c().checked_mul(early)?.div_ceil(task.t()))?;
    }
    let left = supply.rate().enclosed().least.checked_sub(utilization(tasks.iter()).most)?;
    let shifted = excess.checked_mul(1 << 64)?;
    Some(shifted.checked_div(left)? + 1).filter(|longest| *longest <= HORIZON)
}

/// Where exactly what is supplied is asked for, demand and supply repeat, so one hyperperiod of windows is enough.
fn longest_equal(tasks: &[Task], supply: &Supply) -> Option<Time> {
    let (from, cycle) = supply.repeats();
    let slack = tasks.iter().map(Task::slack).max().unwrap_or(0).max(0);
    let from = from.max(Time::try_from(slack).ok()?);
    Some(from + hyperperiod(tasks.iter(), cycle)?).filter(|longest| *longest <= HORIZON)
}

/// The longest busy period that can begin when all tasks are released at once after their full jitter, in any phase: the
/// first window that has a violation lies within it. With all blocking there is.
///
/// # Errors
/// It does not end, or not within `most` or the steps.
pub fn busy_period(tasks: &[Task], supply: &Supply, most: Time, steps: &mut Steps) -> Result<Time, NoBound> {
    let blocking = tasks.iter().map(Task::b).max().unwrap_or(0);
    let mut longest = 0;
    for phase in 0..supply.phases() {
        let mut time = 1;
        loop {
            steps.take(tasks.len())?;
            let work = tasks.iter().map(|task| task.released(time)).fold(blocking, Time::saturating_add);
            let end = supply.time_for(phase, work).ok_or(NoBound::BeyondRange)?;
            if end > most {
                return Err(NoBound::EndlessBusyPeriod);
            }
            if end <= time {
                break;
            }
            time = end;
        }
        longest = time.max(longest);
    }
    Ok(longest)
}

/// Whether every job meets its deadline.
pub fn test(tasks: &[Task], supply: &Supply) -> Verdict {
    test_within(tasks, supply, &mut Steps::new())
}

/// The same, as one of several questions that share their steps.
pub fn test_within(tasks: &[Task], supply: &Supply, steps: &mut Steps) -> Verdict {
    let miss = |window: Time, demand: Time| {
        let (window, supplied) = (nanos(window), nanos(supply.least(window)));
        Verdict::NotSchedulable(Miss::Demand { window, demand: nanos(demand), supply: supplied })
    };
    if tasks.iter().any(|task| task.slack() <= 0) {
        return miss(0, due_in(tasks, 0));
    }
    let longest = match against(tasks.iter(), supply.rate()) {
        Some(Ordering::Greater) => {
            return Verdict::NotSchedulable(overload_miss(tasks.iter(), supply.rate()));
        }
        Some(Ordering::Equal) => longest_equal(tasks, supply),
        Some(Ordering::Less) => longest_below(tasks, supply),
        None => None,
    };
    let longest = longest.map_or_else(|| busy_period(tasks, supply, HORIZON, steps), Ok);
    let mut window = match longest {
        Ok(longest) => deadline_before(tasks, longest + 1),
        Err(NoBound::EndlessBusyPeriod) => return Verdict::Undecided(NoBound::BeyondRange),
        Err(why) => return Verdict::Undecided(why),
    };
    while let Some(length) = window {
        if let Err(why) = steps.take(2 * tasks.len() + supply.phases()) {
            return Verdict::Undecided(why);
        }
        let demand = due_in(tasks, length);
        match supply.time_for_any(demand).filter(|met| *met <= length) {
            Some(met) => window = deadline_before(tasks, met),
            None => return miss(length, demand),
        }
    }
    Verdict::Schedulable
}
