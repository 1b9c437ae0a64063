//! Is a platform fit for a class of work? Results and classes in, verdicts out.
//!
//! ```text
//!  condition ─► observations (cells that count) ─► held? each by its interval ─► the worst ─► level of the class
//! ```
//! A condition holds only when the interval lies on the good side of its bound, and is broken only when it lies on the
//! bad side. Where a tail has no interval, the share that takes longer than the deadline is bounded instead (`exceedance`): by one
//! bound on each side, of which only one can be wrong. A class is called suited only when every required condition holds, so its intervals need no correction for
//! their number: the chance that all of them are wrong at once is not larger than that of one (intersection–union,
//! Berger 1982). Ratios are therefore taken from the pairs again at 95 %, not at the confidence of the whole run.

mod condition;
mod level;
mod observe;
mod open;
mod wording;

use std::collections::BTreeSet;

use model::classes::{ClassSet, ClassSpec, ClassVerdict, Missing};
use model::journal::Neighbour;
use model::results::RunResults;

use condition::{Judged, judged};
use level::Outcome;
use observe::Looked;

/// Holds every platform of a run that was measured against every class. Same order as the classes, then the platforms.
pub fn judge(results: &RunResults, set: &ClassSet) -> Vec<ClassVerdict> {
    let measured = |label: &str| {
        results.cells.iter().any(|cell| cell.cell.platform == label && cell.done + cell.failed > 0)
    };
    let labels: Vec<&str> = results
        .platforms
        .iter()
        .map(|platform| platform.label.as_str())
        .filter(|label| measured(label))
        .collect();
    set.classes
        .iter()
        .flat_map(|class| labels.iter().map(move |platform| of_platform(results, class, platform)))
        .collect()
}

fn of_platform(results: &RunResults, class: &ClassSpec, platform: &str) -> ClassVerdict {
    let all = conditions(results, class, platform, BTreeSet::new());
    let outcome = Outcome::of(&all);
    let kept_away = neighbours_that_break(&all);
    let without = (!kept_away.is_empty()).then(|| {
        let quiet = conditions(results, class, platform, kept_away.clone());
        (kept_away, Outcome::of(&quiet).level)
    });
    let needs = open::needed(&all, &outcome);
    let reason = wording::needed(&needs) + &wording::reason(&all, &outcome);
    let needs_ns = open::time(&needs);
    let missing = missing(&all);
    ClassVerdict {
        class: class.name.clone(),
        title: class.title.clone(),
        platform: platform.to_owned(),
        level: outcome.level,
        sentence: wording::sentence(class, platform, outcome.level, needs_ns, &reason),
        reason,
        would_change: wording::would_change(class, &all, &outcome, needs_ns, without.as_ref()),
        needs_ns,
        needs,
        measure_with: (!missing.is_empty()).then(|| wording::command(class)),
        missing,
        decided_by: outcome.decided_by.and_then(|index| u32::try_from(index).ok()),
        conditions: all.into_iter().map(|judged| judged.result).collect(),
    }
}

fn conditions(
    results: &RunResults,
    class: &ClassSpec,
    platform: &str,
    left_out: BTreeSet<Neighbour>,
) -> Vec<Judged> {
    let looked = Looked { results, platform, left_out };
    class.conditions.iter().map(|condition| judged(&looked, condition, class.deadline)).collect()
}

/// What the experiment left out, each probe once; one that is missing altogether is not missing beside neighbours, too.
fn missing(all: &[Judged]) -> Vec<Missing> {
    let mut found: Vec<Missing> = Vec::new();
    for missing in all.iter().flat_map(|judged| &judged.missing) {
        if found.iter().all(|known| known.probe != missing.probe) {
            found.push(*missing);
        }
    }
    found
}

/// Neighbours beside which a required condition is broken.
fn neighbours_that_break(all: &[Judged]) -> BTreeSet<Neighbour> {
    all.iter()
        .filter(|judged| judged.is_broken() && judged.decides())
        .flat_map(|judged| judged.result.broken_in.iter().filter_map(|cell| cell.neighbour))
        .collect()
}

#[cfg(test)]
mod tests;
