//! Mistakes of a file, each with its line: what a parser says of a text, and what else is wrong with it.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;

use crate::scenario::line_of_offset;
use units::names::nearest;

/// Most mistakes that are told of one file.
pub(super) const MOST_TOLD: usize = 100;
/// How deep the parser goes.
const MOST_DEEP: usize = 80;

/// What a file says is repeated without what could move a terminal's cursor.
fn plain(problem: &str) -> String {
    problem.chars().map(|c| if c.is_control() && c != '\n' { '?' } else { c }).collect()
}

/// Why a file holds no set: all that is wrong, in the file's order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct SetErrors(pub Vec<SetError>);

impl SetErrors {
    /// Each once, in the file's order.
    pub(super) fn sorted(mut errors: Vec<SetError>) -> Self {
        let mut told = HashSet::new();
        errors.retain(|error| told.insert((error.line, error.problem.clone())));
        errors.sort_by_key(|error| error.offset);
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
    /// The byte of the file that it is about, where one can be named: what mistakes are sorted by.
    pub offset: Option<usize>,
    /// What is wrong, and what was wanted.
    pub problem: String,
}

impl SetError {
    /// This problem at a byte of `text`, or of all of it.
    pub fn new(text: &str, offset: Option<usize>, problem: String) -> Self {
        Self { line: offset.map(|offset| line_of_offset(text, offset)), offset, problem }
    }
}

/// Of a text that is no TOML: the first mistake of each line; the first alone where something was not closed, from which all the others
/// may come.
pub fn of_no_toml(text: &str, mut errors: Vec<toml::de::Error>) -> Vec<SetError> {
    // The parser finds some of them only at the end.
    errors.sort_by_key(|error| error.span().map_or(usize::MAX, |span| span.start));
    if errors.iter().any(|error| error.message().starts_with("unclosed")) {
        errors.truncate(1);
    }
    let mut told: Vec<SetError> = errors.iter().map(|error| syntax(text, error, error.span())).collect();
    told.dedup_by_key(|error| error.line);
    told.truncate(MOST_TOLD);
    told
}

/// The parser's message in one line, with the nearest of the names it expected.
pub fn syntax(text: &str, error: &toml::de::Error, span: Option<Range<usize>>) -> SetError {
    if span.is_none() && error.message().contains("recursion limit") {
        let problem = format!("tables and lists in each other are at most {MOST_DEEP} deep");
        return SetError::new(text, first_deep(text), problem);
    }
    let offset = span.map(|span| span.start);
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
        None => in_numbers(said),
    };
    let key = offset.and_then(|offset| key_before(text, offset));
    // That of a key names it.
    let problem = match key.filter(|_| !problem.starts_with("unknown field")) {
        Some(key) => format!("{key}: {problem}"),
        None => problem,
    };
    SetError::new(text, offset, problem)
}

/// Where the first line begins that alone is too deep, if one is.
fn first_deep(text: &str) -> Option<usize> {
    let is_deep = |line: &str| line.matches(['.', '[', '{']).count() >= MOST_DEEP;
    let mut lines = text.split_inclusive('\n').scan(0, |end, line| {
        let begin = *end;
        *end += line.len();
        Some((begin, line))
    });
    lines.find(|(_, line)| is_deep(line)).map(|(begin, _)| begin)
}

/// A key or table that the text has already.
pub fn there_twice(text: &str, error: &toml::de::Error) -> SetError {
    let key = error.span().and_then(|span| text.get(span)).unwrap_or_default();
    SetError::new(text, error.span().map(|span| span.start), format!("{key} is there twice"))
}

/// The key whose value stands at a byte, where both are in one line.
fn key_before(text: &str, offset: usize) -> Option<&str> {
    let line = text.get(..offset)?.rsplit('\n').next()?;
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.\"".contains(letter);
    let innermost = line.rsplit_once('=').filter(|(left, _)| left.matches('"').count().is_multiple_of(2));
    let (left, _) = innermost.or_else(|| line.split_once('='))?;
    left.trim_end().rsplit(|letter| !is_plain(letter)).next().filter(|key| !key.is_empty())
}

/// With the numbers that a type can hold instead of its name.
fn in_numbers(said: String) -> String {
    let types = [
        ("u8", "from 0 to 255"),
        ("u16", "from 0 to 65535"),
        ("u32", "from 0 to 4294967295"),
        ("u64", "from 0 on"),
    ];
    if !said.starts_with("invalid ") {
        return said;
    }
    types.iter().fold(said, |said, (name, which)| {
        said.replace(&format!("expected {name}"), &format!("expected a number {which}"))
    })
}
