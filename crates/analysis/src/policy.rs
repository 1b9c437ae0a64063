//! Names the policy by which CPUs are shared, from the curves of the share probe.
//!
//! Every candidate predicts how what all instances got together in a phase was divided among them; the one with the least
//! misfit is named, unless one with fewer parameters explains the data about as well (Bayesian information criterion,
//! Schwarz 1978). How much they got together is not predicted, because other work on the host takes from all of them. A
//! cap divides nothing, it shows in how much was got: see `super::cap`. A name that does not come out again when the
//! phases are drawn anew is none. Closed forms: Lourot 2010, all of them water-filling ([`stats::water`]) with other
//! weights:
//!
//! | policy | weight | need |
//! | --- | --- | --- |
//! | equal per thread | threads | min(threads, CPUs) |
//! | equal per instance | 1 | min(threads, CPUs) |
//! | proportional to need | min(threads, CPUs) | min(threads, CPUs) |
//! | weighted | w for the first, 1 for the others | min(threads, CPUs) |
//! | capped | threads, or 1 | min(threads, CPUs, cap) |
//! | reserved | first min(need, r) to the first, the rest per thread | min(threads, CPUs) |

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::cap::{Cap, LARGEST_CAP, look, proven};
use model::policy::{PolicyFit, SharingPolicy};
use probes::share::metrics::Observation;
use stats::interval::quantile_of_sorted;
use stats::summary::median;
use stats::water::{Claim, fill};
use units::three_digits;

/// A candidate with its parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// The policy.
    pub policy: SharingPolicy,
    /// Weight of the first instance over that of another, cap in CPUs, or reservation in CPUs; 0 where there is none.
    pub parameter: f64,
    /// Whether a capped machine is shared per instance below the cap, instead of per thread.
    pub per_instance: bool,
}

/// A policy that is farther off than this, as a share of what the instances got together, explains nothing.
const WORST_MISFIT: f64 = 0.12;
/// Misfits below this are noise: no policy is better for being nearer than that.
const NOISE: f64 = 0.015;
/// Steps of a weight per octave: 2 % each.
const PER_OCTAVE: i32 = 32;
/// A weight nearer to 1 than so many steps (a quarter more) is none.
const SMALLEST_WEIGHT: i32 = 10;
/// A weight of which one measurement says no more than this, or its inverse, is none: drawn anew, phases tell how far they differ among
/// each other, not what disturbed one side in all of them.
const SINGLE_WEIGHT: f64 = 1.5;
/// A reservation smaller than this part of an instance's CPUs is none.
const SMALLEST_RESERVE: f64 = 0.15;
/// Two policies whose criteria differ by less cannot be told apart (Kass and Raftery 1995).
const TOO_NEAR: f64 = 2.0;
/// Weights are tried from this many octaves below 1 to as many above; one at an end is no fit.
const OCTAVES: i32 = 5;
/// With less of all CPUs together, a phase holds a handful of time slices, and how they were divided is chance.
const LEAST_TOGETHER: f64 = 0.05;
/// Phases are weighed and drawn anew so often.
pub(super) const RESAMPLES: usize = 400;
/// A name that fewer of them say is none.
pub(super) const SAME_NAME: f64 = 0.95;
/// Between these quantiles of them lies a parameter.
pub(super) const ENDS: (f64, f64) = (0.025, 0.975);

/// Other work on the host, which takes its share beside the instances like one more of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Others {
    /// Its weight: that of an instance is 1, of a thread where threads are what is weighed.
    pub weight: f64,
    /// CPUs that it takes at most.
    pub most_cpus: f64,
}

impl Others {
    /// There is none.
    pub const NONE: Self = Self { weight: 1.0, most_cpus: 0.0 };
}

/// What a candidate gives the first instance and each other one, of `capacity` CPUs.
pub fn predict(candidate: Candidate, seen: &Observation, capacity: f64) -> (f64, f64) {
    predict_beside(candidate, seen, capacity, Others::NONE)
}

