//! What is measured until verdicts are decided (`repeat.until_decided`): a look at them, and the rounds until the next one. Pure.
//!
//! ```text
//!  journal ─► analyse ─► judge ─► verdicts still open ─► the one that takes least ─► look: these groups, up to these rounds
//!                                                                                          │ written down; made; next look
//!  ◄───────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//! Looks are written into the journal, so that a resumed run goes on with the one that was begun, and everybody knows how often a
//! cell was looked at: each look spends a part of the chance to be wrong ([`stats::looks`]). Between two a group's rounds grow by
//! half at least, so that there are few.

use std::collections::{BTreeMap, BTreeSet};

use super::analysis::analyse;
use super::error::CampaignError;
use super::event::Event;
use super::history::{Group, History};
use super::journal::Contents;
use super::plan::Plan;
use super::rundir::RunDir;
use analysis::suitability;
use model::classes::{ClassSet, ClassVerdict, OpenCell, Suitability};
use model::experiment::Experiment;
use model::journal::{Cell, LookRounds, VerdictLook};
use model::results::RunResults;
use stats::looks::confidence_at;
use units::Nanos;

/// The next look is surer, and wants more: so many times as many rounds as would do now.
const FURTHER: f64 = 1.3;

/// So many measurements in a row that broke say that it is no accident.
const BREAKS: usize = 3;

/// Time spent measuring when it is told for the first time how far the run is.
const FIRST_TOLD: Nanos = Nanos::from_nanos(20_000_000_000);

/// How many verdicts are decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decided {
    /// Of classes of work by platforms.
    pub verdicts: usize,
    /// Of so many.
    pub of: usize,
}

impl Decided {
    /// Counts them.
    pub fn of(verdicts: &[ClassVerdict]) -> Self {
        let decided = verdicts.iter().filter(|verdict| verdict.level != Suitability::Unknown);
        Self { verdicts: decided.count(), of: verdicts.len() }
    }
}

/// Looks at the verdicts of a run while it is made.
pub(super) struct Verdicts<'a> {
    rundir: &'a RunDir,
    classes: ClassSet,
    /// Time spent measuring when it is told the next time how far the run is.
    next_at: Nanos,
}

impl<'a> Verdicts<'a> {
    pub(super) const fn new(rundir: &'a RunDir, classes: ClassSet) -> Self {
        Self { rundir, classes, next_at: FIRST_TOLD }
    }

