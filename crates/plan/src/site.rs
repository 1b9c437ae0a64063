//! The hosts as numbers: what of each node is there to be given away.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use model::partition::NumberList;
use model::system::{
    CardShape, DiskShape, HostFacts, HostShape, Interval, KnownHost, Level, LinkEntry, NodeShape,
};
use units::{Micros, Millis};

/// What is taken for what was not measured: microseconds and milliseconds.
const CHANNEL_US: u64 = 5;
const CHANNEL_FAR_US: u64 = 10;
const NETWORK_US: u64 = 500;
const START_MS: u64 = 60_000;
const DETECT_MS: u64 = 5_000;
const STALL_MS: u64 = 1_000;
/// How many can receive through a card.
const RECEIVERS: u32 = 2;

/// A memory node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its host.
    pub host: usize,
    /// Its number there.
    pub number: u32,
    /// Its socket, counted over all hosts.
    pub socket: usize,
    /// Hardware threads of a core.
    pub threads: u32,
    /// CPUs that can be given away, by cores.
    pub cores: Vec<Vec<u32>>,
    /// The same, by last-level caches.
    pub caches: Vec<Vec<u32>>,
    /// Memory that can be given away and is no huge page, MiB.
    pub memory: i64,
    /// Huge pages, MiB.
    pub huge: i64,
}

impl Node {
    /// How many CPUs can be given away.
    pub fn cpus(&self) -> i64 {
        self.cores.iter().map(Vec::len).sum::<usize>() as i64
    }
}

/// A card or a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its node, counted over all hosts, where that is known.
    pub node: Option<usize>,
    /// Bytes per second that can be given away.
    pub rate: i64,
    /// Between what and what that is.
    pub rates: Interval<u64>,
    /// Cards: how many can receive.
    pub receivers: i64,
    /// Disks: longest stall of one of several, and of who is alone, ms.
    pub stalls: [Interval<u64>; 2],
    /// Whether that was measured.
    pub is_measured: bool,
}

impl Port {
    /// The stalls of a disk: of who is alone on it, or of one of several, ms.
    pub const fn stall(&self, is_alone: bool) -> Interval<u64> {
        self.stalls[is_alone as usize]
    }

    /// The longest of them, ms.
    pub fn longest_stall(&self, is_alone: bool) -> i64 {
        as_i64(self.stall(is_alone).high())
    }
}

/// A host.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its nodes, counted over all hosts.
    pub nodes: Range<usize>,
    /// Its switch, by number.
    pub switch: usize,
    /// CPUs that stay its own.
    pub reserved: NumberList,
    /// Its cards.
    pub cards: Vec<Port>,
    /// Its disks.
    pub disks: Vec<Port>,
    /// What was measured.
    pub facts: HostFacts,
}

impl Host {
    /// A message within a node, µs.
    pub fn channel(&self) -> Interval<u64> {
        self.facts.channel_us.map_or(Interval::One(CHANNEL_US), |us| us.map(Micros::get))
    }

    /// A message between nodes, µs.
    pub fn channel_far(&self) -> Interval<u64> {
        self.facts.channel_far_us.map_or(Interval::One(CHANNEL_FAR_US), |us| us.map(Micros::get))
    }

    /// A message to another host, µs.
    fn network(&self) -> Interval<u64> {
        self.facts.network_us.map_or(Interval::One(NETWORK_US), |us| us.map(Micros::get))
    }

    /// Until a partition that is started here runs, ms.
    pub fn start(&self) -> Interval<u64> {
        self.facts.start_ms.map_or(Interval::One(START_MS), |ms| ms.map(Millis::get))
    }

    /// Until it is noticed that it is dead, ms.
    fn detect(&self) -> Interval<u64> {
        self.facts.detect_ms.map_or(Interval::One(DETECT_MS), |ms| ms.map(Millis::get))
    }

    /// The longest that a message within a node takes, µs.
    pub fn channel_us(&self) -> i64 {
        as_i64(self.channel().high())
    }

    /// The longest between nodes, µs.
    pub fn channel_far_us(&self) -> i64 {
        as_i64(self.channel_far().high())
    }

    /// The longest until a partition that is started here runs, ms.
    pub fn start_ms(&self) -> i64 {
        as_i64(self.start().high())
    }
}

/// A link with a limit, or a latency of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The two hosts, the lower one first.
    pub hosts: (usize, usize),
    /// Bytes per second.
    pub rate: Option<i64>,
    /// µs.
    pub latency: Option<i64>,
}

impl Link {
    /// Whether it joins these two.
    pub fn joins(&self, a: usize, b: usize) -> bool {
        self.hosts == (a.min(b), a.max(b))
    }
}

/// How a message goes from one to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// The least that both are in together; the switch for all that is further than a host.
    pub within: Level,
    /// How long it takes, µs.
    pub latency: Interval<u64>,
    /// Whether that was not measured.
    pub is_assumed: bool,
}

