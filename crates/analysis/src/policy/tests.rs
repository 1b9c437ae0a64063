//! Names from made-up curves: each policy, other work on the host, and what cannot be said.

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
                let named = name(&seen, capacity);
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
    let named = name(&seen, 4.0);
    assert_eq!(named.candidate, None);
    assert!(named.doubt.unwrap().contains("no known policy"));
    assert_eq!(name(&[], 2.0).candidate, None);
}

/// One phase in three says something else, as where a kernel leaves threads in the wrong place.
#[test]
fn a_name_that_does_not_come_out_again_is_none() {
    let of = |policy, parameter| Candidate { policy, parameter, per_instance: false };
    let (equal, weighted) = (of(SharingPolicy::EqualPerInstance, 0.0), of(SharingPolicy::Weighted, 3.0));
    let mixed = |every: usize| -> Vec<Observation> {
        let turns = phases(2, 2).into_iter().enumerate();
        turns
            .map(|(turn, phase)| {
                let candidate = if turn.is_multiple_of(every) { equal } else { weighted };
                let (first, other) = predict(candidate, &phase, 2.0);
                Observation { first, other, ..phase }
            })
            .collect()
    };
    let doubtful = name(&mixed(2), 2.0);
    assert_eq!(doubtful.candidate, None, "{doubtful:?}");
    assert!(doubtful.doubt.is_some_and(|doubt| doubt.contains("cannot") || doubt.contains("draws")));
    let clear = name(&mixed(100), 2.0);
    assert_eq!(clear.candidate.map(|candidate| candidate.policy), Some(SharingPolicy::Weighted));
    let (low, high) = clear.interval.unwrap();
    assert!(low <= 3.0 && 3.0 <= high * 1.02, "{low} {high}");
}

/// What others take from all instances says nothing of how they share.
#[test]
fn other_work_on_the_host_does_not_change_the_name() {
    let equal = Candidate { policy: SharingPolicy::EqualPerInstance, parameter: 0.0, per_instance: false };
    let seen: Vec<Observation> = phases(2, 2)
        .into_iter()
        .map(|phase| {
            // Two alike beside one more: half of all CPUs alone, two thirds together.
            let left = if phase.first_threads == 0 || phase.other_threads == 0 { 1.0 } else { 4.0 / 3.0 };
            let (first, other) = predict(equal, &phase, left);
            Observation { first, other, ..phase }
        })
        .collect();
    let named = name(&seen, 2.0);
    assert_eq!(named.candidate.map(|candidate| candidate.policy), Some(equal.policy), "{named:?}");
    assert_eq!(named.cap_unseen_above, Some(1.0));
}

/// As seen of two capped machines beside fifty busy threads: 0.05 CPUs, and a weight of 32 was named.
#[test]
fn from_a_handful_of_time_slices_nothing_is_named() {
    let of = |got: f64, all: f64| {
        let seen = phases(2, 2).into_iter().map(|phase| match (phase.first_threads, phase.other_threads) {
            (_, 0) => Observation { first: all, ..phase },
            (0, _) => Observation { other: all, ..phase },
            _ => Observation { first: got, other: 0.0, ..phase },
        });
        name(&seen.collect::<Vec<_>>(), 2.0)
    };
    let hardly = of(0.048, 0.048);
    assert_eq!(hardly.candidate, None, "{hardly:?}");
    assert!(hardly.doubt.unwrap().contains("too little"));
}
