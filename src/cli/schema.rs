//! `bulkhead schema`: the JSON schema of what is written to disk.
//!
//! The schemas lie in `docs/formats`, a definition a line, and come with the program. The test below makes them from the
//! types and fails when they differ: the code that makes them would be a twentieth of the binary.

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
        Format::Results => include_str!("../../docs/formats/results.schema.json"),
        Format::Journal => include_str!("../../docs/formats/journal.schema.json"),
        Format::Experiment => include_str!("../../docs/formats/experiment.schema.json"),
        Format::Classes => include_str!("../../docs/formats/classes.schema.json"),
        Format::Scenario => include_str!("../../docs/formats/scenario.schema.json"),
        Format::Preflight => include_str!("../../docs/formats/preflight.schema.json"),
        Format::Set => include_str!("../../docs/formats/set.schema.json"),
        Format::Channel => include_str!("../../docs/formats/channel.schema.json"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::ValueEnum;
    use schemars::{Schema, schema_for};
    use serde_json::{Value, json};

    use super::*;
    use crate::model::channel_bench::ChannelBench;
    use crate::model::classes::ClassSet;
    use crate::model::experiment::Experiment;
    use crate::model::journal::JournalLine;
    use crate::model::partition::set::PartitionSet;
    use crate::model::preflight::Preflight;
    use crate::model::results::RunResults;
    use crate::model::scenario::Scenario;

    fn made(format: Format) -> Schema {
        match format {
            Format::Results => schema_for!(RunResults),
            Format::Journal => schema_for!(JournalLine),
            Format::Experiment => schema_for!(Experiment),
            Format::Classes => schema_for!(ClassSet),
            Format::Preflight => schema_for!(Preflight),
            Format::Scenario => scenario(),
            Format::Set => schema_for!(PartitionSet),
            Format::Channel => schema_for!(ChannelBench),
        }
    }

    /// A case, and what the file has besides: named cases and a sweep, which are resolved before anything else.
    fn scenario() -> Schema {
        let mut schema = schema_for!(Scenario);
        let properties = schema.get_mut("properties").and_then(Value::as_object_mut).expect("properties");
        let set = json!({"type": "object", "description": "Values by path: `vm.A.vcpus`, `host.policy.quantum_us`."});
        properties.insert(
            "case".to_owned(),
            json!({
                "type": "array",
                "description": "Named sets of values that are put into the rest.",
                "items": {
                    "type": "object",
                    "properties": {"label": {"type": "string"}, "set": set},
                    "required": ["label"],
                    "additionalProperties": false
                }
            }),
        );
        properties.insert(
            "sweep".to_owned(),
            json!({
                "type": "object",
                "description": "Lists of values by path, or ranges with `from`, `to`, and `step` or `factor`; every combination is a case.",
                "additionalProperties": {"type": ["array", "object"]}
            }),
        );
        schema
    }

    /// One line for each definition, so that a change shows where it is.
    fn written(schema: &Value) -> String {
        let members = |value: &Value| -> Vec<String> {
            let all = value.as_object().expect("an object");
            all.iter()
                .filter(|(key, _)| *key != "$defs")
                .map(|(key, value)| format!("\"{key}\":{value}"))
                .collect()
        };
        let mut parts = members(schema);
        if let Some(definitions) = schema.get("$defs") {
            parts.push(format!("\"$defs\":{{\n{}\n}}", members(definitions).join(",\n")));
        }
        format!("{{{}}}\n", parts.join(",\n"))
    }

    #[test]
    fn the_stored_schemas_are_those_of_the_types() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/formats");
        for format in Format::value_variants() {
            let made = written(made(*format).as_value());
            let name = format.to_possible_value().expect("a format has a name").get_name().to_owned();
            if std::env::var_os("BULKHEAD_WRITE_FORMATS").is_some() {
                std::fs::write(folder.join(format!("{name}.schema.json")), &made).expect("written");
                continue;
            }
            let advice = "to write them anew: BULKHEAD_WRITE_FORMATS=1 cargo test --lib the_stored_schemas";
            assert!(made == stored(*format), "docs/formats/{name}.schema.json is not of today; {advice}");
        }
    }
}
