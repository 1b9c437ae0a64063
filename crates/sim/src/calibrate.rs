//! Calibration: from a measured run to the parameters of a model, and from the model to a load it was not given.
//!
//! ```text
//!  phases of the share probe ─┬─ all but one ─► policy (closed forms) ─► quantum (simulated until the stretches away are as
//!                             │                                          long as measured), noise, cost of a switch
//!                             └─ the fullest, held out ────────────────► simulated, and set beside the measurement
//! ```
//! In a VM a thread also waits for the others on its virtual CPU. So the quantum of the host is looked for where no virtual
//! CPU has two threads, and the turn of the guest's own scheduler after that, where some have.

mod sensitivity;

use std::collections::BTreeMap;

use super::scenario::{Figure, run_host};
use analysis::policy::name;
use model::policy::SharingPolicy;
use model::results::{RunResults, made_up};
use model::scenario::{
    FigureLabel, HelpSpec, HostSpec, InterruptSpec, LimitSpec, LockSpec, PolicySpec, ProgramSpec, Scenario,
    ThreadSpec, VmSpec,
};
use model::simulation::{
    AssumptionOutcome, CaseOutcome, Demand, Origin, PublishedOutcome, SimulatedFigure, Simulation,
};
use probes::detail::{Detail, ShareDetail, SharePhase};
use probes::share::metrics::{Observation, observations};
use units::histogram::Histogram;
use units::metric::{Unit, saturate};
use units::names::PlatformKind;
use units::{Micros, Millis, Nanos, Reason, three_digits};

/// Time that is simulated for each phase.
const SIMULATED: Millis = Millis::from_millis(4000);
/// What the loop does between two looks at the clock; the share probe, too, counts what is longer.
const PIECE: Micros = Micros::from_micros(50);
/// Quanta that are tried, as fractions of the longest plausible one, a quarter of an octave apart.
const QUANTA: u32 = 28;
/// How far off a predicted share may be.
const SHARE_TOLERANCE: f64 = 0.1;

/// What was found out about a platform.
#[derive(Debug, Clone, PartialEq)]
struct Model {
    policy: SharingPolicy,
    parameter: Option<f64>,
    /// The policy that fits next best, with its parameter.
    next_best: Option<(SharingPolicy, Option<f64>)>,
    misfit: f64,
    /// Why the policy is not certain, if it is not.
    doubt: Option<String>,
    quantum: Micros,
    /// What a thread gets of its virtual CPU at a time.
    turn: Micros,
    /// CPUs that others on the host took all the time.
    lost_cpus: f64,
    switch: Nanos,
}

/// One joint measurement of the share probe.
struct Measured<'a> {
    detail: &'a ShareDetail,
    seen: Vec<(Observation, &'a SharePhase)>,
    host_cpus: u32,
    /// Whether its threads run on virtual CPUs, not on the host's.
    is_vm: bool,
}

/// Calibrates a model for every platform of a run and predicts the load that was held out.
///
/// # Errors
/// The run has no share probe with at least three phases in which all instances worked.
pub fn calibrate(run: &RunResults, seed: u64) -> Result<Simulation, Reason> {
    let (mut cases, mut published, mut assumptions) =
        (Vec::new(), Vec::new(), Vec::<AssumptionOutcome>::new());
    for cell in &run.cells {
        let Some(Detail::Share(detail)) = &cell.detail else { continue };
        let kind =
            run.platforms.iter().find(|state| state.label == cell.cell.platform).map(|state| state.kind);
        let joint = joint_of(detail, run.host.cpus.max(1), kind == Some(PlatformKind::Vm));
        let Some((held, rest)) = hold_out(&joint.seen) else { continue };
        let label = match cell.cell.layout {
            Some(layout) => format!("{} {layout}", cell.cell.platform),
            None => cell.cell.platform.clone(),
        };
        let Some(model) = learn(&joint, &rest, seed) else { continue };
        let figures = simulate(&joint, &model, &held.0, seed);
        let rows = beside(&label, held, &joint, &figures);
        let predict = |model: &Model| {
            let figures = simulate(&joint, model, &held.0, seed);
            let own = rows.iter().map(|row| row.metrics.first().and_then(|id| value(&figures, id)));
            // Predictions for other platforms have nothing to do with this model.
            published.iter().map(|_: &PublishedOutcome| None).chain(own).collect()
        };
        assumptions.extend(sensitivity::tried(told(&label, &model, joint.is_vm), &model, &predict));
        published.extend(rows);
        cases.push(case(&label, &model, &held.0, figures));
    }
    if cases.is_empty() {
        return Err("the run has no share probe with three phases or more in which all instances worked: measure one \
                    with [probe.share] in a layout such as 1x2".into());
    }
    for tried in assumptions.iter_mut().flat_map(|parameter| &mut parameter.tried) {
        tried.simulated.resize(published.len(), None);
    }
    Ok(Simulation {
        calibrated: true,
        scenario: format!("calibrated from {}", run.experiment.name),
        about: about(run),
        seed,
        replications: 1,
        cases,
        published,
        assumptions,
        phases: Vec::new(),
        once: Vec::new(),
        unfinished: None,
    })
}

