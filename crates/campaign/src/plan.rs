//! What is measured next? Pure: a function of the experiment, its seed and the journal.
//!
//! ```text
//!  round 0:  [gap│cpu]  B A C   [fork] C B A   [gap] A C B      groups in random order, and in each group the
//!  round 1:  [fork] A B C   [gap] C A B   [gap│cpu] B C A       platforms, so that paired measurements are neighbours
//!  …                                                            in time and slow drift hits both alike
//! ```
//!
//! Order depends on seed and round only. From round `repeat.min` on, a group is left out once its main metric is known
//! to ± `target_percent` on every platform; whether it is, is decided at the start of a round from the rounds before,
//! so that a run resumed in the middle of a round decides the same. Randomised blocks: Box, Hunter, Hunter,
//! *Statistics for Experimenters*, ch. 3.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::event::Stop;
use super::history::{Finding, History};
use super::seed::Seed;
use model::experiment::{Experiment, Repeat};
use model::journal::{Cell, Neighbour};
use probes::ProbeKind;
use stats::interval::median_interval;
use stats::pairs::compare;
use units::layout::Layout;
use units::metric::Answer;

/// Confidence of the intervals that decide when a group is done.
const CONFIDENCE: f64 = 0.95;

/// A probe beside a neighbour: what is measured on every platform and compared across them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    /// The probe.
    pub probe: ProbeKind,
    /// The neighbour, if any.
    pub neighbour: Option<Neighbour>,
    /// How many instances measure at once, if it is not one alone.
    pub layout: Option<Layout>,
}

impl Group {
    /// This group on one platform.
    pub fn on(self, platform: &str) -> Cell {
        Cell {
            probe: self.probe,
            neighbour: self.neighbour,
            platform: platform.to_owned(),
            layout: self.layout,
        }
    }
}

impl From<&Cell> for Group {
    fn from(cell: &Cell) -> Self {
        Self { probe: cell.probe, neighbour: cell.neighbour, layout: cell.layout }
    }
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// These measurements of this round, in this order.
    Measure {
        /// The round.
        round: u32,
        /// What is left of it.
        cells: Vec<Cell>,
    },
    /// Nothing.
    Done(Stop),
}

/// The order and the stop rule of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    seed: u64,
    groups: Vec<Group>,
    platforms: Vec<String>,
    baseline: String,
    repeat: Repeat,
}

impl Plan {
    /// A plan over the platforms that can be measured; `platforms` in the experiment's order, `baseline` among them.
    pub fn new(experiment: &Experiment, platforms: &[String], baseline: &str) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        for group in experiment.cells().iter().map(Group::from) {
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        Self {
            seed: experiment.seed.unwrap_or_default(),
            groups,
            platforms: platforms.to_vec(),
            baseline: baseline.to_owned(),
            repeat: experiment.repeat,
        }
    }

    /// Every group, in the experiment's order.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Labels of the platforms that are measured.
    pub fn platforms(&self) -> &[String] {
        &self.platforms
    }

    /// When to stop repeating.
    pub const fn repeat(&self) -> Repeat {
        self.repeat
    }

    /// Every cell of a round in its random order, whether still needed or not.
    pub fn order(&self, round: u32) -> Vec<Cell> {
        let seed = Seed::of_run(self.seed).with_text("order").with(round.into()).get();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut groups = self.groups.clone();
        groups.shuffle(&mut random);
        let mut cells = Vec::with_capacity(groups.len() * self.platforms.len());
        for group in groups {
            let mut platforms: Vec<&String> = self.platforms.iter().collect();
            platforms.shuffle(&mut random);
            cells.extend(platforms.into_iter().map(|platform| group.on(platform)));
        }
        cells
    }

