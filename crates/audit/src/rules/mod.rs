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
pub use model::plan::Rule;
use model::system::{KnownHost, System};

use crate::world::{Host, World};

/// Most that is told of one rule.
pub const MOST_TOLD: usize = 100;

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
