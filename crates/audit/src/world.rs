//! What there is: hosts with their nodes, and the replicas of a plan with what each of their parts must have.
//!
//! All of it follows from the system, the hosts and the places in the plan. What a plan names that there is not (hosts, partitions, nodes) is
//! left out here; [`crate::broken_rules`] tells of it.

use std::collections::{BTreeMap, BTreeSet};

use model::partition::NumberList;
use model::partition::set::PartitionEntry;
use model::plan::{Placed, Plan, Seat};
use model::system::{Cpu, KnownHost, Level, Needs, NodeShape, System};

/// What QEMU itself takes beside the memory of its guest, in MiB for each part.
pub(crate) const QEMU_MIB: u64 = 48;

/// A memory node, with what of it is its host's own.
#[derive(Debug)]
pub(crate) struct Node<'a> {
    pub shape: &'a NodeShape,
    /// CPUs that stay the host's own.
    pub reserved: BTreeSet<u32>,
    /// Memory that stays its own, in MiB.
    pub reserved_mib: u64,
    /// By CPU: which core, which last-level cache.
    core: BTreeMap<u32, usize>,
    cache: BTreeMap<u32, usize>,
    /// Hardware threads of a core, 1 or more.
    pub threads: u64,
}

/// A host.
#[derive(Debug)]
pub(crate) struct Host<'a> {
    pub known: &'a KnownHost,
    /// By number.
    pub nodes: BTreeMap<u32, Node<'a>>,
}

/// A replica of the system that has a place on a host that there is.
#[derive(Debug)]
pub(crate) struct Seen<'a> {
    pub placed: &'a Placed,
    pub entry: &'a PartitionEntry,
    pub needs: &'a Needs,
    pub host: &'a Host<'a>,
    /// How many parts it must have; none if no part fits anywhere, however small.
    pub parts: Option<u32>,
}

/// A system, its hosts, and who is where.
#[derive(Debug)]
pub(crate) struct World<'a> {
    pub system: &'a System,
    pub hosts: &'a BTreeMap<&'a str, Host<'a>>,
    /// In the order of the plan.
    pub seen: Vec<Seen<'a>>,
}

/// Number of whatever each of these lists has.
fn numbered(lists: &[NumberList]) -> BTreeMap<u32, usize> {
    let each = |(number, list): (usize, &NumberList)| {
        list.numbers().iter().map(move |cpu| (*cpu, number)).collect::<Vec<_>>()
    };
    lists.iter().enumerate().flat_map(each).collect()
}

impl<'a> Node<'a> {
    fn of(shape: &'a NodeShape) -> Self {
        Self {
            shape,
            reserved: BTreeSet::new(),
            reserved_mib: 0,
            core: numbered(&shape.cores),
            cache: numbered(&shape.caches),
            threads: shape.cores.first().map_or(1, |core| core.numbers().len().max(1) as u64),
        }
    }

    /// Its cores, in the order of their lowest CPUs.
    fn cores(&self) -> Vec<Vec<u32>> {
        let mut cores: BTreeMap<(bool, u64), Vec<u32>> = BTreeMap::new();
        for cpu in self.shape.cpus.numbers() {
            cores.entry(self.core_key(*cpu)).or_default().push(*cpu);
        }
        let mut cores: Vec<Vec<u32>> = cores.into_values().collect();
        cores.sort();
        cores
    }

    /// Names the core of a CPU; without cores in its description each CPU is one.
    pub fn core_key(&self, cpu: u32) -> (bool, u64) {
        self.core.get(&cpu).map_or((false, cpu.into()), |core| (true, *core as u64))
    }

    /// Names the last-level cache of a CPU; without caches in its description there is one.
    pub fn cache_key(&self, cpu: u32) -> usize {
        self.cache.get(&cpu).map_or(0, |cache| cache + 1)
    }

    /// CPUs that are not the host's own.
    pub fn free_cpus(&self) -> u64 {
        self.shape.cpus.numbers().iter().filter(|cpu| !self.reserved.contains(cpu)).count() as u64
    }

    /// CPUs that a part takes away from others.
    pub fn taken_by(&self, cpus: u64, needs: &Needs) -> u64 {
        if needs.isolation == Some(Level::Core) { cpus.div_ceil(self.threads) * self.threads } else { cpus }
    }

