//! From conditions to the level of a class, and which of them decided.

use model::classes::{Held, Suitability, Weight};

use super::condition::Judged;

/// Level of a class.
pub(super) struct Outcome {
    pub(super) level: Suitability,
    /// Index of the condition that decided.
    pub(super) decided_by: Option<usize>,
}

impl Outcome {
    pub(super) fn of(all: &[Judged]) -> Self {
        let of = |weight: Weight, held: &[Held]| -> Vec<usize> {
            all.iter()
                .enumerate()
                .filter(|(_, judged)| judged.result.weight == weight && held.contains(&judged.result.held))
                .map(|(index, _)| index)
                .collect()
        };
        let open = [Held::Unclear, Held::NotMeasured];
        let some_exist = all.iter().any(|judged| judged.result.weight == Weight::Some);
        let some_missing = some_exist && of(Weight::Some, &[Held::Yes]).is_empty();
        let some_open = of(Weight::Some, &open);
        let mut broken = of(Weight::Required, &[Held::No]);
        if some_missing && some_open.is_empty() {
            broken.extend(of(Weight::Some, &[Held::No]));
        }
        if !broken.is_empty() {
            return Self { level: Suitability::Unsuited, decided_by: farthest(all, &broken) };
        }
        let mut unknown = of(Weight::Required, &open);
        if some_missing {
            unknown.extend(some_open);
        }
        if let Some(first) = unknown.first() {
            return Self { level: Suitability::Unknown, decided_by: Some(*first) };
        }
        let unwanted = of(Weight::Wanted, &[Held::No]);
        if !unwanted.is_empty() {
            return Self { level: Suitability::Limited, decided_by: farthest(all, &unwanted) };
        }
        let mut held = of(Weight::Required, &[Held::Yes]);
        if held.is_empty() {
            held = of(Weight::Some, &[Held::Yes]);
        }
        Self { level: Suitability::Suited, decided_by: farthest(all, &held) }
    }
}

/// The one that is farthest beyond its bound; one without a factor, because an instance perished, goes first.
fn farthest(all: &[Judged], indices: &[usize]) -> Option<usize> {
    let factor = |index: &usize| {
        let result = all.get(*index).map(|judged| &judged.result);
        let perished = result.is_some_and(|result| result.held == Held::No && result.factor.is_none());
        if perished { f64::INFINITY } else { result.and_then(|result| result.factor).unwrap_or(0.0) }
    };
    indices.iter().copied().rev().max_by(|a, b| factor(a).total_cmp(&factor(b)))
}
