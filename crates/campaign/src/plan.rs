//! What is measured next? Pure: a function of the experiment, its seed and the journal.
//!
//! ```text
//!  a block: all groups of one probe         rounds of a block, each with every group on every platform
//!
//!  gap:  alone, beside a CPU load …         gap 0:  [gap│cpu] B A C  [gap] A C B
//!  fork: alone                              fork 0: [fork] C B A     fork 1: [fork] A B C     fork 2: [fork] B C A
//!                                           gap 1:  [gap] B C A  [gap│cpu] C A B     …
//! ```
//!
//! Every block has its `repeat.min` rounds first: those of the block that has had the least time for each of its groups come next.
//! From then on time goes where it decides. A platform's figure is *decided* once its ratio to the baseline is known to
//! ± `target_percent`; or it differs for sure, and the interval is a fifth of the difference, ± 10 % at most. What is decided is
//! measured no more, save as what something open is compared with: the baseline, the same without a neighbour, one instance alone.
//! Next is the block whose open intervals shrink most per second, each by its own width: an interval is as 1/√rounds, so a round
//! more takes 1/(2 rounds) of it away, whatever its width. Those that cannot be decided in what is left of the budget get a quarter.
//!
//! Paired measurements are neighbours in time, those beside a neighbour and those without it as well; groups come in random order,
//! platforms in random order in one round and the other way round in the next, so that drift hits all alike (randomised blocks: Box,
//! Hunter, Hunter, *Statistics for Experimenters*, ch. 3).
//!
//! Whether something is decided is looked at each time its rounds have grown by a quarter: an interval whose *width* says when to
//! stop keeps its confidence in the long run (Anscombe 1953, Chow & Robbins 1965), and loses some where it is narrow early by luck:
//! before ten rounds it has to be narrow at 99 %. Then 95 % are 93 to 94 of all that are decided (`tests/campaign_plan.rs`), and less
//! of those that were decided first.
//!
//! The rounds that a look at the verdicts asks for (`decide`) come right after the least ones, then the next look, until one asks for
//! nothing; then figures go on, and it is looked again once there are half as many measurements more, and when the budget is used up. A
//! round that was asked for has its groups alone, on the platforms alone whose verdicts they decide.
//!
//! Whatever is decided is decided between rounds, and no order depends on how long anything really took but through the budget and
//! through what a look asked for, which is written down: a run resumed in the middle of a round decides the same.

mod budget;

use std::time::Duration;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::decide::group_of;
use super::event::Stop;
pub use super::history::Group;
use super::history::{Finding, History, Known};
use super::seed::Seed;
use model::experiment::{Experiment, Repeat};
use model::journal::{Cell, LookRounds, VerdictLook};
use stats::interval::median_interval;
use stats::pairs::compare;
use units::Nanos;
use units::metric::{Answer, Estimate};

/// Confidence of the intervals that decide when a figure is …
const CONFIDENCE: f64 = 0.95;
/// … and at the first looks, when an interval may be narrow by luck alone.
const FIRST_CONFIDENCE: f64 = 0.99;
/// First looks are those with fewer rounds.
const FIRST_LOOKS: u32 = 10;
/// What differs is known well enough when half its interval is this much of the difference …
const OF_THE_DIFFERENCE: f64 = 0.2;
/// … and of the ratio no more than this.
const OF_THE_RATIO: f64 = 0.1;
/// What the time of an interval counts that cannot be decided within the budget.
const HOPELESS: f64 = 0.25;
/// What each measurement takes at least: asking for it.
const LEAST: Nanos = Nanos::from_nanos(1_000_000);

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
    /// A look at the verdicts, to be told to the history.
    Look,
    /// Nothing.
    Done(Stop),
}

/// The order and the stop rule of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    seed: u64,
    blocks: Vec<Block>,
    platforms: Vec<String>,
    baseline: String,
    repeat: Repeat,
    has_verdicts: bool,
}

