//! The NUMA rule for a whole set: each job becomes one partition per memory node of this host. Pure.
//!
//! ```text
//!  [partition.solver] cpus = 16 ─► solver-n0, solver-n1 …: its share of CPUs and memory, all of it on that node
//!  after = ["solver"]           ─► after all of them
//! ```
//! Every part runs the same program and is told which one it is: `BULKHEAD_PART` counts from 0, `BULKHEAD_PARTS` says how
//! many there are. What says on which node it lies stays as it is.

use std::collections::BTreeMap;

use super::resolve::resources;
use crate::place::HostTopology;
use crate::place::split::by_node;
use model::partition::set::{Fault, PartitionEntry, PartitionSet};
use model::partition::{ImageEntry, is_name};

/// Which part of a job a partition is.
const PART: &str = "BULKHEAD_PART";
/// How many parts its job has.
const PARTS: &str = "BULKHEAD_PARTS";

/// The set with each of its jobs split over the memory nodes of `host`.
///
/// # Errors
/// A partition that cannot be split: it boots an image, has a disk, a saved layer, a number in a network, a channel, or asks for more
/// than there is.
pub fn over_nodes(set: &PartitionSet, host: &HostTopology) -> Result<PartitionSet, Fault> {
    if let Some(channel) = set.channels.keys().next() {
        let problem = "the ends of a channel cannot be split over memory nodes: leave out --split";
        return Err(Fault::new(&["channel", channel], problem));
    }
    let mut parts_of: BTreeMap<&str, Vec<(String, PartitionEntry)>> = BTreeMap::new();
    for (name, entry) in &set.partitions {
        let parts = if entry.node.is_some() {
            vec![(name.clone(), entry.clone())]
        } else {
            parts(name, entry, host)?
        };
        parts_of.insert(name, parts);
    }
    let names = |job: &String| -> Vec<String> {
        parts_of
            .get(job.as_str())
            .map_or_else(|| vec![job.clone()], |parts| parts.iter().map(|part| part.0.clone()).collect())
    };
    let mut split = PartitionSet { partitions: BTreeMap::new(), ..set.clone() };
    for (job, parts) in &parts_of {
        for (name, entry) in parts {
            let after = entry.after.iter().flat_map(names).collect();
            if split.partitions.insert(name.clone(), PartitionEntry { after, ..entry.clone() }).is_some() {
                let problem =
                    format!("a part of it would have the name of another partition, {name}: rename one");
                return Err(Fault::new(&["partition", job], problem));
            }
        }
    }
    split.check().into_iter().next().map_or(Ok(split), Err)
}

fn parts(
    name: &str,
    entry: &PartitionEntry,
    host: &HostTopology,
) -> Result<Vec<(String, PartitionEntry)>, Fault> {
    let fault = |key: &str, problem: String| Fault::new(&["partition", name, key], problem);
    let unsplittable =
        |what: &str| format!("{what} cannot be split over memory nodes: name a node, or leave out --split");
    if entry.image == ImageEntry::Disk(true) {
        return Err(fault("image", unsplittable("what boots from an image")));
    }
    if !entry.disks.is_empty() {
        return Err(fault("disk", unsplittable("a partition with a disk of its own")));
    }
    if entry.save.is_some() {
        return Err(fault("save", unsplittable("a partition with a saved layer")));
    }
    if entry.cards.iter().any(|card| card.number.is_some()) {
        return Err(fault("card", unsplittable("a partition with a number in a network")));
    }
    let shares = by_node(&resources(entry), host).map_err(|problem| fault("cpus", problem.into()))?;
    let count = shares.len();
    let part = |(number, share): (usize, model::partition::Resources)| {
        let node = share.node.unwrap_or_default();
        let part_name = format!("{name}-n{node}");
        if !is_name(&part_name) {
            return Err(fault(
                "cpus",
                format!("the name of its part, {part_name}, is too long: choose a shorter one"),
            ));
        }
        let mut env = entry.env.clone();
        env.insert(PART.to_owned(), number.to_string());
        env.insert(PARTS.to_owned(), count.to_string());
        let placed = PartitionEntry {
            cpus: share.cpus,
            pin: share.pin,
            memory_mib: share.memory,
            node: share.node,
            cpu_cap_percent: share.cpu_cap_percent,
            env,
            ..entry.clone()
        };
        Ok((part_name, placed))
    };
    shares.into_iter().enumerate().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::big_host;
    use model::partition::set::SetErrors;
    use units::Reason;

    fn split(text: &str) -> Result<PartitionSet, Reason> {
        let set = PartitionSet::from_toml(text, "s").expect("a set");
        over_nodes(&set, &big_host()).map_err(|fault| SetErrors::of(vec![fault], text).to_string().into())
    }

    #[test]
    fn a_job_becomes_one_partition_per_node_and_others_wait_for_all_of_them() {
        let text = "[partition.a]\nprogram = [\"/bin/true\"]\ncpus = 8\nmemory_mib = 1024\n\
                    [partition.b]\nprogram = [\"/bin/true\"]\nafter = [\"a\"]\nnode = 1\n";
        let set = split(text).expect("split");
        let parts: Vec<&String> = set.partitions.keys().filter(|name| name.starts_with("a-n")).collect();
        assert!(parts.len() > 1, "{parts:?}");
        let entries =
            || set.partitions.iter().filter(|(name, _)| name.starts_with("a-n")).map(|(_, entry)| entry);
        assert_eq!(entries().map(|entry| entry.cpus).sum::<u32>(), 8);
        assert_eq!(entries().map(|entry| entry.memory_mib.get()).sum::<u64>(), 1024);
        let told: Vec<&str> = entries().map(|entry| entry.env[PART].as_str()).collect();
        assert_eq!(told[..2], ["0", "1"]);
        assert!(entries().all(|entry| entry.env[PARTS] == parts.len().to_string() && entry.node.is_some()));
        let b = &set.partitions["b"];
        assert_eq!(b.after.iter().collect::<Vec<_>>(), parts);
        assert_eq!(b.node, Some(1));
        // Splitting again changes nothing: every part says where it lies.
        assert_eq!(over_nodes(&set, &big_host()), Ok(set));
    }

    #[test]
    fn what_cannot_be_split_is_named_with_its_line() {
        let image = split("[partition.a]\nimage = true\ndisk = [{ file = \"/x\" }]\n").unwrap_err();
        assert!(
            image.to_string().contains("partition.a.image") && image.to_string().contains("line 2"),
            "{image}"
        );
        let saved = split("[partition.a]\nprogram = [\"/bin/true\"]\nsave = \"/x\"\n").unwrap_err();
        assert!(
            saved.to_string().contains("partition.a.save") && saved.to_string().contains("line 3"),
            "{saved}"
        );
        let many = split("[partition.a]\nprogram = [\"/bin/true\"]\ncpus = 200\n").unwrap_err();
        assert!(
            many.to_string().contains("wanted 200 CPUs") && many.to_string().contains("line 3"),
            "{many}"
        );
    }
}
