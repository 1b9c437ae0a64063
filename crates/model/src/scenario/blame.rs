//! Where in a file a mistake is that was found in one of its cases.
//!
//! ```text
//!  path at fault ─► put in by --set? ─► by its [[case]]? ─► by [sweep]? ─► where the rest of the file has it ─► line
//! ```

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::Scenario;
use super::label::{Sweep, labels};
use super::place::{line_at, line_of};
use super::sweep::{ScenarioError, name_alone, put};

/// One case, as far as blame goes.
pub(super) struct Blame<'a> {
    /// The file.
    pub text: &'a str,
    /// The case with everything put in.
    pub root: &'a Value,
    /// The file's own values, into which nothing was put.
    pub table: &'a Table,
    /// Number and label of the `[[case]]`.
    pub case: (usize, &'a str),
    /// What is swept.
    pub sweep: &'a Sweep,
    /// What was put in, by path.
    pub settings: &'a BTreeMap<String, Value>,
    /// Of these, what the command line put in.
    pub overrides: &'a [(String, Value)],
}

impl Blame<'_> {
    /// The error for what is wrong at `path`, whose lists are numbered.
    pub fn at(&self, path: &str, problem: &str) -> ScenarioError {
        let (number, label) = self.case;
        let is_it = |key: &&String| key.as_str() == path || touches(&numbered(self.root, key), path);
        let setting = self.settings.keys().filter(is_it);
        let setting = setting.max_by_key(|key| key.len());
        let is_override = |key: &String| self.overrides.iter().any(|(overridden, _)| overridden == key);
        // What no case has put in is wrong in all of them, unless it is only wrong beside what one has.
        let is_of_case = setting.is_some_and(|key| !is_override(key)) || self.is_of_case(path, problem);
        // As far as it can be named without the others; empty where it is the only one.
        let name = labels(&[(label, self.settings)], self.sweep, "")
            .pop()
            .filter(|name| is_of_case && !name.is_empty());
        let of = name.map(|name| format!("case \"{name}\": ")).unwrap_or_default();
        if let Some(key) = setting.filter(|key| is_override(key)) {
            let place = if key == path { String::new() } else { format!("{path}: ") };
            return ScenarioError { line: None, problem: format!("--set {key}: {of}{place}{problem}") };
        }
        let number = number.to_string();
        let in_case = |key: &String| line_at(self.text, ["case", &number, "set", key].into_iter());
        let in_sweep = |key: &String| {
            let line = line_at(self.text, ["sweep", key].into_iter());
            line.filter(|line| Some(*line) != line_at(self.text, ["sweep"].into_iter()))
        };
        let of_case = |key: &String| in_case(key).filter(|_| !label.is_empty());
        let line = setting.and_then(|key| in_sweep(key).or_else(|| of_case(key)));
        ScenarioError {
            line: line.or_else(|| line_of(self.text, path)),
            problem: format!(
                "{of}{path}: {problem}{}",
                if is_of_case { self.put_in(setting) } else { String::new() }
            ),
        }
    }

    /// What the case sets at this key, or in all: ` (vm.B.weight = -2.0)`.
    fn put_in(&self, key: Option<&String>) -> String {
        let is_own = |at: &String| self.overrides.iter().all(|(overridden, _)| overridden != at);
        let own = self.settings.iter().filter(|(at, _)| key.map_or_else(|| is_own(at), |key| *at == key));
        let told: Vec<String> = own.map(|(at, value)| format!("{at} = {value}")).collect();
        if told.is_empty() { String::new() } else { format!(" ({})", told.join(", ")) }
    }

    /// Whether the file with what the command line puts in, but without what the case does, has not this problem.
    fn is_of_case(&self, path: &str, problem: &str) -> bool {
        let mut root = Value::Table(self.table.clone());
        let is_put = self.overrides.iter().all(|(at, value)| put(&mut root, at, value.clone()).is_ok());
        name_alone(&mut root);
        let scenario: Option<Scenario> = root.try_into().ok().filter(|_| is_put);
        scenario.is_some_and(|scenario| {
            scenario
                .check()
                .err()
                .is_none_or(|found| (found.path.as_str(), found.problem.as_str()) != (path, problem))
        })
    }

    /// The same for a mistake at this byte of the case as it is written out.
    pub fn at_byte(&self, whole: &str, byte: usize, problem: &str) -> ScenarioError {
        match path_at(whole, byte) {
            Some(path) => self.at(&path, problem),
            None => ScenarioError { line: None, problem: problem.to_owned() },
        }
    }
}

/// Whether one of the two paths leads through the other.
fn touches(one: &str, two: &str) -> bool {
    let leads = |short: &str, long: &str| long.strip_prefix(short).is_some_and(|rest| rest.starts_with('.'));
    one == two || leads(one, two) || leads(two, one)
}

/// A path with numbers where it names the members of a list.
pub(super) fn numbered(root: &Value, path: &str) -> String {
    let mut at = Some(root);
    let mut parts: Vec<String> = Vec::new();
    for part in path.split('.') {
        let (next, written) = match at {
            Some(Value::Array(list)) => {
                let is_it = |entry: &Value| entry.get("name").and_then(Value::as_str) == Some(part);
                let number = part.parse().ok().or_else(|| list.iter().position(is_it));
                (number.and_then(|number: usize| list.get(number)), number.map(|number| number.to_string()))
            }
            Some(value) => (value.get(part), None),
            None => (None, None),
        };
        parts.push(written.unwrap_or_else(|| part.to_owned()));
        at = next;
    }
    parts.join(".")
}

/// The path of the key or value that is written at this byte, with numbers for members of lists.
fn path_at(text: &str, byte: usize) -> Option<String> {
    fn within(value: &toml::de::DeValue<'_>, byte: usize, path: &mut Vec<String>) -> bool {
        let mut enter = |name: String, span: [std::ops::Range<usize>; 2], inner: &toml::de::DeValue<'_>| {
            path.push(name);
            let found = within(inner, byte, path) || span.iter().any(|span| span.contains(&byte));
            if !found {
                path.pop();
            }
            found
        };
        match value {
            toml::de::DeValue::Table(table) => table.iter().any(|(key, value)| {
                enter(key.get_ref().to_string(), [key.span(), value.span()], value.get_ref())
            }),
            toml::de::DeValue::Array(list) => list.iter().enumerate().any(|(number, value)| {
                enter(number.to_string(), [value.span(), value.span()], value.get_ref())
            }),
            _ => false,
        }
    }
    let root = toml::de::DeTable::parse(text).ok()?;
    let mut path = Vec::new();
    let root = toml::de::DeValue::Table(root.into_inner());
    within(&root, byte, &mut path).then(|| path.join("."))
}
