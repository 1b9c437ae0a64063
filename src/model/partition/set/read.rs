//! From the text of a file to a set, or to the lines that are wrong and why: all of them, in their order.
//!
//! ```text
//!  text ─► tree of keys ─► set ─► check ─► faults ─► lines
//!             ▲     │ a key is unknown, a value of the wrong type: told, cut off, tried again
//!             └─────┘
//! ```

use std::collections::HashSet;
use std::iter::once;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::PartitionSet;
use crate::model::names::nearest;
use crate::model::partition::is_name;
use crate::model::scenario::line_at;

/// Largest file of a set that is read.
pub const MAX_SET_BYTES: usize = 1 << 20;

/// Most mistakes that are told of one file.
const MOST_TOLD: usize = 100;

/// What a file says is repeated without what could move a terminal's cursor.
fn plain(problem: &str) -> String {
    problem.chars().map(|c| if c.is_control() && c != '\n' { '?' } else { c }).collect()
}

/// Why a file holds no set: all that is wrong, in the file's order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct SetErrors(pub Vec<SetError>);

impl SetErrors {
    /// These faults with their lines of `text`.
    pub fn of(faults: Vec<Fault>, text: &str) -> Self {
        Self::sorted(faults.into_iter().map(|fault| fault.in_text(text)).collect())
    }

    fn sorted(mut errors: Vec<SetError>) -> Self {
        let mut told = HashSet::new();
        errors.retain(|error| told.insert(error.clone()));
        errors.sort_by_key(|error| error.line);
        errors.truncate(MOST_TOLD);
        Self(errors)
    }

    /// A line each, with the file's name.
    pub fn in_file(&self, file: &Path) -> String {
        let lines = self.0.iter().map(|error| format!("{}: {error}", file.display()));
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// One thing that is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{}{}", .line.map(|line| format!("line {line}: ")).unwrap_or_default(), plain(.problem))]
pub struct SetError {
    /// The line, counted from 1, where one can be named.
    pub line: Option<usize>,
    /// What is wrong, and what was wanted.
    pub problem: String,
}

/// A key at fault. Names of partitions may hold dots, so its path is kept in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Keys on the way to it: `partition`, `plc`, `cpus`.
    pub path: Vec<String>,
    /// What was wanted and what was got.
    pub problem: String,
}

impl Fault {
    /// This problem of the key at the end of `path`.
    pub fn new(path: &[&str], problem: impl Into<String>) -> Self {
        Self { path: path.iter().map(|part| (*part).to_owned()).collect(), problem: problem.into() }
    }

    /// With the line of `text` at which it is.
    fn in_text(self, text: &str) -> SetError {
        let line = line_at(text, self.path.iter().map(String::as_str));
        SetError { line, problem: format!("{}: {}", self.path.join("."), self.problem) }
    }
}

/// Faults as they are found.
#[derive(Debug, Default)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// One more.
    pub fn add(&mut self, path: &[&str], problem: impl Into<String>) {
        self.0.push(Fault::new(path, problem));
    }

    /// One more if this is one.
    pub fn note(&mut self, checked: Result<(), Fault>) {
        self.value(checked);
    }

    /// One more if this is one; what it is otherwise.
    pub fn value<T>(&mut self, checked: Result<T, Fault>) -> Option<T> {
        checked.map_err(|fault| self.0.push(fault)).ok()
    }
}

impl From<Faults> for Vec<Fault> {
    fn from(faults: Faults) -> Self {
        faults.0
    }
}

/// What a file holds, right or wrong: others may find more that is wrong before all of it is told.
#[derive(Debug)]
pub struct ReadSet {
    /// None when too much is wrong for anything else to be judged.
    pub set: Option<PartitionSet>,
    errors: Vec<SetError>,
    /// Entries of which something was cut off: `partition`, `plc`.
    cuts: Vec<Vec<String>>,
}

impl ReadSet {
    /// Reads and checks a file; a set without a name is called `stem`.
    pub fn of(text: &str, stem: &str) -> Self {
        if text.len() > MAX_SET_BYTES {
            let problem = format!("{} bytes are too many for a set; allowed are {MAX_SET_BYTES}", text.len());
            return Self::wrong(SetError { line: None, problem });
        }
        let mut read = decode(text);
        let Some(set) = &mut read.set else { return read };
        if set.name.is_empty() && is_name(stem) {
            stem.clone_into(&mut set.name);
        }
        let mut faults = set.check();
        if let Some(fault) = faults.iter_mut().find(|fault| set.name.is_empty() && fault.path == ["name"]) {
            fault.problem = format!("the file's own name, {stem:?}, cannot name a set: write name = \"…\"");
        }
        read.add(faults, text);
        read
    }

    fn wrong(error: SetError) -> Self {
        Self { set: None, errors: vec![error], cuts: Vec::new() }
    }

