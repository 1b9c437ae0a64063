//! From the text of a file to a set, or to the line that is wrong and why.

use super::PartitionSet;
use crate::model::names::nearest;
use crate::model::partition::is_name;
use crate::model::scenario::line_at;

/// Largest file of a set that is read.
pub const MAX_SET_BYTES: usize = 1 << 20;

/// What a file says is repeated without what could move a terminal's cursor.
fn plain(problem: &str) -> String {
    problem.chars().map(|c| if c.is_control() && c != '\n' { '?' } else { c }).collect()
}

/// Why a file holds no set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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
    pub fn in_text(self, text: &str) -> SetError {
        let line = line_at(text, self.path.iter().map(String::as_str));
        SetError { line, problem: format!("{}: {}", self.path.join("."), self.problem) }
    }
}

impl PartitionSet {
    /// Reads and checks a file; a set without a name is called `stem`.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn from_toml(text: &str, stem: &str) -> Result<Self, SetError> {
        if text.len() > MAX_SET_BYTES {
            let problem = format!("{} bytes are too many for a set; allowed are {MAX_SET_BYTES}", text.len());
            return Err(SetError { line: None, problem });
        }
        let mut set: Self = toml::from_str(text).map_err(|error| syntax(text, &error))?;
        if set.name.is_empty() {
            if !is_name(stem) {
                let problem =
                    format!("name: the file's own name, {stem:?}, cannot name a set: write name = \"…\"");
                return Err(SetError { line: None, problem });
            }
            stem.clone_into(&mut set.name);
        }
        set.check().map_err(|fault| fault.in_text(text))?;
        Ok(set)
    }
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
