//! How sure a prediction is, and how sure its parameters are.
//!
//! ```text
//!  loads learned from ─┬─ without each in turn: refitted, predicts that one ─► residuals ─► × t × WIDER ─► predicted within
//!                      └─ rounds and loads drawn anew: refitted ─► parameters [low … high]
//! ```
//! **Predictions.** Each load that the model learns from is left out in turn, everything is fitted anew to the others, and the
//! logarithm of measured over predicted is kept (leave-one-out cross-validation; Barber, Candès, Ramdas and Tibshirani 2021 on
//! intervals from such residuals). They hold what this run scatters, on this machine in these hours, and what the model gets
//! wrong of loads like these; what it gets wrong of the lengths of stretches away by the same factor in all of them is corrected. What it does not know of the load that is held out, which is none like these, is a factor on
//! them: [`WIDER_CPUS`] and [`WIDER_AWAY`] were chosen on one set of runs and judged on others (docs/figures.md has both).
//!
//! **Parameters** are fitted to rounds drawn with replacement, and of those to loads drawn with replacement (percentile bootstrap
//! in two stages: Efron and Tibshirani 1993): rounds tell how the hours differ, loads how far the model is off.

use std::collections::BTreeMap;

use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use analysis::policy::Others;
use model::policy::SharingPolicy;
use probes::share::metrics::Observation;
use stats::distributions::student_two_sided;
use stats::interval::quantile_of_sorted;
use stats::summary::mean_with_half_width;

use super::fit::{self, Model, fullest, means, parameter};
use super::load;
use super::measured::{Measured, Phase, bound_95, typical_away};
use super::shares::{self, Shares};

/// Confidence of all intervals.
const CONFIDENCE: f64 = 0.95;
/// Residuals of CPUs are taken so many times, because the load that is held out is unlike all others.
const WIDER_CPUS: f64 = 1.3;
/// The same of stretches away.
const WIDER_AWAY: f64 = 1.0;
/// No prediction is surer than this: a few turns more or less at the ends of a phase.
const LEAST_DEVIATION: f64 = 0.01;
/// Rounds are drawn anew so often.
const DRAWN: usize = 120;
/// Half a step between two weights that are tried, 2 %.
const HALF_STEP: f64 = 1.011;
/// Of fewer rounds lengths have no interval: they are fitted to one load.
const LEAST_ROUNDS: usize = 3;

/// Factors on a simulated value between which the measured one is predicted to lie.
pub(super) type Within = [f64; 2];

/// Of a held-out load, between which factors each figure is predicted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Predicted {
    pub first: Within,
    pub other: Within,
    /// Of the first instance's `bound_95`; none where it could not be held against any load.
    pub bound: Option<Within>,
}

/// How far predictions may be off, from the loads that the model learned from.
pub(super) fn predicted(measured: &Measured, model: &Model, rest: &[&Phase], seed: u64) -> Predicted {
    let cpus = f64::from(measured.cpus);
    let (mut first, mut other, mut bound) = (Vec::new(), Vec::new(), Vec::new());
    for (number, left_out) in rest.iter().enumerate().filter(|(_, phase)| phase.is_shared()) {
        let others: Vec<&Phase> =
            rest.iter().enumerate().filter(|(at, _)| *at != number).map(|(_, phase)| *phase).collect();
        if let Some(refitted) = shares::fit_again(&means(&others), cpus, &model.shares) {
            let predicted = refitted.predict(&left_out.seen, cpus);
            first.extend(residual(left_out.seen.first, predicted.0));
            other.extend(residual(left_out.seen.other, predicted.1));
        }
        let simulated = load::figure(measured, model, &left_out.seen, "vm.first.bound_95_ns", seed);
        let both = bound_95(&left_out.all, left_out.tick_ns).zip(simulated);
        bound.extend(both.and_then(|(measured, simulated)| residual(measured, simulated)));
    }
    Predicted {
        first: factors(&first, WIDER_CPUS),
        other: factors(&other, WIDER_CPUS),
        bound: centred(&bound, WIDER_AWAY),
    }
}

fn residual(measured: f64, predicted: f64) -> Option<f64> {
    (measured > 0.0 && predicted > 0.0).then(|| (measured / predicted).ln())
}

