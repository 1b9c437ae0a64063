//! Preemptive fixed priorities: response-time analysis on any supply.
//!
//! A job of task i is worst off in a busy period of its level that begins when waiting for supply begins and every task of
//! its level is released at once after its full jitter, then as often as it can (Joseph and Pandya 1986). Job q of it ends at
//! the least w with
//!
//! ```text
//!  supplied(w) = Bᵢ + (q + 1)·Cᵢ + Σⱼ ⌈(w + Jⱼ)/Tⱼ⌉·Cⱼ      j: as urgent or more urgent than i
//!  response    = w + Jᵢ − q·Tᵢ, the longest of q = 0, 1, … until the busy period has ended
//! ```
//!
//! Sources: Lehoczky, "Fixed priority scheduling of periodic task sets with arbitrary deadlines" (1990) for several jobs;
//! Audsley, Burns, Richardson, Tindell, Wellings (1993) and Tindell, Burns, Wellings (1994) for jitter and blocking; Shin and
//! Lee (2003) for supply, here phase by phase: a table has no phase that is the worst for all windows, and the least of all
//! phases at each length would be longer than any of them. Tasks of equal priority are counted against each other, which is
//! a bound whatever their order.

use std::cmp::Ordering;

use crate::answer::{Longest, Miss, NoBound, Verdict};
use crate::exact::{HORIZON, Steps, Time, against, hyperperiod, nanos, overload};
use crate::supply::Supply;
use crate::task::Task;

/// A task and those that it waits for.
struct Level<'a> {
    own: &'a Task,
    urgent: Vec<&'a Task>,
    supply: &'a Supply,
}

impl<'a> Level<'a> {
    fn of(tasks: &'a [Task], number: usize, supply: &'a Supply) -> Option<Self> {
        let own = tasks.get(number)?;
        let urgent = tasks
            .iter()
            .enumerate()
            .filter(|(other, task)| *other != number && task.priority() >= own.priority());
        Some(Self { own, urgent: urgent.map(|(_, task)| task).collect(), supply })
    }

    fn all(&self) -> impl Iterator<Item = &'a Task> + Clone {
        self.urgent.iter().copied().chain([self.own])
    }

    /// Whether some legal run reaches the longest response.
    fn is_reached(&self) -> bool {
        let ties = self.urgent.iter().any(|task| task.priority() == self.own.priority());
        self.supply.is_reached() && !ties && self.own.blocking().get() == 0
    }

    /// When job `q` of the busy period has ended, if not before `from`. Ends early, with what is known by then, when that is
    /// later than `enough`.
    fn end(
        &self,
        phase: usize,
        q: Time,
        from: Time,
        enough: Time,
        steps: &mut Steps,
    ) -> Result<Time, NoBound> {
        let own = (q + 1).saturating_mul(self.own.c()).saturating_add(self.own.b());
        let mut time = from;
        loop {
            steps.take(self.urgent.len() + 1)?;
            let released = self.urgent.iter().map(|task| task.released(time));
            let work = released.fold(own, Time::saturating_add);
            let end = self.supply.time_for(phase, work).ok_or(NoBound::BeyondRange)?;
            if end <= time || end > enough {
                return Ok(end.max(time));
            }
            time = end;
        }
    }

    /// Jobs of a busy period that never ends after which everything repeats: where exactly all of the supply is asked for,
    /// later jobs take as long as those one hyperperiod before.
    fn jobs_until_repeated(&self) -> Option<Time> {
        let (from, cycle) = self.supply.repeats();
        let hyperperiod = hyperperiod(self.all(), cycle)?;
        Some((from + self.own.j()).div_ceil(self.own.t()) + hyperperiod / self.own.t() + 1)
    }

    /// The longest response, or one that is longer than `limit`.
    fn longest(&self, limit: Time, steps: &mut Steps) -> Result<Time, NoBound> {
        steps.take(self.urgent.len() + 1)?;
        let (t, j) = (self.own.t(), self.own.j());
        let most_jobs = match against(self.all(), self.supply.rate()) {
            Some(Ordering::Greater) => return Err(overload(self.all(), self.supply.rate())),
            Some(Ordering::Equal) => self.jobs_until_repeated(),
            Some(Ordering::Less) | None => None,
        };
        let mut longest = 0;
        for phase in 0..self.supply.phases() {
            let mut end = 1;
            for q in 0.. {
                let passed = q * t;
                end = self.end(phase, q, end, limit.saturating_add(passed), steps)?;
                let response = (end + j).saturating_sub(passed);
                longest = response.max(longest);
                if longest > limit {
                    return Ok(longest);
                }
                let is_over = end + j <= passed + t;
                if is_over || most_jobs.is_some_and(|most| q >= most) {
                    break;
                }
            }
        }
        Ok(longest)
    }
}

/// The longest response of each task, in their order; those of tasks that cannot be bounded say why.
pub fn responses(tasks: &[Task], supply: &Supply) -> Vec<Result<Longest, NoBound>> {
    let mut steps = Steps::new();
    let one = |number| {
        steps.take(tasks.len())?;
        let level = Level::of(tasks, number, supply).ok_or(NoBound::TooLong)?;
        let longest = level.longest(Time::MAX, &mut steps)?;
        if longest > HORIZON {
            return Err(NoBound::BeyondRange);
        }
        Ok(Longest { response: nanos(longest), is_reached: level.is_reached() })
    };
    (0..tasks.len()).map(one).collect()
}

/// Whether every task meets its deadline.
pub fn test(tasks: &[Task], supply: &Supply) -> Verdict {
    test_within(tasks, supply, &mut Steps::new())
}

/// The same, as one of several questions that share their steps.
pub(crate) fn test_within(tasks: &[Task], supply: &Supply, steps: &mut Steps) -> Verdict {
    let mut undecided = None;
    for (number, task) in tasks.iter().enumerate() {
        let longest = steps.take(tasks.len()).and_then(|()| {
            let level = Level::of(tasks, number, supply).ok_or(NoBound::TooLong)?;
            level.longest(task.d(), steps)
        });
        match longest {
            Ok(longest) if longest > task.d() => {
                let miss = Miss::Late { task: number, response: nanos(longest), deadline: task.deadline() };
                return Verdict::NotSchedulable(miss);
            }
            Ok(_) => {}
            Err(NoBound::Overload { needs_ppm, gives_ppm }) => {
                return Verdict::NotSchedulable(Miss::Overload { needs_ppm, gives_ppm });
            }
            Err(why) => undecided = Some(why),
        }
    }
    undecided.map_or(Verdict::Schedulable, Verdict::Undecided)
}
