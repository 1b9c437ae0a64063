//! Runs whose truth is known: made by the machine itself, with a policy, other work and a quantum that the calibration must find.

use super::*;
use crate::guest::Guest;
use crate::host::{Limits, Machine};
use crate::random::Stream;
use crate::scenario::{Options, Study, build};
use crate::time::{Span, Time};
use ::model::policy::SharingPolicy;
use ::model::results::CellResult;
use ::model::scenario::{Scenario, cases};
use ::model::simulation::Simulation;
use analysis::policy::{Candidate, Others};
use probes::ProbeKind;
use probes::detail::SharePhase;
use probes::share::metrics::Observation;
use shares::Shares;
use units::histogram::Histogram;
use units::layout::Layout;
use units::{Hertz, Micros, Nanos};

const HOSTS: u64 = 100;
const PHASES: [(u32, u32); 9] = [(2, 0), (0, 2), (1, 2), (2, 2), (3, 2), (2, 4), (4, 2), (1, 4), (4, 4)];

fn truth(policy: SharingPolicy, parameter: f64, quantum: u64, others: Others) -> Model {
    Model {
        shares: Shares {
            candidate: Candidate { policy, parameter, per_instance: false },
            misfit: 0.0,
            next_best: None,
            others,
            is_taken_for_equal: false,
        },
        doubt: None,
        quantum: Micros::from_micros(quantum),
        turn: Micros::from_micros(4000),
        switch: Nanos::ZERO,
    }
}

/// What the share probe would see of an instance, at a counter of 1 GHz.
fn phase_of(machine: &Machine, vm: usize, (first, other): (u32, u32), mine: u32) -> SharePhase {
    let guest = machine.guests().get(vm).filter(|_| mine > 0);
    let threads = guest.map(Guest::threads).unwrap_or_default();
    let away: Vec<u64> =
        threads.iter().flat_map(|thread| thread.seen.samples.iter().map(|s| s.nanos())).collect();
    let running = threads.iter().map(|thread| thread.cpu.nanos());
    let cpu: u64 = running.clone().sum();
    SharePhase {
        first_threads: first,
        other_threads: other,
        elapsed_ns: machine.report().wall.into(),
        cpu_time_ns: Nanos::from_nanos(cpu),
        rounds: cpu,
        away_ticks: Histogram::from_values(away),
        running_ticks: Histogram::from_values(running.filter(|ticks| *ticks > 0)),
    }
}

fn empty(rank: u32) -> ShareDetail {
    let counter_hz = Hertz::from_hz(1_000_000_000);
    ShareDetail { rank, ranks: 2, cpus: 2, counter_hz, phases: Vec::new(), others: Vec::new() }
}

/// A round of two instances on two CPUs that this model would yield, as processes or in VMs.
fn round(model: &Model, is_vm: bool, random_seed: u64, seconds: u64) -> ShareDetail {
    let (mut first, mut other) = (empty(0), empty(1));
    let measured = Measured { label: String::new(), cpus: 2, is_vm, phases: Vec::new() };
    for (mine, theirs) in PHASES {
        let seen = Observation {
            instances: 2,
            first_threads: mine,
            other_threads: theirs,
            cpus: 2,
            first: 0.0,
            other: 0.0,
        };
        let mut machine = build(&load::scenario(&measured, model, &seen), random_seed);
        machine.run(&Limits {
            until: Time::ZERO + Span::from_secs(seconds),
            events: u64::MAX,
            when_done: false,
        });
        first.phases.push(phase_of(&machine, 0, (mine, theirs), mine));
        other.phases.push(phase_of(&machine, 1, (mine, theirs), theirs));
    }
    first.others.push(other);
    first
}

fn run_of(pooled: ShareDetail, is_vm: bool) -> RunResults {
    let mut run = crate::made_run::run();
    run.host.cpus = 2;
    run.platforms[0].kind = if is_vm { PlatformKind::Vm } else { PlatformKind::Native };
    let platform = run.platforms[0].label.clone();
    let cell = Cell { probe: ProbeKind::Share, neighbour: None, platform, layout: Some(Layout::PAIR) };
    run.cells = vec![CellResult { detail: Some(Detail::Share(pooled)), ..CellResult::unmeasured(&cell) }];
    run
}

