//! Names the policy by which CPUs are shared, from the curves of the share probe.
//!
//! Every candidate predicts what each instance gets in each phase; the one with the least misfit is named, unless one
//! with fewer parameters explains the data about as well (Bayesian information criterion, Schwarz 1978). Closed forms:
//! Lourot 2010, all of them water-filling ([`super::water`]) with other weights:
//!
//! | policy | weight | need |
//! | --- | --- | --- |
//! | equal per thread | threads | min(threads, CPUs) |
//! | equal per instance | 1 | min(threads, CPUs) |
//! | proportional to need | min(threads, CPUs) | min(threads, CPUs) |
//! | weighted | w for the first, 1 for the others | min(threads, CPUs) |
//! | capped | threads, or 1 | min(threads, CPUs, cap) |
//! | reserved | first min(need, r) to the first, the rest per thread | min(threads, CPUs) |

use super::water::{Claim, fill};
use crate::model::policy::{PolicyFit, SharingPolicy};

/// What was measured in one phase with all instances.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Instances in all.
    pub instances: u32,
    /// Threads of the first instance.
    pub first_threads: u32,
    /// Threads of each other instance.
    pub other_threads: u32,
    /// CPUs an instance has.
    pub cpus: u32,
    /// CPUs the first instance got.
    pub first: f64,
    /// CPUs each other instance got, on average.
    pub other: f64,
}

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

/// A policy that is farther off than this, as a share of all CPUs, explains nothing.
const WORST_MISFIT: f64 = 0.12;
/// A policy with a fitted parameter can bend itself to much, also to what other work on the host takes; it must be nearer,
/// as far as the measurements agree among themselves.
const WORST_FITTED_MISFIT: f64 = 0.05;
/// Standard errors that a curve may lie beside the truth.
const ERRORS_ALLOWED: f64 = 2.0;
/// Misfits below this are noise: no policy is better for being nearer than that.
const NOISE: f64 = 0.02;
/// A cap nearer to what an instance could have anyway is none: the machine itself never gives all it has.
const LARGEST_CAP: f64 = 0.9;
/// A cap below this part of what an instance once got is none: it would have been exceeded.
const EXCEEDED: f64 = 0.95;
/// A weight nearer to 1 than so many twelfths of an octave (a third more) is none.
const SMALLEST_WEIGHT: i32 = 4;
/// A reservation smaller than this part of an instance's CPUs is none.
const SMALLEST_RESERVE: f64 = 0.15;
/// Two policies whose criteria differ by less cannot be told apart (Kass and Raftery 1995).
const TOO_NEAR: f64 = 2.0;

/// What a candidate gives the first instance and each other one, of `capacity` CPUs.
pub fn predict(candidate: Candidate, seen: &Observation, capacity: f64) -> (f64, f64) {
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
    let got = fill(&claims, capacity - reserved);
    (got.first().copied().unwrap_or(0.0) + reserved, got.get(1).copied().unwrap_or(0.0))
}

/// Root mean square of prediction minus measurement, as a share of all CPUs. Each side of each phase counts once.
pub fn misfit(candidate: Candidate, seen: &[Observation], capacity: f64) -> f64 {
    let squares: f64 = seen
        .iter()
        .map(|phase| {
            let (first, other) = predict(candidate, phase, capacity);
            let others = f64::from(phase.instances.saturating_sub(1));
            (first - phase.first).powi(2) + (others * (other - phase.other)).powi(2)
        })
        .sum();
    (squares / (2 * seen.len().max(1)) as f64).sqrt() / capacity
}

/// What the observations say.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    /// The policy with its parameter; none when nothing explains the data, or two policies do.
    pub candidate: Option<Candidate>,
    /// Why none was named.
    pub doubt: Option<String>,
    /// Every candidate, best first.
    pub fits: Vec<PolicyFit>,
}

/// Names the policy behind the observations on a machine with `cpus` CPUs.
///
/// The machine itself takes a little for its own work, so what is shared is the most that all instances together got in
/// any phase, where that is near `cpus`. `scatter_share` is the standard error of the observations, as a share of all CPUs
/// like a misfit; 0 where there was one measurement only.
pub fn name(seen: &[Observation], cpus: f64, scatter_share: f64) -> Named {
    let total =
        |phase: &Observation| phase.first + f64::from(phase.instances.saturating_sub(1)) * phase.other;
    let most = seen.iter().map(total).fold(0.0, f64::max);
    let capacity = if most >= LARGEST_CAP * cpus { most.min(cpus) } else { cpus };
    let mut ranked: Vec<(Candidate, f64, f64)> = candidates(seen, capacity)
        .into_iter()
        .map(|candidate| {
            let misfit = misfit(candidate, seen, capacity);
            (candidate, misfit, criterion(candidate, misfit, seen.len()))
        })
        .collect();
    ranked.sort_by(|a, b| a.2.total_cmp(&b.2));
    let fits = ranked
        .iter()
        .map(|(candidate, misfit, _)| PolicyFit {
            policy: candidate.policy,
            parameter: has_parameter(candidate.policy).then_some(candidate.parameter),
            misfit_share: *misfit,
        })
        .collect();
    let doubt = doubt(seen, &ranked, scatter_share);
    let candidate = if doubt.is_none() { ranked.first().map(|best| best.0) } else { None };
    Named { candidate, doubt, fits }
}

