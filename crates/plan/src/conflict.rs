//! Needs that cannot hold together: as few as possible, so that without any one of them the rest can.
//!
//! ```text
//!  all needs ─ half of them waived: still impossible? they are not it ─► halves of the rest, … ─► one by one: each is needed
//! ```
//! Deletion with chunks that grow smaller, as in Marques-Silva, "Minimal unsatisfiability: models, algorithms and
//! applications" (2010).

use std::collections::BTreeSet;

use crate::need::Need;
use crate::pb::{Log, Searched, Solver};
use crate::planner::Question;
use crate::problem::Problem;
use crate::search::soon;

/// Shakes of the search that comes first: none, it only has to find something.
const SHAKES: usize = 0;

/// Needs that cannot hold together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The needs.
    pub needs: Vec<Need>,
    /// Whether it was tried for each of them that the others can hold without it. Otherwise the time was over.
    pub is_minimal: bool,
}

/// Whether all but what is waived can hold; none if the time was over before that was known.
pub fn is_possible(question: &Question<'_>, waived: &BTreeSet<Need>) -> Option<bool> {
    // To write the question down again takes long for a large system.
    if (question.is_over)() {
        return None;
    }
    let problem = Problem::new(question.system, question.hosts, waived);
    if !problem.has_downtimes() && soon(&problem, SHAKES, question.is_over).is_some() {
        return Some(true);
    }
    let encoded = crate::encode::encode(&problem);
    let mut solver = Solver::new(&encoded.formula, Log::default());
    match solver.solve(&[], question.is_over) {
        Searched::Holds => Some(true),
        Searched::Fails => Some(false),
        Searched::Ended => None,
    }
}

/// Most conflicts that are looked for.
pub const MOST_CONFLICTS: usize = 8;

/// Smallest sets of needs that cannot hold together, of a question that has no plan: no need is in two of them, and without all of
/// these needs there is a plan, unless there are more than are looked for.
pub fn conflicts(question: &Question<'_>) -> Vec<Conflict> {
    let mut waived: BTreeSet<Need> = BTreeSet::new();
    let mut all = Vec::new();
    while all.len() < MOST_CONFLICTS && is_possible(question, &waived) == Some(false) {
        let found = conflict(question, &waived);
        if found.needs.is_empty() {
            break;
        }
        waived.extend(found.needs.iter().cloned());
        all.push(found);
    }
    all
}

/// A smallest set of needs that cannot hold together, even without those that are waived.
fn conflict(question: &Question<'_>, but: &BTreeSet<Need>) -> Conflict {
    let mut waived: BTreeSet<Need> = but.clone();
    let mut needs = Need::all(question.system);
    needs.retain(|need| !but.contains(need));
    let mut is_minimal = true;
    let mut chunk = needs.len().div_ceil(2);
    while chunk > 0 {
        let mut kept: Vec<Need> = Vec::new();
        let mut rest: &[Need] = &needs;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(chunk.min(rest.len()));
            let mut without = waived.clone();
            without.extend(now.iter().cloned());
            match is_possible(question, &without) {
                Some(false) => waived = without,
                Some(true) => kept.extend(now.iter().cloned()),
                None => {
                    is_minimal = false;
                    kept.extend(now.iter().cloned());
                }
            }
            rest = later;
        }
        needs = kept;
        chunk = if chunk == 1 { 0 } else { chunk.div_ceil(2) };
    }
    Conflict { needs, is_minimal }
}
