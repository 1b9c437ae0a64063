//! `bulkhead schema`: the JSON schema of what is written to disk.

use schemars::schema_for;

use super::args::{Format, SchemaArgs};
use super::ending::{Ending, OrStop, Verdict};
use super::output;
use crate::model::classes::ClassSet;
use crate::model::experiment::Experiment;
use crate::model::journal::JournalLine;
use crate::model::preflight::Preflight;
use crate::model::results::RunResults;

/// Prints the schema of one format.
pub fn run(args: &SchemaArgs) -> Verdict {
    let schema = match args.format {
        Format::Results => schema_for!(RunResults),
        Format::Journal => schema_for!(JournalLine),
        Format::Experiment => schema_for!(Experiment),
        Format::Classes => schema_for!(ClassSet),
        Format::Preflight => schema_for!(Preflight),
    };
    let text = serde_json::to_string_pretty(&schema).or_bad_input()?;
    output::data(&text).or_bad_input()?;
    Ok(Ending::Done)
}
