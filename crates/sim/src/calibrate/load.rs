//! A load as a scenario's host: its VMs, what a model says of them, and the other work beside them.

use analysis::policy::Candidate;
use model::policy::SharingPolicy;
use model::scenario::{
    HelpSpec, HostSpec, InterruptSpec, LimitSpec, LockSpec, PolicySpec, ProgramSpec, Scenario, ThreadSpec,
    VmSpec,
};
use probes::share::metrics::Observation;
use units::{Micros, Millis};

use super::fit::Model;
use super::measured::Measured;
use crate::scenario::run_host;

/// Time that is simulated for each load.
pub(super) const SIMULATED: Millis = Millis::from_millis(4000);
/// What the loop does between two looks at the clock; the share probe, too, counts what is longer.
pub(super) const PIECE: Micros = Micros::from_micros(50);
/// Other work that wants less is none.
pub(super) const LEAST_OTHERS: f64 = 0.005;
/// What a side that rests waits for.
const REST: Micros = Micros::from_micros(3_600_000_000);
/// The least limit that a scenario allows.
pub(super) const LEAST_LIMIT: f64 = 1e-3;
/// Weights that a scenario allows.
const WEIGHTS: (f64, f64) = (1e-4, 1e6);

/// The policy of a scenario that shares like this.
pub(super) fn policy(candidate: Candidate, quantum_us: Micros) -> PolicySpec {
    match candidate.policy {
        SharingPolicy::Capped if candidate.per_instance => PolicySpec::EqualPerVm { quantum_us },
        SharingPolicy::EqualPerThread | SharingPolicy::Reserved | SharingPolicy::Capped => {
            PolicySpec::PerThread { quantum_us }
        }
        SharingPolicy::EqualPerInstance | SharingPolicy::Weighted => PolicySpec::EqualPerVm { quantum_us },
        SharingPolicy::ProportionalToNeed => PolicySpec::Proportional { quantum_us },
    }
}

/// VMs of the two sides and of the other work; a side that rests has one thread that waits, other work that there is
/// none of is left out.
pub(super) fn vms(measured: &Measured, model: &Model, seen: &Observation) -> Vec<VmSpec> {
    let candidate = model.shares.candidate;
    let parameter = |wanted: SharingPolicy| (candidate.policy == wanted).then_some(candidate.parameter);
    let vm = |name: &str, count: u32, threads: u32| VmSpec {
        limit_cpus: parameter(SharingPolicy::Capped).map(|cap| cap.max(LEAST_LIMIT)),
        turn_us: model.turn,
        ..instance(name, count, threads, if measured.is_vm { seen.cpus } else { threads.max(1) })
    };
    let first = vm("first", 1, seen.first_threads);
    let weight = parameter(SharingPolicy::Weighted).unwrap_or(1.0).clamp(WEIGHTS.0, WEIGHTS.1);
    let most = f64::from(first.vcpus.min(measured.cpus));
    let reserved_cpus = parameter(SharingPolicy::Reserved).unwrap_or(0.0).clamp(0.0, most);
    let mut vms = vec![VmSpec { weight, reserved_cpus, ..first }];
    if seen.instances > 1 {
        vms.push(vm("other", seen.instances - 1, seen.other_threads));
    }
    let others = model.shares.others;
    if others.most_cpus > LEAST_OTHERS {
        let mut rest = instance("rest", 1, measured.cpus, measured.cpus);
        rest.weight = rest_weight(measured, model).clamp(WEIGHTS.0, WEIGHTS.1);
        rest.limit_cpus = (others.most_cpus < f64::from(measured.cpus)).then_some(others.most_cpus);
        rest.threads.iter_mut().for_each(|thread| thread.run = ProgramSpec::Endless {});
        vms.push(rest);
    }
    vms
}

/// The weight that the VM of the other work has in the scenario: policies that weigh threads multiply it by their number.
pub(super) fn rest_weight(measured: &Measured, model: &Model) -> f64 {
    let weight = model.shares.others.weight;
    match policy(model.shares.candidate, model.quantum) {
        PolicySpec::PerThread { .. } | PolicySpec::Proportional { .. } => weight / f64::from(measured.cpus),
        _ => weight,
    }
}

fn instance(name: &str, count: u32, threads: u32, vcpus: u32) -> VmSpec {
    let run = if threads > 0 {
        ProgramSpec::Gap { piece_us: PIECE, duration_ms: SIMULATED }
    } else {
        // Next to nothing, once an hour: a program that ends would have its CPUs counted until its end only.
        ProgramSpec::Io { work_us: Micros::from_micros(1), wait_us: REST, random: false, rounds: 0 }
    };
    VmSpec {
        name: name.to_owned(),
        count,
        vcpus,
        weight: 1.0,
        reserved_cpus: 0.0,
        limit_cpus: None,
        migrate_ns: None,
        phase_us: None,
        deadline_us: None,
        latency_us: None,
        capped: false,
        interrupts: InterruptSpec::default(),
        budget_us: None,
        period_us: None,
        cpus: None,
        pinned: false,
        dedicated: false,
        turn_us: Micros::from_micros(4000),
        locks: LockSpec::default(),
        threads: vec![ThreadSpec {
            count: Some(threads.max(1)),
            priority: 0,
            bound: None,
            memory_mb_s: 0,
            run,
        }],
    }
}

/// A load as a scenario.
pub(super) fn scenario(measured: &Measured, model: &Model, seen: &Observation) -> Scenario {
    Scenario {
        name: "calibrated".to_owned(),
        about: String::new(),
        seed: 0,
        replications: 1,
        limits: LimitSpec::default(),
        calibrated: None,
        host: Some(HostSpec {
            cpus: measured.cpus,
            mhz: 2000,
            switch_ns: model.switch,
            grace_us: Micros::from_micros(0),
            help: HelpSpec::None,
            staggered: Some(true),
            migrate_ns: units::Nanos::ZERO,
            cache_cpus: 1,
            migrate_near_share: 0.0,
            smt: 1,
            smt_speed: 1.0,
            memory_mb_s: None,
            memory_nodes: 1,
            policy: policy(model.shares.candidate, model.quantum),
        }),
        vms: vms(measured, model, seen),
        nodes: None,
        memory: None,
        figures: Vec::new(),
        assumptions: Vec::new(),
    }
}

/// A figure of a load that is simulated once.
pub(super) fn figure(
    measured: &Measured,
    model: &Model,
    seen: &Observation,
    id: &str,
    random_seed: u64,
) -> Option<f64> {
    let replication = run_host(&scenario(measured, model, seen), random_seed, 0);
    replication.figures.iter().find(|figure| figure.id == id).map(|figure| figure.value)
}
