//! Where in a text a key of it stands, for whoever tells what is wrong with it.

use toml::de::{DeArray, DeTable, DeValue};

/// The line on which the value at `path` is written, or the nearest part of the path that is.
pub fn line_of(text: &str, path: &str) -> Option<usize> {
    line_at(text, path.split('.'))
}

/// The same for a path in parts, whose keys may hold dots.
pub fn line_at<'a>(text: &str, path: impl Iterator<Item = &'a str>) -> Option<usize> {
    offset_at(text, path).map(|offset| line_of_offset(text, offset))
}

/// The line that holds this byte, counted from 1.
pub fn line_of_offset(text: &str, offset: usize) -> usize {
    text.get(..offset).unwrap_or(text).matches('\n').count() + 1
}

/// The byte at which the value at `path` begins, or the nearest part of the path that is there.
pub fn offset_at<'a>(text: &str, path: impl Iterator<Item = &'a str>) -> Option<usize> {
    // What is there twice is told by who reads it, and its first place is its place.
    let (root, _) = DeTable::parse_recoverable(text);
    let mut span = None;
    let mut table = Some(root.get_ref());
    let mut list: Option<&DeArray<'_>> = None;
    for part in path {
        let value = match (table, list) {
            (Some(table), _) => table.get(part),
            (None, Some(list)) => part.parse::<usize>().ok().and_then(|at| list.get(at)),
            _ => None,
        };
        let Some(value) = value else { break };
        span = Some(value.span());
        (table, list) = match value.get_ref() {
            DeValue::Table(inner) => (Some(inner), None),
            DeValue::Array(inner) => (None, Some(inner)),
            _ => (None, None),
        };
    }
    span.map(|span| span.start)
}