fn doubt(seen: &[Observation], ranked: &[(Candidate, f64, f64)], scatter_share: f64) -> Option<String> {
    let both = seen.iter().filter(|phase| phase.first_threads > 0 && phase.other_threads > 0).count();
    let [best, second, ..] = ranked else { return Some("there is nothing to compare".to_owned()) };
    if both < 2 {
        return Some(format!("{both} phases in which both sides worked; at least 2 are needed"));
    }
    let allowed = if has_parameter(best.0.policy) {
        WORST_FITTED_MISFIT.hypot(ERRORS_ALLOWED * scatter_share).min(WORST_MISFIT)
    } else {
        WORST_MISFIT
    };
    if best.1 > allowed {
        return Some(format!(
            "no known policy explains what was measured (the nearest, {}, is off by {:.0} % of all CPUs); was other \
             work running on the host?",
            words(best.0.policy),
            best.1 * 100.0
        ));
    }
    (second.2 - best.2 < TOO_NEAR).then(|| {
        format!(
            "\"{}\" and \"{}\" explain what was measured equally well: more CPUs or instances would tell them apart",
            words(best.0.policy),
            words(second.0.policy)
        )
    })
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

/// The Bayesian information criterion with a floor of noise; less is better.
fn criterion(candidate: Candidate, misfit: f64, phases: usize) -> f64 {
    let n = (2 * phases) as f64;
    let parameters = f64::from(u8::from(has_parameter(candidate.policy)));
    n * (misfit.powi(2) + NOISE.powi(2)).ln() + parameters * n.ln()
}

/// Every policy, those with a parameter at the value that fits best.
fn candidates(seen: &[Observation], capacity: f64) -> Vec<Candidate> {
    let plain = |policy| Candidate { policy, parameter: 0.0, per_instance: false };
    let most = seen.iter().map(|phase| f64::from(phase.cpus)).fold(1.0, f64::max).min(capacity);
    let best = |policy, per_instance, values: &mut dyn Iterator<Item = f64>| {
        let tried = values.map(|parameter| Candidate { policy, parameter, per_instance });
        tried.min_by(|a, b| misfit(*a, seen, capacity).total_cmp(&misfit(*b, seen, capacity)))
    };
    let steps = || (1..200).map(|step| f64::from(step) / 200.0);
    let got = seen.iter().flat_map(|phase| [phase.first, phase.other]).fold(0.0, f64::max);
    let caps = [false, true].map(|per_instance| {
        let mut caps = steps().map(|part| part * LARGEST_CAP * most).filter(|cap| *cap >= EXCEEDED * got);
        best(SharingPolicy::Capped, per_instance, &mut caps)
    });
    let cap = caps
        .into_iter()
        .flatten()
        .min_by(|a, b| misfit(*a, seen, capacity).total_cmp(&misfit(*b, seen, capacity)));
    let mut weights = (-60..=60)
        .filter(|step: &i32| step.abs() > SMALLEST_WEIGHT)
        .map(|step| 2f64.powf(f64::from(step) / 12.0));
    let fitted = [
        best(SharingPolicy::Weighted, false, &mut weights),
        cap,
        best(SharingPolicy::Reserved, false, &mut steps().map(|part| SMALLEST_RESERVE.max(part) * most)),
    ];
    [SharingPolicy::EqualPerThread, SharingPolicy::EqualPerInstance, SharingPolicy::ProportionalToNeed]
        .map(plain)
        .into_iter()
        .chain(fitted.into_iter().flatten())
        .collect()
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    fn phase(first_threads: u32, other_threads: u32, cpus: u32, instances: u32) -> Observation {
        Observation { instances, first_threads, other_threads, cpus, first: 0.0, other: 0.0 }
    }

    fn phases(cpus: u32, instances: u32) -> Vec<Observation> {
        let mut all = vec![phase(cpus, 0, cpus, instances), phase(0, cpus, cpus, instances)];
        for other in [cpus, 2 * cpus] {
            all.extend((1..=2 * cpus).map(|first| phase(first, other, cpus, instances)));
        }
        all
    }

    /// The thesis: while both run, and 2 VMs on 8 units with 8 and 16, 4 and 16, 4 and 8 threads.
    #[test]
    fn the_closed_forms_give_the_published_ratios() {
        let plain = |policy| Candidate { policy, parameter: 0.0, per_instance: false };
        let share = |policy, a, b| predict(plain(policy), &phase(a, b, 8, 2), 8.0);
        // Slowdown per work u = T·w/(share): u_B / u_A with B the larger one.
        let ratio = |policy, a: u32, b: u32| {
            let (first, other) = share(policy, a, b);
            let work = |threads: u32, cpus: f64| f64::from(threads) / cpus;
            let (ua, both) = (work(a, first), work(b, other));
            // A finishes first; then B has all to itself.
            let left = f64::from(b) - other * ua;
            let ub = if both > ua { ua + left / f64::from(b.min(8)) } else { both };
            ub / ua
        };
        let near = |got: f64, wanted: f64| assert!((got - wanted).abs() < 1e-9, "{got} {wanted}");
        near(ratio(SharingPolicy::EqualPerThread, 8, 16), 1.0);
        near(ratio(SharingPolicy::EqualPerInstance, 8, 16), 1.5);
        near(ratio(SharingPolicy::EqualPerInstance, 4, 16), 2.5);
        near(ratio(SharingPolicy::EqualPerInstance, 4, 8), 1.5);
        near(ratio(SharingPolicy::ProportionalToNeed, 8, 16), 1.5);
        near(ratio(SharingPolicy::ProportionalToNeed, 4, 16), 5.0 / 3.0);
        near(ratio(SharingPolicy::ProportionalToNeed, 4, 8), 1.0);
        // Guarantee beside three others that want all: 14.3 %.
        let (first, _) = predict(plain(SharingPolicy::ProportionalToNeed), &phase(4, 8, 8, 4), 8.0);
        near(first, 8.0 * 4.0 / (4.0 + 3.0 * 8.0));
    }

    #[test]
    fn every_policy_is_named_from_its_own_noisy_curve() {
        let candidates = [
            (SharingPolicy::EqualPerThread, 0.0),
            (SharingPolicy::EqualPerInstance, 0.0),
            (SharingPolicy::ProportionalToNeed, 0.0),
            (SharingPolicy::Weighted, 2.0),
            (SharingPolicy::Weighted, 0.4),
            (SharingPolicy::Capped, 0.5),
            (SharingPolicy::Capped, 1.2),
            (SharingPolicy::Reserved, 1.0),
        ];
        let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
        for (policy, parameter) in candidates {
            for (cpus, instances) in [(2, 2), (2, 4), (4, 2), (8, 3)] {
                let capacity = f64::from(cpus);
                let candidate = Candidate { policy, parameter, per_instance: false };
                for trial in 0..20 {
                    let seen: Vec<Observation> = phases(cpus, instances)
                        .into_iter()
                        .map(|phase| {
                            let (first, other) = predict(candidate, &phase, capacity);
                            let mut noisy = |value: f64| value * (0.94 + 0.06 * random.random::<f64>());
                            Observation { first: noisy(first), other: noisy(other), ..phase }
                        })
                        .collect();
                    let named = name(&seen, capacity, 0.0);
                    let got = named.candidate.map(|candidate| candidate.policy);
                    assert_eq!(
                        got,
                        Some(policy),
                        "{parameter} {cpus} CPUs {instances} instances {trial} {named:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_no_policy_explains_is_not_named() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        let seen: Vec<Observation> = phases(4, 2)
            .into_iter()
            .map(|phase| Observation {
                first: 4.0 * random.random::<f64>(),
                other: 4.0 * random.random::<f64>(),
                ..phase
            })
            .collect();
        let named = name(&seen, 4.0, 0.0);
        assert_eq!(named.candidate, None);
        assert!(named.doubt.unwrap().contains("no known policy"));
        assert_eq!(name(&[], 2.0, 0.0).candidate, None);
    }

    #[test]
    fn a_fitted_policy_may_be_as_far_off_as_the_measurements_scatter_and_no_farther() {
        let weighted = Candidate { policy: SharingPolicy::Weighted, parameter: 2.0, per_instance: false };
        let mut sign = 1.0;
        let seen: Vec<Observation> = phases(2, 2)
            .into_iter()
            .map(|phase| {
                let (first, other) = predict(weighted, &phase, 2.0);
                sign = -sign;
                let off = if phase.first_threads > 1 && phase.other_threads > 0 { 0.16 * sign } else { 0.0 };
                Observation { first: first + off, other: other - off, ..phase }
            })
            .collect();
        let named = |scatter_share| name(&seen, 2.0, scatter_share);
        assert_eq!(named(0.0).fits[0].policy, SharingPolicy::Weighted);
        assert_eq!(
            named(0.0).candidate,
            None,
            "one measurement is off by {}",
            named(0.0).fits[0].misfit_share
        );
        let scattered = named(0.04).candidate.map(|candidate| candidate.policy);
        assert_eq!(scattered, Some(SharingPolicy::Weighted));
    }
}