/// The same beside other work on the host.
pub fn predict_beside(candidate: Candidate, seen: &Observation, capacity: f64, beside: Others) -> (f64, f64) {
    let others = seen.instances.saturating_sub(1);
    let need = |threads: u32| f64::from(threads.min(seen.cpus));
    let (needs, threads) = (
        (need(seen.first_threads), need(seen.other_threads)),
        (f64::from(seen.first_threads), f64::from(seen.other_threads)),
    );
    let p = candidate.parameter;
    let (weights, needs, reserved) = match candidate.policy {
        SharingPolicy::EqualPerThread => (threads, needs, 0.0),
        SharingPolicy::EqualPerInstance => ((1.0, 1.0), needs, 0.0),
        SharingPolicy::ProportionalToNeed => (needs, needs, 0.0),
        SharingPolicy::Weighted => ((p, 1.0), needs, 0.0),
        SharingPolicy::Capped => {
            let weights = if candidate.per_instance { (1.0, 1.0) } else { threads };
            (weights, (needs.0.min(p), needs.1.min(p)), 0.0)
        }
        SharingPolicy::Reserved => (threads, needs, p.min(needs.0)),
    };
    let mut claims = vec![Claim { need: needs.0 - reserved, weight: weights.0 }];
    claims.resize(1 + others as usize, Claim { need: needs.1, weight: weights.1 });
    if beside.most_cpus > 0.0 {
        claims.push(Claim { need: beside.most_cpus, weight: beside.weight });
    }
    let got = fill(&claims, capacity - reserved);
    (got.first().copied().unwrap_or(0.0) + reserved, got.get(1).copied().unwrap_or(0.0))
}

/// What the observations say.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    /// The policy with its parameter; none when nothing explains the data, or two policies do.
    pub candidate: Option<Candidate>,
    /// Both ends of the parameter's 95 % interval, for a policy that has one.
    pub interval: Option<(f64, f64)>,
    /// A cap above so many CPUs would not have been seen; none where there was nothing above it to be had.
    pub cap_unseen_above: Option<f64>,
    /// Why none was named.
    pub doubt: Option<String>,
    /// Every candidate, best first.
    pub fits: Vec<PolicyFit>,
}

/// A policy with its misfit and its criterion, of which less is better.
#[derive(Debug, Clone, Copy)]
struct Ranked {
    candidate: Candidate,
    misfit: f64,
    criterion: f64,
}

/// Names the policy behind the observations on a machine with `cpus` CPUs.
pub fn name(seen: &[Observation], cpus: f64) -> Named {
    let groups = in_groups(seen);
    let [both, ..] = &groups;
    let tried = tried(both, cpus);
    let mut ranked = rank(&tried, &vec![1.0; both.len()]);
    let cap = proven(seen, cpus);
    if let Cap::Held(parameter) = cap {
        ranked.insert(0, capped(parameter, both, &ranked, cpus));
    }
    let again = Again::draw(&tried, &groups, cpus, &ranked);
    let doubt = too_little(both, cpus).or_else(|| doubt(both, &ranked, cap, &again));
    let candidate = if doubt.is_none() { ranked.first().map(|best| best.candidate) } else { None };
    let most = seen.iter().map(|phase| f64::from(phase.cpus)).fold(1.0, f64::max).min(cpus);
    let fits = ranked.iter().map(|ranked| PolicyFit {
        policy: ranked.candidate.policy,
        parameter: has_parameter(ranked.candidate.policy).then_some(ranked.candidate.parameter),
        misfit_share: ranked.misfit,
    });
    Named {
        interval: candidate.filter(|best| has_parameter(best.policy)).and_then(|_| again.ends()),
        candidate,
        cap_unseen_above: match cap {
            Cap::Above(got) | Cap::Unknown(got) if got < LARGEST_CAP * most => Some(got),
            _ => None,
        },
        doubt,
        fits: fits.collect(),
    }
}

/// Every candidate with its misfit as a share of what all instances got together, best first: what [`name`] ranks, without
/// drawing the phases anew. A cap is among them where the `cap` that is handed over is held.
pub fn fits(seen: &[Observation], cpus: f64, cap: Cap) -> Vec<(Candidate, f64)> {
    let both: Vec<Observation> =
        seen.iter().filter(|phase| phase.first_threads > 0 && phase.other_threads > 0).copied().collect();
    let mut ranked = rank(&tried(&both, cpus), &vec![1.0; both.len()]);
    if let Cap::Held(parameter) = cap {
        ranked.insert(0, capped(parameter, &both, &ranked, cpus));
    }
    ranked.into_iter().map(|ranked| (ranked.candidate, ranked.misfit)).collect()
}

