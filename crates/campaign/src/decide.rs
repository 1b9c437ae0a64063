//! What is measured to decide verdicts: a look at them, and the rounds until the next one. Pure.
//!
//! ```text
//!  journal ─► analyse ─► judge ─► verdicts still open ─► the one that takes least ─► look: these groups, up to these rounds
//!                                                             │                            │ written down; made; next look
//!  ◄──────────────────────────────────────────────────────────┼────────────────────────────┘
//!                                                             └─► takes more than ¾ of what is left: nothing
//! ```
//! With `repeat.until_decided` no time is too long. Without, a verdict that would take most of what is left of the budget leaves it to
//! the figures; and once that is used up, verdicts that a tenth of it more decides have that.
//!
//! Looks are written into the journal, so that a resumed run goes on with the one that was begun, and everybody knows how often a
//! cell was looked at: each look spends a part of the chance to be wrong ([`stats::looks`]). Between two a group's rounds grow by
//! half at least, so that there are few.

use std::collections::{BTreeMap, BTreeSet};

use super::analysis::{CONFIDENCE, analyse};
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
use model::results::{CellResult, RunResults};
use stats::looks::{confidence_at, more_for_the_next};
use units::Nanos;

/// So many times as many rounds as just would do, since figures scatter.
const FURTHER: f64 = 1.15;

/// Rounds until the next look, as a multiple of those there are: what a few rounds foresee is not far.
const MOST_AT_ONCE: u32 = 3;

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
        let remaining = Remaining {
            for_a_verdict: plan.for_a_verdict(history),
            next_round: &|group| plan.next_round(group, history),
        };
        let found = look(self.rundir.experiment(), &contents, &self.classes, &remaining);
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
pub fn confidence_of(looks: &[VerdictLook], cell: &Cell, confidence: f64) -> f64 {
    if looks.is_empty() {
        return confidence;
    }
    let asked = times_asked(looks, cell);
    confidence_at(confidence, asked.saturating_add(1))
}

/// How many looks have asked for rounds of a cell.
fn times_asked(looks: &[VerdictLook], cell: &Cell) -> u32 {
    let is_own = |rounds: &LookRounds| {
        group_of(rounds) == Group::from(cell) && rounds.platforms.contains(&cell.platform)
    };
    let asked = looks.iter().filter(|look| look.rounds.iter().any(is_own)).count();
    u32::try_from(asked).unwrap_or(u32::MAX)
}

/// The group whose rounds these are.
pub fn group_of(rounds: &LookRounds) -> Group {
    Group { probe: rounds.probe, neighbour: rounds.neighbour, layout: rounds.layout }
}

/// What is left to be used.
pub struct Remaining<'a> {
    /// The most that deciding a verdict may take.
    pub for_a_verdict: Nanos,
    /// The next round of the groups of a probe.
    pub next_round: &'a dyn Fn(Group) -> u32,
}

