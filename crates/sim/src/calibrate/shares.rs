//! How a platform divides the CPUs: the policy with its parameter, and the other work on the host beside it.
//!
//! The policy explains how what all instances got together was divided. How much that was is explained by the others: work that
//! takes its share like one more instance, of a weight and of so many CPUs at most. Both are fitted to the sums of all loads by
//! least absolute deviations of their logarithms, on a grid that is refined around its best point. A constant loss is a heavy
//! one that wants little; a host full of other groups is one that wants all.
//!
//! Unequal weights are claimed only where the draws exclude equal ones ([`excludes_equality`]): of loads that scatter, some weight always fits
//! better than none. Where they do not, the best policy that prefers nobody is taken.

use std::cmp::Ordering;

use analysis::cap::{Cap, look, proven};
use analysis::policy::{Candidate, Others, fits, predict_beside, weight};
use model::policy::SharingPolicy;
use probes::share::metrics::Observation;
use stats::interval::quantile_of_sorted;

/// Weights that are tried are half octaves between these.
const HALF_OCTAVES: (i32, i32) = (-6, 18);
/// Steps of how much the others want, from none to all CPUs.
const WANTED_STEPS: u32 = 20;
/// The grid is refined around its best point, to a fourth each time, down to this part of a step.
const SMALLEST: f64 = 1.0 / 64.0;
/// Others that explain no more than this of the sums, on average, are none.
const LEAST_EXPLAINED: f64 = 0.004;

/// What lies beyond each end of an interval.
const TAIL: f64 = 0.025;

/// What was found of a platform's sharing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shares {
    /// The policy with its parameter.
    pub candidate: Candidate,
    /// How far it is off, as a share of what all instances got together.
    pub misfit: f64,
    /// The policy that fits next best.
    pub next_best: Option<Candidate>,
    /// Other work on the host.
    pub others: Others,
    /// Whether nobody is preferred because the draws do not exclude it, though a weight fits better.
    pub is_taken_for_equal: bool,
}

impl Shares {
    /// What the first instance and each other one get.
    pub fn predict(&self, seen: &Observation, cpus: f64) -> (f64, f64) {
        predict_beside(self.candidate, seen, cpus, self.others)
    }
}

/// The cap that is proven by these loads, all their rounds together.
pub(super) fn cap(rounds: &[Observation], cpus: f64) -> Cap {
    proven(rounds, cpus)
}

/// The fit to the means of loads; `cap` is what is known of a cap.
pub(super) fn fit(means: &[Observation], cpus: f64, cap: Cap) -> Option<Shares> {
    fit_from(means, cpus, cap, (None, false))
}

/// The fit in which nobody is preferred.
pub(super) fn fit_equal(means: &[Observation], cpus: f64) -> Option<Shares> {
    fit_from(means, cpus, Cap::Above(cpus), (None, true))
}

fn fit_from(
    means: &[Observation],
    cpus: f64,
    cap: Cap,
    (near, is_taken_for_equal): (Option<Others>, bool),
) -> Option<Shares> {
    let is_allowed = |one: &(Candidate, f64)| !is_taken_for_equal || favours(one.0) == Ordering::Equal;
    let mut all = fits(means, cpus, cap).into_iter().filter(is_allowed);
    let (candidate, misfit) = all.next()?;
    let next_best = all.map(|(next, _)| next).find(|next| next.policy != candidate.policy);
    let others = others(candidate, means, cpus, near);
    Some(Shares { candidate, misfit, next_best, others, is_taken_for_equal })
}

/// Whether a policy prefers the first instance to another one.
pub(super) fn favours(candidate: Candidate) -> Ordering {
    match candidate.policy {
        SharingPolicy::Weighted => candidate.parameter.total_cmp(&1.0),
        SharingPolicy::Reserved => Ordering::Greater,
        _ => Ordering::Equal,
    }
}

/// Whether the interval of the weight over loads that are drawn anew excludes that weights are equal; whatever policy fits best in a draw,
/// and with weights near to equal, which no policy has.
pub(super) fn excludes_equality(drawn: impl Iterator<Item = Vec<Observation>>) -> bool {
    let mut weights: Vec<f64> = drawn.filter_map(|loads| weight(&loads)).collect();
    weights.sort_by(f64::total_cmp);
    let at = |q: f64| quantile_of_sorted(&weights, q);
    !weights.is_empty() && (at(TAIL) > 1.0 || at(1.0 - TAIL) < 1.0)
}

/// The fit to loads that are drawn anew; whether there is a cap, and whether anybody is preferred, has been decided before.
pub(super) fn fit_again(means: &[Observation], cpus: f64, known: &Shares) -> Option<Shares> {
    let cap = match known.candidate.policy {
        SharingPolicy::Capped => match look(means, cpus) {
            Cap::Held(cap) => Cap::Held(cap),
            _ => Cap::Held(known.candidate.parameter),
        },
        _ => Cap::Above(cpus),
    };
    fit_from(means, cpus, cap, (Some(known.others), known.is_taken_for_equal))
}

fn together(seen: &Observation, (first, other): (f64, f64)) -> f64 {
    first + f64::from(seen.instances.saturating_sub(1)) * other
}

/// Mean absolute deviation of the logarithm of what all instances got together.
fn deviation(candidate: Candidate, others: Others, means: &[Observation], cpus: f64) -> f64 {
    let of = |seen: &Observation| {
        let got = together(seen, (seen.first, seen.other));
        let predicted = together(seen, predict_beside(candidate, seen, cpus, others));
        (got > 0.0 && predicted > 0.0).then(|| (got / predicted).ln().abs())
    };
    let all: Vec<f64> = means.iter().filter_map(of).collect();
    all.iter().sum::<f64>() / all.len().max(1) as f64
}

/// The others that explain the sums best; where they are known of much the same loads, on a smaller grid around those.
fn others(candidate: Candidate, means: &[Observation], cpus: f64, near: Option<Others>) -> Others {
    let miss = |others: Others| deviation(candidate, others, means, cpus);
    let at = |half_octaves: f64, wanted: f64| Others {
        weight: 2f64.powf(half_octaves / 2.0),
        most_cpus: wanted.clamp(0.0, cpus),
    };
    let step = cpus / f64::from(WANTED_STEPS);
    let (low, high) = HALF_OCTAVES;
    let mut best = (miss(Others::NONE), f64::from(high), 0.0);
    let none = best.0;
    let keep = |half: f64, wanted: f64, best: &mut (f64, f64, f64)| {
        let off = miss(at(half, wanted));
        // By more than rounding, so that of equal ones the first is kept.
        if off < best.0 - 1e-9 {
            *best = (off, half, wanted);
        }
    };
    let mut scale = 1.0;
    if let Some(near) = near.filter(|near| *near != Others::NONE) {
        keep(2.0 * near.weight.log2(), near.most_cpus, &mut best);
        scale *= 4.0;
    } else {
        for half in (low..=high).rev() {
            for wanted in 1..=WANTED_STEPS {
                keep(f64::from(half), f64::from(wanted) * step, &mut best);
            }
        }
    }
    while scale > SMALLEST {
        scale /= 4.0;
        let (_, half, wanted) = best;
        for (a, b) in (-4..=4).flat_map(|a| (-4..=4).map(move |b| (a, b))) {
            let moved = wanted + f64::from(b) * scale * step;
            keep(half + f64::from(a) * scale, moved.clamp(0.0, cpus), &mut best);
        }
    }
    let (off, half, wanted) = best;
    if none - off <= LEAST_EXPLAINED { Others::NONE } else { at(half, wanted) }
}