/// Residuals around none, so that what is off to one side only is not forgiven. Without two of them nothing is known.
fn factors(residuals: &[f64], wider: f64) -> Within {
    let count = residuals.len();
    if count < 2 {
        return [0.0, 1e6];
    }
    let square = residuals.iter().map(|residual| residual * residual).sum::<f64>() / count as f64;
    let half = wider * student_two_sided(CONFIDENCE, count as f64) * square.sqrt().hypot(LEAST_DEVIATION);
    [(-half).exp(), half.exp()]
}

/// Residuals around their mean, for what the model gets wrong by much the same factor in all loads: lengths of stretches, which hang
/// on a host's scheduler by more than one quantum. None of fewer than three.
fn centred(residuals: &[f64], wider: f64) -> Option<Within> {
    let count = residuals.len() as f64;
    if residuals.len() < 3 {
        return None;
    }
    let mean = residuals.iter().sum::<f64>() / count;
    let square = residuals.iter().map(|residual| (residual - mean).powi(2)).sum::<f64>() / (count - 1.0);
    // Of one more load like these: the mean itself is not known better than by its own error.
    let deviation = (square * (1.0 + 1.0 / count)).sqrt().hypot(LEAST_DEVIATION);
    let half = wider * student_two_sided(CONFIDENCE, count - 1.0) * deviation;
    Some([(mean - half).exp(), (mean + half).exp()])
}

/// The interval of what was measured of a load over its rounds, in logarithms because it is a ratio; none of one round.
pub(super) fn measured_interval(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    let logarithms: Vec<f64> = values.map(f64::ln).collect();
    let (mean, half) = mean_with_half_width(&logarithms, CONFIDENCE)?;
    half.map(|half| [(mean - half).exp(), (mean + half).exp()])
}

/// Intervals of a model's parameters.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Parameters {
    /// Part of the draws that say the same policy, and another one that they say most often.
    pub same_policy: f64,
    pub other_policy: Option<SharingPolicy>,
    pub parameter: Option<[f64; 2]>,
    pub others_weight: Option<[f64; 2]>,
    pub others_cpus: Option<[f64; 2]>,
    pub quantum_us: Option<[f64; 2]>,
    pub turn_us: Option<[f64; 2]>,
    pub switch_ns: Option<[f64; 2]>,
}

/// Fits everything again to rounds and loads that are drawn anew.
pub(super) fn parameters(measured: &Measured, model: &Model, rest: &[&Phase], seed: u64) -> Parameters {
    let cpus = f64::from(measured.cpus);
    let has_lengths = measured.rounds() >= LEAST_ROUNDS;
    let (mut fits, mut lengths) = (Vec::new(), Lengths::default());
    // What the draws say of the policy is said whatever was made of it.
    let known = Shares { is_taken_for_equal: false, ..model.shares };
    for (numbers, drawn) in draws(measured, rest, seed) {
        fits.extend(shares::fit_again(&drawn, cpus, &known));
        if has_lengths {
            lengths.draw(measured, model, rest, &numbers);
        }
    }
    let same: Vec<&Shares> =
        fits.iter().filter(|fit| fit.candidate.policy == model.shares.candidate.policy).collect();
    let mut others: BTreeMap<SharingPolicy, usize> = BTreeMap::new();
    for fit in fits.iter().filter(|fit| fit.candidate.policy != model.shares.candidate.policy) {
        *others.entry(fit.candidate.policy).or_default() += 1;
    }
    let of =
        |value: &dyn Fn(&Shares) -> f64, own: f64| ends(same.iter().map(|fit| value(fit)).collect(), own);
    let own = model.shares.others;
    Parameters {
        same_policy: same.len() as f64 / fits.len().max(1) as f64,
        other_policy: others.into_iter().max_by_key(|(_, count)| *count).map(|(policy, _)| policy),
        // What lies between two steps of the parameter was not tried.
        parameter: parameter(&model.shares)
            .and_then(|own| of(&|fit| fit.candidate.parameter, own))
            .map(|[low, high]| [low / HALF_STEP, high * HALF_STEP]),
        others_weight: of(&|fit| fit.others.weight, own.weight).filter(|_| own != Others::NONE),
        others_cpus: of(&|fit| fit.others.most_cpus, own.most_cpus),
        quantum_us: ends(lengths.quantum, model.quantum.as_f64()),
        turn_us: ends(lengths.turn, model.turn.as_f64()),
        switch_ns: ends(lengths.switch, model.switch.as_f64()),
    }
}

