//! Whether what a certificate proves is what a plan claims: its places, its goals.

use std::collections::BTreeSet;

use model::plan::{Goal, Plan};

use super::{Place, ProvenGoal};

/// Most differences that are told.
const MOST_TOLD: usize = 20;

/// Where the plan and the solution of its certificate differ; none means that they are the same.
pub fn places_match(plan: &Plan, places: &[Place]) -> Vec<String> {
    let planned: BTreeSet<Place> = plan
        .partitions
        .iter()
        .flat_map(|placed| {
            placed.seats.iter().map(|seat| Place {
                replica: placed.name.clone(),
                host: placed.host.clone(),
                node: seat.node,
            })
        })
        .collect();
    let proven: BTreeSet<Place> = places.iter().cloned().collect();
    let told = |from: &BTreeSet<Place>, other: &BTreeSet<Place>, wrong: &str| -> Vec<String> {
        let only = from.difference(other).take(MOST_TOLD);
        only.map(|place| {
            format!("\"{}\" on node {} of \"{}\" {wrong}", place.replica, place.node, place.host)
        })
        .collect()
    };
    let mut all = told(&planned, &proven, "is in the plan, not in the certificate's solution");
    all.extend(told(&proven, &planned, "is in the certificate's solution, not in the plan"));
    all
}

/// What the plan claims of its goals that the certificate does not prove; none means that all of it is proven.
///
/// A certificate calls goals as `docs/plan.md` does.
pub fn goals_match(plan: &Plan, goals: &[ProvenGoal]) -> Vec<String> {
    let mut problems = Vec::new();
    for claim in &plan.goals {
        let name = claim.goal.word();
        let Some(proven) = goals.iter().find(|goal| goal.name == name) else {
            problems.push(format!("{name}: the certificate says nothing of it"));
            continue;
        };
        if (proven.value, proven.least) != (claim.value, claim.least) {
            let (value, least) = (claim.value, claim.least);
            problems.push(format!(
                "{name}: the plan says {value} with at least {least}, the certificate proves {} with at least {}",
                proven.value, proven.least
            ));
        }
    }
    let in_order: Vec<&str> = goals.iter().map(|goal| goal.name.as_str()).collect();
    if !in_order.iter().copied().eq(Goal::ALL.map(Goal::word).into_iter().take(in_order.len())) {
        problems.push(format!(
            "the certificate's goals are {}, in another order than plans are compared by",
            in_order.join(", ")
        ));
    }
    problems
}
