//! What this host is made of, as plans want it: sockets, memory nodes, cores, last-level caches, network cards, disks.
//!
//! ```text
//!  HostTopology (CPUs that run, nodes) ──┐
//!  cpu*/topology, cpu*/cache ────────────┼► nodes: the CPUs that are ours, by core and by cache
//!  node*/hugepages ──────────────────────┘
//!  /sys/class/net, /sys/block ───────────► what has hardware behind it, with its node
//! ```
//! Read below a root, as [`HostTopology`] is. Sources: the kernel's `Documentation/admin-guide/cputopology.rst`, `ABI/testing/
//! sysfs-devices-system-cpu`, `sysfs-class-net`, `sysfs-block`, `ABI/stable/sysfs-devices-node`.

mod cores;
mod devices;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use super::threads::allowed_in;
use super::topology::{HostNode, HostTopology, NO_RIGHTS, list, text};
use model::partition::NumberList;
use model::system::{HostShape, NodeShape};
use platforms::host::threads_of_core;
use units::{Bytes, Mebibytes, Reason};

pub use devices::SeenDisk;

/// What was seen of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenHost {
    /// Its nodes and cards. Disks are not in it: what they give has to be measured.
    pub shape: HostShape,
    /// Its disks.
    pub disks: Vec<SeenDisk>,
    /// What is not in the shape, or not as one would think, and why.
    pub notes: Vec<String>,
}

impl SeenHost {
    /// This host.
    ///
    /// # Errors
    /// A file of the kernel's that has to be there is not, or says what cannot be understood; or no CPU is ours.
    pub fn of_this_host() -> Result<Self, Reason> {
        let root = Path::new("/");
        let isolated = list(&root.join("sys/devices/system/cpu/isolated")).unwrap_or_default();
        // Programs begin without these CPUs, and partitions may have them all the same.
        Self::read(root, &NumberList::of(isolated.numbers().iter().copied().filter(|cpu| can_have(*cpu))))
    }

    /// Below a root folder that has `sys` and `proc`. Ours are the CPUs on which `/proc/self/status` lets programs run, and
    /// those of `besides`.
    ///
    /// # Errors
    /// See [`Self::of_this_host`].
    pub fn read(root: &Path, besides: &NumberList) -> Result<Self, Reason> {
        let host = HostTopology::read(root, NO_RIGHTS)?;
        let path = root.join("proc/self/status");
        let status = text(&path)?;
        let told = |error: Reason| format!("{}: {error}", path.display());
        let allowed = allowed_in(&status, "Cpus_allowed_list").map_err(told)?;
        // A kernel without memory nodes does not say.
        let memory = allowed_in(&status, "Mems_allowed_list").unwrap_or_else(|_| host.node_numbers());
        let ours = NumberList::of(allowed.numbers().iter().chain(besides.numbers()).copied());
        let mut reader = Reader { root, host: &host, ours, memory, notes: Vec::new() };
        let nodes: Vec<NodeShape> = host.nodes.iter().map(|node| reader.node(node)).collect();
        if nodes.iter().all(|node| node.cpus.numbers().is_empty()) {
            return Err(format!(
                "wanted CPUs that run and are ours: {} run, ours are {}",
                host.online, reader.ours
            )
            .into());
        }
        reader.tell_of_cpus();
        reader.tell_of_caches(&nodes);
        let mut remarks = reader.notes;
        let there: BTreeSet<u32> = nodes.iter().map(|node| node.number).collect();
        let nics = devices::cards(root, &there, &mut remarks);
        let disks = devices::disks(root, &there);
        Ok(Self { shape: HostShape { nodes, nics, ..HostShape::default() }, disks, notes: remarks })
    }
}

/// Whether a thread of ours can be held to a CPU; tried by one that ends.
fn can_have(cpu: u32) -> bool {
    let tried = std::thread::spawn(move || {
        let mut set = CpuSet::new();
        set.set(cpu as usize).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set)).is_ok()
    });
    tried.join().unwrap_or(false)
}

