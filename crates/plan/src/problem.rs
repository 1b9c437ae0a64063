//! A system on its hosts as numbers: what each replica takes, what each node has, who must not meet.
//!
//! ```text
//!  System, KnownHosts ─┬► Site: hosts, sockets, nodes (less what is reserved), cards, disks
//!                      ├► Piece: a replica: k parts of so many CPUs and so much memory
//!                      └► Meeting: two that must have nothing of a level in common;  Talk: two that speak
//! ```
//! A need that is waived is left out here, so whoever asks what cannot hold together asks the same question with less in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use model::partition::set::{OVERHEAD, PartitionEntry};
use model::partition::{DiskSpec, PortSpec};
use model::plan::{Plan, Rule};
use model::system::{Cpu, HostFacts, KnownHost, Level, Needs, System};

use crate::need::{Need, NeedKey};
use crate::site::{Node, Site, as_i64};

/// A replica.
#[derive(Debug, Clone)]
pub struct Piece {
    /// What it is called.
    pub name: String,
    /// Its partition, by its place among all.
    pub partition: usize,
    /// Which replica, from 1.
    pub replica: u32,
    /// On how many nodes it lies; 0 where no node of any host takes a part of it, however many there are.
    pub parts: u32,
    /// Virtual CPUs of a part.
    pub cpus: i64,
    /// Thousandths of a CPU that each virtual one must have; none for whole ones.
    pub share: Option<i64>,
    /// Whether it has whole cores.
    pub cores: bool,
    /// Memory of a part, MiB.
    pub memory: i64,
    /// Whether that is huge pages.
    pub huge: bool,
    /// Memory of the channels it writes, MiB.
    pub channels: i64,
    /// Hosts it may be on.
    pub hosts: BTreeSet<usize>,
}

impl Piece {
    /// Whole CPUs that a part takes of a node.
    pub fn whole(&self, node: &Node) -> i64 {
        if self.share.is_some() {
            return 0;
        }
        let threads = i64::from(node.threads);
        if self.cores { (self.cpus + threads - 1) / threads * threads } else { self.cpus }
    }

    /// Thousandths of CPUs that a part takes of a node.
    pub fn milli(&self, node: &Node) -> i64 {
        self.share.map_or_else(|| 1000 * self.whole(node), |share| self.cpus * share)
    }

    /// Memory of a part that is no huge page, MiB.
    pub fn plain_memory(&self) -> i64 {
        as_i64(OVERHEAD.get()) + if self.huge { 0 } else { self.memory }
    }

    /// Whether a part fits into an empty node.
    pub fn fits(&self, node: &Node) -> bool {
        self.lacks(node).next().is_none()
    }

    /// By which rules a part does not fit into an empty node.
    pub fn lacks(&self, node: &Node) -> impl Iterator<Item = Rule> + use<> {
        let (there, is_shared) = (node.cpus(), self.share.is_some());
        let milli = self.milli(node).max(1000 * self.cpus);
        let is_short = self.plain_memory() > node.memory || self.huge && self.memory > node.huge;
        let lacks = [
            (Rule::Cpus, !is_shared && self.cpus > there),
            (Rule::Pool, is_shared && milli > 1000 * there),
            (Rule::Memory, is_short),
            (Rule::Core, !is_shared && self.cpus <= there && self.whole(node) > there),
        ];
        lacks.into_iter().filter(|(_, is_lacking)| *is_lacking).map(|(rule, _)| rule)
    }

    /// Its part of so many CPUs and so much memory.
    fn divide(&mut self, (cpus, memory): (i64, i64), parts: i64) {
        self.cpus = cpus / parts;
        self.memory = (memory + parts - 1) / parts;
    }

    /// On how many nodes it lies with so many CPUs and so much memory: rule `nodes`.
    fn least_parts(&self, site: &Site, (cpus, memory): (i64, i64)) -> Option<i64> {
        let most = site.hosts.iter().map(|host| host.nodes.len()).max().unwrap_or(0) as i64;
        let is_right = |parts: &i64| {
            let mut part = self.clone();
            part.divide((cpus, memory), *parts);
            cpus % parts == 0
                && (cpus == 0 || *parts <= cpus)
                && site.nodes.iter().any(|node| part.fits(node))
        };
        (1..=most).find(is_right)
    }
}

/// Two that must have nothing of a level in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Meeting {
    /// The level.
    pub level: Level,
    /// The two, the lower one first.
    pub pieces: (usize, usize),
}

