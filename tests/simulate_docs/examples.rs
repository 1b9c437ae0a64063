//! The examples of the documents: blocks of TOML, completed as the reference says.

use std::collections::BTreeSet;

use tempfile::TempDir;
use toml::{Table, Value};

use super::super::simulate_fixture::{folder, good};
use super::document;
use super::schema::TAGS;

/// Parts of which a scenario has one.
const PARTS: [&str; 3] = ["host", "nodes", "memory"];

/// An example.
pub struct Example {
    /// Document and line.
    pub place: String,
    /// As it stands there.
    pub written: Table,
    /// Completed.
    pub whole: Table,
}

impl Example {
    /// Whether it needs no other.
    pub fn is_whole(&self) -> bool {
        self.written.contains_key("name")
    }

    /// Names that it gives to VMs and cases.
    pub fn names(&self) -> Vec<String> {
        let entries =
            ["vm", "case"].into_iter().filter_map(|list| self.whole.get(list)?.as_array()).flatten();
        let named = entries.filter_map(|entry| entry.get("name").or_else(|| entry.get("label"))?.as_str());
        named.flat_map(words).collect()
    }
}

/// The examples of these documents.
pub fn all(documents: &[&str]) -> Vec<Example> {
    let mut found: Vec<(String, Table)> = documents.iter().flat_map(|name| blocks(name)).collect();
    // Whole ones first, so that they are there when others need them.
    found.sort_by_key(|(_, table)| !table.contains_key("name"));
    let whole: Vec<Table> = found
        .iter()
        .filter(|(place, table)| table.contains_key("name") && place.starts_with(super::REFERENCE))
        .map(|(_, table)| table.clone())
        .collect();
    let complete = |(place, written): (String, Table)| {
        let part = PARTS.into_iter().find(|part| written.contains_key(*part)).unwrap_or("host");
        let base = whole.iter().find(|table| table.contains_key(part));
        let base = base.unwrap_or_else(|| {
            panic!("{} has no whole scenario with \"{part}\" for {place}", super::REFERENCE)
        });
        let whole = if written.contains_key("name") { written.clone() } else { completed(&written, base) };
        Example { place, written, whole }
    };
    found.into_iter().map(complete).collect()
}

/// Blocks of TOML, each with its place.
fn blocks(name: &str) -> Vec<(String, Table)> {
    let text = document(name);
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line != "```toml" {
            continue;
        }
        let block: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
        let place = format!("{name}:{}", number + 2);
        let table = block.join("\n").parse().unwrap_or_else(|error| panic!("{place}: {error}"));
        found.push((place, table));
    }
    found
}

/// What an example says, and for the rest what the base says.
fn completed(written: &Table, base: &Table) -> Table {
    let mut whole = merged(written, base);
    let of_base = |name: Option<&Value>| {
        let vms = base.get("vm").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table);
        let named = vms.clone().find(|vm| vm.get("name") == name);
        named.or_else(|| vms.clone().next()).cloned().unwrap_or_default()
    };
    if let Some(vms) = written.get("vm").and_then(Value::as_array) {
        let vms = vms.iter().filter_map(Value::as_table);
        let all = vms.map(|vm| Value::Table(merged(vm, &of_base(vm.get("name"))))).collect();
        whole.insert("vm".to_owned(), Value::Array(all));
    }
    whole
}

/// Tables key by key, unless one says which one it is.
fn merged(written: &Table, base: &Table) -> Table {
    let mut whole = base.clone();
    for (key, value) in written {
        let value = match (value, base.get(key)) {
            (Value::Table(own), Some(Value::Table(below)))
                if TAGS.iter().all(|tag| !own.contains_key(*tag)) =>
            {
                Value::Table(merged(own, below))
            }
            _ => value.clone(),
        };
        whole.insert(key.clone(), value);
    }
    whole
}

/// A folder in which `RUN` is a run whose noise an example takes.
pub fn folder_with_a_run() -> TempDir {
    let folder = folder(&[]);
    good(&folder, &["measure", "fake", "--probe", "fwq", "--rounds", "2", "--out", "RUN"]);
    folder
}

/// An id with `VM` for the name of a VM and `N` for a number of threads.
pub fn known_as(id: &str) -> String {
    match id.split('.').collect::<Vec<_>>().as_slice() {
        ["vm", _, "thread", _, end] => format!("vm.VM.thread.N.{end}"),
        ["vm", _, end] => format!("vm.VM.{end}"),
        _ => id.to_owned(),
    }
}

/// What stands between backticks, outside of blocks.
pub fn code_spans(text: &str) -> BTreeSet<String> {
    let mut is_block = false;
    let mut outside = |line: &&str| {
        let is_fence = line.starts_with("```");
        is_block ^= is_fence;
        !is_block && !is_fence
    };
    let text = text.lines().filter(&mut outside).collect::<Vec<_>>().join(" ");
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Words of a piece of code: options whole, others between dots, quotes, brackets; numbers are none.
pub fn words(code: &str) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-/".contains(c);
    let all = code.split(|c: char| !is_part(c)).map(|word| word.trim_matches('/'));
    let real = all.filter(|word| word.chars().any(char::is_alphabetic) && !["true", "false"].contains(word));
    real.map(|word| word.strip_prefix('_').unwrap_or(word).to_owned()).collect()
}

/// A part of a path in this repository, or a file that is written.
pub fn is_file(word: &str) -> bool {
    let known = [
        "scenario", "results", "report", "trace", "toml", "json", "html", "PATTERN", "VM", "N", "RUN", "DIR",
    ];
    known.contains(&word) || super::path(word).exists()
}