/// Looks at what the journal says so far. None without a header.
pub fn look(
    experiment: &Experiment,
    contents: &Contents,
    classes: &ClassSet,
    remaining: &Remaining<'_>,
) -> Option<(VerdictLook, Decided)> {
    let mut results = analyse(experiment, contents)?;
    results.classes = suitability::judge(&results, classes);
    let is_measurable = |verdict: &&ClassVerdict| {
        let cells =
            verdict.needs.iter().flat_map(|open| std::iter::once(&open.cell).chain(&open.compared_with));
        !verdict.needs.is_empty() && cells.into_iter().all(|cell| !breaks_now(contents, cell))
    };
    let repeat = &experiment.repeat;
    let has_room = |groups: &Groups| {
        let is_possible =
            || groups.iter().all(|(group, wanted)| least_made(&results, *group, wanted) < repeat.max);
        // Where the budget is too short for it, a part of it makes its bounds narrower at least.
        repeat.until_decided || (is_possible() && cost(&results, groups) <= remaining.for_a_verdict)
    };
    let open = results.classes.iter().filter(is_measurable);
    let wanted: Vec<Groups> = open.map(|verdict| rounds_of(&verdict.needs, &contents.looks)).collect();
    let least = wanted.iter().filter(|groups| has_room(groups)).min_by_key(|groups| cost(&results, groups));
    let rounds = least.map_or_else(Vec::new, |least| {
        // Verdicts on several platforms that want the same are decided by the same minutes.
        let together = wanted.iter().filter(|other| other.keys().eq(least.keys())).fold(least.clone(), with);
        let groups = if has_room(&together) { &together } else { least };
        let of_group = groups.iter().map(|(group, wanted)| (*group, wanted, (remaining.next_round)(*group)));
        of_group.map(|(group, wanted, next)| until(&results, group, wanted, next)).collect()
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

/// What is wanted, by group.
type Groups = BTreeMap<Group, Wanted>;

/// What is wanted of a group.
#[derive(Debug, Clone, Default)]
struct Wanted {
    rounds: u32,
    platforms: BTreeSet<String>,
}

/// How many rounds of which groups on which platforms, what is compared with them included. The next look is surer, and wants more.
fn rounds_of(needs: &[OpenCell], looks: &[VerdictLook]) -> Groups {
    let mut groups = Groups::new();
    for open in needs {
        let look = times_asked(looks, &open.cell).saturating_add(1);
        let further =
            f64::from(open.needs_rounds.unwrap_or(0)) * FURTHER * more_for_the_next(CONFIDENCE, look);
        let rounds = u32::try_from(units::metric::saturate(further.ceil())).unwrap_or(u32::MAX);
        for cell in std::iter::once(&open.cell).chain(&open.compared_with) {
            let wanted = groups.entry(Group::from(cell)).or_default();
            wanted.rounds = wanted.rounds.max(rounds);
            wanted.platforms.insert(cell.platform.clone());
        }
    }
    groups
}

/// What is wanted in both.
fn with(mut all: Groups, other: &Groups) -> Groups {
    for (group, wanted) in other {
        let of_both = all.entry(*group).or_default();
        of_both.rounds = of_both.rounds.max(wanted.rounds);
        of_both.platforms.extend(wanted.platforms.iter().cloned());
    }
    all
}

/// Rounds that each of the platforms has.
fn least_made(results: &RunResults, group: Group, wanted: &Wanted) -> u32 {
    let is_wanted = |result: &&CellResult| {
        Group::from(&result.cell) == group && wanted.platforms.contains(&result.cell.platform)
    };
    let made = results.cells.iter().filter(is_wanted).map(|result| result.done.saturating_add(result.failed));
    made.min().unwrap_or(0)
}

/// How long those take, by what their measurements took on average.
fn cost(results: &RunResults, groups: &Groups) -> Nanos {
    let cells = results.cells.iter().filter_map(|result| {
        let (group, platform) = (Group::from(&result.cell), &result.cell.platform);
        let wanted = groups.get(&group)?;
        let rounds = wanted.rounds.max(least_made(results, group, wanted).div_ceil(2));
        let rounds = if wanted.platforms.contains(platform) { rounds } else { 0 };
        Some(result.took_ns?.get().saturating_mul(u64::from(rounds)))
    });
    Nanos::from_nanos(cells.fold(0, u64::saturating_add))
}

/// Up to which round a group is measured before the next look.
fn until(results: &RunResults, group: Group, wanted: &Wanted, from_round: u32) -> LookRounds {
    let made = least_made(results, group, wanted).max(1);
    let rounds = wanted.rounds.clamp(made.div_ceil(2), made.saturating_mul(MOST_AT_ONCE));
    LookRounds {
        probe: group.probe,
        neighbour: group.neighbour,
        layout: group.layout,
        platforms: wanted.platforms.iter().cloned().collect(),
        from_round,
        until_round: from_round.saturating_add(rounds),
    }
}