/// A run of several rounds of this model.
fn run(model: &Model, is_vm: bool, seeds: std::ops::Range<u64>) -> (RunResults, Vec<Rounds>) {
    let rounds: Vec<ShareDetail> = seeds.map(|seed| round(model, is_vm, seed, 2)).collect();
    let run = run_of(analysis::shares::pooled(rounds.clone()).unwrap(), is_vm);
    let cell = run.cells[0].cell.clone();
    (run, vec![(cell, rounds)])
}

fn simulated(text: &str) -> Simulation {
    let study = Study::new(cases(text, &[]).unwrap(), Options::default()).unwrap();
    let replications: Vec<_> = (0..study.jobs().len()).map(|number| study.run(number)).collect();
    study.conclude(&replications)
}

fn base(text: &str) -> Scenario {
    cases(text, &[]).unwrap().into_iter().find(|case| case.settings.is_empty()).unwrap().scenario
}

#[test]
fn what_made_a_run_is_found_and_the_load_held_out_is_predicted() {
    for (model, name) in [
        (truth(SharingPolicy::EqualPerThread, 0.0, 4000, Others::NONE), "per-thread"),
        (truth(SharingPolicy::EqualPerInstance, 0.0, 3000, Others::NONE), "equal-per-vm"),
        (truth(SharingPolicy::Weighted, 3.0, 4000, Others { weight: 2.0, most_cpus: 1.0 }), "equal-per-vm"),
        (truth(SharingPolicy::Capped, 0.6, 4000, Others::NONE), "equal-per-vm"),
    ] {
        let (run, rounds) = run(&model, false, 0..3);
        let text = calibrate(&run, &rounds, Wanted::default()).unwrap();
        let found = simulated(&text);
        assert_eq!(found.published.len(), 3, "{model:?}");
        for row in &found.published {
            assert_eq!(row.holds, Some(true), "{model:?}: {row:?}\n{text}");
            assert!(row.relative_width().unwrap() < 0.6, "{row:?}");
        }
        let host = base(&text).host.unwrap();
        assert_eq!(host.policy.name(), name, "{text}");
        assert!(found.calibrated && found.cases.len() == PHASES.len(), "{text}");
        let estimated = found.assumptions.iter().filter(|one| one.interval.is_some());
        assert!(estimated.clone().count() >= 2, "{:?}", found.assumptions);
        // Each is as it stands in the scenario, within its interval.
        for one in estimated {
            let (value, [low, high]) = (one.value.parse::<f64>().unwrap(), one.interval.unwrap());
            assert!((low * 0.99999..=high * 1.00001).contains(&value), "{one:?}");
        }
    }
}

/// A hundred random hosts: what the machine was made with lies in the intervals that are said of it.
#[test]
fn the_truth_lies_in_the_intervals_of_ninety_in_a_hundred_random_hosts() {
    let (mut weights, mut others, mut within_predicted, mut of) = (0, 0, 0, 0);
    for host in 0..HOSTS {
        let mut stream = Stream::new(host, &[77]);
        let mut between =
            |low: f64, high: f64| low + (high - low) * stream.below(1 << 20) as f64 / f64::from(1 << 20);
        let weight = between(1.5, 5.0);
        let beside = Others { weight: between(0.5, 4.0), most_cpus: between(0.3, 1.8) };
        let quantum = 1000 + 1000 * (host % 6);
        let mut rounds = Vec::new();
        for number in 0..4 {
            // Others' work differs from round to round, as on a real host.
            let now = Others { weight: beside.weight * between(0.85, 1.15), ..beside };
            let model = truth(SharingPolicy::Weighted, weight, quantum, now);
            rounds.push(round(&model, false, host * 10 + number, 1));
        }
        let measured = Measured::of("x".to_owned(), 2, false, &rounds).unwrap();
        let (held, rest) = measured.hold_out(None).unwrap();
        let seen_before: Vec<Observation> = rest.iter().flat_map(|phase| &phase.rounds).copied().collect();
        let found = shares::fit(&fit::means(&rest), 2.0, shares::cap(&seen_before, 2.0)).unwrap();
        // Its quantum is found by many simulations, and the next test's.
        let found = Model { shares: found, ..truth(SharingPolicy::Weighted, 0.0, quantum, Others::NONE) };
        let known = within::parameters(&measured, &found, &rest, host);
        let predicted = within::predicted(&measured, &found, &rest, host);
        let lies = |ends: Option<[f64; 2]>, truth: f64| {
            u32::from(ends.is_some_and(|[low, high]| (low..=high).contains(&truth)))
        };
        weights += lies(known.parameter, weight);
        // Taken together, because a light one that wants much and a heavy one that wants little are the same beside these loads.
        let seen = held.seen;
        let got = truth(SharingPolicy::Weighted, weight, quantum, beside).shares.predict(&seen, 2.0);
        let now = found.shares.predict(&seen, 2.0);
        others += u32::from((now.0 / got.0).ln().abs() < 0.08);
        for (got, now, [low, high]) in
            [(seen.first, now.0, predicted.first), (seen.other, now.1, predicted.other)]
        {
            within_predicted += u32::from((now * low..=now * high).contains(&got));
            of += 1;
        }
    }
    println!("weights {weights} of {HOSTS}, beside others {others}, predictions {within_predicted} of {of}");
    assert!(weights >= 90 && others >= 90 && within_predicted * 10 >= of * 9);
}

