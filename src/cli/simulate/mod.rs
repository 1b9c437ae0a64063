//! `bulkhead simulate`: from a scenario to what would happen, beside what was published.
//!
//! ```text
//!                                         ┌─ watching: the first job, with pauses (--pause-at, --step)
//!  FILE or NAME + --set ─► cases ─► Study ─┴─► crew (all cores) ─► Simulation ─┬─► terminal, or --json
//!                                                                            ├─► --out DIR: scenario, results, report, trace
//!                                                                            └─► --trace FILE
//! ```

mod crew;
mod folder;
mod source;
mod traces;
mod watching;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};

use super::args::SimulateArgs;
use super::ending::{Ending, OrStop, Verdict};
use super::{interrupt, json, measure, output};
use crate::campaign;
use crate::model::results::RunResults;
use crate::model::simulation::{Simulation, TimeLine};
use crate::report::text::ascii;
use crate::report::{simulation, trace_events};
use crate::sim;
use crate::sim::scenario::Study;
use crew::End;
use source::Source;
use watching::Watched;

/// Stretches that a trace for Perfetto keeps.
const TRACED: usize = 200_000;

/// Simulates, writes down what is asked for, prints tables or JSON.
pub fn run(args: &SimulateArgs) -> Verdict {
    if let Some(run) = &args.from {
        return calibrate(args, run);
    }
    let Some(name) = args.scenario.as_deref().filter(|_| !args.list) else { return list(args.json) };
    let source = Source::load(name).or_bad_input()?;
    let study = source.study(args, if args.trace.is_some() || args.out.is_some() { TRACED } else { 0 });
    let mut study = study.or_bad_input()?;
    traces::read_all(&mut study, &source.folder()).or_bad_input()?;
    let study = Arc::new(study);
    let cancel = interrupt::token_saying("interrupted; nothing is written").or_lacking()?;
    let folder = args.out.as_deref().map(folder::make).transpose().or_bad_input()?;
    let threads = args.threads.map_or_else(crew::all_cores, |threads| threads as usize);
    let first = match watching::first(&study, args, &cancel).or_bad_input()? {
        Watched::Done(first) => Some(first),
        Watched::Nobody => None,
        Watched::Left => {
            output::say("bulkhead: left; nothing is written");
            return Ok(Ending::Done);
        }
        Watched::Interrupted => return Ok(Ending::Interrupted),
    };
    let replications = match crew::run(&study, first, threads, &cancel) {
        End::Done(replications) => replications,
        End::Interrupted => return Ok(Ending::Interrupted),
        End::Broke(number) => {
            output::say(&format!(
                "bulkhead: {name}: simulation {number} broke down; this is a defect of the simulator"
            ));
            return Ok(Ending::Broke);
        }
    };
    let simulation = study.conclude(&replications);
    let traced = replications.get(study.watched()).and_then(|replication| replication.time_line.as_ref());
    if let Some(folder) = folder {
        folder.fill(Some(&source), args, &simulation, traced).or_bad_input()?;
    }
    show(&simulation, args.json).or_bad_input()?;
    write_trace(args, traced).or_bad_input()?;
    if let Some(out) = &args.out {
        output::say(&format!("\nreport: {}", out.join(folder::REPORT_FILE).display()));
    }
    Ok(ending(&study, &simulation))
}

/// Takes the parameters of a model from a measured run and predicts what the model was not given.
fn calibrate(args: &SimulateArgs, run: &Path) -> Verdict {
    let folder = args.out.as_deref().map(folder::make).transpose().or_bad_input()?;
    let measured = campaign::read_results(run).or_bad_input()?;
    let simulation = sim::calibrate::calibrate(&measured, args.seed.unwrap_or(0));
    let simulation = simulation.map_err(|why| anyhow!("{}: {why}", run.display())).or_bad_input()?;
    if let Some(folder) = folder {
        folder.fill(None, args, &simulation, None).or_bad_input()?;
    }
    show(&simulation, args.json).or_bad_input()?;
    Ok(if simulation.is_met() { Ending::Done } else { Ending::NotMet })
}

/// Shipped scenarios, each with what it shows.
fn list(json: bool) -> Verdict {
    let shipped = source::shipped().or_bad_input()?;
    let text = if json {
        let named = |(name, about): &(String, String)| serde_json::json!({ "name": name, "about": about });
        json::pretty(&shipped.iter().map(named).collect::<Vec<_>>()).or_bad_input()?
    } else {
        simulation::list(&shipped, output::stdout_style())
    };
    output::data(&text).or_bad_input()?;
    Ok(Ending::Done)
}

fn write_trace(args: &SimulateArgs, traced: Option<&TimeLine>) -> anyhow::Result<()> {
    let Some(file) = &args.trace else { return Ok(()) };
    let line = traced.ok_or_else(|| anyhow!("--trace: this scenario has no CPUs on which something runs"))?;
    fs::write(file, trace_events::json(line))
        .with_context(|| format!("the trace cannot be written to {}", file.display()))?;
    let left_out = match line.left_out {
        0 => String::new(),
        more => format!("; {more} later ones had no room"),
    };
    output::say(&format!("trace: {}, {} stretches{left_out}", file.display(), line.stretches.len()));
    Ok(())
}

/// Prints the tables, or the simulation as JSON.
fn show(simulation: &Simulation, json: bool) -> anyhow::Result<()> {
    let text = if json {
        json::pretty(simulation)?
    } else {
        let text = simulation::text(simulation, output::stdout_style());
        if output::stdout_is_ascii() { ascii(&text) } else { text }
    };
    Ok(output::data(&text)?)
}

/// Shows a simulated scenario's folder again: the page is written anew from its results.
pub fn report(dir: &Path, results: &RunResults, json: bool) -> Verdict {
    folder::write_page(dir, results).or_bad_input()?;
    match &results.simulation {
        Some(simulation) if !json => show(simulation, false).or_bad_input()?,
        _ => measure::show(results, json).or_bad_input()?,
    }
    output::say(&format!("bulkhead: {} written anew", dir.join(folder::REPORT_FILE).display()));
    Ok(Ending::Done)
}

fn ending(study: &Study, simulation: &Simulation) -> Ending {
    for case in &simulation.cases {
        for trouble in &case.troubles {
            output::say(&format!("bulkhead: {}: {trouble}", case.label));
        }
    }
    for hint in source::unknown_metrics(study, simulation) {
        output::say(&format!("bulkhead: {hint}"));
    }
    if simulation.had_trouble() {
        return Ending::Broke;
    }
    if simulation.is_met() { Ending::Done } else { Ending::NotMet }
}
