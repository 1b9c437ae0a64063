//! Hosts that partitions are planned for: what they are made of, and what was measured on them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::partition::NumberList;
use units::{Bytes, Mebibytes, Micros, Millis};

/// A host of a system's file, or so many alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct HostEntry {
    /// Where it is described: `here`, `ssh:NAME`, or a file that `bulkhead doctor --host-file` wrote, found from the folder of
    /// the system's file. Unset means by `node`, `nic` and `disk` here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Folder of a run that was measured on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<PathBuf>,
    /// How many of this kind there are, `NAME-1`, `NAME-2`, …; unset means one, of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// The switch it hangs at; unset means one of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch: Option<String>,
    /// CPUs that stay the host's own: whole cores, the first ones.
    pub reserve_cpus: u32,
    /// Memory that stays the host's own, on its first memory node.
    pub reserve_memory_mib: Mebibytes,
    /// Its memory nodes, where they are written here.
    #[serde(rename = "node", skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeShape>,
    /// Its network cards, likewise.
    #[serde(rename = "nic", skip_serializing_if = "Vec::is_empty")]
    pub nics: Vec<CardShape>,
    /// Its disks, likewise.
    #[serde(rename = "disk", skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<DiskShape>,
    /// What was measured, likewise; counts before what the file or run says.
    pub facts: HostFacts,
}

impl Default for HostEntry {
    fn default() -> Self {
        Self {
            from: None,
            run: None,
            count: None,
            switch: None,
            reserve_cpus: 0,
            reserve_memory_mib: Mebibytes::from_mib(512),
            nodes: Vec::new(),
            nics: Vec::new(),
            disks: Vec::new(),
            facts: HostFacts::default(),
        }
    }
}

/// What a host is made of, and what was measured on it: a file of its own, and part of [`HostEntry`], whose keys stand beside its own
/// (a flattened table could not refuse unknown keys).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct HostShape {
    /// Memory nodes.
    #[serde(rename = "node", skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeShape>,
    /// Network cards.
    #[serde(rename = "nic", skip_serializing_if = "Vec::is_empty")]
    pub nics: Vec<CardShape>,
    /// Disks.
    #[serde(rename = "disk", skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<DiskShape>,
    /// What was measured.
    pub facts: HostFacts,
}

/// A memory node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NodeShape {
    /// Its number.
    pub number: u32,
    /// The socket it belongs to.
    #[serde(default)]
    pub socket: u32,
    /// Its CPUs, `0-7`.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub cpus: NumberList,
    /// Its memory, huge pages included.
    pub memory_mib: Mebibytes,
    /// What of it is reserved as huge pages.
    #[serde(default, skip_serializing_if = "is_none")]
    pub hugepages_mib: Mebibytes,
    /// Its CPUs by last-level cache, `["0-3", "4-7"]`; none means one cache for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub caches: Vec<NumberList>,
    /// Its CPUs by core, `["0,4", "1,5"]`; none means a core each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub cores: Vec<NumberList>,
}

/// Whether there is none of it.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_none(memory: &Mebibytes) -> bool {
    memory.get() == 0
}

/// A network card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CardShape {
    /// Its name.
    pub name: String,
    /// The memory node it hangs at, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Bytes per second, both directions together.
    pub bytes_per_s: Bytes,
    /// How many partitions can receive through it and still predict when; unset means 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receivers: Option<u32>,
}

/// A disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DiskShape {
    /// Its name.
    pub name: String,
    /// The memory node it hangs at, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Mean throughput, in bytes per second. Four fifths of its lower end are given away.
    pub bytes_per_s: Interval<Bytes>,
    /// Longest stall of one of several that are held to their rates; unset means 1000 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall_ms: Option<Interval<Millis>>,
    /// Longest stall of who has it alone; unset means `stall_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall_alone_ms: Option<Interval<Millis>>,
}

/// What was measured: one number, or from where to where it lies. Plans are held to the end on the safe side, predictions have both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged, deny_unknown_fields, expecting = "wanted a number, or { low = …, high = … }")]
pub enum Interval<T> {
    /// One number.
    One(T),
    /// Both ends.
    Both {
        /// The lower end.
        low: T,
        /// The upper end.
        high: T,
    },
}

impl<T: Copy + Ord> Interval<T> {
    /// From one to the other, whichever is lower.
    pub fn between(a: T, b: T) -> Self {
        if a == b { Self::One(a) } else { Self::Both { low: a.min(b), high: a.max(b) } }
    }

    /// The lower end.
    pub const fn low(self) -> T {
        match self {
            Self::One(only) | Self::Both { low: only, .. } => only,
        }
    }

    /// The upper end.
    pub const fn high(self) -> T {
        match self {
            Self::One(only) | Self::Both { high: only, .. } => only,
        }
    }

    /// From the lower of both lower ends to the higher of both upper ends.
    #[must_use]
    pub fn around(self, other: Self) -> Self {
        Self::between(self.low().min(other.low()), self.high().max(other.high()))
    }

    /// Both ends changed alike.
    pub fn map<U: Copy + Ord>(self, with: impl Fn(T) -> U) -> Interval<U> {
        Interval::between(with(self.low()), with(self.high()))
    }

    /// Whether the lower end is above the upper one.
    pub(super) fn is_upside_down(self) -> bool {
        self.low() > self.high()
    }
}

/// What was measured on a host. What is not there is assumed, and said so.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct HostFacts {
    /// How long a message through a channel takes within a memory node; unset means 5 µs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel_us: Option<Interval<Micros>>,
    /// The same between memory nodes; unset means 10 µs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel_far_us: Option<Interval<Micros>>,
    /// How long a message to another host takes; unset means 500 µs. Between two hosts the longer one counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_us: Option<Interval<Micros>>,
    /// How long it takes until a partition that is started elsewhere runs; unset means 60 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_ms: Option<Interval<Millis>>,
    /// How long it takes until a dead host is noticed; unset means 5 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detect_ms: Option<Interval<Millis>>,
    /// Thousandths of a CPU that each of the host's CPUs really gives while all of them work; unset means all of it. Less where
    /// the host is a guest itself, or its CPUs are threads of shared cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub granted_per_mille: Option<Interval<u32>>,
    /// How late programs on CPUs of their own are woken up, ascending by the share; unset means that nothing is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wakeup: Vec<Wakeup>,
}

/// How late one is woken up at most, but for a share of cases.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Wakeup {
    /// The share of cases that are later.
    pub miss_rate: f64,
    /// How late.
    pub latency_us: Interval<Micros>,
}

/// One host with all that is known of it: what plans are made for, and checked against.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownHost {
    /// Its name; one of several alike has its number, `rack-2`.
    pub name: String,
    /// The switch it hangs at; one of its own has the host's name in it and no other's.
    pub switch: String,
    /// CPUs that stay its own: whole cores, the first ones.
    pub reserve_cpus: u32,
    /// Memory that stays its own, on its first memory node.
    pub reserve_memory: Mebibytes,
    /// What it is made of, nodes ascending by their numbers.
    pub shape: HostShape,
}
