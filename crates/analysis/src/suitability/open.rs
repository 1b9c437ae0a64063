//! What is not decided yet: by how much measuring it would be, if the figures stayed what they are.
//!
//! An interval gets narrower like one over the square root of the number of rounds; where a share was bounded (`exceedance`), the
//! bound says itself how many draws it wants. Whoever is held against a bound from inside its interval gets no time that ends.

use model::classes::{Held, OpenCell, Suitability, Weight};
use units::Nanos;
use units::metric::{Estimate, saturate};

use super::super::exceedance::MOST_TIMES;
use super::condition::{Bound, Judged};
use super::level::Outcome;
use super::observe::{Observation, Seen};

/// What an open observation needs; none of one that no round has a figure of.
pub(super) fn open(observation: &Observation, bound: Bound) -> Option<OpenCell> {
    let (leans_broken, times) = match &observation.value {
        Seen::Value(estimate) => (!bound.is_good(estimate.value), narrower(estimate, bound)),
        Seen::Beyond(share) => (share.value > share.allowed, share.times),
        // Nobody knows how many rounds have an interval: twice as many will be looked at.
        Seen::Unsupported(_) if observation.rounds > 0 => (false, Some(2.0)),
        Seen::Unsupported(_) | Seen::Perished(_) | Seen::Nothing { .. } => return None,
    };
    let further = times.map(|times| (f64::from(observation.rounds) * (times - 1.0)).ceil().max(1.0));
    let needs_rounds = further.and_then(|rounds| u32::try_from(saturate(rounds)).ok());
    Some(OpenCell {
        cell: observation.cell.clone(),
        compared_with: observation.other.clone(),
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

/// What would have to be measured to decide a class; nothing when it is decided, or when no measuring does.
///
/// One broken condition is enough: where some lean that way, the one that takes least does. Otherwise all have to be shown to
/// hold, one after the other; of those of which one is enough, that which takes least.
pub(super) fn needed(all: &[Judged], outcome: &Outcome) -> Vec<OpenCell> {
    if outcome.level != Suitability::Unknown {
        return Vec::new();
    }
    let of = |weight: Weight| all.iter().filter(move |judged| judged.result.weight == weight);
    let leaning =
        of(Weight::Required).flat_map(|judged| &judged.result.open).filter(|open| open.leans_broken);
    if let Some(least) = leaning.filter(|open| open.needs_ns.is_some()).min_by_key(|open| open.needs_ns) {
        return vec![least.clone()];
    }
    let required: Option<Vec<Vec<OpenCell>>> = of(Weight::Required).map(of_condition).collect();
    let is_missing = of(Weight::Some).all(|judged| judged.result.held != Held::Yes);
    let some = of(Weight::Some).filter(|judged| is_missing && judged.result.held != Held::No);
    let some: Vec<Option<Vec<OpenCell>>> = some.map(of_condition).collect();
    let least = some.iter().flatten().min_by_key(|cells| time(cells));
    match required {
        Some(required) if some.is_empty() || least.is_some() => {
            once(required.into_iter().flatten().chain(least.into_iter().flatten().cloned()))
        }
        _ => Vec::new(),
    }
}

/// How long all of that takes; none when that is nothing.
pub(super) fn time(cells: &[OpenCell]) -> Option<Nanos> {
    let times = cells.iter().filter_map(|open| open.needs_ns);
    times.reduce(Nanos::saturating_add)
}

/// What a condition needs; none when no measuring decides it.
fn of_condition(judged: &Judged) -> Option<Vec<OpenCell>> {
    match judged.result.held {
        Held::Yes | Held::No => return Some(Vec::new()),
        Held::NotMeasured => return None,
        Held::Unclear => {}
    }
    let is_decidable = |open: &OpenCell| open.needs_ns.is_some();
    let open = &judged.result.open;
    (!open.is_empty() && open.iter().all(is_decidable)).then(|| open.clone())
}

/// A cell that several conditions look at is measured once, as often as that wants it which wants it most often.
fn once(cells: impl Iterator<Item = OpenCell>) -> Vec<OpenCell> {
    let mut all: Vec<OpenCell> = Vec::new();
    for open in cells {
        let same =
            |known: &&mut OpenCell| (&known.cell, &known.compared_with) == (&open.cell, &open.compared_with);
        match all.iter_mut().find(same) {
            Some(known) if known.needs_rounds < open.needs_rounds => *known = open,
            Some(_) => {}
            None => all.push(open),
        }
    }
    all
}