    /// Memory that is no huge page and not the host's own, in MiB.
    pub fn plain_mib(&self) -> u64 {
        let plain = self.shape.memory_mib.get().saturating_sub(self.shape.hugepages_mib.get());
        plain.saturating_sub(self.reserved_mib)
    }

    /// All that says whether somebody fits where nobody else is.
    fn room(&self) -> [u64; 4] {
        [self.free_cpus(), self.threads, self.plain_mib(), self.shape.hugepages_mib.get()]
    }

    /// Whether a part of so many CPUs and so much memory fits where nobody else is.
    fn fits(&self, cpus: u64, mib: u64, entry: &PartitionEntry, needs: &Needs) -> bool {
        let plain = if entry.hugepages { 0 } else { mib };
        let huge = mib - plain;
        self.taken_by(cpus, needs) <= self.free_cpus()
            && plain.saturating_add(QEMU_MIB) <= self.plain_mib()
            && huge <= self.shape.hugepages_mib.get()
    }
}

impl<'a> Host<'a> {
    fn of(known: &'a KnownHost) -> Self {
        let mut nodes: BTreeMap<u32, Node<'a>> = BTreeMap::new();
        for shape in &known.shape.nodes {
            nodes.entry(shape.number).or_insert_with(|| Node::of(shape));
        }
        let mut left = u64::from(known.reserve_cpus);
        for node in nodes.values_mut() {
            for core in node.cores() {
                if left > 0 {
                    left = left.saturating_sub(core.len() as u64);
                    node.reserved.extend(core);
                }
            }
        }
        if let Some(first) = nodes.values_mut().next() {
            first.reserved_mib = known.reserve_memory.get();
        }
        Self { known, nodes }
    }

    /// All hosts, by name.
    pub fn all(hosts: &'a [KnownHost]) -> BTreeMap<&'a str, Self> {
        let mut all = BTreeMap::new();
        for known in hosts {
            all.entry(known.name.as_str()).or_insert_with(|| Self::of(known));
        }
        all
    }

    /// Its own CPUs.
    pub fn reserved(&self) -> NumberList {
        NumberList::of(self.nodes.values().flat_map(|node| node.reserved.iter().copied()))
    }

    /// Whether a partition with these needs may be on it by its `hosts`.
    pub fn is_one_of(&self, system: &System, needs: &Needs) -> bool {
        let is_it = |name: &String| {
            let numbered = system.hosts.get(name).filter(|entry| entry.count.is_some());
            let number = self.known.name.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix('-'));
            let number = number.and_then(|number| number.parse().ok());
            *name == self.known.name
                || numbered.zip(number).is_some_and(|(entry, number)| {
                    (1..=entry.count.unwrap_or(1)).contains(&number)
                        && entry.name_of(name, number) == self.known.name
                })
        };
        needs.hosts.is_empty() || needs.hosts.iter().any(is_it)
    }
}

/// How many parts a replica has: see rule `nodes` of `docs/plan.md`.
fn parts(nodes: &[&Node<'_>], entry: &PartitionEntry, needs: &Needs) -> Option<u32> {
    let fits = |parts: &u32| {
        let (cpus, mib) = (entry.cpus / parts, entry.memory_mib.get().div_ceil(u64::from(*parts)));
        nodes.iter().any(|node| node.fits(cpus.into(), mib, entry, needs))
    };
    (1..=entry.cpus).filter(|parts| entry.cpus.is_multiple_of(*parts)).find(fits)
}

impl<'a> World<'a> {
    /// Of what is in a plan, all that there is.
    pub fn of(system: &'a System, hosts: &'a BTreeMap<&'a str, Host<'a>>, plan: &'a Plan) -> Self {
        let nodes = hosts.values().flat_map(|host| host.nodes.values());
        // Many nodes are alike.
        let nodes: BTreeMap<_, &Node<'_>> = nodes.map(|node| (node.room(), node)).collect();
        let nodes: Vec<&Node<'_>> = nodes.into_values().collect();
        let mut known: BTreeMap<&str, (&PartitionEntry, &Needs, Option<u32>)> = BTreeMap::new();
        for (name, entry) in &system.set.partitions {
            if let Some(needs) = system.needs.get(name) {
                known.insert(name, (entry, needs, parts(&nodes, entry, needs)));
            }
        }
        let see = |placed: &'a Placed| {
            let (entry, needs, parts) = *known.get(placed.of.as_str())?;
            let host = hosts.get(placed.host.as_str())?;
            let is_it = (1..=needs.replicas).contains(&placed.replica)
                && placed.name == system.replica_name(&placed.of, placed.replica);
            is_it.then_some(Seen { placed, entry, needs, host, parts })
        };
        Self { system, hosts, seen: plan.partitions.iter().filter_map(see).collect() }
    }
}