/// The weight of the first instance with which weights divide best what all instances got together, equal ones included; of several
/// that do, the one nearest to equal. None where no phase has both sides at work.
pub fn weight(seen: &[Observation]) -> Option<f64> {
    let both: Vec<Observation> =
        seen.iter().filter(|phase| phase.first_threads > 0 && phase.other_threads > 0).copied().collect();
    if both.is_empty() {
        return None;
    }
    let mut steps: Vec<i32> = (-OCTAVES * PER_OCTAVE..=OCTAVES * PER_OCTAVE).collect();
    steps.sort_by_key(|step| step.abs());
    let tried = steps.into_iter().map(|step| {
        let parameter = 2f64.powf(f64::from(step) / f64::from(PER_OCTAVE));
        let candidate = Candidate { policy: SharingPolicy::Weighted, parameter, per_instance: false };
        (both.iter().map(|phase| off(candidate, phase)).sum::<f64>(), parameter)
    });
    // The first of equal ones.
    tried.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, parameter)| parameter)
}

/// A cap as a candidate; how what is below it is shared does not matter where nobody reaches for more.
fn capped(parameter: f64, both: &[Observation], ranked: &[Ranked], cpus: f64) -> Ranked {
    let per_thread = ranked.iter().position(|one| one.candidate.policy == SharingPolicy::EqualPerThread);
    let per_instance = ranked.iter().position(|one| one.candidate.policy == SharingPolicy::EqualPerInstance);
    let candidate =
        Candidate { policy: SharingPolicy::Capped, parameter, per_instance: per_instance < per_thread };
    let off = both.iter().map(|phase| {
        let (first, other) = predict(candidate, phase, cpus);
        let others = f64::from(phase.instances.saturating_sub(1));
        ((first - phase.first).abs() + others * (other - phase.other).abs()) / cpus
    });
    Ranked { candidate, misfit: off.sum::<f64>() / both.len().max(1) as f64, criterion: f64::NEG_INFINITY }
}

/// A candidate with how far it is off in each phase.
struct Tried {
    candidate: Candidate,
    off: Vec<f64>,
}

/// How far a candidate is off in a phase: the part of what all instances got together that went to the first.
fn off(candidate: Candidate, phase: &Observation) -> f64 {
    let others = f64::from(phase.instances.saturating_sub(1));
    let together = phase.first + others * phase.other;
    let part = |first: f64, other: f64| {
        let sum = first + others * other;
        if sum > 0.0 { first / sum } else { 0.5 }
    };
    let (first, other) = predict(candidate, phase, together);
    (part(first, other) - part(phase.first, phase.other)).abs()
}

fn tried(both: &[Observation], cpus: f64) -> Vec<Tried> {
    let with_off =
        |candidate| Tried { candidate, off: both.iter().map(|phase| off(candidate, phase)).collect() };
    let of = |policy, parameter| Candidate { policy, parameter, per_instance: false };
    let most = both.iter().map(|phase| f64::from(phase.cpus)).fold(1.0, f64::max).min(cpus);
    let plain =
        [SharingPolicy::EqualPerThread, SharingPolicy::EqualPerInstance, SharingPolicy::ProportionalToNeed];
    let weights =
        (-OCTAVES * PER_OCTAVE..=OCTAVES * PER_OCTAVE).filter(|step: &i32| step.abs() > SMALLEST_WEIGHT);
    let reserves = (1..100).map(|step| f64::from(step) / 100.0).filter(|part| *part >= SMALLEST_RESERVE);
    plain
        .map(|policy| of(policy, 0.0))
        .into_iter()
        .chain(
            weights
                .map(|step| of(SharingPolicy::Weighted, 2f64.powf(f64::from(step) / f64::from(PER_OCTAVE)))),
        )
        .chain(reserves.map(|part| of(SharingPolicy::Reserved, part * most)))
        .map(with_off)
        .collect()
}

