//! `plan --check`, `--check-proof`: a plan and a proof, looked at by code that has made neither.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::Context;

use super::args::PlanArgs;
use super::plan_of;
use crate::cli::ending::{Ending, OrStop, Stop, Verdict};
use crate::cli::output;
use audit::certificate::{self, ProvenGoal, Verdict as Proven};
use model::plan::Plan;
use model::system::{KnownHost, System};
use report::text::printable;

/// Longest sentence that is told whole.
const LONGEST_LINE: usize = 2000;
/// Most that is told of one plan.
const MOST_TOLD: usize = 20;

/// What a proof does not prove.
const AS_STATED: &str = ".\nIt is of the sums that it states; that these are this system's rules is no part of it (docs/plan.md).";

/// Checks what was named.
pub(super) fn run(args: &PlanArgs, system: &System, hosts: &[KnownHost], from: Option<&Plan>) -> Verdict {
    let plan = args.check.as_deref().map(plan_of).transpose().or_bad_input()?;
    let mut told = Vec::new();
    if let Some(plan) = &plan {
        told.extend(audit::broken_rules(system, hosts, plan).iter().map(ToString::to_string));
        told.extend(audit::wrong_claims(system, hosts, plan, from));
        told.extend(audit::wrong_elsewhere(system, hosts, plan, from));
        if told.is_empty() {
            output::data(&format!(
                "the plan keeps every rule, and is worth what it says: {}",
                printable(&plan.system, LONGEST_LINE)
            ))
            .or_bad_input()?;
        }
    }
    if let Some(path) = &args.check_proof {
        told.extend(proof(path, plan.as_ref())?);
    }
    if told.is_empty() {
        return Ok(Ending::Done);
    }
    let more = told.len().saturating_sub(MOST_TOLD);
    told.truncate(MOST_TOLD);
    if more > 0 {
        told.push(format!("and {more} more"));
    }
    // Names come from a plan that anybody may have written.
    let told: Vec<String> = told.iter().map(|line| printable(line, LONGEST_LINE)).collect();
    output::data(&told.join("\n")).or_bad_input()?;
    Ok(Ending::NotMet)
}

/// What is wrong with a proof.
fn proof(path: &Path, plan: Option<&Plan>) -> Result<Vec<String>, Stop> {
    let file =
        File::open(path).with_context(|| format!("{} cannot be read", path.display())).or_bad_input()?;
    match certificate::check(BufReader::new(file)) {
        Err(refused) => Ok(vec![format!("{}: {refused}", path.display())]),
        Ok(Proven::Infeasible) => {
            if plan.is_some() {
                return Ok(vec![format!("{} proves that there is no plan", path.display())]);
            }
            output::data(&format!("the proof is right: the needs cannot hold together{AS_STATED}"))
                .or_bad_input()?;
            Ok(Vec::new())
        }
        Ok(Proven::Optimal { goals, places }) => {
            let wrong: Vec<String> = plan
                .map(|plan| {
                    let mut wrong = certificate::places_match(plan, &places);
                    wrong.extend(certificate::goals_match(plan, &goals));
                    wrong
                })
                .unwrap_or_default();
            if wrong.is_empty() {
                let words: Vec<String> = goals.iter().map(in_words).collect();
                output::data(&format!("the proof is right: {}{AS_STATED}", words.join(", ")))
                    .or_bad_input()?;
            }
            Ok(wrong)
        }
    }
}

fn in_words(goal: &ProvenGoal) -> String {
    if goal.least == goal.value {
        format!("{} {} is best", goal.name, goal.value)
    } else {
        format!("{} {}, {} at least", goal.name, goal.value, goal.least)
    }
}
