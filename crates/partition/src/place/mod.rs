//! Puts a partition's CPUs and memory where they were asked for, and reads back what was given.
//!
//! ```text
//!  Resources ─► possible ─► group ─► QEMU, paused ─► place ─► read_back ─► differences ─► none: let go
//!                  │          │        (in the group)             │             │
//!                  └──────────┴─ refused, nothing is made         └─ Given      └─ any: ended, with both values
//! ```
//! [`split`] makes one partition per memory node out of one job. [`SeenHost`] is what plans know of a host.

mod compare;
mod group;
mod possible;
mod priority;
mod read;
mod settings;
mod shape;
pub mod split;
mod threads;
mod topology;

pub use compare::since_start;
pub use group::group;
pub use possible::check as possible_on;
pub use read::{look_again, read_back};
pub use settings::overhead;
pub use shape::{SeenDisk, SeenHost};
pub use threads::place;
#[cfg(test)]
pub use topology::tests::big_host;
pub use topology::{HostNode, HostTopology, HugePages, Rights};

use model::partition::{Difference, DiskSpec, Given, Resources};
use units::Reason;

/// Refuses what this host does not have, before anything is made.
///
/// # Errors
/// What was asked, what there is, what to do.
pub fn possible(resources: &Resources) -> Result<(), Reason> {
    possible::check(&HostTopology::of_this_host()?, resources)?;
    group::possible(resources)
}

/// What this host allows and may surprise: CPUs outside the memory's node, CPUs that take turns, settings that no cgroup
/// of version 2 can hold here and what holds them instead. To be said before anything is made. Nothing when the host
/// cannot be read.
pub fn remarks(resources: &Resources, disks: &[DiskSpec]) -> Vec<String> {
    let host = HostTopology::of_this_host();
    let mut all = host.map_or_else(|_| Vec::new(), |host| possible::remarks(&host, resources));
    all.extend(group::without_group(resources, disks).unwrap_or_default());
    all
}

/// What is not as it was asked; empty when all is.
pub fn differences(asked: &Resources, disks: &[DiskSpec], given: &Given) -> Vec<Difference> {
    match threads::node_cpus(asked) {
        Ok(node_cpus) => compare::differences(asked, node_cpus.as_ref(), disks, given),
        Err(why) => {
            let node = asked.node.map_or_else(String::new, |node| node.to_string());
            vec![Difference { what: "memory.nodes".to_owned(), asked: node, given: why.into() }]
        }
    }
}
