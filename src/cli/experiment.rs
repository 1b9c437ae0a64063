//! `bulkhead experiment`: list what is shipped, print one to start from, or check a file.

use super::args::ExperimentArgs;
use super::ending::{Ending, OrStop, Verdict};
use super::{json, output, resolve};
use campaign::shipped;

/// Lists, prints or checks.
pub fn run(args: &ExperimentArgs) -> Verdict {
    let text = match &args.name {
        None if args.json => json::pretty(&names()).or_bad_input()?,
        None => names().join("\n"),
        Some(name) if args.json => {
            let experiment = resolve::load(name).or_bad_input()?;
            json::pretty(&experiment).or_bad_input()?
        }
        Some(name) => describe(name)?,
    };
    output::data(&text).or_bad_input()?;
    Ok(Ending::Done)
}

fn names() -> Vec<&'static str> {
    shipped::names().collect()
}

/// The text of a shipped experiment; for a file, that it is good and how much it measures.
fn describe(name: &str) -> Result<String, super::ending::Stop> {
    let experiment = resolve::load(name).or_bad_input()?;
    if let Ok(text) = shipped::text(name) {
        return Ok(text.to_owned());
    }
    let (cells, repeat) = (experiment.cells().len(), experiment.repeat);
    Ok(format!(
        "{name}: good. {} platforms, {} probes, {} loads: {cells} cells, {} to {} rounds, at most about {} s.",
        experiment.platforms.len(),
        experiment.probes.specs().len(),
        experiment.loads.len(),
        repeat.min,
        repeat.max,
        repeat.budget_s,
    ))
}
