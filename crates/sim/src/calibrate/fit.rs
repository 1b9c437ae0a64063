//! A model of a platform: how it shares the CPUs, and the lengths of its turns, with which simulated stretches away are as long
//! as the measured ones.

use analysis::policy::{name, words};
use model::policy::SharingPolicy;
use probes::detail::SharePhase;
use probes::share::metrics::Observation;
use units::metric::saturate;
use units::{Micros, Nanos, three_digits};

use super::load;
use super::measured::{Measured, Phase, typical_away};
use super::shares::{self, Shares};
use super::within;

/// Quanta that are tried, as fractions of the longest plausible one, a quarter of an octave apart.
const QUANTA: u32 = 28;
/// Turns are between these, in microseconds: what the probe notices, and an hour.
const TURNS_US: (u64, u64) = (50, 3_600_000_000);
/// A switch costs at most this part of a turn.
const MOST_SWITCHING: f64 = 0.2;

/// What was found out about a platform.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Model {
    pub shares: Shares,
    /// Why the policy is not certain, if it is not.
    pub doubt: Option<String>,
    pub quantum: Micros,
    /// What a thread gets of its virtual CPU at a time.
    pub turn: Micros,
    pub switch: Nanos,
}

/// The loads' means.
pub(super) fn means(phases: &[&Phase]) -> Vec<Observation> {
    phases.iter().map(|phase| phase.seen).collect()
}

/// Learns from these loads.
pub(super) fn learn(measured: &Measured, rest: &[&Phase], seed: u64) -> Option<Model> {
    let cpus = f64::from(measured.cpus);
    let rounds: Vec<Observation> = rest.iter().flat_map(|phase| &phase.rounds).copied().collect();
    let (shares, taken) = shared(measured, rest, &rounds, seed)?;
    let named = name(&rounds, cpus);
    let doubt = taken.or(named.doubt).or_else(|| {
        let by_rounds = named.candidate.filter(|named| named.policy != shares.candidate.policy)?;
        Some(format!("round by round it looks like \"{}\"", words(by_rounds.policy)))
    });
    let usual = Micros::from_micros(4000);
    let mut model = Model { shares, doubt, quantum: usual, turn: usual, switch: Nanos::ZERO };
    let is_within = |phase: &&&Phase| !measured.is_vm || phase.seen.first_threads <= phase.seen.cpus;
    let (within, beyond): (Vec<&Phase>, Vec<&Phase>) = rest.iter().partition(is_within);
    let best = |phases: &[&Phase], with: &dyn Fn(Micros) -> Model| length(measured, phases, with, seed);
    if let Some(quantum) = best(&within, &|quantum| Model { quantum, ..model.clone() }) {
        model.quantum = quantum;
    }
    model.turn = best(&beyond, &|turn| Model { turn, ..model.clone() }).unwrap_or(model.turn);
    let all: Vec<(bool, &SharePhase)> =
        rest.iter().map(|phase| (phase.seen.other_threads > 0, &phase.all)).collect();
    model.switch = switch_cost(&all, model.quantum);
    Some(model)
}

/// How the CPUs are divided; where nobody is preferred because the draws do not exclude it, why.
pub(super) fn shared(
    measured: &Measured,
    rest: &[&Phase],
    rounds: &[Observation],
    seed: u64,
) -> Option<(Shares, Option<String>)> {
    let cpus = f64::from(measured.cpus);
    let best = shares::fit(&means(rest), cpus, shares::cap(rounds, cpus))?;
    let drawn = within::draws(measured, rest, seed).map(|(_, loads)| loads);
    if best.candidate.policy != SharingPolicy::Weighted || shares::excludes_equality(drawn) {
        return Some((best, None));
    }
    let equal = shares::fit_equal(&means(rest), cpus)?;
    let weight = three_digits(best.candidate.parameter);
    let why = format!(
        "a weight of {weight} fits better, but rounds and loads drawn anew do not exclude equal ones"
    );
    Some((equal, Some(why)))
}

/// The load with most time away, of those in which both sides work.
pub(super) fn fullest<'a>(phases: &[&'a Phase]) -> Option<&'a Phase> {
    let both = phases.iter().filter(|phase| phase.is_shared());
    both.copied().max_by_key(|phase| phase.all.away_ticks.sum())
}

/// The length of a turn with which the simulated stretches away are as long as the measured ones, in the load with most
/// time away; `with` says what it is a length of.
fn length(
    measured: &Measured,
    phases: &[&Phase],
    with: &dyn Fn(Micros) -> Model,
    seed: u64,
) -> Option<Micros> {
    let phase = fullest(phases)?;
    let typical = typical_away(&phase.all, phase.tick_ns)?;
    let tried = (0..QUANTA).map(|step| {
        let length = typical * 2.0 * 2f64.powf(-f64::from(step) / 4.0);
        Micros::from_micros(saturate(length / 1000.0).clamp(TURNS_US.0, TURNS_US.1))
    });
    let miss = |length: Micros| {
        let away = load::figure(measured, &with(length), &phase.seen, "vm.first.away_typical_ns", seed);
        away.filter(|away| *away > 0.0).map_or(f64::INFINITY, |away| (away / typical).ln().abs())
    };
    let best = tried.map(|length| (miss(length), length)).min_by(|a, b| a.0.total_cmp(&b.0))?;
    best.0.is_finite().then_some(best.1)
}

/// What work is slower where threads take turns, per turn; whether others worked stands beside each account.
pub(super) fn switch_cost(phases: &[(bool, &SharePhase)], quantum: Micros) -> Nanos {
    let rate = |phase: &SharePhase| {
        let cpu = phase.cpu_time_ns.as_f64();
        (cpu > 0.0 && phase.rounds > 0).then(|| phase.rounds as f64 / cpu)
    };
    let best = |is_shared: bool| {
        let rates =
            phases.iter().filter(|(shared, _)| *shared == is_shared).filter_map(|(_, phase)| rate(phase));
        rates.reduce(f64::max)
    };
    let (Some(alone), Some(shared)) = (best(false), best(true)) else { return Nanos::ZERO };
    let lost = (1.0 - shared / alone).clamp(0.0, MOST_SWITCHING);
    Nanos::from_nanos(saturate(lost * quantum.get() as f64 * 1000.0))
}

/// The parameter of the policy; none where it has none.
pub(super) fn parameter(shares: &Shares) -> Option<f64> {
    let has = matches!(
        shares.candidate.policy,
        SharingPolicy::Weighted | SharingPolicy::Capped | SharingPolicy::Reserved
    );
    has.then_some(shares.candidate.parameter)
}