/// Reads one host.
struct Reader<'a> {
    root: &'a Path,
    host: &'a HostTopology,
    /// CPUs that are ours, running or not.
    ours: NumberList,
    /// Memory nodes on which our memory may be.
    memory: NumberList,
    notes: Vec<String>,
}

impl Reader<'_> {
    fn cpu(&self, cpu: u32) -> PathBuf {
        self.root.join(format!("sys/devices/system/cpu/cpu{cpu}"))
    }

    fn node(&mut self, node: &HostNode) -> NodeShape {
        let number = node.number;
        let is_ours = self.memory.numbers().contains(&number);
        if !is_ours {
            self.notes.push(format!(
                "node {number}: its memory is not ours (cpuset), so it has no CPUs and no memory here"
            ));
        }
        let cpus = if is_ours { common(&node.cpus, &self.ours) } else { NumberList::default() };
        let by_core = grouped(&cpus, |cpu| Some(self.siblings(cpu)));
        let (cores, left_out) = cores::even(&by_core);
        if !left_out.numbers().is_empty() {
            self.notes.push(format!(
                "node {number}: CPUs {left_out} are left out: of cores with different numbers of threads as many CPUs are taken as \
                 make the cores alike"
            ));
        }
        let cpus = NumberList::of(cores.iter().flat_map(NumberList::numbers).copied());
        let mut caches = grouped(&cpus, |cpu| self.last_level(cpu));
        let is_torn = |core: &NumberList| {
            caches.iter().filter(|cache| !common(core, cache).numbers().is_empty()).count() > 1
        };
        if cores.iter().any(is_torn) {
            self.notes.push(format!(
                "node {number}: cores have threads at two caches, so one cache is taken for all"
            ));
            caches.clear();
        }
        let socket = self.socket(&node.cpus, number);
        let (memory, hugepages) =
            if is_ours { self.memory_of(node) } else { (Bytes::default(), Bytes::default()) };
        NodeShape {
            number,
            socket,
            cpus,
            memory_mib: mebibytes(memory),
            hugepages_mib: mebibytes(hugepages),
            caches: if caches.len() > 1 { caches } else { Vec::new() },
            cores: if cores.iter().any(|core| core.numbers().len() > 1) { cores } else { Vec::new() },
        }
    }

    /// All threads of a CPU's core that run, itself included.
    fn siblings(&self, cpu: u32) -> NumberList {
        threads_of_core(self.root, cpu).unwrap_or_else(|| NumberList::of([cpu]))
    }

    /// All CPUs at a CPU's last-level cache; none where the kernel does not know its caches.
    fn last_level(&self, cpu: u32) -> Option<NumberList> {
        let entries = fs::read_dir(self.cpu(cpu).join("cache")).ok()?;
        let caches = entries.flatten().map(|entry| entry.path()).filter_map(|folder| {
            let level: u32 = text(&folder.join("level")).ok()?.trim().parse().ok()?;
            let is_data = text(&folder.join("type")).ok()?.trim() != "Instruction";
            is_data.then_some(())?;
            Some((level, list(&folder.join("shared_cpu_list")).ok()?))
        });
        caches.max_by_key(|(level, _)| *level).map(|(_, cpus)| cpus)
    }

    /// The socket of a node's CPUs, the lowest one where there are several, 0 where none is known.
    fn socket(&mut self, cpus: &NumberList, node: u32) -> u32 {
        let of =
            |cpu: &u32| text(&self.cpu(*cpu).join("topology/physical_package_id")).ok()?.trim().parse().ok();
        let sockets: BTreeSet<u32> = cpus.numbers().iter().filter_map(of).collect();
        if sockets.len() > 1 {
            self.notes
                .push(format!("node {node}: its CPUs are of {} sockets, which count as one", sockets.len()));
        }
        sockets.first().copied().unwrap_or(0)
    }

    /// A node's memory, and what of it is reserved as huge pages of the usual size. Those of other sizes are nobody's here.
    fn memory_of(&mut self, node: &HostNode) -> (Bytes, Bytes) {
        let of_node = self.root.join(format!("sys/devices/system/node/node{}/hugepages", node.number));
        let of_all = self.root.join("sys/kernel/mm/hugepages");
        let folder = if of_node.is_dir() { of_node } else { of_all };
        let (mut usual, mut other) = (0u64, 0u64);
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let size = name
                .to_str()
                .and_then(|name| name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok());
            let count = text(&entry.path().join("nr_hugepages"))
                .ok()
                .and_then(|text| text.trim().parse::<u64>().ok());
            let Some((size, count)) = size.zip(count) else { continue };
            let bytes = size.saturating_mul(1024).saturating_mul(count);
            let is_usual = size.saturating_mul(1024) == self.host.huge.size.get();
            let sum = if is_usual { &mut usual } else { &mut other };
            *sum = sum.saturating_add(bytes);
        }
        if other > 0 {
            self.notes.push(format!(
                "node {}: {} are huge pages of an unusual size, which partitions cannot have; they are left out",
                node.number,
                Bytes::from_bytes(other)
            ));
        }
        let memory = node.memory.get().saturating_sub(other);
        (Bytes::from_bytes(memory), Bytes::from_bytes(usual.min(memory)))
    }

    /// CPUs that are there and not in the shape, and cores that are only in part ours.
    fn tell_of_cpus(&mut self) {
        let off = NumberList::of(
            self.host
                .present
                .numbers()
                .iter()
                .copied()
                .filter(|cpu| !self.host.online.numbers().contains(cpu)),
        );
        if !off.numbers().is_empty() {
            self.notes.push(format!("CPUs {off} do not run (offline), and are left out"));
        }
        let is_ours = |cpu: &u32| self.ours.numbers().contains(cpu);
        let running = self.host.online.numbers();
        let foreign = NumberList::of(running.iter().copied().filter(|cpu| !is_ours(cpu)));
        if foreign.numbers().is_empty() {
            return;
        }
        self.notes.push(format!(
            "CPUs {foreign} are not ours (cpuset, or the affinity this was started with), and are left out"
        ));
        let torn = running
            .iter()
            .copied()
            .filter(is_ours)
            .filter(|cpu| !common(&self.siblings(*cpu), &foreign).numbers().is_empty());
        let torn = NumberList::of(torn);
        if !torn.numbers().is_empty() {
            self.notes.push(format!(
                "CPUs {torn} share their cores with CPUs that are not ours: \"core\" cannot be promised there"
            ));
        }
    }

    /// A cache of several nodes, which a shape cannot say.
    fn tell_of_caches(&mut self, nodes: &[NodeShape]) {
        let spans = |node: &&NodeShape| {
            let first = node.cpus.numbers().first().and_then(|cpu| self.last_level(*cpu));
            first.is_some_and(|cache| {
                nodes.iter().any(|other| {
                    other.number != node.number && !common(&other.cpus, &cache).numbers().is_empty()
                })
            })
        };
        if nodes.iter().any(|node| spans(&node)) {
            self.notes.push(
                "a last-level cache has CPUs of several nodes; in plans each node has its own, so ask for isolation = \"socket\" where \
                 that matters"
                    .to_owned(),
            );
        }
    }
}

/// CPUs that belong together by what the kernel says of each, sorted by their lowest one. Those of which it says nothing are one
/// group.
fn grouped(cpus: &NumberList, with: impl Fn(u32) -> Option<NumberList>) -> Vec<NumberList> {
    let mut groups: BTreeMap<Option<u32>, Vec<u32>> = BTreeMap::new();
    for cpu in cpus.numbers() {
        let lowest = with(*cpu).and_then(|all| all.numbers().first().copied());
        groups.entry(lowest).or_default().push(*cpu);
    }
    let mut groups: Vec<NumberList> = groups.into_values().map(NumberList::of).collect();
    groups.sort_by_key(|group| group.numbers().first().copied());
    groups
}

/// What two lists have in common.
fn common(this: &NumberList, other: &NumberList) -> NumberList {
    NumberList::of(this.numbers().iter().copied().filter(|number| other.numbers().contains(number)))
}

fn mebibytes(bytes: Bytes) -> Mebibytes {
    Mebibytes::from_mib(bytes.get() >> 20)
}
