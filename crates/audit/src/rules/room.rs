//! What nodes have, and what is taken of it: rules `cpus`, `pool`, `memory`.

use std::collections::{BTreeMap, BTreeSet};

use model::partition::NumberList;

use super::{Found, Rule};
use crate::world::{Load, Node, NodeName, Seen, Total, World};

/// What is said of memory that does not suffice on a node.
pub(super) fn lacks_memory(load: &Load, node: &Node<'_>) -> Option<String> {
    let pages = [
        ("memory", load.plain_mib, node.plain_mib()),
        ("huge pages", load.huge_mib, node.shape.hugepages_mib.get()),
    ];
    let lacking = pages.into_iter().find(|(_, wanted, there)| *wanted > Total::from(*there));
    lacking
        .map(|(what, wanted, there)| format!("{wanted} MiB of {what} are wanted there, and it has {there}"))
}

/// Replicas with a part on a node.
type Sharers<'w, 'a> = BTreeMap<NodeName<'a>, Vec<(&'w Seen<'a>, &'a [u32])>>;

/// Those with shared CPUs, by node.
fn sharers<'w, 'a>(world: &'w World<'a>) -> Sharers<'w, 'a> {
    let mut sharers: Sharers<'w, 'a> = BTreeMap::new();
    for seen in world.seen.iter().filter(|seen| seen.is_shared()) {
        for (node, seat) in seen.seats() {
            let at = sharers.entry((seen.host_name(), node.shape.number)).or_default();
            at.push((seen, seat.cpus.numbers()));
        }
    }
    sharers
}

/// CPUs belong to their node; whole ones to one part; shared ones are the same for all.
pub(super) fn cpus(world: &World<'_>, found: &mut Found) {
    let mut holders: BTreeMap<(&str, u32), &Seen<'_>> = BTreeMap::new();
    for seen in &world.seen {
        let name = seen.placed.name.as_str();
        for (node, seat) in seen.seats() {
            let (cpus, number) = (seat.cpus.numbers(), seat.node);
            if let Some(cpu) = cpus.iter().find(|cpu| !node.shape.cpus.numbers().contains(cpu)) {
                found.add(Rule::Cpus, &[name], || {
                    format!("CPU {cpu} is none of node {number} of {}", seen.host_name())
                });
            }
            let (wanted, got) = (seen.part_cpus(), cpus.len() as u64);
            if !seen.is_shared() && wanted != got {
                found.add(Rule::Cpus, &[name], || {
                    format!("wanted {wanted} whole CPUs on node {number}, got {got}")
                });
            }
            // Shared parts have CPUs in common, and only they.
            for cpu in cpus {
                let Some(other) = holders.insert((seen.host_name(), *cpu), seen) else { continue };
                if !(seen.is_shared() && other.is_shared()) {
                    found.add(Rule::Cpus, &[&other.placed.name, name], || {
                        format!("both have CPU {cpu} of {}", seen.host_name())
                    });
                }
            }
        }
    }
    for ((host, number), at) in sharers(world) {
        let Some(((first, pool), rest)) = at.split_first() else { continue };
        for (other, cpus) in rest.iter().filter(|(_, cpus)| cpus != pool) {
            found.add(Rule::Cpus, &[&first.placed.name, &other.placed.name], || {
                let [pool, cpus] = [pool, cpus].map(|cpus| NumberList::of(cpus.iter().copied()));
                format!(
                    "shared CPUs of node {number} of {host} are the same for all, got \"{pool}\" and \"{cpus}\""
                )
            });
        }
    }
}

/// A pool is large enough for the largest of its parts, and for what all of them want.
pub(super) fn pool(world: &World<'_>, found: &mut Found) {
    for ((host, number), at) in sharers(world) {
        let pool: BTreeSet<u32> = at.iter().flat_map(|(_, cpus)| cpus.iter().copied()).collect();
        let there = pool.len() as u64;
        for (seen, _) in at.iter().filter(|(seen, _)| seen.part_cpus() > there) {
            found.add(Rule::Pool, &[&seen.placed.name], || {
                format!("it has {} CPUs, and node {number} of {host} shares {there}", seen.part_cpus())
            });
        }
        let Some(node) = world.node((host, number)) else { continue };
        let wanted: Total = at.iter().map(|(seen, _)| Total::from(seen.part_percent(node))).sum();
        if wanted > Total::from(there) * 100 {
            let names: Vec<&str> = at.iter().map(|(seen, _)| seen.placed.name.as_str()).collect();
            found.add(Rule::Pool, &names, || {
                format!(
                    "they want {wanted} percent of a CPU of node {number} of {host}, which shares {there}"
                )
            });
        }
    }
}

/// Memory and huge pages of each node suffice.
pub(super) fn memory(world: &World<'_>, found: &mut Found) {
    for (name, load) in world.loads() {
        let Some(problem) = world.node(name).and_then(|node| lacks_memory(&load, node)) else { continue };
        let (host, number) = name;
        let there =
            world.seen.iter().filter(|seen| seen.host_name() == host && seen.nodes().contains(&number));
        let names: Vec<&str> = there.map(|seen| seen.placed.name.as_str()).collect();
        found.add(Rule::Memory, &names, || format!("node {number} of {host}: {problem}"));
    }
}