/// Two that speak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Talk {
    /// The two.
    pub pieces: (usize, usize),
    /// Bytes per second.
    pub rate: i64,
    /// The longest that a message may take, µs.
    pub latency: Option<i64>,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The hosts.
    pub site: Site,
    /// The replicas, by partition and number.
    pub pieces: Vec<Piece>,
    /// Who must not meet, and a rule that says so.
    pub meetings: BTreeMap<Meeting, Rule>,
    /// Who speaks.
    pub talks: Vec<Talk>,
    /// Those that must be on one host, by channel.
    pub together: Vec<Vec<usize>>,
    /// Needs of each partition; waived ones are as if nobody had written them.
    pub needs: Vec<Needs>,
    /// Whether a host can have a replica of each partition only once, even for a moment: it has a port, a saved folder, a disk's file.
    pub is_single: Vec<bool>,
    /// Where each replica was, by nodes of one host; none for those that are new, or without such a plan.
    pub was: Vec<Option<BTreeSet<usize>>>,
}

/// A partition as it counts: without what is waived.
struct Asked<'a> {
    entry: &'a PartitionEntry,
    needs: Needs,
    cpus: i64,
    memory: i64,
}

impl Problem {
    /// The question, without what is waived.
    pub fn new(system: &System, hosts: &[KnownHost], waived: &BTreeSet<Need>) -> Self {
        let site = Site::new(hosts, &system.links);
        let names: Vec<&String> = system.set.partitions.keys().collect();
        let asked: Vec<Asked<'_>> = names.iter().map(|name| asked(system, name, waived)).collect();
        let mut pieces = Vec::new();
        let mut of: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (partition, one) in asked.iter().enumerate() {
            for replica in 1..=one.needs.replicas {
                of.entry(names[partition]).or_default().push(pieces.len());
                let mut piece = one.piece(&site, hosts);
                piece.name = system.replica_name(names[partition], replica);
                (piece.partition, piece.replica) = (partition, replica);
                pieces.push(piece);
            }
        }
        let is_waived = |channel: &str| {
            waived.iter().any(|need| need.partition == channel && need.key == NeedKey::Channel)
        };
        let mut together = Vec::new();
        for (_, channel) in system.set.channels.iter().filter(|(name, _)| !is_waived(name)) {
            let members = std::iter::once(&channel.writer).chain(&channel.readers);
            together.push(members.filter_map(|member| of.get(member.as_str())).flatten().copied().collect());
            if let Some(writer) = of.get(channel.writer.as_str()).and_then(|pieces| pieces.first()) {
                pieces[*writer].channels += as_i64(channel.size_mib.get());
            }
        }
        let needs: Vec<Needs> = asked.iter().map(|one| one.needs.clone()).collect();
        let mut problem = Self {
            site,
            was: vec![None; pieces.len()],
            pieces,
            meetings: BTreeMap::new(),
            talks: Vec::new(),
            together,
            is_single: asked.iter().map(Asked::is_single).collect(),
            needs,
        };
        problem.find_meetings(&asked, &names, &of, waived);
        problem.find_talks(&names, &of);
        problem
    }

    fn meet(&mut self, rule: Rule, level: Level, a: usize, b: usize) {
        if a != b {
            self.meetings.entry(Meeting { level, pieces: (a.min(b), a.max(b)) }).or_insert(rule);
        }
    }