/// All groups of one probe, whose rounds are counted together.
#[derive(Debug, Clone, PartialEq)]
struct Block {
    groups: Vec<Group>,
    /// Every group on every platform.
    cells: Vec<Cell>,
    /// What each of those typically takes.
    costs: Vec<Nanos>,
}

impl Block {
    /// The round after those that were begun.
    fn next_round(&self, history: &History) -> u32 {
        history.last_round(&self.cells).map_or(0, |last| last.saturating_add(1))
    }

    /// Time it has had for each of its groups, if its measurements took what they typically take.
    fn time(&self, history: &History) -> u128 {
        self.taken(history) / self.groups.len().max(1) as u128
    }

    /// Time it has had, likewise.
    fn taken(&self, history: &History) -> u128 {
        let cells = self.cells.iter().zip(&self.costs);
        cells.map(|(cell, cost)| u128::from(cost.get()) * history.count(cell) as u128).sum()
    }

    /// What these of its measurements typically take.
    fn cost_of(&self, cells: &[Cell]) -> Nanos {
        let costs = self.cells.iter().zip(&self.costs).filter(|(cell, _)| cells.contains(cell));
        costs.fold(Nanos::ZERO, |sum, (_, cost)| sum.saturating_add(*cost))
    }
}

impl Plan {
    /// A plan over the platforms that can be measured; `platforms` in the experiment's order, `baseline` among them.
    pub fn new(experiment: &Experiment, platforms: &[String], baseline: &str) -> Self {
        let mut blocks: Vec<Block> = Vec::new();
        for group in experiment.cells().iter().map(Group::from) {
            let cells = platforms.iter().map(|platform| group.on(platform));
            match blocks.iter_mut().find(|block| block.groups.iter().any(|one| one.probe == group.probe)) {
                Some(block) if block.groups.contains(&group) => {}
                Some(block) => {
                    block.groups.push(group);
                    block.cells.extend(cells);
                }
                None => blocks.push(Block { groups: vec![group], cells: cells.collect(), costs: Vec::new() }),
            }
        }
        let plan = Self {
            seed: experiment.seed.unwrap_or_default(),
            blocks,
            platforms: platforms.to_vec(),
            baseline: baseline.to_owned(),
            repeat: experiment.repeat,
            has_verdicts: experiment.repeat.until_decided,
        };
        plan.with_costs(|_| Duration::ZERO)
    }

    /// The same when measurements typically take this long; unless it is told, all take as long as each other.
    #[must_use]
    pub fn with_costs(mut self, cost: impl Fn(&Cell) -> Duration) -> Self {
        for block in &mut self.blocks {
            block.costs =
                block.cells.iter().map(|cell| Nanos::from_duration(cost(cell)).max(LEAST)).collect();
        }
        self
    }

    /// The same when there are classes of work, whose verdicts are to be decided.
    #[must_use]
    pub const fn with_verdicts(mut self, has_verdicts: bool) -> Self {
        self.has_verdicts |= has_verdicts;
        self
    }

    /// Every group, in the experiment's order, those of a probe together.
    pub fn groups(&self) -> impl Iterator<Item = Group> {
        self.blocks.iter().flat_map(|block| block.groups.iter().copied())
    }

    /// Labels of the platforms that are measured.
    pub fn platforms(&self) -> &[String] {
        &self.platforms
    }

    /// Label of the platform that the others are compared with.
    pub fn baseline(&self) -> &str {
        &self.baseline
    }

    /// When to stop repeating.
    pub const fn repeat(&self) -> Repeat {
        self.repeat
    }

    /// Every cell of this round of all probes, in its random order, whether still needed or not.
    pub fn order(&self, round: u32) -> Vec<Cell> {
        self.blocks.iter().flat_map(|block| self.order_of(block, round)).collect()
    }

