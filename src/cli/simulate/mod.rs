//! `bulkhead simulate`: from a scenario to what would happen, beside what was published.
//!
//! ```text
//!                                         ┌─ watching: the first job, with pauses (--pause-at, --step)
//!  RUN (--from) ─► text ─┐
//!  FILE or NAME + --set ─┴► cases ─► Study ─┴─► workers (all cores) ─► Simulation ─┬─► terminal, or --json
//!                                                                               ├─► --out DIR: scenario, results, report, trace
//!                                                                               └─► --trace FILE
//! ```

mod folder;
mod outcome;
mod phases;
mod source;
mod trace_file;
mod traces;
mod watching;
mod workers;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;

use super::args::SimulateArgs;
use super::ending::{Ending, OrStop, Stop, Verdict};
use super::{interrupt, json, measure, output};
use model::results::RunResults;
use model::simulation::Simulation;
use outcome::{Places, Wanted};
use phases::Searches;
use platforms::Cancel;
use report::simulation;
use sim;
use sim::scenario::{Replication, Study};
use source::Source;
use trace_file::TraceFile;
use watching::Watched;
use workers::End;

/// Stretches that a trace for Perfetto keeps.
const TRACED: usize = 200_000;

/// Simulates, writes down what is asked for, prints tables or JSON.
pub fn run(args: &SimulateArgs) -> Verdict {
    if args.list {
        return list(args.json);
    }
    let cancel = interrupt::token_saying(INTERRUPTED).or_lacking()?;
    let Some(source) = source(args, &cancel)? else { return Ok(outcome::nothing_written()) };
    let study = source.study(args, if args.trace.is_some() || args.out.is_some() { TRACED } else { 0 });
    let mut study = study.or_bad_input()?;
    traces::read_all(&mut study, &source.folder()).or_bad_input()?;
    let study = Arc::new(study);
    let searches = args.worst_phase.map(|budget| Searches::of(&study, budget)).transpose()?;
    let places = places(args, &study)?;
    let (replications, is_whole) = match simulated(&study, args, source.name(), &cancel)? {
        Simulated::All(replications) => (replications, true),
        Simulated::Some(replications) => (replications, false),
        Simulated::Nothing(ending) => return Ok(ending),
    };
    // What was done before an interruption is shown and written as it would be without one; a second one ends it at once.
    let cancel = if is_whole { cancel } else { Cancel::new() };
    let wanted = Wanted::of(args, Some(&source.text));
    let (concluding, concluded) = (Arc::clone(&study), Arc::clone(&study));
    let Some((mut simulation, replications)) = workers::unless_interrupted(&cancel, move || {
        (concluding.conclude_partly(&replications), replications)
    }) else {
        return Ok(outcome::nothing_written());
    };
    let end = match searches.filter(|_| is_whole) {
        Some(searches) => phases::search(&study, &mut simulation, searches, (threads(args), &cancel))?,
        None => ControlFlow::Continue(()),
    };
    // What was found until then is shown, too.
    let cancel = if end.is_break() { Cancel::new() } else { cancel };
    let made = workers::unless_interrupted(&cancel, move || {
        let first = replications.get(concluded.watched()).and_then(Option::as_ref);
        let traced = first.and_then(|replication| replication.time_line.as_ref());
        outcome::make(simulation, traced, &wanted, || traces::kept(&concluded))
    });
    let Some(made) = made else { return Ok(outcome::nothing_written()) };
    let mut made = made.or_bad_input()?;
    if let Some(interrupted) = outcome::publish(&mut made, places, &cancel)? {
        return Ok(interrupted);
    }
    Ok(match end {
        ControlFlow::Break(ending) => ending,
        ControlFlow::Continue(()) => ending(&made.simulation),
    })
}

fn threads(args: &SimulateArgs) -> usize {
    args.threads.map_or_else(workers::all_cores, |threads| threads as usize)
}

/// What is said to who interrupts.
const INTERRUPTED: &str = "interrupted (again: at once)";