fn about(run: &RunResults) -> String {
    let about = "Policy, quantum, noise and cost of a switch are taken from all phases of the share probe but the fullest, \
                 which is then predicted.";
    match made_up(&run.platforms).as_slice() {
        [] => about.to_owned(),
        labels => format!(
            "{about} What it was learned from on {} is made up: nothing was measured.",
            labels.join(", ")
        ),
    }
}

fn joint_of(detail: &ShareDetail, host_cpus: u32, is_vm: bool) -> Measured<'_> {
    let phase = |seen: &Observation| {
        detail.phases.iter().find(|phase| {
            (phase.first_threads, phase.other_threads) == (seen.first_threads, seen.other_threads)
        })
    };
    let seen = observations(detail).into_iter().filter_map(|seen| Some((seen, phase(&seen)?))).collect();
    Measured { detail, seen, host_cpus, is_vm }
}

type Phase<'a> = (Observation, &'a SharePhase);

/// The phase with most threads, and the others; none when too little would be left to learn from.
fn hold_out<'a, 'b>(seen: &'b [Phase<'a>]) -> Option<(&'b Phase<'a>, Vec<&'b Phase<'a>>)> {
    let load = |phase: &Phase<'_>| {
        let seen = &phase.0;
        seen.first_threads.min(seen.other_threads).min(1)
            * (seen.first_threads + seen.other_threads * seen.instances.saturating_sub(1))
    };
    let held = seen.iter().max_by_key(|phase| load(phase))?;
    let rest: Vec<&Phase<'a>> = seen.iter().filter(|phase| phase.0 != held.0).collect();
    (rest.iter().filter(|phase| load(phase) > 0).count() >= 2).then_some((held, rest))
}

