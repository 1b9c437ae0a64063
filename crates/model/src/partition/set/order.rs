//! Who waits for whom: the order in which partitions are started, and loops in it by name.

use std::collections::{BTreeMap, BTreeSet};

use super::{Fault, PartitionEntry};

/// Names such that each comes after those it waits for; alphabetical otherwise.
///
/// # Errors
/// A loop, with the names on it.
pub fn ascending(partitions: &BTreeMap<String, PartitionEntry>) -> Result<Vec<String>, Fault> {
    let mut done: Vec<String> = Vec::new();
    let mut placed: BTreeSet<&str> = BTreeSet::new();
    while done.len() < partitions.len() {
        let ready = partitions.iter().find(|(name, entry)| {
            !placed.contains(name.as_str()) && waits(partitions, name, entry, &placed).next().is_none()
        });
        let Some((name, _)) = ready else { return Err(told(partitions, &placed)) };
        placed.insert(name);
        done.push(name.clone());
    }
    Ok(done)
}

/// Those that it waits for and that are not placed. Unknown ones and itself are mistakes of another kind.
fn waits<'a>(
    partitions: &BTreeMap<String, PartitionEntry>,
    name: &str,
    entry: &'a PartitionEntry,
    placed: &BTreeSet<&str>,
) -> impl Iterator<Item = &'a str> {
    let after = entry.after.iter().map(String::as_str);
    after.filter(move |other| *other != name && partitions.contains_key(*other) && !placed.contains(other))
}

/// The reverse: each before those it waits for. A loop, which a checked set does not have, is left out.
pub fn dependants_first(partitions: &BTreeMap<String, PartitionEntry>) -> Vec<String> {
    let mut names = ascending(partitions).unwrap_or_default();
    names.reverse();
    names
}

/// The loop among those that are not placed: each of them waits for another one that is not.
fn told(partitions: &BTreeMap<String, PartitionEntry>, placed: &BTreeSet<&str>) -> Fault {
    let waits_for = |name: &str| waits(partitions, name, partitions.get(name)?, placed).next();
    let first = partitions.keys().map(String::as_str).find(|name| !placed.contains(name));
    let mut way: Vec<&str> = Vec::new();
    let mut at = first;
    while let Some(name) = at {
        if let Some(start) = way.iter().position(|seen| *seen == name) {
            way.drain(..start);
            way.push(name);
            break;
        }
        way.push(name);
        at = waits_for(name);
    }
    let start = way.first().copied().unwrap_or_default();
    Fault::new(&["partition", start, "after"], format!("they wait for each other: {}", way.join(" after ")))
}