    fn order_of(&self, block: &Block, round: u32) -> Vec<Cell> {
        let seed = |name: &str, number: u32| Seed::of_run(self.seed).with_text(name).with(number.into());
        let mut groups = block.groups.clone();
        if let Some(first) = block.cells.first() {
            let seed = seed("order", round).with_text(first.probe.as_str()).get();
            groups.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
        }
        let mut cells = Vec::with_capacity(block.cells.len());
        for group in groups {
            let mut platforms: Vec<Cell> = self.platforms.iter().map(|platform| group.on(platform)).collect();
            let Some(first) = platforms.first() else { continue };
            let seed = seed("platforms", round / 2).with_group(first).get();
            platforms.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
            if !round.is_multiple_of(2) {
                platforms.reverse();
            }
            cells.extend(platforms);
        }
        cells
    }

    /// What is to be done next. A round that was begun is finished first. Only the last one of a block can have gaps; unless
    /// lines of the journal were lost, whose measurements are made anew.
    pub fn next(&self, history: &History) -> Next {
        if let Some(open) = self.blocks.iter().find_map(|block| self.open_round(block, history)) {
            return open;
        }
        self.least_rounds(history)
            .or_else(|| self.for_verdicts(history))
            .unwrap_or_else(|| self.further_rounds(history))
    }

    /// A look at the verdicts, or a round that the last one asked for, until one has asked for nothing. Once the budget is used up, one
    /// more: what then is missing may be little.
    fn for_verdicts(&self, history: &History) -> Option<Next> {
        if !self.has_verdicts || self.for_a_verdict(history) == Nanos::ZERO {
            return None;
        }
        let Some(look) = history.looks().last() else { return Some(Next::Look) };
        // Where nothing could be measured of what it asked for, the next look would see the same.
        let (before, now) = (look.measurements, history.len() as u64);
        let waits = look.rounds.is_empty() && !self.is_over(history);
        let is_due = now > if waits { before.saturating_add(before / 2) } else { before };
        self.asked_by(look, history).or_else(|| is_due.then_some(Next::Look))
    }

    /// A round of those that every block is to have.
    fn least_rounds(&self, history: &History) -> Option<Next> {
        let due = self
            .blocks
            .iter()
            .filter(|block| block.next_round(history) < self.repeat.min.min(self.repeat.max));
        let block = due.min_by_key(|block| block.time(history))?;
        let round = block.next_round(history);
        Some(Next::Measure { round, cells: self.left_of(block, round, history) })
    }

    /// A round where it decides most.
    fn further_rounds(&self, history: &History) -> Next {
        let is_over = self.is_over(history);
        let (mut next, mut stop): (Option<(f64, u32, Vec<Cell>)>, _) = (None, Stop::Settled);
        for block in &self.blocks {
            let round = block.next_round(history);
            let cells = self.left_of(block, round, history);
            if cells.is_empty() {
                let is_used_up = block.cells.iter().any(|cell| {
                    !self.known(cell, round, history).is_decided && !self.has_turn(cell, round, history)
                });
                stop = if is_used_up && stop == Stop::Settled { Stop::RoundsUsedUp } else { stop };
            } else if is_over {
                stop = Stop::BudgetUsedUp;
            } else {
                let gain = self.gain(block, &cells, round, history);
                if next.as_ref().is_none_or(|(most, ..)| gain > *most) {
                    next = Some((gain, round, cells));
                }
            }
        }
        next.map_or(Next::Done(stop), |(_, round, cells)| Next::Measure { round, cells })
    }

    /// The next round that a look asked for.
    fn asked_by(&self, look: &VerdictLook, history: &History) -> Option<Next> {
        look.rounds.iter().find_map(|asked| {
            let block = self.blocks.iter().find(|block| block.groups.contains(&group_of(asked)))?;
            let round = block.next_round(history);
            let cells = self.left_of(block, round, history);
            (round < asked.until_round && !cells.is_empty()).then_some(Next::Measure { round, cells })
        })
    }

    /// The round after those that were begun of a group's probe.
    pub fn next_round(&self, group: Group, history: &History) -> u32 {
        let block = self.blocks.iter().find(|block| block.groups.contains(&group));
        block.map_or(0, |block| block.next_round(history))
    }