    fn find_meetings(
        &mut self,
        asked: &[Asked<'_>],
        names: &[&String],
        of: &BTreeMap<&str, Vec<usize>>,
        waived: &BTreeSet<Need>,
    ) {
        for (partition, one) in asked.iter().enumerate() {
            let own = of.get(names[partition].as_str()).cloned().unwrap_or_default();
            let is_apart = !waived.contains(&Need::new(names[partition], NeedKey::Apart));
            for (at, a) in own.iter().enumerate().filter(|_| is_apart) {
                own[at + 1..].iter().for_each(|b| self.meet(Rule::Apart, one.needs.apart(), *a, *b));
            }
            let Some(level) = one.needs.isolation.filter(|level| *level != Level::Core) else { continue };
            let others: Vec<usize> = if one.needs.isolated_from.is_empty() {
                (0..self.pieces.len()).collect()
            } else {
                one.needs
                    .isolated_from
                    .iter()
                    .filter_map(|name| of.get(name.as_str()))
                    .flatten()
                    .copied()
                    .collect()
            };
            for a in &own {
                others.iter().for_each(|b| self.meet(Rule::Isolation, level, *a, *b));
            }
        }
        let of_host: Vec<Vec<Thing>> = asked
            .iter()
            .zip(names)
            .map(|(one, name)| {
                let is_waived = waived.contains(&Need::new(name, NeedKey::Alone));
                if is_waived { Vec::new() } else { Thing::of(one.entry) }
            })
            .collect();
        for a in 0..self.pieces.len() {
            for b in a + 1..self.pieces.len() {
                let [first, second] = [a, b].map(|piece| &of_host[self.pieces[piece].partition]);
                if first.iter().any(|thing| second.iter().any(|other| thing.clashes(other))) {
                    self.meet(Rule::Alone, Level::Host, a, b);
                }
            }
        }
    }

    fn find_talks(&mut self, names: &[&String], of: &BTreeMap<&str, Vec<usize>>) {
        for (partition, name) in names.iter().enumerate() {
            let own = of.get(name.as_str()).cloned().unwrap_or_default();
            for (other, talk) in self.needs[partition].talks_to.clone() {
                let theirs = of.get(other.as_str()).cloned().unwrap_or_default();
                let (rate, latency) =
                    (as_i64(talk.bytes_per_s.get()), talk.latency_us.map(|us| as_i64(us.get())));
                let mut pairs: Vec<(usize, usize)> = Vec::new();
                if own.len() == theirs.len() && other != **name {
                    pairs.extend(own.iter().copied().zip(theirs.iter().copied()));
                } else {
                    // One that speaks with itself: each two of its replicas are a pair.
                    for a in &own {
                        let is_pair = |b: &&usize| other != **name || a < *b;
                        pairs.extend(theirs.iter().filter(is_pair).map(|b| (*a, *b)));
                    }
                }
                let is_paired = own.len() == theirs.len() && other != **name;
                let count = if is_paired { 1 } else { pairs.len().max(1) as i64 };
                let rate = (rate + count - 1) / count;
                self.talks.extend(pairs.into_iter().map(|pieces| Talk { pieces, rate, latency }));
            }
        }
    }
}

/// A partition without what is waived of it.
fn asked<'a>(system: &'a System, name: &str, waived: &BTreeSet<Need>) -> Asked<'a> {
    let entry = &system.set.partitions[name];
    let is_waived = |key: NeedKey| waived.contains(&Need::new(name, key));
    let mut needs = system.needs.get(name).cloned().unwrap_or_default();
    if is_waived(NeedKey::Isolation) {
        (needs.isolation, needs.isolated_from) = (None, Vec::new());
    }
    if is_waived(NeedKey::Near) {
        needs.near.clear();
    }
    if is_waived(NeedKey::Hosts) {
        needs.hosts.clear();
    }
    if is_waived(NeedKey::Downtime) {
        needs.max_downtime_ms = None;
    }
    if is_waived(NeedKey::Disk) {
        needs.disk = None;
        needs.near.retain(|device| *device != model::system::Device::Disk);
    }
    if is_waived(NeedKey::Network) {
        needs.network = None;
        needs.near.retain(|device| *device != model::system::Device::Nic);
    }
    if is_waived(NeedKey::Deadline) {
        needs.deadline = None;
    }
    needs.hosts = needs.hosts.iter().flat_map(|host| of_kind(system, host)).collect();
    needs.talks_to.retain(|other, _| !is_waived(NeedKey::Talk(other.clone())));
    let cpus = if is_waived(NeedKey::Cpus) { 0 } else { i64::from(entry.cpus) };
    let memory = if is_waived(NeedKey::Memory) { 0 } else { as_i64(entry.memory_mib.get()) };
    Asked { entry, needs, cpus, memory }
}

/// The hosts that a name means: those of its kind, or the one.
fn of_kind(system: &System, name: &str) -> Vec<String> {
    match system.hosts.get(name) {
        Some(kind) => (1..=kind.count.unwrap_or(1)).map(|number| kind.name_of(name, number)).collect(),
        None => vec![name.to_owned()],
    }
}

impl Asked<'_> {
    fn is_single(&self) -> bool {
        Thing::of(self.entry).iter().any(|thing| thing.clashes(thing))
    }

    /// One replica of it, not named yet.
    fn piece(&self, site: &Site, hosts: &[KnownHost]) -> Piece {
        let shared = self.needs.cpu == Cpu::Shared;
        let mut piece = Piece {
            name: String::new(),
            partition: 0,
            replica: 0,
            parts: 0,
            cpus: self.cpus,
            share: shared.then(|| 10 * i64::from(self.needs.share_percent.unwrap_or(100))),
            cores: self.needs.isolation == Some(Level::Core),
            memory: self.memory,
            huge: self.entry.hugepages,
            channels: 0,
            hosts: self.hosts(hosts),
        };
        // What is waived asks for less on as many nodes: otherwise less could be harder to place than more.
        let written = (i64::from(self.entry.cpus), as_i64(self.entry.memory_mib.get()));
        let parts =
            piece.least_parts(site, written).or_else(|| piece.least_parts(site, (self.cpus, self.memory)));
        piece.parts = parts.map_or(0, |parts| u32::try_from(parts).unwrap_or(0));
        piece.divide((self.cpus, self.memory), parts.unwrap_or(1));
        piece
    }

    /// Hosts that it may be on: those it names, and that keep its deadline.
    fn hosts(&self, hosts: &[KnownHost]) -> BTreeSet<usize> {
        let is_named =
            |host: &KnownHost| self.needs.hosts.is_empty() || self.needs.hosts.contains(&host.name);
        let keeps = |host: &KnownHost| keeps_deadline(&self.needs, &host.shape.facts);
        (0..hosts.len()).filter(|host| is_named(&hosts[*host]) && keeps(&hosts[*host])).collect()
    }
}

