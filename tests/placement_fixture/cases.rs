//! Random partitions for the placement trial: such as this host can give, and such as it cannot. Pure: a case follows from
//! its seed and the host.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use bulkhead::model::partition::{NumberList, Priority, Resources};
use bulkhead::partition::place::{HostNode, HostTopology};
use bulkhead::platforms::vm::qemu::Throttle;
use bulkhead::units::{Bytes, Mebibytes};

/// Least memory of a partition of the trial.
const LEAST_MIB: u64 = 8;
/// Most memory of one: every page of it is written when it has a place.
const MOST_MIB: u64 = 96;
/// Most virtual CPUs of one.
const MOST_CPUS: u32 = 16;

/// A partition that can be had.
#[derive(Debug, Clone)]
pub struct Case {
    /// What it asks for.
    pub asked: Resources,
    /// Its disks' limits.
    pub throttles: Vec<Throttle>,
}

/// Draws from these numbers.
pub struct Dice<'a> {
    /// Where they come from.
    pub random: Xoshiro256PlusPlus,
    /// What the host has.
    pub host: &'a HostTopology,
    /// Whether a group may have a weight as well as real-time threads: not in version 1.
    pub unified: bool,
}

impl Dice<'_> {
    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100_u32) < percent
    }

    fn upto(&mut self, most: u32) -> u32 {
        self.random.random_range(1..=most.max(1))
    }

    /// `count` different ones of these, or all of them.
    fn some_of(&mut self, from: &NumberList, count: usize) -> NumberList {
        let mut left = from.numbers().to_vec();
        let mut taken = Vec::new();
        while taken.len() < count && !left.is_empty() {
            let index = self.random.random_range(0..left.len());
            taken.push(left.swap_remove(index));
        }
        NumberList::of(taken)
    }

    /// One that this host can give.
    pub fn valid(&mut self) -> Case {
        let node = if self.chance(60) { self.node() } else { None };
        let there = self.host.online.numbers().len();
        let room = u32::try_from(there).unwrap_or(MOST_CPUS).min(MOST_CPUS);
        let (mut cpus, mut pin) = (self.upto(room), None);
        if self.chance(60) {
            // Half of them one to one.
            let count = if self.chance(50) { cpus } else { self.upto(room) };
            pin = Some(self.some_of(&self.host.online.clone(), count as usize));
        } else if let Some(node) = &node {
            cpus = cpus.min(u32::try_from(node.cpus.numbers().len()).unwrap_or(1));
        }
        let guest_nodes = if self.chance(25) { self.upto(cpus.min(4)) } else { 1 };
        let hugepages = node.as_ref().map_or(self.host.huge.free, |node| node.huge_free);
        let huge = self.huge_memory(hugepages, guest_nodes).filter(|_| self.chance(60));
        let memory =
            huge.unwrap_or_else(|| Mebibytes::from_mib(self.random.random_range(LEAST_MIB..=MOST_MIB)));
        let priority = self.priority();
        let may_limit = self.unified || !matches!(priority, Priority::Realtime(_));
        let asked = Resources {
            cpus,
            pin,
            memory,
            node: node.map(|node| node.number),
            hugepages: huge.is_some(),
            priority,
            cpu_weight: (may_limit && self.chance(40)).then(|| self.upto(10_000)),
            cpu_cap_percent: (may_limit && self.chance(40)).then(|| self.upto(room * 100)),
            guest_nodes,
        };
        let disks = self.random.random_range(0..3);
        Case { asked, throttles: (0..disks).map(|_| self.throttle()).collect() }
    }

    /// A node with CPUs and memory enough.
    fn node(&mut self) -> Option<HostNode> {
        let most = Mebibytes::from_mib(MOST_MIB).to_bytes();
        let good = |node: &&HostNode| !node.cpus.numbers().is_empty() && node.available > most;
        let all: Vec<&HostNode> = self.host.nodes.iter().filter(good).collect();
        (!all.is_empty()).then(|| (*all[self.random.random_range(0..all.len())]).clone())
    }

    fn huge_memory(&mut self, free: u64, guest_nodes: u32) -> Option<Mebibytes> {
        let each = self.host.huge.size.get() >> 20;
        let most = (free / u64::from(guest_nodes)).min(8);
        let pages = (each > 0 && most > 0).then(|| self.random.random_range(1..=most))?;
        Some(Mebibytes::from_mib(pages * each * u64::from(guest_nodes)))
    }

    fn priority(&mut self) -> Priority {
        let rights = self.host.rights;
        match self.random.random_range(0..4) {
            0 => Priority::Nice(self.random.random_range(rights.nice.min(19)..=19)),
            1 if rights.realtime > 0 => Priority::Realtime(self.random.random_range(1..=rights.realtime)),
            _ => Priority::Usual,
        }
    }

    fn throttle(&mut self) -> Throttle {
        let mut limit = |most: u64| self.chance(60).then(|| self.random.random_range(1000..=most));
        Throttle { bytes_per_s: limit(1 << 32).map(Bytes::from_bytes), operations_per_s: limit(1_000_000) }
    }

    /// One that it cannot: one thing of a valid one is beyond the host. Says which.
    pub fn invalid(&mut self) -> (Case, &'static str) {
        let mut case = self.valid();
        let asked = &mut case.asked;
        let beyond = self.upto(200);
        let other_way = self.chance(50);
        let kind = match self.random.random_range(0..6) {
            0 => {
                asked.priority = Priority::Realtime(if other_way { 0 } else { 100 });
                "a real-time priority that there is not"
            }
            1 => {
                asked.priority = Priority::Nice(if other_way { -21 } else { 20 });
                "a nice value that there is not"
            }
            2 => {
                asked.cpu_weight = Some(if other_way { 0 } else { 10_000 + beyond });
                "a weight that there is not"
            }
            3 => {
                asked.guest_nodes = if other_way { 0 } else { asked.cpus + beyond };
                "more memory nodes in the guest than CPUs, or none"
            }
            4 => self.bad_memory(asked, beyond),
            _ => self.bad_cpus(asked, beyond),
        };
        (case, kind)
    }

    fn bad_cpus(&mut self, asked: &mut Resources, beyond: u32) -> &'static str {
        let host = self.host;
        let offline = host.present.numbers().iter().find(|cpu| !host.online.numbers().contains(cpu));
        let highest = host.present.numbers().last().copied().unwrap_or(0);
        match (self.random.random_range(0..5), offline) {
            (0, _) => {
                let there = u32::try_from(host.online.numbers().len()).unwrap_or(u32::MAX);
                (asked.cpus, asked.guest_nodes) = (there.saturating_add(beyond), 1);
                "more CPUs than there are"
            }
            (1, _) => {
                asked.cpus = 0;
                "no CPU"
            }
            (2, Some(cpu)) => {
                asked.pin = Some(NumberList::of([*cpu]));
                "a pin to an offline CPU"
            }
            (3, _) => {
                asked.pin = Some(NumberList::default());
                "a pin to nothing"
            }
            _ => {
                asked.pin = Some(NumberList::of([0, highest + beyond]));
                "a pin to a CPU that is not there"
            }
        }
    }

    fn bad_memory(&mut self, asked: &mut Resources, beyond: u32) -> &'static str {
        let host = self.host;
        let too_much = |bytes: Bytes| Mebibytes::from_mib((bytes.get() >> 20) + u64::from(beyond));
        match (self.random.random_range(0..4), host.nodes.first()) {
            (0, _) => {
                asked.memory = too_much(host.memory);
                "more memory than there is"
            }
            (1, Some(node)) => {
                (asked.node, asked.memory) = (Some(node.number), too_much(node.memory));
                "more memory than the node has"
            }
            (2, _) => {
                let each = (host.huge.size.get() >> 20).max(1);
                (asked.hugepages, asked.guest_nodes) = (true, 1);
                asked.memory = Mebibytes::from_mib((host.huge.free + u64::from(beyond)) * each);
                "more huge pages than are reserved"
            }
            _ => {
                asked.node = Some(host.node_numbers().numbers().last().copied().unwrap_or(0) + beyond);
                "a node that is not there"
            }
        }
    }
}
