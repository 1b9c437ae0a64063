//! Which differences will a run be able to see? Said before it is made, from how the pairs of the same probes scattered in earlier runs
//! on this host, and from how many rounds the plan will come to. Pure but for the small file.
//!
//! ```text
//!  run ends ─► spread of each main figure's pairs ─► spreads.json ─┐
//!  the plan, played through with typical costs ─► rounds ──────────┴─► detectable difference (stats::power)
//! ```
//! The rounds are those of a run in which no figure is decided early, unless the spread says that this one will be: there without a
//! difference, since with one it may be decided sooner.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::history::{Entry, Finding, Group, History};
use super::latest::{Latest, What};
use super::plan::{Next, Plan};
use super::predict::Oracle;
use model::experiment::Experiment;
use model::journal::{Cell, VerdictLook};
use probes::job::Job;
use probes::params::ProbeSpec;
use probes::pretend::{CPUS, Pretence, report};
use stats::pairs::family_confidence;
use stats::power::Scatter;
use units::Nanos;

/// Logarithms of ratios; a hundredfold scatter says nothing any more.
const LOGARITHMS: What = What { unit: "ln", most: 4.6 };
/// Confidence of all comparisons together.
const CONFIDENCE: f64 = 0.95;
/// Fewer pairs say too little about their spread.
const FEWEST_PAIRS: usize = 5;
/// A run has no more measurements; what plays it through must end.
const MOST_STEPS: usize = 100_000;

/// How the pairs of earlier runs scattered, by key.
#[derive(Debug, Clone, PartialEq)]
pub struct Spreads(Latest);

impl Spreads {
    /// Nothing is known.
    pub const fn nothing() -> Self {
        Self(Latest::nothing(LOGARITHMS))
    }

    /// Reads the file beside that of durations; whatever is wrong with it, there is nothing known then.
    pub fn beside(durations: &Path) -> Self {
        Self(Latest::read(&file(durations), LOGARITHMS))
    }

    /// Takes in what a run has found and writes the file beside that of durations.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn learn(durations: &Path, found: &BTreeMap<String, f64>) -> std::io::Result<()> {
        // Read again: another run may have learnt meanwhile.
        let mut spreads = Self::beside(durations);
        spreads.0.learn(&found.iter().map(|(key, spread)| (key.clone(), vec![*spread])).collect());
        spreads.0.write(&file(durations))
    }
}

fn file(durations: &Path) -> PathBuf {
    durations.with_file_name("spreads.json")
}

/// What a run will probably see of one probe's main figure on one platform, without a neighbour.
#[derive(Debug, Clone, PartialEq)]
pub struct Sight {
    /// What is compared with the baseline.
    pub cell: Cell,
    /// Rounds that are foreseen.
    pub rounds: u32,
    /// The smallest difference that it will call with 90 % power, percent; none where no run here has shown how it scatters.
    pub detectable_percent: Option<f64>,
}

/// Spreads of a run's pairs, by the key under which they are kept.
pub(super) fn spreads_of(plan: &Plan, history: &History, oracle: &Oracle<'_>) -> BTreeMap<String, f64> {
    let cells = plan.groups().flat_map(|group| others(plan, group));
    let spread = |cell: Cell| {
        let scatter = stats::pairs::scatter(&plan.pairs(&cell, history, u32::MAX))?;
        let is_told = scatter.pairs >= FEWEST_PAIRS && scatter.spread.is_finite();
        Some((oracle.spread_key(&cell, plan.baseline())?, scatter.spread)).filter(|_| is_told)
    };
    cells.filter_map(spread).collect()
}

/// What a run of this plan will see, from what its measurements take and from how they scattered before.
pub(super) fn sights(
    experiment: &Experiment,
    plan: &Plan,
    oracle: &Oracle<'_>,
    spreads: &Spreads,
) -> Vec<Sight> {
    let costs = oracle.costs(&plan.order(0));
    let rounds = played_through(plan, &|cell| costs.get(cell).map_or(Duration::ZERO, |(cost, _)| *cost));
    let comparisons: usize = plan
        .groups()
        .flat_map(|group| others(plan, group))
        .filter_map(|cell| experiment.probe_of(&cell))
        .map(|probe| headlines(&probe))
        .sum();
    let confidence = family_confidence(CONFIDENCE, comparisons.max(1));
    let mut sights = Vec::new();
    for group in plan.groups().filter(|group| group.neighbour.is_none()) {
        let most = rounds.get(&group).copied().unwrap_or(plan.repeat().min);
        sights.extend(others(plan, group).map(|cell| {
            let spread = oracle.spread_key(&cell, plan.baseline()).and_then(|key| spreads.0.get(&key));
            let rounds = spread.map_or(most, |spread| settles_at(plan, spread, most));
            let scatter = spread.map(|spread| Scatter::foreseen(spread, rounds as usize));
            let detectable_percent = scatter.and_then(|scatter| scatter.detectable_percent(confidence));
            Sight { cell, rounds, detectable_percent }
        }));
    }
    sights
}

/// A group on the platforms that are compared with the baseline.
fn others(plan: &Plan, group: Group) -> impl Iterator<Item = Cell> {
    let others = plan.platforms().iter().filter(|platform| *platform != plan.baseline());
    others.map(move |platform| group.on(platform))
}

/// Rounds of each group when no figure is decided before its most rounds or the budget ends it.
fn played_through(plan: &Plan, cost: &dyn Fn(&Cell) -> Duration) -> BTreeMap<Group, u32> {
    let mut history = History::default();
    loop {
        let (round, cells) = match plan.next(&history) {
            Next::Measure { round, cells } => (round, cells),
            // What verdicts will ask for is not known before anything was measured.
            Next::Look => {
                let measurements = history.len() as u64;
                history.add_look(VerdictLook { measurements, ..VerdictLook::default() });
                continue;
            }
            Next::Done(_) => break,
        };
        for cell in &cells {
            let duration = Nanos::from_duration(cost(cell));
            history.insert(cell, round, Entry { duration, finding: Finding::NoFigure });
        }
        if cells.is_empty() || history.len() > MOST_STEPS {
            break;
        }
    }
    let rounds = |group: Group| {
        let first = plan.platforms().first().map(|platform| group.on(platform));
        first.map_or(0, |cell| u32::try_from(history.count(&cell)).unwrap_or(u32::MAX))
    };
    plan.groups().map(|group| (group, rounds(group))).collect()
}

/// After how many rounds, `most` at most, the interval of a ratio that scatters so is as narrow as asked for.
fn settles_at(plan: &Plan, spread: f64, most: u32) -> u32 {
    let target = (plan.repeat().target_percent / 100.0).ln_1p();
    let is_narrow =
        |rounds: &u32| Scatter::foreseen(spread, *rounds as usize).half_width(CONFIDENCE) <= target;
    (plan.repeat().min.max(2)..most).find(is_narrow).unwrap_or(most)
}

/// How many figures of a probe are compared and judged together: as many as it has for made-up outcomes.
fn headlines(probe: &ProbeSpec) -> usize {
    let pretence =
        Pretence { seed: 0, label: String::new(), slowdown_percent: 100, noise_percent: 5, cpus: CPUS };
    let Ok(report) = report(&pretence, probe, &Job::default()) else { return 1 };
    let metrics = probes::metrics_of(&report.detail, &report.clock);
    metrics.iter().filter(|metric| metric.headline && metric.figure.value().is_some()).count().max(1)
}
