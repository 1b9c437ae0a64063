//! How long will the rest take? From the durations of each cell so far; cells without one are guessed from the same
//! probe elsewhere, then from all. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use super::history::History;
use super::plan::{Group, Plan};
use model::journal::Cell;
use probes::ProbeKind;
use units::Nanos;

/// Bounds of the time left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Eta {
    /// Measurements that are certain to come: the rest of this round, and those up to `repeat.min` of every probe.
    pub certain: usize,
    /// Time for those.
    pub at_least: Duration,
    /// Time when nothing settles before `repeat.max` or the budget ends it.
    pub at_most: Duration,
}

/// Estimates the time left when `left` of `round` is still to be measured. None before anything was measured.
pub fn eta(plan: &Plan, history: &History, round: u32, left: &[Cell]) -> Option<Eta> {
    let costs = Costs::of(plan, history)?;
    Some(remaining(plan, history, round, left, &|cell| costs.cell(cell)))
}

/// The time left when each measurement takes what `cost` says.
pub fn remaining(
    plan: &Plan,
    history: &History,
    round: u32,
    left: &[Cell],
    cost: &dyn Fn(&Cell) -> Duration,
) -> Eta {
    let repeat = plan.repeat();
    let sure = certain(plan, history, round, left);
    let at_least: Duration = sure.iter().map(|(cell, times)| cost(cell) * *times).sum();
    let mut further = Duration::ZERO;
    let mut rounds: BTreeMap<ProbeKind, Duration> = BTreeMap::new();
    for (cell, next) in unsettled(plan, history, round, left) {
        let once = cost(&cell);
        *rounds.entry(cell.probe).or_default() += once;
        further += once * repeat.max.saturating_sub(next.max(repeat.min));
    }
    let longest = rounds.into_values().max().unwrap_or_default();
    if repeat.until_decided {
        further = Duration::MAX;
    }
    let spent = history.spent().to_duration() + at_least;
    let budget = plan.longest().to_duration().saturating_sub(spent);
    // The last round that begins within it may end after it.
    let over = further.min(if budget.is_zero() { budget } else { budget + longest });
    let certain = sure.iter().map(|(_, times)| *times as usize).sum();
    Eta { certain, at_least, at_most: at_least + over }
}

/// Cells that need further rounds once `left` of `round` is measured, each with the number of its next one.
fn unsettled(plan: &Plan, history: &History, round: u32, left: &[Cell]) -> Vec<(Cell, u32)> {
    let is_begun = |cell: &Cell| left.iter().any(|other| other.probe == cell.probe);
    let next_of = |cell: &Cell, next: u32| if is_begun(cell) { next.max(round + 1) } else { next };
    let cells = plan.unsettled(history).into_iter();
    cells
        .map(|(cell, next)| {
            let next = next_of(&cell, next);
            (cell, next)
        })
        .collect()
}

/// Measurements that are certain to come, and how often each.
pub fn certain(plan: &Plan, history: &History, round: u32, left: &[Cell]) -> Vec<(Cell, u32)> {
    let mut times: BTreeMap<Cell, u32> = left.iter().map(|cell| (cell.clone(), 1)).collect();
    for (cell, next) in unsettled(plan, history, round, left) {
        *times.entry(cell).or_default() += plan.repeat().min.saturating_sub(next);
    }
    times.into_iter().filter(|(_, times)| *times > 0).collect()
}

/// Mean duration of each cell, with fallbacks.
struct Costs<'a> {
    history: &'a History,
    groups: Vec<Group>,
    platforms: &'a [String],
    overall: Duration,
}

impl<'a> Costs<'a> {
    fn of(plan: &'a Plan, history: &'a History) -> Option<Self> {
        let count = u32::try_from(history.len()).ok().filter(|count| *count > 0)?;
        let overall = history.spent().to_duration() / count;
        Some(Self { history, groups: plan.groups().collect(), platforms: plan.platforms(), overall })
    }

