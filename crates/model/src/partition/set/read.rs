//! From the text of a file to a set, or to the lines that are wrong and why: all of them, in their order.
//!
//! ```text
//!  text ─► tree of keys ─► set ─► check ─► faults ─► lines
//!             ▲     │ a key is unknown, a value of the wrong type: told, cut off, tried again; what is found then and may come
//!             └─────┘ from that is not told (`follow.rs`)
//! ```

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::errors::{MOST_TOLD, SetError, SetErrors, of_no_toml, syntax, there_twice};
use super::{FoundBy, MOST_PARTITIONS, PartitionSet};
use crate::partition::is_name;
use crate::scenario::offset_at;
use units::names::nearest;

/// Largest file of a set that is read.
pub const MAX_SET_BYTES: usize = 1 << 20;

impl SetErrors {
    /// These faults with their lines of `text`.
    pub fn of(faults: Vec<Fault>, text: &str) -> Self {
        Self::sorted(faults.into_iter().map(|fault| fault.in_text(text)).collect())
    }
}

/// A key at fault. Names of partitions may hold dots, so its path is kept in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Keys on the way to it: `partition`, `plc`, `cpus`.
    pub path: Vec<String>,
    /// Which of the things in the list that it holds, where it is one of them.
    pub item: Option<usize>,
    /// What was wanted and what was got.
    pub problem: String,
    /// It is wrong because an entry of the file is not there.
    is_of_absence: bool,
}

impl Fault {
    /// This problem of the key at the end of `path`.
    pub fn new(path: &[&str], problem: impl Into<String>) -> Self {
        Self {
            path: path.iter().map(|part| (*part).to_owned()).collect(),
            item: None,
            problem: problem.into(),
            is_of_absence: false,
        }
    }

    /// The same, wrong only because no entry of the file is what it says.
    #[must_use]
    pub fn of_absence(self) -> Self {
        Self { is_of_absence: true, ..self }
    }

    /// The problem of one thing in the list that the key holds.
    #[must_use]
    pub fn item(self, item: usize) -> Self {
        Self { item: Some(item), ..self }
    }

    /// Whether both are about one key of a partition, or one thing in its list.
    fn is_about_the_same_as(&self, other: &Self) -> bool {
        self.path.len() > 2 && self.path == other.path && self.item == other.item
    }