/// How many of so many random hosts of this weight are said to have unequal ones, without and with protection; and how many of those
/// with an interval in which the true one lies. In a part of the loads (`often`) somebody takes up to 70 % from one side.
fn claims(policy: SharingPolicy, weight: f64, often: f64, hosts: u64) -> [(u32, u32); 2] {
    let mut counts = [(0, 0); 2];
    for host in 0..hosts {
        let mut stream = Stream::new(host, &[78]);
        let mut between =
            |low: f64, high: f64| low + (high - low) * stream.below(1 << 20) as f64 / f64::from(1 << 20);
        let beside = Others { weight: between(0.3, 4.0), most_cpus: between(0.1, 1.8) };
        let model = truth(policy, weight, 1000 + 1000 * (host % 6), beside);
        let rounds: Vec<ShareDetail> =
            (0..4).map(|number| round(&model, false, host * 10 + number, 1)).collect();
        let mut measured = Measured::of("x".to_owned(), 2, false, &rounds).unwrap();
        // Somebody takes from one side in one load, and from the other one in the next, as on a real host.
        let mut kept =
            |often: f64| if between(0.0, 1.0) < often { between(0.3, 1.0) } else { between(0.9, 1.0) };
        for phase in &mut measured.phases {
            let (first, other) = (kept(often), kept(often));
            for seen in &mut phase.rounds {
                (seen.first, seen.other) = (seen.first * first * kept(0.2), seen.other * other * kept(0.2));
            }
            let mean = |of: fn(&Observation) -> f64| phase.rounds.iter().map(of).sum::<f64>() / 4.0;
            (phase.seen.first, phase.seen.other) = (mean(|seen| seen.first), mean(|seen| seen.other));
        }
        let (_, rest) = measured.hold_out(None).unwrap();
        let seen: Vec<Observation> = rest.iter().flat_map(|phase| &phase.rounds).copied().collect();
        let before = shares::fit(&fit::means(&rest), 2.0, shares::cap(&seen, 2.0)).unwrap();
        let (after, _) = fit::shared(&measured, &rest, &seen, host).unwrap();
        let is_claimed = |shares: &Shares| shares::favours(shares.candidate) != std::cmp::Ordering::Equal;
        if is_claimed(&before) {
            let found = Model { shares: before, ..truth(policy, 0.0, 4000, Others::NONE) };
            let known = within::parameters(&measured, &found, &rest, host).parameter;
            let is_within = known.is_some_and(|[low, high]| (low..=high).contains(&weight));
            for (count, shares) in counts.iter_mut().zip([before, after]) {
                count.0 += u32::from(is_claimed(&shares));
                count.1 += u32::from(is_claimed(&shares) && is_within);
            }
        }
    }
    counts
}

#[test]
fn weights_that_nobody_set_are_not_claimed_and_real_ones_are() {
    const HOSTS: u64 = 40;
    let of = |policy, weight, often| {
        let [before, after] = claims(policy, weight, often, HOSTS);
        println!(
            "{policy:?} {weight}, {often}: unequal, and within the interval, of {HOSTS}: before {before:?}, after {after:?}"
        );
        (before, after)
    };
    // Where somebody takes from one side in more than half of the loads, equal weights look unequal.
    let (before, after) = of(SharingPolicy::EqualPerInstance, 1.0, 0.6);
    assert!(before.0 >= 4 && after.0 * 2 <= before.0, "{before:?} {after:?}");
    // On hosts that scatter less, a real one is claimed as before.
    for weight in [2.0, 8.0] {
        let (before, after) = of(SharingPolicy::Weighted, weight, 0.0);
        assert!(after.0 * 20 >= before.0 * 19 && after.1 * 10 >= after.0 * 9, "{before:?} {after:?}");
    }
}

