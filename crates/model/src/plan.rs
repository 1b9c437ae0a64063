//! A plan: who sits where, what it is worth by each goal, and what is proven of that; `plan.json`.
//!
//! ```text
//!  System, hosts ─► plan ─► Plan ─┬► a set per host, which `up` takes
//!                                 ├► the check of every rule, by code that has not made it
//!                                 └► terminal, plan.html
//! ```

use serde::{Deserialize, Serialize};

use crate::partition::NumberList;
use crate::system::Level;
use units::{Bytes, Mebibytes, Micros, Millis};

/// Version of `plan.json`.
pub const PLAN_SCHEMA_VERSION: u32 = 1;

/// Where everybody goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Version of this format.
    pub schema_version: u32,
    /// Name of the system.
    pub system: String,
    /// What it is worth, the most important first.
    pub goals: Vec<GoalValue>,
    /// Hosts, in the order of their names.
    pub hosts: Vec<PlannedHost>,
    /// Partitions, a replica or part each, in the order of their names.
    pub partitions: Vec<Placed>,
    /// Who speaks with whom, and over what.
    pub talks: Vec<PlannedTalk>,
    /// What each need is predicted to get.
    #[serde(default)]
    pub predictions: Vec<Predicted>,
    /// What goes with each part that can fail, and who takes over.
    #[serde(default)]
    pub failures: Vec<PartFailure>,
    /// What was not measured, and what is taken for it.
    pub assumed: Vec<String>,
    /// What else should be known.
    pub notes: Vec<String>,
}

/// What plans are compared by, the most important first. All are minimised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// Partitions that are elsewhere than in the plan it began from: on another host or other nodes.
    Moves,
    /// Hosts that have partitions.
    Hosts,
    /// Sockets that partitions of several nodes lie on, summed up.
    SocketsSpanned,
    /// Bytes per second between hosts.
    BetweenHosts,
    /// Bytes per second between memory nodes of a host; those between sockets count twice.
    BetweenNodes,
    /// What the fullest memory node is used to, CPUs or memory, in thousandths rounded up.
    FullestNode,
}

impl Goal {
    /// All of them, in their order.
    pub const ALL: [Self; 6] = [
        Self::Moves,
        Self::Hosts,
        Self::SocketsSpanned,
        Self::BetweenHosts,
        Self::BetweenNodes,
        Self::FullestNode,
    ];

    /// What it is called where plans and certificates are written.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Moves => "moves",
            Self::Hosts => "hosts",
            Self::SocketsSpanned => "sockets_spanned",
            Self::BetweenHosts => "between_hosts",
            Self::BetweenNodes => "between_nodes",
            Self::FullestNode => "fullest_node",
        }
    }
}

/// What a plan is worth by a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct GoalValue {
    /// The goal.
    pub goal: Goal,
    /// What this plan is worth.
    pub value: u64,
    /// What no plan that is as good by all goals before is below. Where it is the value, that is proven to be best.
    pub least: u64,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PlannedHost {
    /// Its name; one of several alike has its number, `rack-2`.
    pub name: String,
    /// CPUs that stay its own.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub reserved_cpus: NumberList,
    /// Where it is: `here`, `ssh:NAME`; none where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The set that runs there, beside this file; none where nobody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_file: Option<String>,
}

/// A partition and its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Placed {
    /// What the replica is called: `web-2`, or `web` where there is one.
    pub name: String,
    /// The partition of the system's file.
    pub of: String,
    /// Which replica, from 1.
    pub replica: u32,
    /// The host.
    pub host: String,
    /// Its part of each memory node, in the order of their numbers.
    pub seats: Vec<Seat>,
    /// The disk it has its throughput of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// The network card it has its throughput of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic: Option<String>,
    /// Where it is started when its host dies; room for it is kept free there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare: Option<Spare>,
}

/// What a partition has of a memory node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Seat {
    /// The node.
    pub node: u32,
    /// Whole CPUs: as many as it has virtual ones here. Shared ones: all that are shared on this node.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub cpus: NumberList,
    /// Memory of the guest.
    pub memory_mib: Mebibytes,
}

/// Room kept free for a partition whose host dies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Spare {
    /// The host.
    pub host: String,
    /// Its nodes.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub nodes: NumberList,
}

/// Two replicas that speak with each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PlannedTalk {
    /// Who says that it speaks.
    pub from: String,
    /// With whom.
    pub to: String,
    /// Bytes per second.
    pub bytes_per_s: Bytes,
    /// The least that both are in together: `node`, `socket`, `host`; `switch` for all that is further.
    pub within: Level,
    /// How long a message takes.
    pub latency_us: Micros,
}

/// What a need is predicted to get, in its own unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Predicted {
    /// The replica.
    pub name: String,
    /// The need: `deadline`, `talks_to.db`, `disk`, `disk.longest_stall_ms`, `network`, `max_downtime_ms`.
    pub need: String,
    /// Its unit.
    pub unit: NeedUnit,
    /// What it must be at most; of rates at least.
    pub wanted: u64,
    /// What is predicted.
    pub predicted: u64,
    /// Whether that rests on something that was not measured.
    pub is_assumed: bool,
}

/// What a need is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NeedUnit {
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// Bytes per second.
    BytesPerS,
}

/// A part that can fail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PartFailure {
    /// The part: `host a`, `switch s`, `disk a/sda`, `nic a/eth0`.
    pub part: String,
    /// Partitions that then have no replica left, and nobody who takes over.
    pub lost: Vec<String>,
    /// Those that go on: by which replica, or started again on which host.
    pub survive: Vec<Survivor>,
}

/// A partition that a failure takes a replica of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Survivor {
    /// The partition.
    pub of: String,
    /// The replica that goes on; where it is started again, that one.
    pub by: String,
    /// The host.
    pub on: String,
    /// How long it is away, in milliseconds.
    pub away_ms: Millis,
}
