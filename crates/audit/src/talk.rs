//! Who speaks with whom, and over what.

use std::collections::BTreeMap;

use model::plan::Placed;
use model::system::{Interval, Level, LinkEntry, System, Talk};

use crate::world::{Seen, World};

/// How long a message takes within a node, within a host, and to another one, in µs, where it was not measured.
const USUAL_US: [u64; 3] = [5, 10, 500];

/// Two replicas that speak with each other, and both have places.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spoken<'w, 'a> {
    pub from: &'w Seen<'a>,
    pub to: &'w Seen<'a>,
    /// Bytes per second.
    pub rate: u64,
    /// What the needs say.
    pub need: &'a Talk,
}

/// Pairs of replicas that speak with each other when the first partition talks to the second one, by their numbers, and the rate of each.
fn pairs(system: &System, from: &str, to: &str, rate: u64) -> (Vec<(u32, u32)>, u64) {
    let (first, second) = (system.replicas(from), system.replicas(to));
    if from != to && first == second {
        return ((1..=first).map(|replica| (replica, replica)).collect(), rate);
    }
    let all = (1..=first).flat_map(|a| (1..=second).map(move |b| (a, b)));
    let all: Vec<(u32, u32)> = all.filter(|(a, b)| from != to || a < b).collect();
    let rate = rate.div_ceil(all.len().max(1) as u64);
    (all, rate)
}

impl<'a> World<'a> {
    /// All talks between replicas that have places.
    pub fn talks(&self) -> Vec<Spoken<'_, 'a>> {
        let mut seen: BTreeMap<(&str, u32), &Seen<'a>> = BTreeMap::new();
        for one in &self.seen {
            let Placed { of, replica, .. } = one.placed;
            seen.entry((of, *replica)).or_insert(one);
        }
        let mut talks = Vec::new();
        for (from, needs) in &self.system.needs {
            for (to, need) in &needs.talks_to {
                let (pairs, rate) = pairs(self.system, from, to, need.bytes_per_s.get());
                talks.extend(pairs.into_iter().filter_map(|(a, b)| {
                    let (from, to) = (seen.get(&(from.as_str(), a))?, seen.get(&(to.as_str(), b))?);
                    Some(Spoken { from, to, rate, need })
                }));
            }
        }
        talks
    }

    /// The link between two hosts.
    fn link(&self, a: &str, b: &str) -> Option<&'a LinkEntry> {
        self.system.links.iter().find(|link| joins(link, a, b))
    }
}

/// Whether a link joins these two hosts.
pub(crate) fn joins(link: &LinkEntry, a: &str, b: &str) -> bool {
    let [first, second] = &link.between;
    (first == a && second == b) || (first == b && second == a)
}

impl Spoken<'_, '_> {
    /// The least that both are in together: a node, a socket, a host; a switch for all that is further.
    pub fn within(&self) -> Level {
        if self.from.host_name() != self.to.host_name() {
            Level::Switch
        } else if !self.from.nodes().is_disjoint(&self.to.nodes()) {
            Level::Node
        } else if !self.from.sockets().is_disjoint(&self.to.sockets()) {
            Level::Socket
        } else {
            Level::Host
        }
    }

    /// How long a message takes, in µs.
    pub fn latency_us(&self, world: &World<'_>) -> u64 {
        let [near, far, away] = USUAL_US;
        let (from, to) = (&self.from.host.known.shape.facts, &self.to.host.known.shape.facts);
        match self.within() {
            Level::Node => from.channel_us.map_or(near, upper),
            Level::Switch => {
                let link = world.link(self.from.host_name(), self.to.host_name());
                let network = |facts: &model::system::HostFacts| facts.network_us.map_or(away, upper);
                let slower = network(from).max(network(to));
                link.and_then(|link| link.latency_us).map_or(slower, units::Micros::get)
            }
            _ => from.channel_far_us.map_or(far, upper),
        }
    }
}

/// The upper end, in µs: what is not promised to be shorter.
fn upper(us: Interval<units::Micros>) -> u64 {
    us.high().get()
}
