//! `--worst-phase`: after the scenario itself, its cases with other offsets of their real-time tasks, until the budget is used up.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use anyhow::anyhow;

use super::workers::{self, End};
use crate::cli::ending::{Ending, OrStop, Stop};
use crate::cli::output;
use model::scenario::Case;
use model::simulation::{PhaseOutcome, Simulation, as_set_options};
use platforms::Cancel;
use sim::scenario::{Offsets, Options, Search, Study};
use units::{Micros, Nanos};

/// Alignments that are simulated before what they yielded counts; the same on any number of threads.
const BATCH: u64 = 32;

/// The searches that are wanted, each with the number of its case.
pub(super) struct Searches {
    of_cases: Vec<(usize, Search)>,
    budget: u64,
}

impl Searches {
    /// One of so many alignments in every case that has a task.
    pub(super) fn of(study: &Study, budget: u64) -> Result<Self, Stop> {
        let cases = study.cases().iter().enumerate();
        let of_cases: Vec<(usize, Search)> =
            cases.filter_map(|(at, case)| Some((at, Search::new(case)?))).collect();
        if of_cases.is_empty() {
            let why = "--worst-phase: the scenario has no real-time task (program = \"periodic\")";
            return Err(anyhow!(why)).or_bad_input();
        }
        Ok(Self { of_cases, budget })
    }
}

/// Searches, and enters what was found; the ending where it ended before.
pub(super) fn search(
    study: &Study,
    simulation: &mut Simulation,
    Searches { of_cases, budget }: Searches,
    (threads, cancel): (usize, &Cancel),
) -> Result<ControlFlow<Ending>, Stop> {
    for (at, mut search) in of_cases {
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
                    for (offsets, outcome) in offsets.iter().zip(&outcomes) {
                        if let Some(trouble) = &outcome.trouble {
                            let again = as_set_options(&settings(&search, offsets));
                            output::say(&format!("bulkhead: {trouble}; it shows again with {again}"));
                            return Ok(ControlFlow::Break(Ending::Broke));
                        }
                        search.learn(offsets, outcome);
                    }
                }
                End::Interrupted(..) => {
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

/// An alignment by the paths of its offsets.
fn settings(search: &Search, offsets: &Offsets) -> BTreeMap<String, Micros> {
    search.paths().into_iter().zip(offsets.iter().copied()).collect()
}

fn enter(study: &Study, simulation: &mut Simulation, at: usize, search: &Search, tried: u64) {
    let Some(case) = study.cases().get(at) else { return };
    simulation.phases.extend(search.found().iter().map(|(task, worst)| PhaseOutcome {
        case: case.label.clone(),
        task: task.clone(),
        tried,
        response_max_ns: Nanos::from_nanos(units::metric::saturate(worst.response_ns)),
        missed_share_max: worst.missed_share,
        offsets_us: settings(search, &worst.offsets),
    }));
}
