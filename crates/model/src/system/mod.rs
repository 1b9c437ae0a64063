//! What is to be planned: partitions, what each of them needs, and the hosts there are; `system.toml`.
//!
//! ```text
//!  system.toml ─┬► partition, network, channel ─► PartitionSet   as in the file of a set
//!               ├► partition.NAME.needs ────────► Needs          what it must be given, and what not
//!               └► host, link ──────────────────► HostEntry      this machine, one over ssh, a file, or written here
//!                                                   └► HostShape  nodes, caches, cores, memory, cards, disks, what was measured
//! ```
//! Everything that can be told from the file alone is told here, each at its line. `docs/plan.md` has the rules that a plan keeps.

mod check;
mod host;
mod needs;
mod read;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::partition::set::PartitionSet;
use units::{Bytes, Micros};

pub use host::{
    CardShape, DiskShape, HostEntry, HostFacts, HostShape, Interval, KnownHost, NodeShape, Wakeup,
};
pub use needs::{Cpu, DeadlineNeed, Device, DiskNeed, Level, Model, Needs, NetworkNeed, Talk};
pub use read::{MAX_HOST_BYTES, ReadSystem};

/// Most hosts of a system, those that `count` makes included.
pub const MOST_HOSTS: usize = 1024;
/// Most partitions of a system.
pub const MOST_PLANNED: usize = 4096;
/// Most replicas of a partition.
pub const MOST_REPLICAS: u32 = 64;

/// What is to be planned.
#[derive(Debug, Clone, PartialEq)]
pub struct System {
    /// The partitions, without what they need. Its name is the system's.
    pub set: PartitionSet,
    /// What each of them needs; those that do not say are here with what is usual.
    pub needs: BTreeMap<String, Needs>,
    /// The hosts, as written.
    pub hosts: BTreeMap<String, HostEntry>,
    /// What joins hosts, where more is known than that they reach each other.
    pub links: Vec<LinkEntry>,
}

/// What joins two hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LinkEntry {
    /// The two hosts.
    pub between: [String; 2],
    /// Bytes per second that it carries, both directions together; unset means as much as the hosts' cards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<Bytes>,
    /// How long a message takes; unset means that of the hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<Micros>,
}

/// The part of a system's file that a set has not. In the file `needs` stand in their partition.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Beside {
    /// Hosts, by name.
    #[serde(default, rename = "host")]
    hosts: BTreeMap<String, HostEntry>,
    /// What joins hosts.
    #[serde(default, rename = "link")]
    links: Vec<LinkEntry>,
    /// What each partition needs, by its name.
    #[serde(default)]
    needs: BTreeMap<String, Needs>,
}

impl System {
    /// How many replicas a partition has.
    pub fn replicas(&self, partition: &str) -> u32 {
        self.needs.get(partition).map_or(1, |needs| needs.replicas)
    }

    /// What a replica is called: `web-2`, or `web` where there is only one.
    pub fn replica_name(&self, partition: &str, replica: u32) -> String {
        if self.replicas(partition) > 1 { format!("{partition}-{replica}") } else { partition.to_owned() }
    }
}
