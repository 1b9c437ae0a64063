//! What a partition must be given, and who must not be where it is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use units::{Bytes, Micros, Millis};

/// What a partition needs beside its CPUs and memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Needs {
    /// How it has its CPUs: `whole`, for itself, or `shared` with other shared ones of the node.
    pub cpu: Cpu,
    /// Of each of its CPUs, 1 … 100, while all others want theirs; with `cpu = "shared"` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_percent: Option<u32>,
    /// How often it is there, 1 … 64.
    pub replicas: u32,
    /// What its replicas must not have in common.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apart: Option<Level>,
    /// What it must not have in common with others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Level>,
    /// With whom; unset means with everybody, its own replicas included.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub isolated_from: Vec<String>,
    /// How its program's threads speak with each other, which says what happens to one that is larger than a node.
    pub model: Model,
    /// Devices whose memory node must be its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub near: Vec<Device>,
    /// Hosts it may be on; unset means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// How long it may be away when its host dies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_downtime_ms: Option<Millis>,
    /// What it needs of a disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskNeed>,
    /// What it needs of a network card of its host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkNeed>,
    /// When its periodic work must be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<DeadlineNeed>,
    /// Whom it speaks with, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub talks_to: BTreeMap<String, Talk>,
}

impl Default for Needs {
    fn default() -> Self {
        Self {
            cpu: Cpu::Whole,
            share_percent: None,
            replicas: 1,
            apart: None,
            isolation: None,
            isolated_from: Vec::new(),
            model: Model::SharedMemory,
            near: Vec::new(),
            hosts: Vec::new(),
            max_downtime_ms: None,
            disk: None,
            network: None,
            deadline: None,
            talks_to: BTreeMap::new(),
        }
    }
}

impl Needs {
    /// What replicas must not have in common: hosts, where nothing is said.
    pub fn apart(&self) -> Level {
        self.apart.unwrap_or(Level::Host)
    }

    /// A share as the weight of a cgroup with so many virtual CPUs; none for whole CPUs. Of a pool that is promised to the last CPU, each
    /// has what its weight is of all.
    pub fn cpu_weight(&self, cpus: u32) -> Option<u32> {
        (self.cpu == Cpu::Shared).then(|| (cpus * self.share_percent.unwrap_or(100)).clamp(1, 10_000))
    }
}

/// How a partition has its CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Cpu {
    /// For itself.
    #[default]
    Whole,
    /// With others, by weight.
    Shared,
}

/// Parts of the world that partitions have in common or not, from the smallest to the largest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// A core with its hardware threads, and its L1 and L2 caches.
    Core,
    /// Cores with one last-level cache.
    Cache,
    /// A memory node.
    Node,
    /// A socket.
    Socket,
    /// A host.
    Host,
    /// The switch that hosts hang at.
    Switch,
}

impl Level {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Cache => "cache",
            Self::Node => "node",
            Self::Socket => "socket",
            Self::Host => "host",
            Self::Switch => "switch",
        }
    }
}

/// How a program's threads speak with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// Through memory: it stays one partition, over several nodes where none is large enough.
    #[default]
    SharedMemory,
    /// By messages: where no node is large enough it becomes a partition per node.
    MessagePassing,
}

/// A kind of device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Device {
    /// The network card it is given.
    Nic,
    /// The disk it is given.
    Disk,
}

/// What a partition needs of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DiskNeed {
    /// Bytes per second, reads and writes together; it is held to that, too.
    pub bytes_per_s: Bytes,
    /// The longest that one operation may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_stall_ms: Option<Millis>,
}

/// What a partition needs of a network card, for whoever is not in this system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NetworkNeed {
    /// Bytes per second, both directions together.
    pub bytes_per_s: Bytes,
    /// Whether what it receives must come predictably: few of those can be at one card.
    #[serde(default)]
    pub receives: bool,
}

/// Periodic work with a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeadlineNeed {
    /// How often it is due.
    pub period_us: Micros,
    /// What it takes on a CPU of its own.
    pub runtime_us: Micros,
    /// When it must be done after it was due.
    pub within_us: Micros,
    /// Share of jobs that may be late, above 0, below 1.
    pub miss_rate: f64,
}

/// What goes to another partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Talk {
    /// Bytes per second, both directions together.
    pub bytes_per_s: Bytes,
    /// How long a message may take, one way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<Micros>,
}