    /// By how much a round of these measurements makes the open intervals among them narrower, per second.
    fn gain(&self, block: &Block, cells: &[Cell], round: u32, history: &History) -> f64 {
        let cost_s = block.cost_of(cells).as_secs_f64();
        let left_s = self.left(history).as_secs_f64();
        let of_cell = |cell: &Cell| {
            let known = self.known(cell, round, history);
            let rounds = history.count(cell).max(1) as f64;
            let needed_s = rounds * (known.times_too_wide.powi(2) - 1.0) * cost_s;
            let share = if needed_s <= left_s { 1.0 } else { HOPELESS };
            if known.is_decided { 0.0 } else { share / (2.0 * rounds) }
        };
        cells.iter().map(of_cell).sum::<f64>() / cost_s
    }

    fn open_round(&self, block: &Block, history: &History) -> Option<Next> {
        let last = history.last_round(&block.cells)?;
        let mut rounds = if history.has_lost_lines() { 0..=last } else { last..=last };
        rounds.find_map(|round| {
            let cells = self.left_of(block, round, history);
            (!cells.is_empty()).then_some(Next::Measure { round, cells })
        })
    }

    fn left_of(&self, block: &Block, round: u32, history: &History) -> Vec<Cell> {
        let active = self.active_of(block, round, history);
        let wanted = |cell: &Cell| active.contains(cell) && !history.has(cell, round);
        self.order_of(block, round).into_iter().filter(wanted).collect()
    }

    /// What a round of a block is made of: what is not decided, and what that is compared with.
    fn active_of(&self, block: &Block, round: u32, history: &History) -> Vec<Cell> {
        let asked: Vec<&LookRounds> = asked_for(block, round, history).collect();
        if !asked.is_empty() {
            let is_asked = |cell: &&Cell| {
                let of_group = asked.iter().filter(|asked| group_of(asked) == Group::from(*cell));
                of_group.flat_map(|asked| &asked.platforms).any(|platform| *platform == cell.platform)
                    && (self.repeat.until_decided || self.has_turn(cell, round, history))
            };
            return block.cells.iter().filter(is_asked).cloned().collect();
        }
        let is_open = |cell: &&Cell| {
            let baseline = Group::from(*cell).on(&self.baseline);
            let has_turns = [*cell, &baseline].into_iter().all(|cell| self.has_turn(cell, round, history));
            has_turns && !self.known(cell, round, history).is_decided
        };
        let open: Vec<&Cell> = block.cells.iter().filter(is_open).collect();
        let is_wanted = |cell: &&Cell| open.iter().any(|other| self.needs(other, cell));
        block.cells.iter().filter(is_wanted).cloned().collect()
    }

    /// Whether a cell may be measured once more: what verdicts ask for is asked of some platforms and groups of a probe alone, so that
    /// its rounds are not those of all of them.
    fn has_turn(&self, cell: &Cell, round: u32, history: &History) -> bool {
        history.before(cell, round).count() < self.repeat.max as usize
    }

    /// Whether an open cell's round takes another one: itself, or what it is compared with, here or on the baseline.
    fn needs(&self, open: &Cell, other: &Cell) -> bool {
        let (group, of_other) = (Group::from(open), Group::from(other));
        (other.platform == open.platform || other.platform == self.baseline)
            && (group == of_other || is_compared_with(group, of_other))
    }

    /// Cells that need further rounds, each with the number of its next one.
    pub fn unsettled(&self, history: &History) -> Vec<(Cell, u32)> {
        let of_block = |block: &Block| {
            let round = block.next_round(history);
            let cells = self.active_of(block, round, history).into_iter();
            cells.map(|cell| (cell, round)).collect::<Vec<_>>()
        };
        self.blocks.iter().flat_map(of_block).collect()
    }

    /// Whether every group has the rounds that were asked for at least, and nothing is measured by halves.
    pub fn has_the_least(&self, history: &History) -> bool {
        self.groups().all(|group| {
            let mut counts = self.platforms.iter().map(|platform| history.count(&group.on(platform)));
            let Some(first) = counts.next() else { return true };
            first >= self.repeat.min as usize && counts.all(|count| count == first)
        })
    }