/// All hosts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Site {
    /// The hosts.
    pub hosts: Vec<Host>,
    /// Their nodes.
    pub nodes: Vec<Node>,
    /// How many sockets there are.
    pub sockets: usize,
    /// Links that are known.
    pub links: Vec<Link>,
}

/// A number that is summed up here; more than fits is the most that fits.
pub fn as_i64(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl Site {
    /// From what is known of the hosts.
    pub fn new(hosts: &[KnownHost], links: &[LinkEntry]) -> Self {
        let mut site = Self::default();
        let mut switches: BTreeMap<&str, usize> = BTreeMap::new();
        for (at, host) in hosts.iter().enumerate() {
            let next = switches.len();
            let switch = *switches.entry(host.switch.as_str()).or_insert(next);
            let reserved = reserved(&host.shape, host.reserve_cpus);
            let first = site.nodes.len();
            let mut sockets: BTreeMap<u32, usize> = BTreeMap::new();
            for (place, node) in host.shape.nodes.iter().enumerate() {
                let next = site.sockets + sockets.len();
                let socket = *sockets.entry(node.socket).or_insert(next);
                let kept = if place == 0 { host.reserve_memory.get() } else { 0 };
                site.nodes.push(known(node, at, socket, &reserved, as_i64(kept)));
            }
            site.sockets += sockets.len();
            let node_of = |number: Option<u32>| {
                let place = host.shape.nodes.iter().position(|node| Some(node.number) == number)?;
                Some(first + place)
            };
            site.hosts.push(Host {
                name: host.name.clone(),
                nodes: first..site.nodes.len(),
                switch,
                cards: host.shape.nics.iter().map(|card| card_of(card, node_of(card.node))).collect(),
                disks: host.shape.disks.iter().map(|disk| disk_of(disk, node_of(disk.node))).collect(),
                reserved: NumberList::of(reserved),
                facts: host.shape.facts.clone(),
            });
        }
        let find = |name: &String| hosts.iter().position(|host| host.name == *name);
        for link in links {
            if let (Some(a), Some(b)) = (find(&link.between[0]), find(&link.between[1])) {
                site.links.push(Link {
                    hosts: (a.min(b), a.max(b)),
                    rate: link.bytes_per_s.map(|rate| as_i64(rate.get())),
                    latency: link.latency_us.map(|us| as_i64(us.get())),
                });
            }
        }
        site
    }

    /// The way between two who lie on these nodes.
    pub fn way(&self, a: &[usize], b: &[usize]) -> Way {
        let host_of = |nodes: &[usize]| nodes.first().map_or(0, |node| self.nodes[*node].host);
        let (first, second) = (host_of(a), host_of(b));
        if first != second {
            let is_known = |host: usize| self.hosts[host].facts.network_us.is_some();
            let by_link = self.links.iter().any(|link| link.joins(first, second) && link.latency.is_some());
            let is_assumed = !(by_link || is_known(first) && is_known(second));
            return Way { within: Level::Switch, latency: self.network(first, second), is_assumed };
        }
        let here = &self.hosts[first];
        let common = |of: &dyn Fn(usize) -> usize| a.iter().any(|a| b.iter().any(|b| of(*a) == of(*b)));
        if common(&|node| node) {
            let is_assumed = here.facts.channel_us.is_none();
            return Way { within: Level::Node, latency: here.channel(), is_assumed };
        }
        let within = if common(&|node| self.nodes[node].socket) { Level::Socket } else { Level::Host };
        Way { within, latency: here.channel_far(), is_assumed: here.facts.channel_far_us.is_none() }
    }

    /// A message between two hosts, µs: as slow as the slower of both.
    fn network(&self, a: usize, b: usize) -> Interval<u64> {
        let link = self.links.iter().find(|link| link.joins(a, b)).and_then(|link| link.latency);
        let [first, second] = [a, b].map(|host| self.hosts[host].network());
        let slower = Interval::between(first.low().max(second.low()), first.high().max(second.high()));
        link.map_or(slower, |us| Interval::One(us.unsigned_abs()))
    }

    /// The longest that a message between two hosts takes, µs.
    pub fn network_us(&self, a: usize, b: usize) -> i64 {
        as_i64(self.network(a, b).high())
    }

    /// Until a dead host is noticed, whichever it is, ms.
    pub fn detect(&self) -> Interval<u64> {
        self.hosts.iter().map(Host::detect).reduce(Interval::around).unwrap_or(Interval::One(0))
    }

    /// The longest that it takes until a dead host is noticed, ms.
    pub fn detect_ms(&self) -> i64 {
        as_i64(self.detect().high())
    }

    /// What was not measured, and is taken for it: only what somebody asks about.
    pub fn assumed(&self) -> Vec<String> {
        let mut said = Vec::new();
        let mut note = |lacks: &dyn Fn(&Host) -> bool, what: String| {
            let missing: Vec<&str> =
                self.hosts.iter().filter(|host| lacks(host)).map(|host| host.name.as_str()).collect();
            if !missing.is_empty() {
                let is_all = missing.len() == self.hosts.len();
                let whose = if is_all { "all hosts".to_owned() } else { missing.join(", ") };
                said.push(format!("{whose}: {what}"));
            }
        };
        note(
            &|host| host.facts.channel_us.is_none(),
            format!("a message within a memory node takes {CHANNEL_US} µs (channel_us)"),
        );
        note(
            &|host| host.facts.channel_far_us.is_none(),
            format!("a message between memory nodes takes {CHANNEL_FAR_US} µs (channel_far_us)"),
        );
        note(
            &|host| host.facts.granted_per_mille.is_none(),
            "each CPU gives all of itself while all work (granted_per_mille)".to_owned(),
        );
        if self.hosts.len() > 1 {
            note(
                &|host| host.facts.network_us.is_none(),
                format!("a message to another host takes {NETWORK_US} µs (network_us)"),
            );
            note(
                &|host| host.facts.detect_ms.is_none(),
                format!("a dead host is noticed after {} s (detect_ms)", DETECT_MS / 1000),
            );
            note(
                &|host| host.facts.start_ms.is_none(),
                format!("a partition starts within {} s (start_ms)", START_MS / 1000),
            );
            note(
                &|host| host.cards.is_empty(),
                "its cards carry whatever is sent (no nic is described)".to_owned(),
            );
        }
        said
    }
}

/// Cores of a node, each with its CPUs ascending, by their lowest CPU.
fn cores(node: &NodeShape) -> Vec<Vec<u32>> {
    let mut cores: Vec<Vec<u32>> = if node.cores.is_empty() {
        node.cpus.numbers().iter().map(|cpu| vec![*cpu]).collect()
    } else {
        node.cores.iter().map(|core| core.numbers().to_vec()).collect()
    };
    cores.sort();
    cores
}

/// Whole cores of the first nodes, until they are enough.
fn reserved(shape: &HostShape, wanted: u32) -> BTreeSet<u32> {
    let mut reserved = BTreeSet::new();
    for core in shape.nodes.iter().flat_map(cores) {
        if reserved.len() >= wanted as usize {
            break;
        }
        reserved.extend(core);
    }
    reserved
}

fn known(node: &NodeShape, host: usize, socket: usize, reserved: &BTreeSet<u32>, kept: i64) -> Node {
    let is_ours = |cpus: &Vec<u32>| cpus.iter().all(|cpu| !reserved.contains(cpu));
    let cores: Vec<Vec<u32>> = cores(node).into_iter().filter(is_ours).collect();
    let all: Vec<Vec<u32>> = if node.caches.is_empty() {
        vec![node.cpus.numbers().to_vec()]
    } else {
        node.caches.iter().map(|cache| cache.numbers().to_vec()).collect()
    };
    let free =
        |cpus: &Vec<u32>| cpus.iter().copied().filter(|cpu| !reserved.contains(cpu)).collect::<Vec<u32>>();
    let mut caches: Vec<Vec<u32>> = all.iter().map(free).filter(|cpus| !cpus.is_empty()).collect();
    caches.sort();
    let huge = as_i64(node.hugepages_mib.get());
    Node {
        host,
        number: node.number,
        socket,
        threads: node.cores.first().map_or(1, |core| core.numbers().len().max(1) as u32),
        cores,
        caches,
        memory: as_i64(node.memory_mib.get()) - huge - kept,
        huge,
    }
}

fn card_of(card: &CardShape, node: Option<usize>) -> Port {
    Port {
        name: card.name.clone(),
        node,
        rate: as_i64(card.bytes_per_s.get()),
        rates: Interval::One(card.bytes_per_s.get()),
        receivers: i64::from(card.receivers.unwrap_or(RECEIVERS)),
        stalls: [Interval::One(0); 2],
        is_measured: true,
    }
}

fn disk_of(disk: &DiskShape, node: Option<usize>) -> Port {
    let stall = disk.stall_ms.map_or(Interval::One(STALL_MS), |ms| ms.map(Millis::get));
    let alone = disk.stall_alone_ms.map_or(stall, |ms| ms.map(Millis::get));
    let rates = disk.bytes_per_s.map(|rate| rate.get() / 5 * 4 + rate.get() % 5 * 4 / 5);
    Port {
        name: disk.name.clone(),
        node,
        rate: as_i64(rates.low()),
        rates,
        receivers: 0,
        stalls: [stall, alone],
        is_measured: disk.stall_ms.is_some(),
    }
}
