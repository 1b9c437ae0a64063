//! From the text of a file to requirements, or to the lines that are wrong and why.
//!
//! ```text
//!  text ─► tree of keys ─┬► requirement.ID ─► Requirement, each for itself ─┐
//!                        └► partition there? the set is this file's         ├► check ─► faults ─► lines
//!                           else: set = "NAME" ─────────────────────────────┘
//! ```

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{MOST_REQUIREMENTS, Requirement, Requirements, check};
use crate::partition::is_name;
use crate::partition::set::{Fault, Faults, MAX_SET_BYTES, ReadSet, SetError, SetErrors};
use crate::scenario::offset_at;

/// The key under which requirements stand, in a set's or system's file, too.
pub const KEY: &str = "requirement";

/// How many times as long as a set's file requirements may be that this program wrote.
const MOST_WRITTEN: usize = 16;

/// Requirements, and the set that they are about.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(deny_unknown_fields))]
pub struct RequirementFile {
    /// Name of the set that is up.
    pub set: String,
    /// By id.
    #[serde(rename = "requirement")]
    pub requirements: Requirements,
}

impl RequirementFile {
    /// Reads and checks a file; a set without a name is called `stem`.
    ///
    /// # Errors
    /// Everything that is wrong with requirements, with its lines. What else is wrong with a set's file is told by `up`.
    pub fn from_toml(text: &str, stem: &str) -> Result<Self, SetErrors> {
        Self::read(text, stem, MAX_SET_BYTES)
    }

    /// Reads one that this program wrote: every default stands in it, so it is longer than as its author wrote it.
    ///
    /// # Errors
    /// The same.
    pub fn from_evidence(text: &str) -> Result<Self, SetErrors> {
        Self::read(text, "", MOST_WRITTEN * MAX_SET_BYTES)
    }

    fn read(text: &str, stem: &str, most: usize) -> Result<Self, SetErrors> {
        let (mut tree, mut errors) = ReadSet::whole_tree(text, most).map_err(SetErrors)?;
        let mut faults = Faults::default();
        let table = tree.get_mut();
        let requirements = take(table, text, &mut errors);
        let known = partitions(table);
        let set = set_name(table, known.is_some(), stem, &mut faults);
        if requirements.is_empty() && errors.is_empty() {
            let problem = format!("the file has no [{KEY}.ID], so there is nothing to verify");
            errors.push(SetError::new(text, None, problem));
        }
        // What refers to a requirement that could not be read would be told as well.
        if errors.is_empty() {
            check::check(&requirements, known.as_ref(), &mut faults);
        }
        let mut all = SetErrors::of(faults.into(), text).0;
        all.extend(errors);
        all.sort_by_key(|error| error.offset);
        if all.is_empty() { Ok(Self { set, requirements }) } else { Err(SetErrors(all)) }
    }
}

/// Takes requirements out of the tree.
fn take(tree: &mut DeTable<'_>, text: &str, errors: &mut Vec<SetError>) -> Requirements {
    let mut all = Requirements::new();
    let Some(entry) = tree.remove(KEY) else { return all };
    let DeValue::Table(entries) = entry.into_inner() else {
        let problem = format!("{KEY}: wanted tables [{KEY}.ID]");
        errors.push(SetError::new(text, offset_at(text, [KEY].into_iter()), problem));
        return all;
    };
    for (id, value) in entries {
        if all.len() + errors.len() >= MOST_REQUIREMENTS {
            let problem = format!("more than {MOST_REQUIREMENTS} requirements");
            errors.push(SetError::new(text, None, problem));
            break;
        }
        let id = id.into_inner().into_owned();
        let span = value.span();
        let DeValue::Table(table) = value.into_inner() else {
            let offset = offset_at(text, [KEY, id.as_str()].into_iter());
            errors.push(SetError::new(text, offset, format!("{KEY}.{id}: wanted a table")));
            continue;
        };
        match Requirement::deserialize(toml::Deserializer::from(Spanned::new(span, table))) {
            Ok(requirement) => {
                all.insert(id, requirement);
            }
            Err(error) => {
                let mut told = ReadSet::told(text, &error);
                told.problem =
                    format!("{KEY}.{id}: {}", told.problem.replace("schema set", "schema requirements"));
                errors.push(told);
            }
        }
    }
    all
}

/// Names of the file's own partitions with their networks; none in a file that has no partitions.
fn partitions(tree: &DeTable<'_>) -> Option<BTreeSet<String>> {
    let DeValue::Table(partitions) = tree.get("partition")?.get_ref() else { return None };
    Some(partitions.keys().map(|name| name.get_ref().clone().into_owned()).collect())
}

fn set_name(tree: &DeTable<'_>, has_partitions: bool, stem: &str, faults: &mut Faults) -> String {
    let key = if has_partitions { "name" } else { "set" };
    if !has_partitions {
        for other in tree.keys().filter(|other| other.get_ref() != key) {
            let other = other.get_ref();
            faults.add(&[other], format!("unknown key; a file of requirements has {KEY} and {key}"));
        }
    }
    match tree.get(key).map(Spanned::get_ref) {
        Some(DeValue::String(name)) if is_name(name) => name.clone().into_owned(),
        Some(_) => {
            faults.add(&[key], "wanted the name of a set");
            String::new()
        }
        None if has_partitions => stem.to_owned(),
        None => {
            let fault =
                Fault::new(&[KEY], "the file has no partitions: write set = \"NAME\", the set that is up");
            faults.note(Err(fault));
            String::new()
        }
    }
}
