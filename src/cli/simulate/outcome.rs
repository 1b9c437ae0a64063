//! What a simulation leaves: tables or JSON on the terminal, a folder, a trace. All of it is made first, on a thread of its
//! own, and only then written, so that an interruption ends it at any moment and leaves no half of a folder.
//!
//! ```text
//!  Simulation ─► make ─► Made ─► publish ─┬─► --out DIR: whole, or empty again
//!                  │                      ├─► --trace FILE
//!                  └─ interrupted: nothing └─► terminal; interrupted: the files are there
//! ```

use std::path::PathBuf;

use super::folder::{self, Folder};
use super::trace_file::TraceFile;
use super::workers::unless_interrupted;
use crate::cli::args::SimulateArgs;
use crate::cli::ending::{Ending, OrStop, Stop};
use crate::cli::{json, output};
use model::simulation::{Simulation, TimeLine};
use platforms::Cancel;
use report::simulation::Choice;
use report::text::ascii;
use report::{simulation, trace_events};

/// What is wanted of it.
#[expect(clippy::struct_excessive_bools, reason = "each is a wish of its own")]
pub(super) struct Wanted {
    /// JSON on the terminal instead of tables.
    json: bool,
    /// Figures of the tables.
    figures: Vec<String>,
    /// Whether all cases and VMs are shown.
    full: bool,
    /// Whether there is a folder to be filled.
    folder: bool,
    /// Whether a trace is to be written.
    trace: bool,
    /// The scenario as it is kept in the folder; none where the model was taken from a run.
    scenario: Option<String>,
}

impl Wanted {
    /// What the command line wants; `scenario` is the text of the file.
    pub(super) fn of(args: &SimulateArgs, scenario: Option<&str>) -> Self {
        Self {
            json: args.json,
            figures: args.figure.clone(),
            full: args.full,
            folder: args.out.is_some(),
            trace: args.trace.is_some(),
            scenario: scenario.map(|text| folder::kept_scenario(text, args)),
        }
    }
}

/// Everything that is to be written.
pub(super) struct Made {
    /// What was simulated.
    pub(super) simulation: Simulation,
    text: String,
    files: Vec<folder::Content>,
    /// The trace, and what is said of it.
    trace: Option<(String, String)>,
}

/// Makes everything that is wanted; `kept` is what else belongs into the folder.
pub(super) fn make(
    simulation: Simulation,
    traced: Option<&TimeLine>,
    wanted: &Wanted,
    kept: impl FnOnce() -> Vec<folder::Content>,
) -> anyhow::Result<Made> {
    let mut files = Vec::new();
    if wanted.folder {
        files = folder::contents(wanted.scenario.as_deref(), &simulation, traced)?;
        files.extend(kept());
    }
    let trace = traced.filter(|_| wanted.trace).map(|line| {
        let left_out = match line.left_out {
            0 => String::new(),
            more => format!("; {more} later ones had no room"),
        };
        (trace_events::json(line), format!("{} stretches{left_out}", line.stretches.len()))
    });
    let choice = Choice { patterns: &wanted.figures, full: wanted.full };
    Ok(Made { text: shown(&simulation, choice, wanted.json)?, simulation, files, trace })
}

/// The tables with what is chosen, or the simulation as JSON.
pub(super) fn shown(simulation: &Simulation, choice: Choice<'_>, json: bool) -> anyhow::Result<String> {
    if json {
        return Ok(json::pretty(simulation)?);
    }
    let text = simulation::text(simulation, choice, output::stdout_style());
    Ok(if output::stdout_is_ascii() { ascii(&text) } else { text })
}

/// Where it goes.
pub(super) struct Places {
    /// The folder of `--out`, and what it was called.
    pub(super) folder: Option<(Folder, PathBuf)>,
    /// The file of `--trace`.
    pub(super) trace: Option<TraceFile>,
}

/// Writes and prints it all; answers the end of an interruption where there was one.
pub(super) fn publish(made: &mut Made, places: Places, cancel: &Cancel) -> Result<Option<Ending>, Stop> {
    if let Some((folder, _)) = &places.folder
        && !folder.fill(&made.files, || cancel.is_cancelled()).or_bad_input()?
    {
        return Ok(Some(nothing_written()));
    }
    if let (Some(file), Some((trace, words))) = (places.trace, &made.trace) {
        let path = file.write(trace).or_bad_input()?;
        output::say(&format!("trace: {}, {words}", path.display()));
    }
    let text = std::mem::take(&mut made.text);
    let Some(printed) = unless_interrupted(cancel, move || output::data(&text)) else {
        if let Some((_, path)) = &places.folder {
            output::say(&format!("bulkhead: {} is complete", path.display()));
        }
        return Ok(Some(Ending::Interrupted));
    };
    printed.or_bad_input()?;
    if let Some((_, path)) = &places.folder {
        output::say(&format!("\nreport: {}", path.join(folder::REPORT_FILE).display()));
    }
    Ok(None)
}

/// The end of an interruption that came before anything was written.
pub(super) fn nothing_written() -> Ending {
    output::say("bulkhead: nothing is written");
    Ending::Interrupted
}
