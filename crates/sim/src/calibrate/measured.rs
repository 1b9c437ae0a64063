//! What the share probe measured, as a calibration reads it: each load with what it got in every round, and which load is held
//! out.

use analysis::shares::pooled;
use model::scenario::MOST_CPUS;
use probes::detail::{ShareDetail, SharePhase};
use probes::share::metrics::{Observation, observations};
use units::Reason;
use units::histogram::Histogram;

/// Most threads of a side: virtual CPUs that a simulated VM may have.
const MOST_THREADS: u32 = 4096;

/// A load that both sides put on the host, as it is named: `3 + 2`.
pub(super) fn load_words(seen: &Observation) -> String {
    format!("{} + {}", seen.first_threads, seen.other_threads)
}

/// One joint measurement of the share probe.
pub(super) struct Measured {
    /// Platform and layout.
    pub label: String,
    /// CPUs of the host.
    pub cpus: u32,
    /// Whether its threads run on virtual CPUs, not on the host's.
    pub is_vm: bool,
    /// All rounds together, load by load.
    pub phases: Vec<Phase>,
}

/// A load.
#[derive(Debug, Clone)]
pub(super) struct Phase {
    /// Mean over the rounds.
    pub seen: Observation,
    /// What was got in each round.
    pub rounds: Vec<Observation>,
    /// The first instance's own account of all rounds.
    pub all: SharePhase,
    /// The same round by round.
    pub each: Vec<SharePhase>,
    /// Nanoseconds of a tick.
    pub tick_ns: f64,
}

impl Phase {
    /// Whether both sides worked.
    pub fn is_shared(&self) -> bool {
        self.seen.first_threads > 0 && self.seen.other_threads > 0
    }

    fn threads(&self) -> u32 {
        let others = self.seen.instances.saturating_sub(1);
        self.seen.first_threads.saturating_add(self.seen.other_threads.saturating_mul(others))
    }
}

impl Measured {
    /// All rounds of a measurement; none where they are not of the same loads, or of more than can be simulated.
    pub fn of(label: String, cpus: u32, is_vm: bool, rounds: &[ShareDetail]) -> Option<Self> {
        let whole = pooled(rounds.to_vec())?;
        let is_alike = |round: &&ShareDetail| {
            round.others.len() == whole.others.len() && observations(round).len() == whole.phases.len()
        };
        let others = u32::try_from(whole.others.len()).unwrap_or(u32::MAX);
        let is_possible = |phase: &SharePhase| {
            let threads = phase.other_threads.max(whole.cpus).saturating_mul(others);
            threads.max(phase.first_threads) <= MOST_THREADS
        };
        if cpus > MOST_CPUS || !whole.phases.iter().all(is_possible) {
            return None;
        }
        let rounds: Vec<&ShareDetail> = rounds.iter().filter(is_alike).collect();
        let per_round: Vec<Vec<Observation>> = rounds.iter().map(|round| observations(round)).collect();
        let tick_ns = 1e9 / whole.counter_hz.as_f64().max(1.0);
        let phase = |(number, seen): (usize, Observation)| {
            let all = whole.phases.get(number)?.clone();
            let each = rounds.iter().filter_map(|round| round.phases.get(number).cloned());
            let seen_in = per_round.iter().filter_map(|round| round.get(number).copied());
            Some(Phase { seen, rounds: seen_in.collect(), each: each.collect(), all, tick_ns })
        };
        let seen = observations(&whole);
        // A load of which not all instances tell would shift the numbers of those that follow.
        let phases = if seen.len() == whole.phases.len() { seen } else { Vec::new() };
        let phases = phases.into_iter().enumerate().filter_map(phase).collect();
        Some(Self { label, cpus: cpus.max(1), is_vm, phases })
    }

    /// The load that is held out, the fullest unless one is `wanted`, and all others.
    ///
    /// # Errors
    /// There is no such load, or too little would be left to learn from.
    pub fn hold_out(&self, wanted: Option<(u32, u32)>) -> Result<(&Phase, Vec<&Phase>), Reason> {
        let shared = || self.phases.iter().filter(|phase| phase.is_shared());
        let is_wanted = |phase: &&Phase| wanted == Some((phase.seen.first_threads, phase.seen.other_threads));
        let held = match wanted {
            None => shared().max_by_key(|phase| phase.threads()),
            Some(_) => shared().find(is_wanted),
        };
        let Some(held) = held else {
            let there: Vec<String> = shared().map(|phase| load_words(&phase.seen)).collect();
            let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
            return Err(format!(
                "{}: no such load in which both sides worked; there are {there}",
                self.label
            )
            .into());
        };
        let is_other = |phase: &&Phase| {
            (phase.seen.first_threads, phase.seen.other_threads)
                != (held.seen.first_threads, held.seen.other_threads)
        };
        let rest: Vec<&Phase> = self.phases.iter().filter(is_other).collect();
        let left = rest.iter().filter(|phase| phase.is_shared()).count();
        if left < 2 {
            let problem = format!("{}: {left} loads would be left in which all instances worked", self.label);
            return Err(format!("{problem}; at least 2 are needed").into());
        }
        Ok((held, rest))
    }

    /// How many rounds there were.
    pub fn rounds(&self) -> usize {
        self.phases.first().map_or(0, |phase| phase.rounds.len())
    }
}

/// Time-weighted median of the stretches away, in nanoseconds.
pub(super) fn typical_away(phase: &SharePhase, tick_ns: f64) -> Option<f64> {
    longest_with(&phase.away_ticks, phase.away_ticks.sum() as f64 * 0.5, tick_ns)
}

/// `bound_95` of the first instance, in nanoseconds; none where it was away for less than that.
pub(super) fn bound_95(phase: &SharePhase, tick_ns: f64) -> Option<f64> {
    let all = (phase.away_ticks.sum() + phase.running_ticks.sum()) as f64;
    longest_with(&phase.away_ticks, 0.05 * all, tick_ns)
}

/// The length of stretch, in nanoseconds, at which the longer ones together exceed `ticks`.
fn longest_with(away: &Histogram, ticks: f64, tick_ns: f64) -> Option<f64> {
    let mut sum = 0.0;
    let found = away.buckets().iter().rev().find(|bucket| {
        sum += bucket.sum as f64;
        sum > ticks
    })?;
    Some(found.sum as f64 / found.count.max(1) as f64 * tick_ns)
}