#[test]
fn the_turn_of_a_guests_own_scheduler_is_found_beside_the_hosts_quantum() {
    for (quantum, turn) in [(3000, 6000), (8000, 2000)] {
        let model = Model {
            turn: Micros::from_micros(turn),
            ..truth(SharingPolicy::ProportionalToNeed, 0.0, quantum, Others::NONE)
        };
        let (_, rounds) = run(&model, true, 3..5);
        let measured = Measured::of("vm".to_owned(), 2, true, &rounds[0].1).unwrap();
        let (held, rest) = measured.hold_out(None).unwrap();
        assert_eq!((held.seen.first_threads, held.seen.other_threads), (4, 4));
        let found = fit::learn(&measured, &rest, 1).unwrap();
        let near = |found: Micros, truth: u64| (found.get() as f64 / truth as f64).log2().abs() < 0.5;
        assert!(near(found.quantum, quantum) && near(found.turn, turn), "{model:?}: {found:?}");
    }
}

#[test]
fn a_dirty_run_is_called_so_and_a_quiet_one_is_not() {
    let busy = truth(SharingPolicy::EqualPerInstance, 0.0, 3000, Others { weight: 3.0, most_cpus: 2.0 });
    let (mut noisy, rounds) = run(&busy, false, 0..3);
    noisy.dirty.clear();
    let found = simulated(&calibrate(&noisy, &rounds, Wanted::default()).unwrap());
    let why = found.calibrated_from.unwrap().dirty;
    assert!(why.len() == 1 && why[0].contains("others on the host took about 1.2"), "{why:?}");
    let (mut quiet, rounds) =
        run(&truth(SharingPolicy::EqualPerInstance, 0.0, 3000, Others::NONE), false, 0..3);
    quiet.dirty.clear();
    let text = calibrate(&quiet, &rounds, Wanted::default()).unwrap();
    assert_eq!(simulated(&text).calibrated_from.unwrap().dirty, Vec::<String>::new(), "{text}");
    quiet.dirty = vec!["load average is 5".to_owned()];
    let text = calibrate(&quiet, &rounds, Wanted::default()).unwrap();
    assert_eq!(simulated(&text).calibrated_from.unwrap().dirty, ["load average is 5"]);
}

#[test]
fn a_cap_is_claimed_where_one_was_set_and_not_beside_other_work() {
    let policy_of = |model: &Model| {
        let (run, rounds) = run(model, false, 0..3);
        let text = calibrate(&run, &rounds, Wanted::default()).unwrap();
        base(&text).vms.iter().find(|vm| vm.name == "first").and_then(|vm| vm.limit_cpus)
    };
    let set = policy_of(&truth(SharingPolicy::Capped, 0.7, 4000, Others::NONE));
    assert!(set.is_some_and(|cap| (cap / 0.7 - 1.0).abs() < 0.06), "{set:?}");
    for most_cpus in [0.15, 0.3, 0.5] {
        let beside = Others { weight: 1000.0, most_cpus };
        assert_eq!(policy_of(&truth(SharingPolicy::EqualPerInstance, 0.0, 4000, beside)), None);
    }
}

#[test]
fn another_load_can_be_held_out_and_one_that_is_not_there_is_refused() {
    let (run, rounds) = run(&truth(SharingPolicy::EqualPerThread, 0.0, 4000, Others::NONE), false, 0..2);
    let with = |held_out| calibrate(&run, &rounds, Wanted { seed: 0, held_out });
    let found = simulated(&with(Some((3, 2))).unwrap());
    assert!(found.published.iter().all(|row| row.case.ends_with(", 3 + 2")), "{:?}", found.published);
    let refused = with(Some((9, 9))).unwrap_err().to_string();
    assert!(refused.contains("no such load") && refused.contains("4 + 4"), "{refused}");
}

#[test]
fn a_run_without_shares_is_refused_with_what_to_measure() {
    let mut run = crate::made_run::run();
    run.cells.clear();
    let reason = calibrate(&run, &[], Wanted::default()).unwrap_err();
    assert!(reason.to_string().contains("[probe.share]") && reason.to_string().contains("1x2"), "{reason}");
}