/// Whether a deadline is kept on a host of which this was measured.
fn keeps_deadline(needs: &Needs, facts: &HostFacts) -> bool {
    needs.deadline.is_none_or(|deadline| {
        facts.wakeup.iter().any(|wakeup| {
            let response = wakeup.latency_us.high().get().saturating_add(deadline.runtime_us.get());
            wakeup.miss_rate <= deadline.miss_rate && response <= deadline.within_us.get()
        })
    })
}

/// What a partition has of its host that nobody else can have there.
enum Thing {
    Port(PortSpec),
    Folder(PathBuf),
    Disk { file: PathBuf, is_read_only: bool },
}

impl Thing {
    fn of(entry: &PartitionEntry) -> Vec<Self> {
        let disk = |disk: &DiskSpec| Self::Disk { file: disk.file.clone(), is_read_only: disk.read_only };
        let ports = entry.ports.iter().copied().map(Self::Port);
        ports.chain(entry.save.clone().map(Self::Folder)).chain(entry.disks.iter().map(disk)).collect()
    }

    fn clashes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Port(a), Self::Port(b)) => a.clashes(b),
            (Self::Folder(a), Self::Folder(b)) => a == b,
            (
                Self::Disk { file: a, is_read_only: a_reads },
                Self::Disk { file: b, is_read_only: b_reads },
            ) => a == b && !(*a_reads && *b_reads),
            _ => false,
        }
    }
}

impl Problem {
    /// Nodes of each replica in a plan; none for those that are not in it, no nodes for those on a host or node that is gone.
    pub fn nodes_in(&self, plan: &Plan) -> Vec<Option<BTreeSet<usize>>> {
        let find = |host: &str, number: u32| {
            let host = self.site.hosts.iter().find(|known| known.name == host)?;
            host.nodes.clone().find(|node| self.site.nodes[*node].number == number)
        };
        let nodes = |piece: &Piece| {
            let placed = plan.partitions.iter().find(|placed| placed.name == piece.name)?;
            let seats = placed.seats.iter().map(|seat| find(&placed.host, seat.node));
            Some(seats.collect::<Option<BTreeSet<usize>>>().unwrap_or_default())
        };
        self.pieces.iter().map(nodes).collect()
    }

    /// By which rules a part of a replica cannot be on a node, whoever else is there.
    pub fn misfits(&self, piece: usize, node: usize) -> BTreeSet<Rule> {
        let (one, here) = (&self.pieces[piece], &self.site.nodes[node]);
        let (needs, host) = (&self.needs[one.partition], &self.site.hosts[here.host]);
        let is_named = needs.hosts.is_empty() || needs.hosts.contains(&host.name);
        let of_host =
            [(Rule::Placed, is_named), (Rule::Deadline, keeps_deadline(needs, &host.facts))].into_iter();
        of_host.filter(|(_, is_kept)| !is_kept).map(|(rule, _)| rule).chain(one.lacks(here)).collect()
    }

    /// What a replica needs of a network card, bytes per second.
    pub fn network_rate(&self, piece: usize) -> i64 {
        let need = self.needs[self.pieces[piece].partition].network;
        need.map_or(0, |need| as_i64(need.bytes_per_s.get()))
    }

    /// Whether somebody must not be away for long when a host dies: the search that comes first does not look at that.
    pub fn has_downtimes(&self) -> bool {
        self.needs.iter().any(|needs| needs.max_downtime_ms.is_some())
    }

    /// What it needs of a disk, bytes per second.
    pub fn disk_rate(&self, piece: usize) -> i64 {
        let need = self.needs[self.pieces[piece].partition].disk;
        need.map_or(0, |need| as_i64(need.bytes_per_s.get()))
    }

    /// The longest stall of a disk that it bears, ms.
    pub fn longest_stall(&self, piece: usize) -> i64 {
        let need = self.needs[self.pieces[piece].partition].disk;
        need.and_then(|need| need.longest_stall_ms).map_or(i64::MAX, |ms| as_i64(ms.get()))
    }
}
