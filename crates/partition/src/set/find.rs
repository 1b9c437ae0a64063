//! The partition that is meant by a name: `db`, or `plant/db` where several sets have one.

use std::path::Path;

use super::status;
use model::partition::set::{PartitionStatus, SetStatus};
use units::Reason;
use units::names::hint;

/// A partition of a set that is up.
#[derive(Debug)]
pub struct Meant {
    /// Its set.
    pub set: String,
    /// The partition.
    pub partition: PartitionStatus,
}

/// Finds it among all sets that are up, or in one.
///
/// # Errors
/// There is none of that name, or there are several.
pub fn partition(state_root: &Path, name: &str, in_set: Option<&str>) -> Result<Meant, Reason> {
    let (set, name) = name.split_once('/').map_or((in_set, name), |(set, name)| (Some(set), name));
    let there = status::names(state_root).into_iter().filter(|there| set.is_none_or(|set| set == there));
    let sets: Vec<SetStatus> = there.filter_map(|set| status::status(state_root, &set)).collect();
    if sets.is_empty() {
        return Err(match set {
            Some(set) => format!("no set \"{set}\" is up; bulkhead ps shows which are").into(),
            None => "no set is up".into(),
        });
    }
    let all = || sets.iter().flat_map(|set| set.partitions.iter().map(move |partition| (set, partition)));
    let found: Vec<_> = all().filter(|(_, partition)| partition.name == name).collect();
    match found[..] {
        [(set, partition)] => Ok(Meant { set: set.set.clone(), partition: partition.clone() }),
        [] => {
            let known: Vec<&str> = all().map(|(_, partition)| partition.name.as_str()).collect();
            Err(format!("no set that is up has a partition \"{name}\"{}", hint(name, &known)).into())
        }
        _ => Err(format!("several sets have a partition \"{name}\": name one as SET/{name}").into()),
    }
}