    /// Whether the figures of a group need no further rounds.
    pub fn settled(&self, group: Group, history: &History) -> bool {
        let round = self.next_round(group, history);
        let is_decided = |platform: &String| self.known(&group.on(platform), round, history).is_decided;
        self.platforms.iter().all(is_decided)
    }

    /// How well a cell's main figure is known by the rounds before `round`, at the last look there was.
    fn known(&self, cell: &Cell, round: u32, history: &History) -> Known {
        match self.last_look(round) {
            Some(look) => history.known(cell, look, || self.look(cell, look, history)),
            None => Known::NOTHING,
        }
    }

    /// After how many rounds it was looked last whether a figure is known well enough, with so many made.
    fn last_look(&self, rounds: u32) -> Option<u32> {
        let looks = std::iter::successors(Some(self.repeat.min), |look| look.checked_add((look / 4).max(1)));
        looks.take_while(|look| *look <= rounds).last()
    }

    fn look(&self, cell: &Cell, round: u32, history: &History) -> Known {
        let mut entries = history.before(cell, round).map(|(_, entry)| entry.finding).peekable();
        // What broke every time so far would break again: it does not keep the others repeating.
        if entries.peek().is_some() && entries.all(|finding| finding == Finding::Failed) {
            return Known::ENOUGH;
        }
        let target = self.repeat.target_percent / 100.0;
        if cell.platform == self.baseline {
            // Others are compared with it as long as one of them is open; alone it is known by itself.
            return if self.platforms.len() > 1 {
                Known::ENOUGH
            } else {
                self.by_itself(cell, round, history, target)
            };
        }
        let pairs = self.pairs(cell, history, round);
        if pairs.is_empty() {
            return self.by_itself(cell, round, history, target);
        }
        match compare(&pairs, history.better(cell), confidence_after(round)).ratio {
            Answer::Estimate(ratio) => Known::of(ratio.relative_half_width(), enough(&ratio, target)),
            Answer::Unsupported(_) => Known::NOTHING,
        }
    }

    fn by_itself(&self, cell: &Cell, round: u32, history: &History, target: f64) -> Known {
        let seed = Seed::of_run(self.seed).with_text("stop").with(round.into()).with_group(cell);
        let seed = seed.with_text(&cell.platform).get();
        match median_interval(&values(cell, history, round), confidence_after(round), seed) {
            Answer::Estimate(estimate) => Known::of(estimate.relative_half_width(), target),
            Answer::Unsupported(_) => Known::NOTHING,
        }
    }

    /// `(this, baseline)` of each round in which both yielded a figure.
    pub(super) fn pairs(&self, cell: &Cell, history: &History, round: u32) -> Vec<(f64, f64)> {
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

const fn confidence_after(rounds: u32) -> f64 {
    if rounds < FIRST_LOOKS { FIRST_CONFIDENCE } else { CONFIDENCE }
}

/// Half the width, relative, at which a ratio is known well enough: a difference need not be known as exactly as its absence.
fn enough(ratio: &Estimate, target: f64) -> f64 {
    let differs = ratio.low > 1.0 || (ratio.high < 1.0 && ratio.low > 0.0);
    let of_difference = (ratio.value.ln().abs() * OF_THE_DIFFERENCE).min(OF_THE_RATIO);
    if differs { target.max(of_difference) } else { target }
}

/// What looks at verdicts asked for in this round of a block; nothing in a round of the others.
fn asked_for<'a>(block: &'a Block, round: u32, history: &'a History) -> impl Iterator<Item = &'a LookRounds> {
    let all = history.looks().iter().flat_map(|look| &look.rounds);
    all.filter(move |asked| {
        let is_of_round = (asked.from_round..asked.until_round).contains(&round);
        is_of_round && block.groups.contains(&group_of(asked))
    })
}

/// Whether a group is compared with another one: the same without the neighbour, or one instance alone.
fn is_compared_with(group: Group, other: Group) -> bool {
    let undisturbed = Group { neighbour: None, ..group };
    let alone = Group { layout: None, ..group };
    group != other && (other == undisturbed || other == alone)
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