    /// What is to be measured until the next look.
    pub(super) fn look(
        &mut self,
        plan: &Plan,
        history: &History,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<VerdictLook, CampaignError> {
        let contents = self.rundir.read_journal()?;
        let next_round = |group| plan.next_round(group, history);
        let found = look(self.rundir.experiment(), &contents, &self.classes, &next_round);
        let (look, verdicts) = found.ok_or_else(|| CampaignError::Empty(self.rundir.path().to_owned()))?;
        told(plan, history, verdicts, on_event);
        Ok(look)
    }

    /// Tells how far the run is, each time that it has become longer by half: reading all of the journal takes a moment.
    pub(super) fn tell(
        &mut self,
        plan: &Plan,
        history: &History,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<(), CampaignError> {
        let spent = history.spent();
        if spent < self.next_at || self.classes.classes.is_empty() {
            return Ok(());
        }
        self.next_at = Nanos::from_nanos(spent.get().saturating_add(spent.get() / 2));
        let contents = self.rundir.read_journal()?;
        if let Some(results) = analyse(self.rundir.experiment(), &contents) {
            let verdicts = Decided::of(&suitability::judge(&results, &self.classes));
            told(plan, history, verdicts, on_event);
        }
        Ok(())
    }
}

fn told(plan: &Plan, history: &History, verdicts: Decided, on_event: &mut dyn FnMut(&Event)) {
    let is_settled = |group: &Group| plan.settled(*group, history);
    let figures = plan.groups().filter(is_settled).count();
    on_event(&Event::Decided { figures, of_figures: plan.groups().count(), verdicts });
}

/// At how much confidence a cell is held against the bounds of classes, after these looks.
pub fn confidence_of(experiment: &Experiment, looks: &[VerdictLook], cell: &Cell, confidence: f64) -> f64 {
    if !experiment.repeat.until_decided {
        return confidence;
    }
    let is_own = |rounds: &LookRounds| {
        group_of(rounds) == Group::from(cell) && rounds.platforms.contains(&cell.platform)
    };
    let asked = looks.iter().filter(|look| look.rounds.iter().any(is_own)).count();
    confidence_at(confidence, u32::try_from(asked).unwrap_or(u32::MAX).saturating_add(1))
}

/// The group whose rounds these are.
pub fn group_of(rounds: &LookRounds) -> Group {
    Group { probe: rounds.probe, neighbour: rounds.neighbour, layout: rounds.layout }
}

/// Looks at what the journal says so far; `next_round` is that of the groups of a probe. None without a header.
pub fn look(
    experiment: &Experiment,
    contents: &Contents,
    classes: &ClassSet,
    next_round: &dyn Fn(Group) -> u32,
) -> Option<(VerdictLook, Decided)> {
    let mut results = analyse(experiment, contents)?;
    results.classes = suitability::judge(&results, classes);
    let is_measurable = |verdict: &&ClassVerdict| {
        let cells =
            verdict.needs.iter().flat_map(|open| std::iter::once(&open.cell).chain(&open.compared_with));
        !verdict.needs.is_empty() && cells.into_iter().all(|cell| !breaks_now(contents, cell))
    };
    let open = results.classes.iter().filter(is_measurable);
    let wanted =
        open.map(|verdict| rounds_of(&verdict.needs)).map(|groups| (cost(&results, &groups), groups));
    // Where the budget is too short for it, a part of it makes its bounds narrower at least.
    let least = wanted.min_by_key(|(cost, _)| *cost);
    let rounds = least.map_or_else(Vec::new, |(_, groups)| {
        groups.iter().map(|(group, needed)| until(&results, *group, needed, next_round(*group))).collect()
    });
    let number = u32::try_from(contents.looks.len()).unwrap_or(u32::MAX).saturating_add(1);
    let measurements = contents.measurements.len() as u64;
    Some((VerdictLook { number, measurements, rounds }, Decided::of(&results.classes)))
}

/// Whether the last measurements of a cell all broke: more of them would break as well, and take no time of the budget.
fn breaks_now(contents: &Contents, cell: &Cell) -> bool {
    let last =
        contents.measurements.iter().rev().filter(|measurement| measurement.cell == *cell).take(BREAKS);
    let broke: Vec<bool> = last.map(|measurement| measurement.broke().is_some()).collect();
    broke.len() == BREAKS && broke.into_iter().all(|broke| broke)
}

/// What is wanted of a group.
#[derive(Default)]
struct Wanted {
    rounds: u32,
    platforms: BTreeSet<String>,
}

/// How many rounds of which groups on which platforms, what is compared with them included.
fn rounds_of(needs: &[OpenCell]) -> BTreeMap<Group, Wanted> {
    let mut groups: BTreeMap<Group, Wanted> = BTreeMap::new();
    for open in needs {
        for cell in std::iter::once(&open.cell).chain(&open.compared_with) {
            let wanted = groups.entry(Group::from(cell)).or_default();
            wanted.rounds = wanted.rounds.max(open.needs_rounds.unwrap_or(0));
            wanted.platforms.insert(cell.platform.clone());
        }
    }
    groups
}

/// How long those take, by what their measurements took on average.
fn cost(results: &RunResults, groups: &BTreeMap<Group, Wanted>) -> Nanos {
    let cells = results.cells.iter().filter_map(|result| {
        let wanted = groups.get(&Group::from(&result.cell))?;
        let rounds = if wanted.platforms.contains(&result.cell.platform) { wanted.rounds } else { 0 };
        Some(result.took_ns?.get().saturating_mul(u64::from(rounds)))
    });
    Nanos::from_nanos(cells.fold(0, u64::saturating_add))
}

/// Up to which round a group is measured before the next look.
fn until(results: &RunResults, group: Group, needed: &Wanted, from_round: u32) -> LookRounds {
    let of_group = results.cells.iter().filter(|result| Group::from(&result.cell) == group);
    let made = of_group.map(|result| result.done).max().unwrap_or(0).max(1);
    let wanted = units::metric::saturate(f64::from(needed.rounds) * FURTHER);
    let wanted = u32::try_from(wanted).unwrap_or(u32::MAX).clamp(made.div_ceil(2), made);
    LookRounds {
        probe: group.probe,
        neighbour: group.neighbour,
        layout: group.layout,
        platforms: needed.platforms.iter().cloned().collect(),
        from_round,
        until_round: from_round.saturating_add(wanted),
    }
}