/// The best candidate of each policy where each phase counts for so much, best policy first.
fn rank(tried: &[Tried], weights: &[f64]) -> Vec<Ranked> {
    let (n, whole) = (weights.len().max(1) as f64, weights.iter().sum::<f64>().max(f64::MIN_POSITIVE));
    let mut best: Vec<Ranked> = Vec::new();
    for one in tried {
        let sum: f64 = one.off.iter().zip(weights).map(|(off, weight)| off * weight).sum();
        let (candidate, misfit) = (one.candidate, sum / whole);
        // Errors as Laplace has them: one phase that somebody else disturbed does not decide.
        let parameters = f64::from(u8::from(has_parameter(candidate.policy)));
        let criterion = 2.0 * n * (misfit + NOISE).ln() + parameters * n.ln();
        let ranked = Ranked { candidate, misfit, criterion };
        match best.iter_mut().find(|known| known.candidate.policy == candidate.policy) {
            Some(known) if misfit < known.misfit => *known = ranked,
            Some(_) => {}
            None => best.push(ranked),
        }
    }
    best.sort_by(|a, b| a.criterion.total_cmp(&b.criterion));
    best
}

/// What the phases say when each counts for another part of the whole, drawn from the exponential distribution (Bayesian
/// bootstrap: Rubin 1981). Each kind of phase is there once a round, and some policies differ in one kind only: drawing
/// phases themselves would leave that kind out in one draw of ten. A cap shows in phases of any kind, so for it they are
/// drawn (percentile bootstrap: Efron and Tibshirani 1993), those of each side alone and those of both apart.
struct Again {
    same: usize,
    /// Another policy that they say most often.
    other: Option<SharingPolicy>,
    parameters: Vec<f64>,
}

impl Again {
    fn draw(tried: &[Tried], groups: &[Vec<Observation>; 3], cpus: f64, ranked: &[Ranked]) -> Self {
        let [both, ..] = groups;
        // The same observations give the same answer.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(both.len() as u64);
        let mut again = Self { same: 0, other: None, parameters: Vec::new() };
        let Some(best) = ranked.first().map(|best| best.candidate.policy) else { return again };
        let mut others: BTreeMap<SharingPolicy, usize> = BTreeMap::new();
        for _ in 0..RESAMPLES {
            let weights: Vec<f64> = both.iter().map(|_| -(1.0 - random.random::<f64>()).ln()).collect();
            let drawn = rank(tried, &weights);
            let cap = match look(&drawn_phases(groups, &mut random), cpus) {
                Cap::Held(cap) if best == SharingPolicy::Capped => Some(cap),
                _ => None,
            };
            let first = drawn.first().map(|first| first.candidate.policy);
            let named = if cap.is_some() { Some(SharingPolicy::Capped) } else { first };
            if named == Some(best) {
                again.same += 1;
            } else if let Some(other) = named {
                *others.entry(other).or_default() += 1;
            }
            let fitted = drawn.iter().find(|one| one.candidate.policy == best);
            again.parameters.extend(cap.or_else(|| fitted.map(|one| one.candidate.parameter)));
        }
        again.parameters.sort_by(f64::total_cmp);
        again.other = others.into_iter().max_by_key(|(_, count)| *count).map(|(policy, _)| policy);
        again
    }

    fn share(&self) -> f64 {
        self.same as f64 / RESAMPLES as f64
    }

    /// Ends of the interval; what lies between two steps of the parameter was not tried, so half a step is added.
    fn ends(&self) -> Option<(f64, f64)> {
        let half = 2f64.powf(0.5 / f64::from(PER_OCTAVE));
        let (low, high) = (ENDS.0, ENDS.1);
        let is_there = !self.parameters.is_empty();
        let at = |q| quantile_of_sorted(&self.parameters, q);
        is_there.then(|| (at(low) / half, at(high) * half))
    }
}

/// Phases drawn with replacement, as many of each kind as there are.
pub(super) fn drawn_phases(groups: &[Vec<Observation>], random: &mut Xoshiro256PlusPlus) -> Vec<Observation> {
    let draw = |group: &Vec<Observation>| -> Vec<Observation> {
        (0..group.len()).filter_map(|_| group.get(random.random_range(0..group.len()))).copied().collect()
    };
    groups.iter().flat_map(draw).collect()
}

