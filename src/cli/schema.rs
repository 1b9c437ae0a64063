//! `bulkhead schema`: the JSON schema of what is written to disk.

use model::formats;

use super::args::{Format, SchemaArgs};
use super::ending::{Ending, OrStop, Verdict};
use super::{json, output};

/// Prints the schema of one format.
pub fn run(args: &SchemaArgs) -> Verdict {
    let schema: serde_json::Value = serde_json::from_str(stored(args.format)).or_bad_input()?;
    let text = json::pretty(&schema).or_bad_input()?;
    output::data(&text).or_bad_input()?;
    Ok(Ending::Done)
}

const fn stored(format: Format) -> &'static str {
    match format {
        Format::Results => formats::RESULTS,
        Format::Journal => formats::JOURNAL,
        Format::Experiment => formats::EXPERIMENT,
        Format::Classes => formats::CLASSES,
        Format::Scenario => formats::SCENARIO,
        Format::Preflight => formats::PREFLIGHT,
        Format::Power => formats::POWER,
        Format::Set => formats::SET,
        Format::Channel => formats::CHANNEL,
        Format::Host => formats::HOST,
        Format::System => formats::SYSTEM,
        Format::Plan => formats::PLAN,
        Format::Requirements => formats::REQUIREMENTS,
        Format::Verify => formats::VERIFY,
        Format::VerifyJournal => formats::VERIFY_JOURNAL,
    }
}