    /// What is to be done next. Rounds are made one after the other, so only the last one can have gaps; unless lines of the
    /// journal were lost, whose measurements are made anew first.
    pub fn next(&self, history: &History) -> Next {
        let current = history.last_round().unwrap_or(0);
        for round in if history.has_lost_lines() { 0..=current } else { current..=current } {
            let left = self.left_of(round, history);
            if !left.is_empty() {
                return Next::Measure { round, cells: left };
            }
        }
        let round = if history.is_empty() { 0 } else { current + 1 };
        if round >= self.repeat.max {
            return Next::Done(Stop::RoundsUsedUp);
        }
        if round >= self.repeat.min && self.budget_used_up(history, round) {
            return Next::Done(Stop::BudgetUsedUp);
        }
        match self.left_of(round, history) {
            cells if cells.is_empty() => Next::Done(Stop::Settled),
            cells => Next::Measure { round, cells },
        }
    }

    fn budget_used_up(&self, history: &History, round: u32) -> bool {
        history.measured_before(round).as_secs_f64() >= f64::from(self.repeat.budget_s)
    }

    fn left_of(&self, round: u32, history: &History) -> Vec<Cell> {
        let active: Vec<Group> =
            self.groups.iter().copied().filter(|group| !self.settled(*group, history, round)).collect();
        let wanted = |cell: &Cell| active.contains(&Group::from(cell)) && !history.has(cell, round);
        self.order(round).into_iter().filter(wanted).collect()
    }

    /// Groups that are left out from `round` on, but were measured in the round before.
    pub fn newly_settled(&self, history: &History, round: u32) -> Vec<Group> {
        let settled_now = |group: &Group| self.settled(*group, history, round);
        let measured_last = |group: &Group| {
            round.checked_sub(1).is_some_and(|last| {
                self.platforms.iter().any(|platform| history.has(&group.on(platform), last))
            })
        };
        self.groups.iter().copied().filter(|group| settled_now(group) && measured_last(group)).collect()
    }

    /// Whether a group needs no further rounds, judged by the rounds before `round`.
    pub fn settled(&self, group: Group, history: &History, round: u32) -> bool {
        round >= self.repeat.min
            && self.platforms.iter().all(|platform| self.is_narrow(group, platform, history, round))
    }

    fn is_narrow(&self, group: Group, platform: &str, history: &History, round: u32) -> bool {
        let cell = group.on(platform);
        let mut entries = history.before(&cell, round).map(|(_, entry)| entry.finding).peekable();
        // What broke every time so far would break again: it does not keep the others repeating.
        if entries.peek().is_some() && entries.all(|finding| finding == Finding::Failed) {
            return true;
        }
        let seed = Seed::of_run(self.seed).with_text("stop").with(round.into()).with_group(&cell);
        let seed = seed.with_text(platform).get();
        let pairs = self.pairs(&cell, history, round);
        let answer = if platform == self.baseline || pairs.is_empty() {
            median_interval(&values(&cell, history, round), CONFIDENCE, seed)
        } else {
            compare(&pairs, history.better(&cell), CONFIDENCE).ratio
        };
        match answer {
            Answer::Estimate(estimate) => {
                estimate.relative_half_width() * 100.0 <= self.repeat.target_percent
            }
            Answer::Unsupported(_) => false,
        }
    }

    /// `(this, baseline)` of each round in which both yielded a figure.
    fn pairs(&self, cell: &Cell, history: &History, round: u32) -> Vec<(f64, f64)> {
        let baseline = Cell { platform: self.baseline.clone(), ..cell.clone() };
        let mut others: std::collections::BTreeMap<u32, f64> = history
            .before(&baseline, round)
            .filter_map(|(round, entry)| value_of(entry.finding).map(|value| (round, value)))
            .collect();
        history
            .before(cell, round)
            .filter_map(|(round, entry)| Some((value_of(entry.finding)?, others.remove(&round)?)))
            .collect()
    }
}

const fn value_of(finding: Finding) -> Option<f64> {
    match finding {
        Finding::Value(value) => Some(value),
        Finding::NoFigure | Finding::Failed => None,
    }
}

fn values(cell: &Cell, history: &History, round: u32) -> Vec<f64> {
    history.before(cell, round).filter_map(|(_, entry)| value_of(entry.finding)).collect()
}
