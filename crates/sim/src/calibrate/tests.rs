//! Runs whose truth is known: made by the machine itself, with a policy and a quantum that the calibration must find.

use super::*;
use crate::guest::Guest;
use crate::host::{Limits, Machine};
use crate::scenario::build;
use crate::time::{Span, Time};
use model::journal::Cell;
use model::results::CellResult;
use probes::ProbeKind;
use units::Hertz;
use units::layout::Layout;

const PHASES: [(u32, u32); 9] = [(1, 0), (2, 0), (0, 2), (1, 2), (2, 2), (2, 4), (4, 2), (1, 4), (4, 4)];

/// What the share probe would see of an instance, at a counter of 1 GHz.
fn phase_of(machine: &Machine, vm: Option<usize>, (first, other): (u32, u32)) -> SharePhase {
    let wall = machine.report().wall;
    let threads = vm.and_then(|vm| machine.guests().get(vm)).map(Guest::threads).unwrap_or_default();
    let away: Vec<u64> =
        threads.iter().flat_map(|thread| thread.seen.samples.iter().map(|s| s.nanos())).collect();
    let running = threads.iter().map(|thread| thread.cpu.nanos());
    let cpu: u64 = running.clone().sum();
    SharePhase {
        first_threads: first,
        other_threads: other,
        elapsed_ns: wall.into(),
        cpu_time_ns: Nanos::from_nanos(cpu),
        rounds: cpu,
        away_ticks: Histogram::from_values(away),
        running_ticks: Histogram::from_values(running.filter(|ticks| *ticks > 0)),
    }
}

/// A run of two instances on two CPUs that this model would yield, as processes or in VMs.
fn run(model: &Model, is_vm: bool) -> RunResults {
    let empty = |rank: u32| ShareDetail {
        rank,
        ranks: 2,
        cpus: 2,
        counter_hz: Hertz::from_hz(1_000_000_000),
        phases: Vec::new(),
        others: Vec::new(),
    };
    let (mut first, mut other) = (empty(0), empty(1));
    for (mine, theirs) in PHASES {
        let seen = Observation {
            instances: 2,
            first_threads: mine,
            other_threads: theirs,
            cpus: 2,
            first: 0.0,
            other: 0.0,
        };
        let here = empty(0);
        let measured = Measured { detail: &here, seen: Vec::new(), host_cpus: 2, is_vm };
        let mut machine = build(&scenario(&measured, model, &seen), 3);
        machine.run(&Limits { until: Time::ZERO + Span::from_secs(4), events: u64::MAX, when_done: false });
        let place = |wanted: u32, at: usize| (wanted > 0).then_some(at);
        first.phases.push(phase_of(&machine, place(mine, 0), (mine, theirs)));
        other.phases.push(phase_of(&machine, place(theirs, usize::from(mine > 0)), (mine, theirs)));
    }
    first.others.push(other);
    let mut run = crate::made_run::run();
    run.host.cpus = 2;
    run.platforms[0].kind = if is_vm { PlatformKind::Vm } else { PlatformKind::Native };
    let platform = run.platforms[0].label.clone();
    let cell = Cell { probe: ProbeKind::Share, neighbour: None, platform, layout: Layout::new(1, 2) };
    run.cells = vec![CellResult { detail: Some(Detail::Share(first)), ..CellResult::unmeasured(&cell) }];
    run
}

#[test]
fn what_made_a_run_is_found_and_the_load_held_out_is_predicted() {
    let truth = |policy, parameter, quantum_us| Model {
        policy,
        parameter,
        next_best: None,
        misfit: 0.0,
        doubt: None,
        quantum: Micros::from_micros(quantum_us),
        turn: Micros::from_micros(4000),
        lost_cpus: 0.0,
        switch: Nanos::ZERO,
    };
    for model in [
        truth(SharingPolicy::EqualPerThread, None, 4000),
        truth(SharingPolicy::EqualPerInstance, None, 3000),
        truth(SharingPolicy::Weighted, Some(3.0), 4000),
        truth(SharingPolicy::Capped, Some(0.6), 4000),
    ] {
        let found = calibrate(&run(&model, false), 1).unwrap();
        assert_eq!(found.published.len(), 3, "{model:?}");
        for row in &found.published {
            assert_eq!(row.holds, Some(true), "{model:?}: {row:?}");
        }
        for parameter in &found.assumptions {
            let all = parameter
                .changes()
                .all(|(_, values)| values.len() == 3 && values.iter().all(Option::is_some));
            assert!(parameter.changes().next().is_some() && all, "{parameter:?}");
        }
        let words = analysis::policy::words(model.policy);
        assert_eq!(found.cases[0].settings["policy"], words, "{:?}", found.assumptions);
    }
}

#[test]
fn the_turn_of_a_guests_own_scheduler_is_found_beside_the_hosts_quantum() {
    for (quantum, turn) in [(3000, 6000), (8000, 2000)] {
        let model = Model {
            policy: SharingPolicy::ProportionalToNeed,
            parameter: None,
            next_best: None,
            misfit: 0.0,
            doubt: None,
            quantum: Micros::from_micros(quantum),
            turn: Micros::from_micros(turn),
            lost_cpus: 0.0,
            switch: Nanos::ZERO,
        };
        let run = run(&model, true);
        let Some(Detail::Share(detail)) = &run.cells[0].detail else { panic!("made above") };
        let joint = joint_of(detail, 2, true);
        let (held, rest) = hold_out(&joint.seen).unwrap();
        assert_eq!((held.0.first_threads, held.0.other_threads), (4, 4));
        let found = learn(&joint, &rest, 1).unwrap();
        let near = |found: Micros, truth: u64| (found.get() as f64 / truth as f64).log2().abs() < 0.5;
        assert!(near(found.quantum, quantum) && near(found.turn, turn), "{model:?}: {found:?}");
        let simulated = calibrate(&run, 1).unwrap();
        assert!(simulated.is_met(), "{:?}", simulated.published);
    }
}

#[test]
fn a_run_without_shares_is_refused_with_what_to_measure() {
    let mut run = crate::made_run::run();
    run.cells.clear();
    let reason = calibrate(&run, 1).unwrap_err();
    assert!(reason.to_string().contains("[probe.share]") && reason.to_string().contains("1x2"), "{reason}");
}