/// Rounds drawn anew by their numbers, and the loads of each draw.
pub(super) fn draws<'a>(
    measured: &Measured,
    rest: &'a [&Phase],
    seed: u64,
) -> impl Iterator<Item = (Vec<usize>, Vec<Observation>)> + 'a {
    let rounds = measured.rounds();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ rest.len() as u64);
    (0..DRAWN).map(move |_| {
        let numbers: Vec<usize> = (0..rounds).map(|_| random.random_range(0..rounds)).collect();
        let drawn = drawn_loads(rest, &numbers, &mut random);
        (numbers, drawn)
    })
}

/// What was drawn of lengths. A stretch away is as many turns of others as there are others, so its length goes with theirs.
#[derive(Default)]
struct Lengths {
    quantum: Vec<f64>,
    turn: Vec<f64>,
    switch: Vec<f64>,
}

impl Lengths {
    fn draw(&mut self, measured: &Measured, model: &Model, rest: &[&Phase], rounds: &[usize]) {
        let is_within = |phase: &&&Phase| !measured.is_vm || phase.seen.first_threads <= phase.seen.cpus;
        let (within, beyond): (Vec<&Phase>, Vec<&Phase>) = rest.iter().partition(is_within);
        let scaled = |phases: &[&Phase]| {
            let phase = fullest(phases)?;
            let whole = typical_away(&phase.all, phase.tick_ns)?;
            let each = rounds.iter().filter_map(|round| typical_away(phase.each.get(*round)?, phase.tick_ns));
            let each: Vec<f64> = each.map(|typical| (typical / whole).ln()).collect();
            mean_with_half_width(&each, CONFIDENCE).map(|(mean, _)| mean.exp())
        };
        let quantum = scaled(&within);
        self.quantum.extend(quantum.map(|times| times * model.quantum.as_f64()));
        self.turn.extend(scaled(&beyond).map(|times| times * model.turn.as_f64()));
        let drawn = rest.iter().flat_map(|phase| {
            let each = rounds.iter().filter_map(|round| phase.each.get(*round));
            each.map(|each| (phase.seen.other_threads > 0, each))
        });
        let drawn: Vec<_> = drawn.collect();
        self.switch.push(fit::switch_cost(&drawn, model.quantum).as_f64());
    }
}

/// The mean of a load over these rounds.
fn mean_of(phase: &Phase, rounds: &[usize]) -> Option<Observation> {
    let drawn: Vec<&Observation> = rounds.iter().filter_map(|round| phase.rounds.get(*round)).collect();
    let mean =
        |of: fn(&Observation) -> f64| drawn.iter().map(|seen| of(seen)).sum::<f64>() / drawn.len() as f64;
    (!drawn.is_empty()).then(|| Observation {
        first: mean(|s| s.first),
        other: mean(|s| s.other),
        ..phase.seen
    })
}

/// Loads drawn with replacement, as many of each kind as there are, each as it was on average in these rounds.
fn drawn_loads(rest: &[&Phase], rounds: &[usize], random: &mut Xoshiro256PlusPlus) -> Vec<Observation> {
    let (shared, alone): (Vec<&Phase>, Vec<&Phase>) = rest.iter().partition(|phase| phase.is_shared());
    let mut drawn = Vec::new();
    for group in [shared, alone].iter().filter(|group| !group.is_empty()) {
        let picked = (0..group.len()).filter_map(|_| group.get(random.random_range(0..group.len())));
        drawn.extend(picked.filter_map(|phase| mean_of(phase, rounds)));
    }
    drawn
}

/// Both ends of the interval; the fitted value lies in it.
fn ends(mut values: Vec<f64>, own: f64) -> Option<[f64; 2]> {
    if values.is_empty() {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let at = |q: f64| quantile_of_sorted(&values, q);
    Some([at(tail).min(own), at(1.0 - tail).max(own)])
}