/// Folder and files that are to be written, tried before anything is simulated.
fn places(args: &SimulateArgs, study: &Study) -> Result<Places, Stop> {
    if args.trace.is_some() && study.watch(study.watched()).is_none() {
        return Err(anyhow!("--trace: this scenario has no CPUs on which something runs")).or_bad_input();
    }
    if !args.case.is_empty()
        && args.trace.is_none()
        && args.out.is_none()
        && args.pause_at.is_empty()
        && !args.step
    {
        let problem = "--case says of which case --trace, --pause-at, --step or the page of --out show who ran where; give one of them, too";
        return Err(anyhow!(problem)).or_bad_input();
    }
    let folder = args.out.as_deref().map(|out| folder::make(out).map(|folder| (folder, out.to_owned())));
    let folder = folder.transpose().or_bad_input()?;
    let trace = args.trace.as_deref().map(TraceFile::open).transpose().or_bad_input()?;
    Ok(Places { folder, trace })
}

/// What was done of the jobs, in their order.
enum Simulated {
    /// All of them.
    All(Vec<Option<Replication>>),
    /// Somebody interrupted.
    Some(Vec<Option<Replication>>),
    /// None, and how it ended.
    Nothing(Ending),
}

/// Does all jobs, unless it ends before.
fn simulated(
    study: &Arc<Study>,
    args: &SimulateArgs,
    name: &str,
    cancel: &Cancel,
) -> Result<Simulated, Stop> {
    let say = |words: &str| output::say(&format!("bulkhead: {words}"));
    let first = match watching::first(study, args, cancel).or_bad_input()? {
        Watched::Done(first) => Some(first),
        Watched::Nobody => None,
        Watched::Left => {
            say("left; nothing is written");
            return Ok(Simulated::Nothing(Ending::Done));
        }
        Watched::Interrupted(words) => {
            say(&words);
            return Ok(Simulated::Nothing(outcome::nothing_written()));
        }
    };
    match workers::run(study, first, threads(args), cancel) {
        End::Done(replications) => Ok(Simulated::All(replications.into_iter().map(Some).collect())),
        End::Interrupted(words, replications) => {
            for words in &words {
                say(words);
            }
            if replications.iter().flatten().any(|replication| !replication.interrupted) {
                return Ok(Simulated::Some(replications));
            }
            Ok(Simulated::Nothing(outcome::nothing_written()))
        }
        End::Broke(number) => {
            say(&format!("{name}: simulation {number} broke down; this is a defect of the simulator"));
            Ok(Simulated::Nothing(Ending::Broke))
        }
    }
}

/// The scenario that is asked for: a file, a shipped one, or one estimated from a measured run; none after an interruption.
fn source(args: &SimulateArgs, cancel: &Cancel) -> Result<Option<Source>, Stop> {
    let Some(run) = args.from.clone() else {
        return Source::load(args.scenario.as_deref().unwrap_or_default()).or_bad_input().map(Some);
    };
    let wanted = sim::calibrate::Wanted { seed: args.seed.unwrap_or(0), held_out: args.hold_out };
    let made = workers::unless_interrupted(cancel, move || Source::calibrated(&run, wanted));
    made.transpose().or_bad_input()
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

/// Shows a simulated scenario's folder again, as JSON or in full: the page is written anew from its results.
pub fn report(dir: &Path, results: &RunResults, (json, full): (bool, bool)) -> Verdict {
    folder::write_page(dir, results).or_bad_input()?;
    match &results.simulation {
        Some(simulation) if !json => {
            let choice = simulation::Choice { full, ..simulation::Choice::DEFAULT };
            let text = outcome::shown(simulation, choice, false).or_bad_input()?;
            output::data(&text).or_bad_input()?;
        }
        _ => measure::show(results, measure::Shown::of(json, true)).or_bad_input()?,
    }
    output::say(&format!("bulkhead: {} written anew", dir.join(folder::REPORT_FILE).display()));
    Ok(Ending::Done)
}

fn ending(simulation: &Simulation) -> Ending {
    for case in &simulation.cases {
        for trouble in &case.troubles {
            output::say(&format!("bulkhead: {}: {trouble}", case.label));
        }
    }
    if simulation.unfinished.is_some() {
        return Ending::Interrupted;
    }
    if simulation.had_trouble() {
        return Ending::Broke;
    }
    if simulation.is_met() { Ending::Done } else { Ending::NotMet }
}