/// Both sides, the first alone, the others alone.
pub(super) fn in_groups(seen: &[Observation]) -> [Vec<Observation>; 3] {
    [(true, true), (true, false), (false, true)].map(|works| {
        let is_so = |phase: &&Observation| (phase.first_threads > 0, phase.other_threads > 0) == works;
        seen.iter().filter(is_so).copied().collect()
    })
}

/// Why nothing can be said where the instances hardly ran.
fn too_little(both: &[Observation], cpus: f64) -> Option<String> {
    let together =
        |phase: &Observation| phase.first + f64::from(phase.instances.saturating_sub(1)) * phase.other;
    let typical = median(&both.iter().map(together).collect::<Vec<_>>())?;
    (typical < LEAST_TOGETHER * cpus).then(|| {
        format!(
            "all instances together got {} CPUs, which is too little to see how it was divided: end what else is \
             running on the host",
            three_digits(typical)
        )
    })
}

fn doubt(both: &[Observation], ranked: &[Ranked], cap: Cap, again: &Again) -> Option<String> {
    if both.len() < 2 {
        return Some(format!("{} phases in which both sides worked; at least 2 are needed", both.len()));
    }
    let [best, second, ..] = ranked else { return Some("there is nothing to compare".to_owned()) };
    let is_weight = best.candidate.policy == SharingPolicy::Weighted;
    if best.misfit > WORST_MISFIT || is_weight && best.candidate.parameter.log2().abs() >= f64::from(OCTAVES)
    {
        return Some(format!(
            "no known policy explains what was measured (the nearest, {}, is off by {:.0} % of what all got together); \
             was other work running on the host?",
            words(best.candidate.policy),
            best.misfit * 100.0
        ));
    }
    // Any other division is none that a cap makes: that nobody has more than the others do.
    let is_alike = best.candidate.policy == SharingPolicy::EqualPerInstance;
    if let Cap::Unknown(most) = cap
        && is_alike
    {
        return Some(format!(
            "no instance got more than {} CPUs even where the others rested, so a cap cannot be told from other work on \
             the host; among each other they look like \"{}\"",
            three_digits(most),
            words(best.candidate.policy)
        ));
    }
    if second.criterion - best.criterion < TOO_NEAR {
        return Some(format!(
            "\"{}\" and \"{}\" explain what was measured equally well: more CPUs or instances would tell them apart",
            words(best.candidate.policy),
            words(second.candidate.policy)
        ));
    }
    if is_weight && is_single(both) && again.ends().is_some_and(is_small_weight) {
        return Some(format!(
            "it looks like weights of {}, but one measurement cannot tell so small a difference from other work that disturbed \
             one side all the time: measure more rounds",
            three_digits(best.candidate.parameter)
        ));
    }
    (again.share() < SAME_NAME).then(|| {
        let other = again.other.map(|other| format!(", most others \"{}\"", words(other))).unwrap_or_default();
        format!(
            "it looks like \"{}\", but of {RESAMPLES} draws that weigh its phases anew only {:.0} % say so{other}: measure more \
             rounds, or on a quieter host",
            words(best.candidate.policy),
            again.share() * 100.0
        )
    })
}

/// Whether no kind of phase was there twice.
fn is_single(both: &[Observation]) -> bool {
    let kinds: BTreeSet<(u32, u32, u32)> =
        both.iter().map(|phase| (phase.instances, phase.first_threads, phase.other_threads)).collect();
    kinds.len() == both.len()
}

/// Whether a weight between these ends may be nearer to 1 than one measurement can tell.
fn is_small_weight((low, high): (f64, f64)) -> bool {
    low < SINGLE_WEIGHT && high > 1.0 / SINGLE_WEIGHT
}

/// A policy in words.
pub const fn words(policy: SharingPolicy) -> &'static str {
    match policy {
        SharingPolicy::EqualPerThread => "equal per thread",
        SharingPolicy::EqualPerInstance => "equal per instance",
        SharingPolicy::ProportionalToNeed => "proportional to need",
        SharingPolicy::Weighted => "weighted",
        SharingPolicy::Capped => "capped",
        SharingPolicy::Reserved => "reserved",
    }
}

const fn has_parameter(policy: SharingPolicy) -> bool {
    matches!(policy, SharingPolicy::Weighted | SharingPolicy::Capped | SharingPolicy::Reserved)
}

#[cfg(test)]
mod tests;
