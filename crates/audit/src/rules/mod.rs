//! Whether a plan keeps the rules of `docs/plan.md`: each is looked at by itself, from the places in the plan alone.
//!
//! ```text
//!  World ─┬► places: placed, nodes, reserved    ├► neighbours: core, isolation, apart, alone, channel
//!         ├► room: cpus, pool, memory           └► devices, paths: disk, network, near, uplink, link, latency
//!         └► time: deadline, downtime
//! ```

mod devices;
mod neighbours;
mod paths;
mod places;
mod room;
#[cfg(test)]
mod tests;
mod time;

use std::collections::BTreeMap;
use std::fmt;

use model::plan::Plan;
use model::system::{KnownHost, System};

use crate::world::{Host, World};

/// Most that is told of one rule.
pub const MOST_TOLD: usize = 100;

/// A rule of `docs/plan.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// A rule that a plan does not keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The rule.
    pub rule: Rule,
    /// Those that do not keep it, as they are called.
    pub replicas: Vec<String>,
    /// What was wanted, and what is there.
    pub problem: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.rule.word())?;
        if !self.replicas.is_empty() {
            write!(f, "{}: ", self.replicas.join(", "))?;
        }
        f.write_str(&self.problem)
    }
}

/// What was found so far.
#[derive(Debug, Default)]
struct Found {
    all: Vec<Broken>,
    times: BTreeMap<Rule, usize>,
}

impl Found {
    fn add(&mut self, rule: Rule, replicas: &[&str], problem: impl FnOnce() -> String) {
        let times = self.times.entry(rule).or_default();
        *times += 1;
        if *times <= MOST_TOLD {
            let replicas = replicas.iter().map(|name| (*name).to_owned()).collect();
            self.all.push(Broken { rule, replicas, problem: problem() });
        }
    }
}

/// Every rule that a plan does not keep, at most [`MOST_TOLD`] times each, in the order of the rules. None means that it keeps all.
///
/// A plan may say anything: what it names that there is not is told by `placed`, `nodes`, `disk` or `network`, and the other rules look
/// at the rest.
pub fn broken_rules(system: &System, hosts: &[KnownHost], plan: &Plan) -> Vec<Broken> {
    let hosts = Host::all(hosts);
    let world = World::of(system, &hosts, plan);
    let mut found = Found::default();
    places::placed(&world, plan, &mut found);
    places::nodes(&world, &mut found);
    places::reserved(&world, plan, &mut found);
    room::cpus(&world, &mut found);
    room::pool(&world, &mut found);
    room::memory(&world, &mut found);
    neighbours::core(&world, &mut found);
    neighbours::isolation(&world, &mut found);
    neighbours::apart(&world, &mut found);
    neighbours::alone(&world, &mut found);
    neighbours::channel(&world, &mut found);
    devices::disk(&world, &mut found);
    devices::network(&world, &mut found);
    paths::uplink(&world, &mut found);
    paths::link(&world, &mut found);
    paths::latency(&world, &mut found);
    devices::near(&world, &mut found);
    time::deadline(&world, &mut found);
    time::downtime(&world, &mut found);
    found.all
}
