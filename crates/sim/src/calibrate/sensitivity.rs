//! How far the predictions of a calibrated model move when one of its estimated parameters is changed.

use super::Model;
use analysis::policy::words;
use model::simulation::{AssumptionOutcome, Tried};
use units::{Micros, Nanos};

/// Parameters, as they are called in the outcome.
pub(super) const POLICY: &str = "policy";
pub(super) const QUANTUM: &str = "quantum";
pub(super) const NOISE: &str = "noise";
pub(super) const SWITCH: &str = "cost of a switch";
pub(super) const TURN: &str = "the guest's own turn";

/// Others take so many CPUs where none was seen.
const SOME_NOISE_CPUS: f64 = 0.05;
/// A switch costs so much where nothing was seen.
const SOME_SWITCH: Nanos = Nanos::from_nanos(1000);

/// The parameters with what a changed model predicts.
pub(super) fn tried(
    parameters: Vec<AssumptionOutcome>,
    model: &Model,
    predict: &dyn Fn(&Model) -> Vec<Option<f64>>,
) -> Vec<AssumptionOutcome> {
    let with = |parameter: AssumptionOutcome| {
        let changes = changes(&parameter.key, model).into_iter();
        let tried = changes.map(|(change, model)| Tried { change, simulated: predict(&model) }).collect();
        AssumptionOutcome { tried, ..parameter }
    };
    parameters.into_iter().map(with).collect()
}

/// Changed models, each with its change in words; the key ends with the parameter's name.
fn changes(key: &str, model: &Model) -> Vec<(String, Model)> {
    let is = |name: &str| key.ends_with(name);
    let both = |change: &dyn Fn(f64) -> Model| {
        [0.5, 2.0].map(|factor| (format!("times {factor}"), change(factor))).to_vec()
    };
    if is(TURN) {
        both(&|factor| Model { turn: times(model.turn, factor), ..model.clone() })
    } else if is(QUANTUM) {
        both(&|factor| Model { quantum: times(model.quantum, factor), ..model.clone() })
    } else if is(NOISE) && model.lost_cpus > 0.0 {
        both(&|factor| Model { lost_cpus: model.lost_cpus * factor, ..model.clone() })
    } else if is(NOISE) {
        vec![(
            format!("set to {SOME_NOISE_CPUS} CPUs"),
            Model { lost_cpus: SOME_NOISE_CPUS, ..model.clone() },
        )]
    } else if is(SWITCH) && model.switch > Nanos::ZERO {
        let switch = |factor: f64| Nanos::from_nanos(units::metric::saturate(model.switch.as_f64() * factor));
        both(&|factor| Model { switch: switch(factor), ..model.clone() })
    } else if is(SWITCH) {
        vec![(format!("set to {SOME_SWITCH}"), Model { switch: SOME_SWITCH, ..model.clone() })]
    } else if is(POLICY) {
        let next = model.next_best.map(|(policy, parameter)| {
            let words = format!("next best fit, {}", words(policy));
            (words, Model { policy, parameter, ..model.clone() })
        });
        let scaled = |parameter: f64, factor: f64| {
            let words = format!("its parameter times {factor}");
            (words, Model { parameter: Some(parameter * factor), ..model.clone() })
        };
        let scaled = model.parameter.map(|parameter| [0.8, 1.25].map(|factor| scaled(parameter, factor)));
        next.into_iter().chain(scaled.into_iter().flatten()).collect()
    } else {
        Vec::new()
    }
}

fn times(length: Micros, factor: f64) -> Micros {
    Micros::from_micros(units::metric::saturate(length.as_f64() * factor).max(1))
}