    /// The set, if nothing is wrong so far.
    pub const fn faultless(&self) -> Option<&PartitionSet> {
        if self.errors.is_empty() { self.set.as_ref() } else { None }
    }

    /// More that is wrong with the set in this text.
    pub fn add(&mut self, mut faults: Vec<Fault>, text: &str) {
        // Of an entry of which something was cut off, only that is told: what is missing now need not be missing.
        faults.retain(|fault| !self.cuts.iter().any(|cut| fault.path.starts_with(cut)));
        self.errors.extend(faults.into_iter().map(|fault| fault.in_text(text)));
    }

    /// The set.
    ///
    /// # Errors
    /// Everything that is wrong, with its lines; of a text that is no TOML the first mistake alone.
    pub fn finish(self) -> Result<PartitionSet, SetErrors> {
        match self.set {
            Some(set) if self.errors.is_empty() => Ok(set),
            _ => Err(SetErrors::sorted(self.errors)),
        }
    }
}

impl PartitionSet {
    /// Reads and checks a file; a set without a name is called `stem`.
    ///
    /// # Errors
    /// As of [`ReadSet::finish`].
    pub fn from_toml(text: &str, stem: &str) -> Result<Self, SetErrors> {
        ReadSet::of(text, stem).finish()
    }
}

/// Makes a set of a text without its unknown keys and values of a wrong type.
fn decode(text: &str) -> ReadSet {
    let mut tree = match DeTable::parse(text) {
        Ok(tree) => tree,
        Err(error) => return ReadSet::wrong(syntax(text, &error)),
    };
    let (mut errors, mut cuts, mut is_judged) = (Vec::new(), Vec::new(), true);
    loop {
        let error = match PartitionSet::deserialize(toml::Deserializer::from(tree.clone())) {
            Ok(set) => return ReadSet { set: is_judged.then_some(set), errors, cuts },
            Err(error) => error,
        };
        errors.push(syntax(text, &error));
        let cut = error.span().and_then(|span| cut(tree.get_mut(), &span));
        let Some((path, value)) = cut.filter(|_| errors.len() < MOST_TOLD) else {
            return ReadSet { set: None, errors, cuts };
        };
        is_judged &= holds_no_entry(&path, &value);
        cuts.push(path.into_iter().take(2).collect());
    }
}

/// Whether no entry went with what was cut off: others may name it.
fn holds_no_entry(path: &[String], value: &DeValue<'_>) -> bool {
    match path {
        [only] => {
            let is_one_value = !matches!(value, DeValue::Table(_) | DeValue::Array(_));
            is_one_value && !matches!(only.as_str(), "partition" | "network" | "channel")
        }
        _ => path.len() > 2,
    }
}

/// Removes the key that lies at `span`, or whose value does: the way to it, and the value.
fn cut<'a>(table: &mut DeTable<'a>, span: &Range<usize>) -> Option<(Vec<String>, DeValue<'a>)> {
    let is_there = |value: &Spanned<DeValue<'_>>| value.span() == *span;
    let lies_in = |value: &Spanned<DeValue<'_>>| match value.get_ref() {
        DeValue::Array(list) => list.iter().any(is_there),
        _ => is_there(value),
    };
    let found = table.iter().find(|(key, value)| key.span() == *span || is_there(value) || lies_in(value));
    if let Some(key) = found.map(|(key, _)| key.get_ref().to_string()) {
        let value = table.remove(key.as_str())?.into_inner();
        return Some((vec![key], value));
    }
    table.iter_mut().find_map(|(key, value)| {
        let (rest, value) = match value.get_mut() {
            DeValue::Table(inner) => cut(inner, span),
            DeValue::Array(list) => list.iter_mut().find_map(|one| match one.get_mut() {
                DeValue::Table(inner) => cut(inner, span),
                _ => None,
            }),
            _ => None,
        }?;
        Some((once(key.get_ref().to_string()).chain(rest).collect(), value))
    })
}

/// The parser's message in one line, with the nearest of the names it expected.
fn syntax(text: &str, error: &toml::de::Error) -> SetError {
    let line = error.span().map(|span| {
        let before = text.get(..span.start.min(text.len())).unwrap_or(text);
        before.matches('\n').count() + 1
    });
    let mut quoted = error.message().split('`').skip(1).step_by(2);
    let got = quoted.next().unwrap_or_default().to_owned();
    let expected: Vec<&str> = quoted.collect();
    let said = error.message().trim().replace('\n', "; ");
    // All names that would have been right are many.
    let problem = match nearest(&got, &expected) {
        Some(name) => {
            let short = said.split(", expected one of").next().unwrap_or(&said);
            format!("{short}; did you mean \"{name}\"? All keys: bulkhead schema set")
        }
        None => said,
    };
    SetError { line, problem }
}