fn learn(joint: &Measured<'_>, rest: &[&Phase<'_>], random_seed: u64) -> Option<Model> {
    let seen: Vec<Observation> = rest.iter().map(|phase| phase.0).collect();
    let cpus = f64::from(joint.host_cpus);
    let named = name(&seen, cpus);
    let fit = named.fits.first()?;
    let most =
        seen.iter().map(|seen| seen.first + seen.other * f64::from(seen.instances - 1)).fold(0.0, f64::max);
    let wanted = |seen: &Observation| {
        let need = |threads: u32| f64::from(threads.min(seen.cpus));
        need(seen.first_threads) + need(seen.other_threads) * f64::from(seen.instances - 1)
    };
    let is_full = seen.iter().any(|seen| wanted(seen) >= cpus);
    let is_capped = fit.policy == SharingPolicy::Capped;
    let mut model = Model {
        policy: fit.policy,
        parameter: fit.parameter,
        next_best: named.fits.get(1).map(|next| (next.policy, next.parameter)),
        misfit: fit.misfit_share,
        doubt: named.doubt.clone(),
        quantum: Micros::from_micros(4000),
        turn: Micros::from_micros(4000),
        lost_cpus: if is_full && !is_capped { (cpus - most).clamp(0.0, cpus / 2.0) } else { 0.0 },
        switch: Nanos::ZERO,
    };
    let is_within = |phase: &&&Phase<'_>| !joint.is_vm || phase.0.first_threads <= phase.0.cpus;
    let (within, beyond): (Vec<&Phase<'_>>, Vec<&Phase<'_>>) = rest.iter().partition(is_within);
    let best =
        |phases: &[&Phase<'_>], with: &dyn Fn(Micros) -> Model| length(joint, phases, with, random_seed);
    model.quantum = best(&within, &|quantum| Model { quantum, ..model.clone() })?;
    model.turn = best(&beyond, &|turn| Model { turn, ..model.clone() }).unwrap_or(model.turn);
    model.switch = switch_cost(rest, model.quantum);
    Some(model)
}

/// The length of a turn with which the simulated stretches away are as long as the measured ones, in the phase with most
/// time away; `with` says what it is a length of.
fn length(
    joint: &Measured<'_>,
    phases: &[&Phase<'_>],
    with: &dyn Fn(Micros) -> Model,
    seed: u64,
) -> Option<Micros> {
    let both = phases.iter().filter(|phase| phase.0.first_threads > 0 && phase.0.other_threads > 0);
    let phase = both.max_by_key(|phase| phase.1.away_ticks.sum())?;
    let typical = typical_away(phase.1, joint.detail)?;
    let tried = (0..QUANTA).map(|step| {
        let length = typical * 2.0 * 2f64.powf(-f64::from(step) / 4.0);
        Micros::from_micros(saturate(length / 1000.0).max(50))
    });
    let miss = |length: Micros| {
        let figures = simulate(joint, &with(length), &phase.0, seed);
        let away = value(&figures, "vm.first.away_typical_ns").filter(|away| *away > 0.0);
        away.map_or(f64::INFINITY, |away| (away / typical).ln().abs())
    };
    let best = tried.map(|length| (miss(length), length)).min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(best.1)
}

/// Time-weighted median of the stretches away, in nanoseconds.
fn typical_away(phase: &SharePhase, detail: &ShareDetail) -> Option<f64> {
    longest_with(&phase.away_ticks, phase.away_ticks.sum() as f64 * 0.5, detail)
}

/// The length of stretch, in nanoseconds, at which the longer ones together exceed `ticks`.
fn longest_with(away: &Histogram, ticks: f64, detail: &ShareDetail) -> Option<f64> {
    let mut sum = 0.0;
    let found = away.buckets().iter().rev().find(|bucket| {
        sum += bucket.sum as f64;
        sum > ticks
    })?;
    let middle = found.sum as f64 / found.count.max(1) as f64;
    Some(middle * 1e9 / detail.counter_hz.as_f64().max(1.0))
}

/// What work is slower where threads take turns, per turn.
fn switch_cost(rest: &[&Phase<'_>], quantum: Micros) -> Nanos {
    let rate = |phase: &SharePhase| {
        let cpu = phase.cpu_time_ns.as_f64();
        (cpu > 0.0 && phase.rounds > 0).then(|| phase.rounds as f64 / cpu)
    };
    let best = |is_shared: bool| {
        let phases = rest.iter().filter(|phase| (phase.0.other_threads > 0) == is_shared);
        phases
            .filter_map(|phase| rate(phase.1))
            .fold(None, |most: Option<f64>, rate| Some(most.unwrap_or(rate).max(rate)))
    };
    let (Some(alone), Some(shared)) = (best(false), best(true)) else { return Nanos::ZERO };
    let lost = (1.0 - shared / alone).clamp(0.0, 0.2);
    Nanos::from_nanos(saturate(lost * quantum.get() as f64 * 1000.0))
}

fn simulate(joint: &Measured<'_>, model: &Model, seen: &Observation, random_seed: u64) -> Vec<Figure> {
    run_host(&scenario(joint, model, seen), random_seed, 0).figures
}

fn scenario(joint: &Measured<'_>, model: &Model, seen: &Observation) -> Scenario {
    let quantum_us = model.quantum;
    let per_thread = PolicySpec::PerThread { quantum_us };
    let policy = match model.policy {
        SharingPolicy::EqualPerThread | SharingPolicy::Reserved | SharingPolicy::Capped => per_thread,
        SharingPolicy::EqualPerInstance | SharingPolicy::Weighted => PolicySpec::EqualPerVm { quantum_us },
        SharingPolicy::ProportionalToNeed => PolicySpec::Proportional { quantum_us },
    };
    let parameter = |wanted: SharingPolicy| model.parameter.filter(|_| model.policy == wanted);
    let vm = |name: &str, count: u32, threads: u32| VmSpec {
        limit_cpus: parameter(SharingPolicy::Capped),
        turn_us: model.turn,
        ..instance(name, count, threads, if joint.is_vm { seen.cpus } else { threads.max(1) })
    };
    let mut vms = Vec::new();
    if seen.first_threads > 0 {
        let first = vm("first", 1, seen.first_threads);
        let weight = parameter(SharingPolicy::Weighted).unwrap_or(1.0).clamp(1e-4, 1e6);
        let most = f64::from(first.vcpus.min(joint.host_cpus));
        let reserved_cpus = parameter(SharingPolicy::Reserved).unwrap_or(0.0).clamp(0.0, most);
        vms.push(VmSpec { weight, reserved_cpus, ..first });
    }
    if seen.other_threads > 0 && seen.instances > 1 {
        vms.push(vm("other", seen.instances - 1, seen.other_threads));
    }
    if model.lost_cpus > 0.005 {
        let mut rest = instance("rest", 1, joint.host_cpus, joint.host_cpus);
        rest.weight = 1000.0;
        rest.limit_cpus = Some(model.lost_cpus);
        rest.threads.iter_mut().for_each(|thread| thread.run = ProgramSpec::Endless);
        vms.push(rest);
    }
    Scenario {
        name: "calibrated".to_owned(),
        about: String::new(),
        seed: 0,
        replications: 1,
        limits: LimitSpec::default(),
        host: Some(HostSpec {
            cpus: joint.host_cpus,
            mhz: 2000,
            switch_ns: model.switch,
            migrate_ns: units::Nanos::ZERO,
            cache_cpus: 1,
            migrate_near_share: 0.0,
            grace_us: Micros::from_micros(0),
            help: HelpSpec::None,
            staggered: Some(true),
            smt: 1,
            smt_speed: 1.0,
            memory_mb_s: None,
            memory_nodes: 1,
            policy,
        }),
        vms,
        nodes: None,
        memory: None,
        figures: Vec::new(),
        assumptions: Vec::new(),
    }
}

fn instance(name: &str, count: u32, threads: u32, vcpus: u32) -> VmSpec {
    VmSpec {
        name: name.to_owned(),
        count,
        vcpus,
        weight: 1.0,
        reserved_cpus: 0.0,
        limit_cpus: None,
        migrate_ns: None,
        budget_us: None,
        period_us: None,
        phase_us: None,
        deadline_us: None,
        latency_us: None,
        capped: false,
        cpus: None,
        pinned: false,
        dedicated: false,
        turn_us: Micros::from_micros(4000),
        locks: LockSpec::default(),
        interrupts: InterruptSpec::default(),
        threads: vec![ThreadSpec {
            count: Some(threads),
            priority: 0,
            bound: None,
            memory_mb_s: 0,
            run: ProgramSpec::Gap { piece_us: PIECE, duration_ms: SIMULATED },
        }],
    }
}

fn value(figures: &[Figure], id: &str) -> Option<f64> {
    figures.iter().find(|figure| figure.id == id).map(|figure| figure.value)
}

/// The held-out phase, measured beside simulated.
fn beside(label: &str, held: &Phase<'_>, joint: &Measured<'_>, figures: &[Figure]) -> Vec<PublishedOutcome> {
    let (seen, phase) = held;
    let load = format!("{} + {} threads, held out", seen.first_threads, seen.other_threads);
    let row = |(title, metric): (String, &str),
               unit: Unit,
               got: f64,
               simulated: Option<f64>,
               demanded: &str,
               demand: Demand| {
        PublishedOutcome {
            title,
            case: label.to_owned(),
            source: "measured in this run, not given to the model".to_owned(),
            metrics: vec![metric.to_owned()],
            unit,
            published: got,
            simulated,
            half_width: None,
            label: FigureLabel::Predicted,
            demand: Some(demand),
            demanded: demanded.to_owned(),
            holds: simulated.map(|simulated| demand.is_met_by(simulated)),
            undecided: false,
        }
    };
    let share = |who: &str, id: &str, got: f64| {
        let title = format!("CPUs of {who} instance ({load})");
        let off = SHARE_TOLERANCE * got;
        let demand = Demand { least: Some(got - off), most: Some(got + off) };
        row((title, id), Unit::Count, got, value(figures, id), "within 10 %", demand)
    };
    let other = if seen.instances > 2 { "vm.other-1.cpus" } else { "vm.other.cpus" };
    let mut rows = vec![share("the first", "vm.first.cpus", seen.first), share("another", other, seen.other)];
    let all = (phase.away_ticks.sum() + phase.running_ticks.sum()) as f64;
    if let Some(bound) = longest_with(&phase.away_ticks, 0.05 * all, joint.detail) {
        let title = format!("bound_95 of the first instance ({load})");
        rows.push(row(
            (title, "vm.first.bound_95_ns"),
            Unit::Nanoseconds,
            bound,
            value(figures, "vm.first.bound_95_ns"),
            "within one log2 bin",
            Demand { least: Some(bound / 2.0), most: Some(bound * 2.0) },
        ));
    }
    rows
}

/// What was estimated, in words.
fn told(label: &str, model: &Model, is_vm: bool) -> Vec<AssumptionOutcome> {
    let row = |key: &str, value: String, why: String| AssumptionOutcome {
        key: format!("{label}: {key}"),
        value,
        origin: Origin::Estimated,
        why,
        sensitivity: Vec::new(),
        tried: Vec::new(),
        untried: None,
    };
    let parameter =
        model.parameter.map(|parameter| format!(" ({})", three_digits(parameter))).unwrap_or_default();
    let misfit = three_digits(model.misfit * 100.0);
    let micros = |micros: Micros| Nanos::from_nanos(micros.get().saturating_mul(1000)).to_string();
    let mut rows = vec![
        row(
            sensitivity::POLICY,
            format!("{}{parameter}", analysis::policy::words(model.policy)),
            match &model.doubt {
                None => format!("closed forms fit best: off by {misfit} % on average"),
                Some(doubt) => format!("NOT CERTAIN, take the prediction with care: {doubt}"),
            },
        ),
        row(
            sensitivity::QUANTUM,
            micros(model.quantum),
            "with it, simulated stretches away are as long as the measured ones".to_owned(),
        ),
        row(
            sensitivity::NOISE,
            format!("{} CPUs", three_digits(model.lost_cpus)),
            "all instances together never had the rest of the CPUs".to_owned(),
        ),
        row(
            sensitivity::SWITCH,
            model.switch.to_string(),
            "work per CPU time is so much less where threads take turns".to_owned(),
        ),
    ];
    if is_vm {
        let why = "with it, they are as long where threads share a virtual CPU, too";
        rows.push(row(sensitivity::TURN, micros(model.turn), why.to_owned()));
    }
    rows
}

fn case(label: &str, model: &Model, seen: &Observation, figures: Vec<Figure>) -> CaseOutcome {
    let settings = BTreeMap::from([
        ("policy".to_owned(), analysis::policy::words(model.policy).to_owned()),
        ("quantum_us".to_owned(), model.quantum.get().to_string()),
        ("first.threads".to_owned(), seen.first_threads.to_string()),
        ("other.threads".to_owned(), seen.other_threads.to_string()),
    ]);
    let figures = figures.into_iter().map(|figure| SimulatedFigure {
        id: figure.id,
        title: figure.title,
        unit: figure.unit,
        better: figure.better,
        probe: figure.probe,
        values: vec![(0, figure.value)],
    });
    CaseOutcome {
        label: label.to_owned(),
        settings,
        figures: figures.collect(),
        waits: Vec::new(),
        time_line: None,
        troubles: Vec::new(),
        notes: Vec::new(),
        events: 0,
    }
}

#[cfg(test)]
mod tests;
