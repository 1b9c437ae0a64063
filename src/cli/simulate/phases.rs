//! `--worst-phase`: after the scenario itself, its cases with other offsets of their real-time tasks, until the budget is used up.

use std::ops::ControlFlow;
use std::sync::Arc;

use anyhow::anyhow;

use super::workers::{self, End};
use crate::cli::ending::{Ending, OrStop, Stop};
use crate::cli::output;
use model::scenario::Case;
use model::simulation::{PhaseOutcome, Simulation};
use platforms::Cancel;
use sim::scenario::{Offsets, Options, Search, Study};
use units::Nanos;

/// Alignments that are simulated before what they yielded counts; the same on any number of threads.
const BATCH: u64 = 32;

/// Searches in every case, and enters what was found; the ending of an interruption.
pub(super) fn search(
    study: &Study,
    simulation: &mut Simulation,
    budget: u64,
    (threads, cancel): (usize, &Cancel),
) -> Result<ControlFlow<Ending>, Stop> {
    let searches: Vec<(usize, Search)> =
        study.cases().iter().enumerate().filter_map(|(at, case)| Some((at, Search::new(case)?))).collect();
    if searches.is_empty() {
        return Err(anyhow!("--worst-phase: the scenario has no real-time task (program = \"periodic\")"))
            .or_bad_input();
    }
    for (at, mut search) in searches {
        let mut done = 0;
        while done < budget {
            let count = BATCH.min(budget - done);
            let offsets = search.batch(usize::try_from(count).unwrap_or(usize::MAX));
            let numbers = done..;
            let cases: Vec<Case> = offsets
                .iter()
                .zip(numbers)
                .map(|(offsets, number)| search.case_with(offsets, number))
                .collect();
            let batch = Study::new(cases, Options { may_miss: true, ..Options::default() });
            let batch = Arc::new(batch.map_err(|error| anyhow!("{error}")).or_bad_input()?);
            match workers::run(&batch, None, threads, cancel) {
                End::Done(outcomes) => {
                    offsets
                        .iter()
                        .zip(&outcomes)
                        .for_each(|(offsets, outcome)| search.learn(offsets, outcome));
                }
                End::Interrupted(_) => {
                    output::say(&format!(
                        "bulkhead: the search ended after {done} of {budget} alignments of a case"
                    ));
                    enter(study, simulation, at, &search, done);
                    return Ok(ControlFlow::Break(Ending::Interrupted));
                }
                End::Broke(number) => {
                    output::say(&format!(
                        "bulkhead: alignment {number} broke down; this is a defect of the simulator"
                    ));
                    return Ok(ControlFlow::Break(Ending::Broke));
                }
            }
            done += count;
        }
        enter(study, simulation, at, &search, done);
    }
    Ok(ControlFlow::Continue(()))
}

fn enter(study: &Study, simulation: &mut Simulation, at: usize, search: &Search, tried: u64) {
    let Some(case) = study.cases().get(at) else { return };
    let paths = search.paths();
    let settings = |offsets: &Offsets| paths.iter().cloned().zip(offsets.iter().copied()).collect();
    simulation.phases.extend(search.found().iter().map(|(task, worst)| PhaseOutcome {
        case: case.label.clone(),
        task: task.clone(),
        tried,
        response_max_ns: Nanos::from_nanos(units::metric::saturate(worst.response_ns)),
        missed_share_max: worst.missed_share,
        offsets_us: settings(&worst.offsets),
    }));
}
