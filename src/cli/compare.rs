//! `bulkhead compare A B`: what changed between two runs.

use std::fs;

use anyhow::Context;

use super::args::CompareArgs;
use super::ending::{Ending, OrStop, Verdict};
use super::{json, output};
use campaign;
use report::{change, compare, simulation};

/// Reads both results, prints the changes, writes the page if asked.
pub fn run(args: &CompareArgs) -> Verdict {
    let a = campaign::read_results(&args.a).or_bad_input()?;
    let b = campaign::read_results(&args.b).or_bad_input()?;
    let changes = change::changes(&a, &b);
    if let Some(file) = &args.html {
        let page = compare::compare_html(&a, &b, &changes);
        fs::write(file, page)
            .with_context(|| format!("the page cannot be written to {}", file.display()))
            .or_bad_input()?;
        output::say(&format!("bulkhead: page written to {}", file.display()));
    }
    let text = if args.json {
        json::pretty(&changes).or_bad_input()?
    } else {
        let style = output::stdout_style();
        let simulated = simulation::compare::text(a.simulation.as_ref(), b.simulation.as_ref(), style);
        simulated.unwrap_or_else(|| compare::compare_text(&a, &b, &changes, style))
    };
    output::data(&text).or_bad_input()?;
    Ok(Ending::Done)
}
