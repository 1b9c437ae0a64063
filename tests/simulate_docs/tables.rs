//! Tables of the reference, made of the schema and of the list of figures.

use std::fmt::Write as _;

use serde_json::Value;

use super::schema::{Schema, branches, properties, word_of};
use bulkhead::sim::scenario::all_figures;
use bulkhead::units::metric::Unit;

/// Ends a table.
pub const END: &str = "<!-- end -->";
/// The table of figures.
const FIGURES: &str = "figures";

/// Begins the table of this name.
pub fn head(name: &str) -> String {
    format!("<!-- table: {name} -->")
}

/// Tables that the reference must have.
pub fn wanted(schema: &Schema) -> Vec<String> {
    let mut all = schema.definitions();
    all.push(FIGURES.to_owned());
    all
}

/// The text with all its tables as they are today.
pub fn renewed(text: &str, schema: &Schema) -> String {
    let mut out = String::new();
    let mut is_within = false;
    for line in text.lines() {
        is_within &= line != END;
        if !is_within {
            let _ = writeln!(out, "{line}");
        }
        if let Some(name) = line.strip_prefix("<!-- table: ").and_then(|rest| rest.strip_suffix(" -->")) {
            is_within = true;
            out.push_str(&if name == FIGURES { of_figures() } else { of(schema.definition(name), name) });
        }
    }
    out
}

/// The text without its tables.
pub fn without(text: &str) -> String {
    let mut is_within = false;
    let mut keep = |line: &&str| {
        is_within = (is_within || line.starts_with("<!-- table: ")) && *line != END;
        !is_within
    };
    text.lines().filter(&mut keep).collect::<Vec<_>>().join("\n")
}

fn of(definition: &Value, name: &str) -> String {
    let mut out = String::new();
    if let Some(all) = properties(definition) {
        out.push_str("| key | unless given | meaning |\n| --- | --- | --- |\n");
        for (key, value) in all {
            let _ =
                writeln!(out, "| `{key}` | {} | {} |", unless_given(definition, key, value), meaning(value));
        }
        return out;
    }
    let variants: Vec<&Value> = branches(definition).collect();
    assert!(!variants.is_empty(), "there is no \"{name}\" in the schema");
    let has_keys = variants.iter().any(|variant| variant.get("properties").is_some());
    out.push_str(if has_keys {
        "| name | key | unless given | meaning |\n| --- | --- | --- | --- |\n"
    } else {
        "| word | meaning |\n| --- | --- |\n"
    });
    for variant in variants {
        let (word, keys) = word_of(variant);
        let between = if has_keys { " | | |" } else { " |" };
        let _ = writeln!(out, "| `{word}`{between} {} |", meaning(variant));
        for key in keys {
            let value = &variant["properties"][&key];
            let _ =
                writeln!(out, "| | `{key}` | {} | {} |", unless_given(variant, &key, value), meaning(value));
        }
    }
    out
}

/// What a value is that nobody gives.
fn unless_given(table: &Value, key: &str, value: &Value) -> String {
    let is_wanted = table["required"].as_array().is_some_and(|all| all.iter().any(|one| one == key));
    match value.get("default") {
        _ if is_wanted => "must be given".to_owned(),
        None | Some(Value::Null) => "–".to_owned(),
        Some(Value::Object(_)) => "see there".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "–".to_owned(),
        Some(Value::String(text)) => format!("`\"{text}\"`"),
        Some(other) => format!("`{other}`"),
    }
}

fn meaning(node: &Value) -> String {
    node["description"].as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|")
}

fn of_figures() -> String {
    let mut out = "| figure | unit | meaning | of |\n| --- | --- | --- | --- |\n".to_owned();
    for figure in all_figures() {
        let unit = match figure.unit {
            Unit::Nanoseconds => "ns",
            Unit::Share => "share",
            Unit::Count => "number",
            Unit::PerSecond => "per second",
            Unit::BytesPerSecond => "bytes/s",
            other => panic!("{}: say here what {other:?} is called", figure.id),
        };
        let _ = writeln!(out, "| `{}` | {unit} | {} | {} |", figure.id, figure.title, figure.of);
    }
    out
}
