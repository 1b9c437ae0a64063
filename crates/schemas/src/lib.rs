//! Holds the stored schemas of the written formats against the types.
//!
//! It alone turns the feature `schema` on, and is therefore built apart from the rest (`cargo test -p bulkhead-schemas`): what
//! makes schemas is in no program that is shipped or tested.

#[cfg(test)]
mod tests {
    use std::path::Path;

    use schemars::{Schema, schema_for};
    use serde_json::{Value, json};

    use model::channel_bench::ChannelBench;
    use model::classes::ClassSet;
    use model::experiment::Experiment;
    use model::formats::*;
    use model::journal::JournalLine;
    use model::partition::set::PartitionSet;
    use model::plan::Plan;
    use model::power::PowerReport;
    use model::preflight::Preflight;
    use model::requirement::RequirementFile;
    use model::results::RunResults;
    use model::scenario::Scenario;
    use model::system::{Beside, HostShape};
    use model::verification::{Verification, VerifyLine};

    /// Name of the file, its text, the schema that the types have today.
    fn all() -> [(&'static str, &'static str, Schema); 15] {
        [
            ("results", RESULTS, schema_for!(RunResults)),
            ("journal", JOURNAL, schema_for!(JournalLine)),
            ("experiment", EXPERIMENT, schema_for!(Experiment)),
            ("classes", CLASSES, schema_for!(ClassSet)),
            ("preflight", PREFLIGHT, schema_for!(Preflight)),
            ("power", POWER, schema_for!(PowerReport)),
            ("scenario", SCENARIO, scenario()),
            ("set", SET, with_requirements(schema_for!(PartitionSet))),
            ("channel", CHANNEL, schema_for!(ChannelBench)),
            ("host", HOST, schema_for!(HostShape)),
            ("system", SYSTEM, with_requirements(system())),
            ("plan", PLAN, schema_for!(Plan)),
            ("requirements", REQUIREMENTS, schema_for!(RequirementFile)),
            ("verify", VERIFY, schema_for!(Verification)),
            ("verify-journal", VERIFY_JOURNAL, schema_for!(VerifyLine)),
        ]
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

    /// Requirements may stand beside partitions; they are read apart.
    fn with_requirements(mut schema: Schema) -> Schema {
        let properties = schema.get_mut("properties").and_then(Value::as_object_mut).expect("properties");
        let about = "Requirements by id, for bulkhead verify: bulkhead schema requirements has their keys.";
        properties.insert("requirement".to_owned(), json!({"type": "object", "description": about}));
        schema
    }

    /// A set and what stands beside it. Needs are read apart from the set, but written in their partition.
    fn system() -> Schema {
        let (mut schema, mut beside) = (schema_for!(PartitionSet), schema_for!(Beside));
        let taken = |from: &mut Schema, key: &str| from.remove(key).expect("it is there");
        let (Value::Object(mut keys), Value::Object(more)) =
            (taken(&mut beside, "properties"), taken(&mut beside, "$defs"))
        else {
            panic!("keys and definitions are objects")
        };
        let needs = keys.remove("needs").expect("needs");
        let need = needs.get("additionalProperties").expect("a need for each partition").clone();
        let definitions = schema.get_mut("$defs").and_then(Value::as_object_mut).expect("definitions");
        for (name, definition) in more {
            let there = definitions.entry(name.clone()).or_insert_with(|| definition.clone());
            assert_eq!(*there, definition, "two definitions of {name}");
        }
        let partition = definitions.get_mut("PartitionEntry").and_then(|entry| entry.get_mut("properties"));
        partition
            .and_then(Value::as_object_mut)
            .expect("keys of a partition")
            .insert("needs".to_owned(), need);
        schema.get_mut("properties").and_then(Value::as_object_mut).expect("properties").append(&mut keys);
        schema.insert("title".to_owned(), json!("System"));
        schema.insert(
            "description".to_owned(),
            json!("What is to be planned: partitions, what each needs, and hosts."),
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
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats");
        for (name, stored, schema) in all() {
            let made = written(schema.as_value());
            if std::env::var_os("BULKHEAD_WRITE_FORMATS").is_some() {
                std::fs::write(folder.join(format!("{name}.schema.json")), &made).expect("written");
                continue;
            }
            let advice = "to write them anew: BULKHEAD_WRITE_FORMATS=1 cargo test -p bulkhead-schemas the_stored_schemas";
            assert!(made == stored, "docs/formats/{name}.schema.json is not of today; {advice}");
        }
    }
}
