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
//! Next comes a round of the block that has had the least time for each of its groups, by what its measurements typically take:
//! what is short is repeated often, all along the run, and what is long seldom. Paired measurements are neighbours in time, those
//! beside a neighbour and those without it as well; groups come in random order, platforms in random order in one round and the
//! other way round in the next, so that drift hits all alike (randomised blocks: Box, Hunter, Hunter, *Statistics for
//! Experimenters*, ch. 3).
//!
//! From round `repeat.min` on a group is left out once its main metric is known to ± `target_percent` on every platform, and its
//! time goes to the others. That is looked at each time its rounds have grown by a quarter: an interval whose *width* says when to
//! stop keeps its confidence in the long run (Anscombe 1953, Chow & Robbins 1965); where it stops at one of the first looks, 95 %
//! are 92 to 93. What others are compared with (the same without a neighbour, one instance alone) goes on with them.
//!
//! Where verdicts are to be decided (`repeat.until_decided`), the rounds that a look at them asks for (`decide`) come right after the
//! least ones, then the next look, until one asks for nothing; a round of those has their groups alone, on the platforms alone whose
//! verdicts they decide.
//!
//! No order depends on how long anything really took, and whatever is decided is decided between rounds, so that the same seed
//! measures in the same order, and a run resumed in the middle of a round decides the same.

use std::time::Duration;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::decide::group_of;
use super::event::Stop;
pub use super::history::Group;
use super::history::{Finding, History};
use super::seed::Seed;
use model::experiment::{Experiment, Repeat};
use model::journal::{Cell, LookRounds, VerdictLook};
use stats::interval::median_interval;
use stats::pairs::compare;
use units::Nanos;
use units::metric::Answer;

/// Confidence of the intervals that decide when a group is done.
const CONFIDENCE: f64 = 0.95;
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
        history.last_round(&self.cells).map_or(0, |last| last + 1)
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

    /// Every group, in the experiment's order, those of a probe together.
    pub fn groups(&self) -> impl Iterator<Item = Group> {
        self.blocks.iter().flat_map(|block| block.groups.iter().copied())
    }

    /// Labels of the platforms that are measured.
    pub fn platforms(&self) -> &[String] {
        &self.platforms
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
        let is_over = history.spent().as_secs_f64() >= f64::from(self.repeat.budget_s);
        if self.repeat.until_decided && !is_over && self.has_begun_the_least(history) {
            match history.looks().last() {
                Some(look) if look.rounds.is_empty() => {}
                look => return look.and_then(|look| self.asked_by(look, history)).unwrap_or(Next::Look),
            }
        }
        let rest_is_promised = self.rest_is_promised(history);
        let (mut next, mut stop): (Option<(u128, u32, Vec<Cell>)>, _) = (None, Stop::Settled);
        for block in &self.blocks {
            let round = block.next_round(history);
            let cells = self.left_of(block, round, history);
            if cells.is_empty() {
                continue;
            }
            if round >= self.repeat.max {
                stop = if stop == Stop::Settled { Stop::RoundsUsedUp } else { stop };
            } else if round >= self.repeat.min && is_over {
                stop = Stop::BudgetUsedUp;
            } else {
                // What was asked for at least comes first where it takes all that is left.
                let waits = rest_is_promised && round >= self.repeat.min;
                let time = block.time(history).saturating_add(if waits { u128::MAX / 2 } else { 0 });
                if next.as_ref().is_none_or(|(least, ..)| time < *least) {
                    next = Some((time, round, cells));
                }
            }
        }
        next.map_or(Next::Done(stop), |(_, round, cells)| Next::Measure { round, cells })
    }

    /// Whether every block has the rounds that were asked for at least.
    fn has_begun_the_least(&self, history: &History) -> bool {
        self.blocks.iter().all(|block| block.next_round(history) >= self.repeat.min)
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

    /// Whether the rounds that every block is to have take all that is left of the budget, by what they typically take.
    fn rest_is_promised(&self, history: &History) -> bool {
        let budget = u128::from(self.repeat.budget_s) * 1_000_000_000;
        let of_block = |block: &Block| {
            let missing = u128::from(self.repeat.min.saturating_sub(block.next_round(history)));
            let round: u128 = block.costs.iter().map(|cost| u128::from(cost.get())).sum();
            block.taken(history) + missing * round
        };
        self.blocks.iter().map(of_block).sum::<u128>() >= budget
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
        let asked: Vec<&LookRounds> = asked_for(block, round, history).collect();
        let is_asked = |cell: &Cell| {
            let own = asked.iter().find(|asked| group_of(asked) == Group::from(cell));
            own.is_none_or(|asked| asked.platforms.contains(&cell.platform))
        };
        let wanted =
            |cell: &Cell| active.contains(&Group::from(cell)) && is_asked(cell) && !history.has(cell, round);
        self.order_of(block, round).into_iter().filter(wanted).collect()
    }

    /// Groups of a block that a round is made of: those that are not settled, and what those are compared with.
    fn active_of(&self, block: &Block, round: u32, history: &History) -> Vec<Group> {
        let asked: Vec<Group> = asked_for(block, round, history).map(group_of).collect();
        if !asked.is_empty() {
            return asked;
        }
        let is_open = |group: &Group| !self.settled(*group, history, round);
        let open: Vec<Group> = block.groups.iter().copied().filter(is_open).collect();
        let is_wanted =
            |group: &Group| open.contains(group) || open.iter().any(|other| is_compared_with(*other, *group));
        block.groups.iter().copied().filter(is_wanted).collect()
    }

    /// Groups that need further rounds, each with the number of its next one.
    pub fn unsettled(&self, history: &History) -> Vec<(Group, u32)> {
        let of_block = |block: &Block| {
            let round = block.next_round(history);
            let groups = self.active_of(block, round, history).into_iter();
            groups.map(|group| (group, round)).collect::<Vec<_>>()
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

    /// Whether a group needs no further rounds, judged by the rounds before `round`, at the last look there was.
    pub fn settled(&self, group: Group, history: &History, round: u32) -> bool {
        let Some(look) = self.last_look(round) else { return false };
        let judge = || self.platforms.iter().all(|platform| self.is_narrow(group, platform, history, look));
        history.judged(group, look, judge)
    }

    /// After how many rounds it was looked last whether a group is known well enough, with so many made.
    fn last_look(&self, rounds: u32) -> Option<u32> {
        let looks = std::iter::successors(Some(self.repeat.min), |look| Some(look + (look / 4).max(1)));
        looks.take_while(|look| *look <= rounds).last()
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