    fn cell(&self, cell: &Cell) -> Duration {
        self.mean([cell.clone()])
            .or_else(|| {
                let same_probe = self.groups.iter().filter(|group| group.probe == cell.probe);
                self.mean(same_probe.map(|group| group.on(&cell.platform)))
            })
            .or_else(|| {
                let same_probe = self.groups.iter().filter(|group| group.probe == cell.probe);
                self.mean(same_probe.flat_map(|group| self.platforms.iter().map(|p| group.on(p))))
            })
            .unwrap_or(self.overall)
    }

    fn mean(&self, cells: impl IntoIterator<Item = Cell>) -> Option<Duration> {
        let (sum, count) = cells
            .into_iter()
            .flat_map(|cell| self.history.before(&cell, u32::MAX).collect::<Vec<_>>())
            .fold((Nanos::ZERO, 0u32), |(sum, count), (_, entry)| {
                (sum.saturating_add(entry.duration), count + 1)
            });
        (count > 0).then(|| sum.to_duration() / count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Entry, Finding};
    use model::experiment::Experiment;

    fn plan(min: u32, max: u32, budget_s: u32) -> Plan {
        let text = format!(
            "seed = 1\n[repeat]\nmin = {min}\nmax = {max}\nbudget_s = {budget_s}\n\
             [[platform]]\nlabel = \"a\"\nkind = \"fake\"\n[[platform]]\nlabel = \"b\"\nkind = \"fake\"\n[probe.gap]\n[probe.fork]"
        );
        let experiment = Experiment::from_toml(&text).unwrap();
        Plan::new(&experiment, &["a".to_owned(), "b".to_owned()], "a")
    }

    /// Round 0 done: gap takes 1 s on a and 2 s on b, fork 3 s on a and 4 s on b; 10 s per round.
    fn one_round(plan: &Plan) -> History {
        let mut history = History::default();
        for (cell, seconds) in plan.groups().flat_map(|g| [g.on("a"), g.on("b")]).zip(1u64..) {
            let duration = Nanos::from_nanos(seconds * 1_000_000_000);
            history.insert(&cell, 0, Entry { duration, finding: Finding::NoFigure });
        }
        history
    }

    #[test]
    fn nothing_measured_means_no_estimate() {
        assert_eq!(eta(&plan(2, 2, 100), &History::default(), 0, &[]), None);
    }

    #[test]
    fn certain_rounds_count_and_the_budget_caps_the_rest() {
        let seconds = |plan: &Plan| {
            let eta = eta(plan, &one_round(plan), 1, &plan.order(1)).unwrap();
            (eta.certain, eta.at_least.as_secs(), eta.at_most.as_secs())
        };
        assert_eq!(seconds(&plan(3, 3, 1000)), (8, 20, 20));
        assert_eq!(seconds(&plan(3, 10, 1000)), (8, 20, 90));
        // 10 s are spent, 20 s are certain, the budget leaves 5 s: one more round, of fork at worst, may begin and end after it.
        assert_eq!(seconds(&plan(3, 10, 35)), (8, 20, 32));
        assert_eq!(seconds(&plan(3, 10, 30)), (8, 20, 20));
    }

    #[test]
    fn an_unknown_cell_costs_what_its_probe_costs_elsewhere() {
        let plan = plan(1, 1, 100);
        let mut history = one_round(&plan);
        let groups: Vec<Group> = plan.groups().collect();
        let [gap, fork] = groups[..] else { panic!("two groups") };
        assert_eq!(eta(&plan, &history, 0, &[gap.on("b"), fork.on("b")]).unwrap().at_least.as_secs(), 6);
        history = History::default();
        let entry = Entry { duration: Nanos::from_nanos(7_000_000_000), finding: Finding::Failed };
        history.insert(&gap.on("a"), 0, entry);
        assert_eq!(eta(&plan, &history, 0, &[gap.on("b"), fork.on("b")]).unwrap().at_least.as_secs(), 14);
    }
}
