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
    /// What the fullest memory node is used to, CPUs or memory, in percent rounded up.
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

/// A rule of `docs/plan.md`, which plans must keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Every replica is there once, where it may be.
    Placed,
    /// Every replica has its parts on as many nodes as it must.
    Nodes,
    /// The host's own CPUs are what they should be, and nobody else's.
    Reserved,
    /// CPUs belong to their node, and whole ones to one part.
    Cpus,
    /// Shared CPUs are enough.
    Pool,
    /// Memory is enough.
    Memory,
    /// Whole cores are nobody else's.
    Core,
    /// Who must be isolated is.
    Isolation,
    /// Replicas are apart.
    Apart,
    /// Ports, saved folders and disks' files are one replica's on a host.
    Alone,
    /// Who has a channel in common is on one host.
    Channel,
    /// Disks give what is needed of them.
    Disk,
    /// Network cards give what is needed of them.
    Network,
    /// Hosts' cards carry what leaves.
    Uplink,
    /// Links carry what they must.
    Link,
    /// Messages are in time.
    Latency,
    /// Devices are near.
    Near,
    /// Deadlines can be kept.
    Deadline,
    /// Who must be back soon will be.
    Downtime,
}

impl Rule {
    /// All of them, in the order of `docs/plan.md`.
    pub const ALL: [Self; 19] = [
        Self::Placed,
        Self::Nodes,
        Self::Reserved,
        Self::Cpus,
        Self::Pool,
        Self::Memory,
        Self::Core,
        Self::Isolation,
        Self::Apart,
        Self::Alone,
        Self::Channel,
        Self::Disk,
        Self::Network,
        Self::Uplink,
        Self::Link,
        Self::Latency,
        Self::Near,
        Self::Deadline,
        Self::Downtime,
    ];

    /// The word of `docs/plan.md` for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Placed => "placed",
            Self::Nodes => "nodes",
            Self::Reserved => "reserved",
            Self::Cpus => "cpus",
            Self::Pool => "pool",
            Self::Memory => "memory",
            Self::Core => "core",
            Self::Isolation => "isolation",
            Self::Apart => "apart",
            Self::Alone => "alone",
            Self::Channel => "channel",
            Self::Disk => "disk",
            Self::Network => "network",
            Self::Uplink => "uplink",
            Self::Link => "link",
            Self::Latency => "latency",
            Self::Near => "near",
            Self::Deadline => "deadline",
            Self::Downtime => "downtime",
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
    /// Where else it could be while all others stay; none where that was not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<Elsewhere>,
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

/// Where else a replica could be while all others stay on their nodes: their disks, cards, CPUs and spares may be others then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Elsewhere {
    /// Other places that there are, possible or not: each so many nodes of one host as it has.
    pub places: u64,
    /// How many of them were looked at, in the order of hosts and nodes.
    pub looked_at: u64,
    /// How many of those are possible.
    pub possible: u64,
    /// Of how many it is not known: the search was ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub not_known: u64,
    /// The best of the possible ones, by the goals in their order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<OtherPlace>,
    /// Those that are not possible.
    pub refused: Vec<RefusedPlace>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A place where a replica could be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OtherPlace {
    /// The host.
    pub host: String,
    /// Its nodes.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub nodes: NumberList,
    /// What the plan would be worth with it there: only goals that would differ. None: it is as good.
    pub goals: Vec<OtherValue>,
}

/// What a plan would be worth by a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OtherValue {
    /// The goal.
    pub goal: Goal,
    /// Its value, in its unit.
    pub value: u64,
}

/// A place where a replica cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RefusedPlace {
    /// The host.
    pub host: String,
    /// Its nodes.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub nodes: NumberList,
    /// Rules each of which refuses it by itself; there may be more. None: only several of them together do.
    pub rules: Vec<Rule>,
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

/// What a need is predicted to get, in its own unit, between what and what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Predicted {
    /// The replica.
    pub name: String,
    /// The need: `cpu`, `deadline`, `talks_to.db`, `disk`, `disk.longest_stall_ms`, `network`, `max_downtime_ms`.
    pub need: String,
    /// Its unit.
    pub unit: NeedUnit,
    /// What it must be at most; of rates and shares at least. None: nothing is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<u64>,
    /// The least that is predicted.
    pub low: u64,
    /// The most; the same where one number is all that is known.
    pub high: u64,
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
    /// Thousandths of a CPU.
    PerMille,
}

impl NeedUnit {
    /// Whether less of it is better.
    pub const fn is_less_better(self) -> bool {
        matches!(self, Self::Us | Self::Ms)
    }
}

impl Predicted {
    /// The end that counts against what is wanted: the safe one.
    pub const fn counts(&self) -> u64 {
        if self.unit.is_less_better() { self.high } else { self.low }
    }

    /// How much of what is wanted is left, in percent; below 0 where it does not hold. None where nothing is asked.
    pub fn margin_percent(&self) -> Option<f64> {
        let part = self.counts() as f64 / self.wanted?.max(1) as f64;
        Some(100.0 * if self.unit.is_less_better() { 1.0 - part } else { part - 1.0 })
    }
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
