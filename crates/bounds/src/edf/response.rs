//! The longest responses under earliest deadline first.
//!
//! ```text
//!  busy  ├─ all other tasks released at once, after full jitter, as often as they can ─────────────┤
//!        ├── own jobs, every Tᵢ ──► arrives at a, due at a + Dᵢ; only what is due by then comes first
//! ```
//!
//! Sources: Spuri, "Analysis of deadline scheduled real-time systems" (1996), with jitter as in his holistic analysis of the
//! same year: the longest response is found in a busy period in which all other tasks are released together at its
//! beginning, for some arrival a at which the deadline coincides with another one or the own jobs begin together with the
//! others. Those a are all tried. The end of the job is the least t with
//!
//! ```text
//!  supplied(t) = B(a + Dᵢ) + (⌊(a + Jᵢ)/Tᵢ⌋ + 1)·Cᵢ + Σⱼ min(⌈(t + Jⱼ)/Tⱼ⌉, ⌊(a + Dᵢ + Jⱼ − Dⱼ)/Tⱼ⌋ + 1)·Cⱼ
//! ```
//!
//! The argument holds on any supply, phase by phase, from where waiting begins: a busy period that begins elsewhere has at
//! least as much supplied in each window from its beginning.

use std::cmp::Ordering;

use crate::answer::{Longest, NoBound};
use crate::exact::{HORIZON, Steps, Time, against, hyperperiod, nanos, overload, signed};
use crate::supply::Supply;
use crate::task::Task;

use super::demand::busy_period;

/// A task among others.
struct Among<'a> {
    tasks: &'a [Task],
    number: usize,
    own: &'a Task,
    supply: &'a Supply,
}

impl Among<'_> {
    /// Work of another task that comes before what is due at `due`, of that released until `time`.
    fn before(other: &Task, due: i128, time: Time) -> Time {
        match due - other.slack() {
            rest @ 0.. => {
                let jobs = rest.unsigned_abs() / other.t() + 1;
                other.released(time).min(jobs.saturating_mul(other.c()))
            }
            _ => 0,
        }
    }

    /// The response of the job that arrives `after` the earliest arrival that can be released when the busy period begins.
    fn response(&self, phase: usize, after: Time, steps: &mut Steps) -> Result<Time, NoBound> {
        let due = self.own.slack().saturating_add(signed(after));
        let blocked = self.tasks.iter().filter(|task| task.slack() <= due).map(Task::b).max().unwrap_or(0);
        let own = (after / self.own.t() + 1).saturating_mul(self.own.c()).saturating_add(blocked);
        let mut time = 1;
        loop {
            steps.take(self.tasks.len())?;
            let others = self.tasks.iter().enumerate().filter(|(number, _)| *number != self.number);
            let work =
                others.map(|(_, other)| Self::before(other, due, time)).fold(own, Time::saturating_add);
            let end = self.supply.time_for(phase, work).ok_or(NoBound::BeyondRange)?;
            if end <= time {
                return Ok((time + self.own.j()).saturating_sub(after));
            }
            time = end;
        }
    }

    /// The longest response in busy periods of at most this length.
    fn longest(&self, busy: Time, steps: &mut Steps) -> Result<Time, NoBound> {
        let mut longest = 0;
        let last = busy + self.own.j();
        for task in self.tasks {
            // Of arrivals whose deadline is that of the task's first job, of its second, …, the first that can be.
            let offset = task.slack() - self.own.slack();
            let period = signed(task.t());
            let first = if offset < 0 { offset.rem_euclid(period) } else { offset };
            let mut after = first.unsigned_abs();
            while after < last {
                for phase in 0..self.supply.phases() {
                    longest = self.response(phase, after, steps)?.max(longest);
                }
                after += task.t();
            }
        }
        Ok(longest)
    }
}

/// The longest response of each task, in their order; those of tasks that cannot be bounded say why.
pub fn responses(tasks: &[Task], supply: &Supply) -> Vec<Result<Longest, NoBound>> {
    let mut steps = Steps::new();
    let busy = match against(tasks.iter(), supply.rate()) {
        Some(Ordering::Greater) => Err(overload(tasks.iter(), supply.rate())),
        Some(Ordering::Equal) => {
            // A busy period that ends at all does so within what repeats.
            let (from, cycle) = supply.repeats();
            let most = hyperperiod(tasks.iter(), cycle).map_or(HORIZON, |hyperperiod| from + hyperperiod);
            busy_period(tasks, supply, most, &mut steps)
        }
        Some(Ordering::Less) | None => busy_period(tasks, supply, HORIZON, &mut steps),
    };
    let blocks = tasks.iter().any(|task| task.blocking().get() > 0);
    let is_reached = supply.is_reached() && !blocks;
    let mut one = |(number, own)| {
        let longest = Among { tasks, number, own, supply }.longest(busy.clone()?, &mut steps)?;
        if longest > HORIZON {
            return Err(NoBound::BeyondRange);
        }
        Ok(Longest { response: nanos(longest), is_reached })
    };
    tasks.iter().enumerate().map(&mut one).collect()
}