    /// With its place in `text`.
    fn in_text(&self, text: &str) -> SetError {
        let item = self.item.map(|item| item.to_string());
        let offset = offset_at(text, self.path.iter().chain(&item).map(String::as_str));
        SetError::new(text, offset, format!("{}: {}", self.path.join("."), self.problem))
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

    /// One more, of one thing in the list that the key holds.
    pub fn add_item(&mut self, path: &[&str], item: usize, problem: impl Into<String>) {
        self.0.push(Fault::new(path, problem).item(item));
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
#[derive(Debug, Default)]
pub struct ReadSet {
    /// None when too much is wrong for anything else to be judged.
    pub set: Option<PartitionSet>,
    errors: Vec<SetError>,
    cuts: Vec<Cut>,
    /// Entries are among what was cut off.
    lacks_entries: bool,
    /// What is told of already: who finds more there, another way, has found nothing new.
    told: Vec<Fault>,
}

/// What was cut off because it could not be read.
#[derive(Debug)]
struct Cut {
    /// Where it was. An unknown key that looks like another one counts as that.
    at: Fault,
    /// It is a key that nobody knows.
    is_unknown: bool,
}

impl ReadSet {
    /// Reads and checks a file; a set without a name is called `stem`.
    pub fn of(text: &str, stem: &str) -> Self {
        match Self::tree(text) {
            Ok((tree, twice)) => Self::of_tree(tree, text, stem, MOST_PARTITIONS).besides(twice),
            Err(errors) => Self::default().besides(errors),
        }
    }

    /// All keys of a text of at most so many bytes, with their places in it, and those that are there twice.
    ///
    /// # Errors
    /// It is too long, or no TOML.
    pub fn whole_tree(
        text: &str,
        most: usize,
    ) -> Result<(Spanned<DeTable<'_>>, Vec<SetError>), Vec<SetError>> {
        if text.len() > most {
            let problem = format!("{} bytes are too many for a set; allowed are {most}", text.len());
            return Err(vec![SetError::new(text, None, problem)]);
        }
        let (tree, errors) = DeTable::parse_recoverable(text);
        let (twice, errors): (Vec<_>, Vec<_>) =
            errors.into_iter().partition(|error| error.message() == "duplicate key");
        let wrong = of_no_toml(text, errors);
        if wrong.is_empty() {
            Ok((tree, twice.iter().map(|error| there_twice(text, error)).collect()))
        } else {
            Err(wrong)
        }
    }

    /// The same of the keys that a set may have: requirements are read by who verifies them.
    ///
    /// # Errors
    /// The same.
    pub fn tree(text: &str) -> Result<(Spanned<DeTable<'_>>, Vec<SetError>), Vec<SetError>> {
        let (mut tree, twice) = Self::whole_tree(text, MAX_SET_BYTES)?;
        tree.get_mut().remove(crate::requirement::KEY);
        Ok((tree, twice))
    }

    /// A parser's message, with its line.
    pub fn told(text: &str, error: &toml::de::Error) -> SetError {
        syntax(text, error, error.span())
    }

    /// Reads and checks a set of at most so many partitions whose keys have their places in `text`.
    pub fn of_tree(tree: Spanned<DeTable<'_>>, text: &str, stem: &str, most: usize) -> Self {
        let mut read = decode(tree, text);
        let Some(set) = &mut read.set else { return read };
        if set.name.is_empty() && is_name(stem) {
            stem.clone_into(&mut set.name);
        }
        let mut faults = set.check_up_to(most);
        if let Some(fault) = faults.iter_mut().find(|fault| set.name.is_empty() && fault.path == ["name"]) {
            fault.problem = format!("the file's own name, {stem:?}, cannot name a set: write name = \"…\"");
        }
        read.add(faults, FoundBy::File, text);
        read
    }

    /// These are wrong as well.
    #[must_use]
    pub fn besides(mut self, errors: Vec<SetError>) -> Self {
        self.errors.extend(errors);
        self
    }

    /// All that is wrong.
    pub fn into_errors(self) -> SetErrors {
        SetErrors::sorted(self.errors)
    }

    /// The set, if nothing is wrong so far.
    pub const fn faultless(&self) -> Option<&PartitionSet> {
        if self.errors.is_empty() { self.set.as_ref() } else { None }
    }

    /// More that is wrong with the set in this text, but for what may come from what was cut off.
    pub fn add(&mut self, faults: Vec<Fault>, by: FoundBy, text: &str) {
        let mut faults: Vec<Fault> = faults.into_iter().map(|fault| self.as_written(fault)).collect();
        let is_told = |fault: &Fault| self.told.iter().any(|one| one.is_about_the_same_as(fault));
        let is_explained = |fault: &Fault| {
            (self.lacks_entries && fault.is_of_absence) || self.cuts.iter().any(|cut| cut.explains(fault, by))
        };
        faults.retain(|fault| !is_told(fault) && !is_explained(fault));
        self.errors.extend(faults.iter().map(|fault| fault.in_text(text)));
        self.told.append(&mut faults);
    }

    /// A thing in a list of which others were cut off has the place that it had.
    fn as_written(&self, mut fault: Fault) -> Fault {
        if let Some(item) = &mut fault.item {
            *item = before_cuts(*item, &fault.path, &self.cuts);
        }
        fault
    }

    /// The set.
    ///
    /// # Errors
    /// Everything that is wrong, with its lines; of a text that is no TOML the lines that make it none. What is there twice hides nothing.
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

impl Cut {
    /// Whether a fault may be there only because this is missing.
    fn explains(&self, fault: &Fault, by: FoundBy) -> bool {
        let is_whole = fault.path.len() == 2 && self.at.path.starts_with(&fault.path);
        fault.may_follow(&self.at, by) || (is_whole && self.is_unknown)
    }
}

/// The place of a thing in its list before things were cut off there.
fn before_cuts(item: usize, path: &[String], cuts: &[Cut]) -> usize {
    let same = cuts.iter().filter(|cut| cut.at.path == path);
    let mut gone: Vec<usize> = same.filter_map(|cut| cut.at.item).collect();
    gone.sort_unstable();
    gone.into_iter().fold(item, |item, gone| item + usize::from(gone <= item))
}

/// Makes a set of a text without its unknown keys and values of a wrong type.
fn decode(mut tree: Spanned<DeTable<'_>>, text: &str) -> ReadSet {
    let mut read = ReadSet::default();
    loop {
        let error = match PartitionSet::deserialize(toml::Deserializer::from(tree.clone())) {
            Ok(set) => return ReadSet { set: Some(set), ..read },
            Err(error) => error,
        };
        let span = narrowed(&tree, &error);
        let found = span.as_ref().and_then(|span| cut(tree.get_mut(), span));
        if !found.as_ref().is_some_and(|(at, _)| is_left_over(&error, at, &read.cuts)) {
            read.errors.push(syntax(text, &error, span));
        }
        let Some((mut at, value)) = found.filter(|_| read.errors.len() < MOST_TOLD) else { return read };
        let is_unknown = error.message().starts_with("unknown field");
        let meant = if is_unknown { meant(&error) } else { None };
        // What looks like nothing that a set has is nothing that others may name.
        let is_like_nothing = is_unknown && meant.is_none();
        read.lacks_entries |= !(is_like_nothing || holds_no_entry(&at.path, &value));
        at.item = at.item.map(|item| before_cuts(item, &at.path, &read.cuts));
        if let Some(name) = meant
            && !is_there(tree.get_ref(), &at.path, &name)
            && let Some(key) = at.path.last_mut()
        {
            *key = name;
        }
        read.cuts.push(Cut { at, is_unknown });
    }
}

/// Whether the table that has the key at `path` has this one, too.
fn is_there(table: &DeTable<'_>, path: &[String], key: &str) -> bool {
    match path {
        [_] => table.contains_key(key),
        [first, rest @ ..] => match table.get(first.as_str()).map(Spanned::get_ref) {
            Some(DeValue::Table(inner)) => is_there(inner, rest, key),
            _ => false,
        },
        [] => false,
    }
}

/// Where it is: of a list with something wrong in it, the parser may know no more than the list.
fn narrowed(tree: &Spanned<DeTable<'_>>, error: &toml::de::Error) -> Option<Range<usize>> {
    let whole = error.span()?;
    let mut alone = tree.clone();
    let things: Vec<_> = list_at(alone.get_mut(), &whole)
        .map(|list| list.iter().take(MOST_TOLD).cloned().collect())
        .unwrap_or_default();
    for thing in things {
        let span = thing.span();
        let mut one = DeArray::new();
        one.push(thing);
        if let Some(list) = list_at(alone.get_mut(), &whole) {
            *list = one;
        }
        let again = PartitionSet::deserialize(toml::Deserializer::from(alone.clone()));
        if again.is_err_and(|again| again.message() == error.message()) {
            return Some(span);
        }
    }
    Some(whole)
}

/// The list whose key, or which itself, lies at `span`.
fn list_at<'t, 'a>(table: &'t mut DeTable<'a>, span: &Range<usize>) -> Option<&'t mut DeArray<'a>> {
    table.iter_mut().find_map(|(key, value)| {
        let is_it = key.span() == *span || value.span() == *span;
        match value.get_mut() {
            DeValue::Array(list) => {
                if is_it {
                    return Some(list);
                }
                list.iter_mut().find_map(|one| match one.get_mut() {
                    DeValue::Table(inner) => list_at(inner, span),
                    _ => None,
                })
            }
            DeValue::Table(inner) => list_at(inner, span),
            _ => None,
        }
    })
}

/// Whether an entry lacks only what was cut off of it.
fn is_left_over(error: &toml::de::Error, at: &Fault, cuts: &[Cut]) -> bool {
    let Some(name) = error.message().strip_prefix("missing field `").and_then(|rest| rest.split('`').next())
    else {
        return false;
    };
    cuts.iter().any(|cut| cut.at.path.strip_prefix(&at.path[..]).is_some_and(|rest| rest == [name]))
}

/// Whether no entry went with what was cut off that others may name.
fn holds_no_entry(path: &[String], value: &DeValue<'_>) -> bool {
    match path {
        [only] => {
            let is_one_value = !matches!(value, DeValue::Table(_) | DeValue::Array(_));
            is_one_value && !matches!(only.as_str(), "partition" | "network" | "channel")
        }
        [kind, _] => kind == "channel",
        _ => true,
    }
}

/// Removes the key that lies at `span`, or whose value does, or the one thing in a list that does: where it was, and the value.
fn cut<'a>(table: &mut DeTable<'a>, span: &Range<usize>) -> Option<(Fault, DeValue<'a>)> {
    let is_there = |value: &Spanned<DeValue<'_>>| value.span() == *span;
    let found = table.iter().find(|(key, value)| key.span() == *span || is_there(value));
    if let Some(key) = found.map(|(key, _)| key.get_ref().to_string()) {
        let value = table.remove(key.as_str())?.into_inner();
        return Some((Fault::new(&[&key], ""), value));
    }
    table.iter_mut().find_map(|(key, value)| {
        let (mut at, value) = match value.get_mut() {
            DeValue::Table(inner) => cut(inner, span),
            DeValue::Array(list) => match list.iter().position(is_there) {
                Some(item) => Some((Fault::new(&[], "").item(item), without(list, item)?)),
                None => list.iter_mut().enumerate().find_map(|(item, one)| match one.get_mut() {
                    DeValue::Table(inner) => cut(inner, span).map(|(at, value)| (at.item(item), value)),
                    _ => None,
                }),
            },
            _ => None,
        }?;
        at.path.insert(0, key.get_ref().to_string());
        Some((at, value))
    })
}

/// Removes one thing of a list.
fn without<'a>(list: &mut DeArray<'a>, item: usize) -> Option<DeValue<'a>> {
    let removed = list.get(item)?.get_ref().clone();
    let mut rest = DeArray::new();
    for (_, one) in list.iter().enumerate().filter(|(number, _)| *number != item) {
        rest.push(one.clone());
    }
    *list = rest;
    Some(removed)
}

/// The name that an unknown one looks like.
fn meant(error: &toml::de::Error) -> Option<String> {
    let mut quoted = error.message().split('`').skip(1).step_by(2);
    let got = quoted.next()?;
    let expected: Vec<&str> = quoted.collect();
    nearest(got, &expected).map(ToOwned::to_owned)
}
