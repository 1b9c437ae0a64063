//! What is not decided yet: by how much measuring it would be, if the figures stayed what they are.
//!
//! An interval gets narrower like one over the square root of the number of rounds; where a share was bounded (`exceedance`), the
//! bound says itself how many draws it wants. Whoever is held against a bound from inside its interval gets no time that ends.

use std::collections::BTreeMap;

use model::classes::{Held, OpenCell, Suitability, Weight};
use model::journal::Cell;
use units::Nanos;
use units::metric::{Estimate, saturate};

use super::super::exceedance::MOST_TIMES;
use super::condition::{Bound, Judged};
use super::level::Outcome;
use super::observe::{Observation, Seen};

/// What an open observation needs; none of one without a figure.
pub(super) fn open(observation: &Observation, bound: Bound) -> Option<OpenCell> {
    let (leans_broken, times) = match &observation.value {
        Seen::Value(estimate) => (!bound.is_good(estimate.value), narrower(estimate, bound)),
        Seen::Beyond(share) => (share.value > share.allowed, share.times),
        Seen::Unsupported(_) | Seen::Perished(_) | Seen::Nothing { .. } => return None,
    };
    let further = times.map(|times| (f64::from(observation.rounds) * (times - 1.0)).ceil().max(1.0));
    let needs_rounds = further.and_then(|rounds| u32::try_from(saturate(rounds)).ok());
    Some(OpenCell {
        cell: observation.cell.clone(),
        leans_broken,
        needs_rounds,
        needs_ns: needs_rounds
            .map(|rounds| Nanos::from_nanos(saturate(f64::from(rounds) * observation.round_ns))),
    })
}

/// How many times as many rounds make the interval so narrow that it lies on one side of the bound; none where that is too many.
fn narrower(estimate: &Estimate, bound: Bound) -> Option<f64> {
    let end = if estimate.value <= bound.limit { estimate.high } else { estimate.low };
    let all = [estimate.value, end, bound.limit];
    // Figures above zero scatter by factors.
    let scale = |value: f64| if all.iter().all(|value| *value > 0.0) { value.ln() } else { value };
    let [value, end, limit] = all.map(scale);
    let times = ((end - value) / (limit - value)).powi(2);
    (times.is_finite() && times <= MOST_TIMES).then_some(times.max(1.0))
}

/// How much more measuring would decide a class; none when it is decided, or when no measuring does.
///
/// One broken condition is enough: where some lean that way, the one that takes least does. Otherwise all have to be shown to
/// hold, one after the other; of those of which one is enough, that which takes least.
pub(super) fn needed(all: &[Judged], outcome: &Outcome) -> Option<Nanos> {
    if outcome.level != Suitability::Unknown {
        return None;
    }
    let of = |weight: Weight| all.iter().filter(move |judged| judged.result.weight == weight);
    let least = of(Weight::Required)
        .flat_map(|judged| &judged.result.open)
        .filter(|open| open.leans_broken)
        .filter_map(|open| open.needs_ns)
        .min();
    if least.is_some() {
        return least;
    }
    let mut times: BTreeMap<&Cell, Nanos> = BTreeMap::new();
    for judged in of(Weight::Required) {
        add(&mut times, judged)?;
    }
    let is_missing = of(Weight::Some).all(|judged| judged.result.held != Held::Yes);
    let of_some = of(Weight::Some).filter(|judged| is_missing && judged.result.held != Held::No);
    let some: Vec<Option<BTreeMap<&Cell, Nanos>>> = of_some
        .map(|judged| {
            let mut own = BTreeMap::new();
            add(&mut own, judged).map(|()| own)
        })
        .collect();
    if let Some(least) = some.iter().flatten().min_by_key(|own| sum(own)) {
        times.extend(least);
    } else if !some.is_empty() {
        return None;
    }
    Some(sum(&times)).filter(|time| *time > Nanos::ZERO)
}

/// Adds what a condition needs; none when no measuring decides it. A cell that two conditions look at is measured once.
fn add<'a>(times: &mut BTreeMap<&'a Cell, Nanos>, judged: &'a Judged) -> Option<()> {
    match judged.result.held {
        Held::Yes | Held::No => return Some(()),
        Held::NotMeasured => return None,
        Held::Unclear => {}
    }
    if judged.result.open.is_empty() {
        return None;
    }
    for open in &judged.result.open {
        let own = times.entry(&open.cell).or_default();
        *own = (*own).max(open.needs_ns?);
    }
    Some(())
}

fn sum(times: &BTreeMap<&Cell, Nanos>) -> Nanos {
    times.values().fold(Nanos::ZERO, |sum, time| sum.saturating_add(*time))
}