impl<'a> Seen<'a> {
    /// Its host's name.
    pub fn host_name(&self) -> &'a str {
        &self.host.known.name
    }

    /// Its parts, those on nodes that there are.
    pub fn seats(&self) -> impl Iterator<Item = (&'a Node<'a>, &'a Seat)> {
        let nodes = &self.host.nodes;
        self.placed.seats.iter().filter_map(|seat| Some((nodes.get(&seat.node)?, seat)))
    }

    /// Numbers of its nodes that there are.
    pub fn nodes(&self) -> BTreeSet<u32> {
        self.seats().map(|(node, _)| node.shape.number).collect()
    }

    /// Sockets of its nodes.
    pub fn sockets(&self) -> BTreeSet<u32> {
        self.seats().map(|(node, _)| node.shape.socket).collect()
    }

    /// Virtual CPUs of each part.
    pub fn part_cpus(&self) -> u64 {
        let seats = u32::try_from(self.placed.seats.len()).unwrap_or(u32::MAX);
        self.entry.cpus.div_ceil(self.parts.unwrap_or(seats).max(1)).into()
    }

    /// Memory of each part, in MiB.
    pub fn part_mib(&self) -> u64 {
        let seats = u32::try_from(self.placed.seats.len()).unwrap_or(u32::MAX);
        self.entry.memory_mib.get().div_ceil(self.parts.unwrap_or(seats).max(1).into())
    }

    /// Whether its CPUs are shared.
    pub fn is_shared(&self) -> bool {
        self.needs.cpu == Cpu::Shared
    }

    /// What each of its parts wants of its node's CPUs, in hundredths of one.
    pub fn part_percent(&self, node: &Node<'_>) -> u64 {
        if self.is_shared() {
            self.part_cpus().saturating_mul(self.needs.share_percent.unwrap_or(100).into())
        } else {
            node.taken_by(self.part_cpus(), self.needs).saturating_mul(100)
        }
    }
}

/// A number of MiB, CPUs or bytes per second, large enough for sums of whatever a file says.
pub(crate) type Total = u128;

/// What is used of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// Memory that is no huge page, in MiB.
    pub plain_mib: Total,
    /// Huge pages, in MiB.
    pub huge_mib: Total,
    /// CPUs, in hundredths of one.
    pub cpu_percent: Total,
}

impl Load {
    /// One more part of a replica, with so much memory; on its first node it also has the channels that it writes.
    pub fn add(&mut self, system: &System, seen: &Seen<'_>, node: &Node<'_>, mib: u64, is_first: bool) {
        let (plain, huge) = if seen.entry.hugepages { (0, mib) } else { (mib, 0) };
        self.plain_mib += Total::from(plain) + Total::from(QEMU_MIB);
        self.huge_mib += Total::from(huge);
        self.cpu_percent += Total::from(seen.part_percent(node));
        if is_first {
            let written = system.set.channels.values().filter(|channel| channel.writer == seen.placed.of);
            self.plain_mib += written.map(|channel| Total::from(channel.size_mib.get())).sum::<Total>();
        }
    }
}

/// What of a node its host's name and its number say.
pub(crate) type NodeName<'a> = (&'a str, u32);

impl<'a> World<'a> {
    /// What all who are there use of each node that anybody uses.
    pub fn loads(&self) -> BTreeMap<NodeName<'a>, Load> {
        let mut loads: BTreeMap<NodeName<'a>, Load> = BTreeMap::new();
        for seen in &self.seen {
            let first = seen.nodes().first().copied();
            for (node, seat) in seen.seats() {
                let number = node.shape.number;
                let load = loads.entry((seen.host_name(), number)).or_default();
                load.add(self.system, seen, node, seat.memory_mib.get(), first == Some(number));
            }
        }
        loads
    }

    /// A node, by its names.
    pub fn node(&self, name: NodeName<'_>) -> Option<&'a Node<'a>> {
        self.hosts.get(name.0)?.nodes.get(&name.1)
    }
}
