//! What a host has to give to partitions: CPUs, memory nodes, huge pages, and what this process may ask of its scheduler.
//!
//! Read below a root, so that tests can read a host that was made up. Sources: the kernel's `Documentation/ABI/stable/
//! sysfs-devices-node`, `admin-guide/mm/hugetlbpage.rst`, `proc(5)`, `getrlimit(2)`, `capabilities(7)`.

use std::fs;
use std::io::Read;
use std::path::Path;

use nix::sys::resource::{Resource, getrlimit};

use model::partition::NumberList;
use units::{Bytes, Reason};

/// Longest file that is read of the kernel's.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Highest `SCHED_FIFO` priority.
pub const HIGHEST_PRIORITY: u8 = 99;
/// Bit of `CAP_SYS_NICE` in the sets of `/proc/self/status`.
const CAP_SYS_NICE: u32 = 23;

/// A host's CPUs, memory and rights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostTopology {
    /// CPUs that run.
    pub online: NumberList,
    /// CPUs that are there, running or not.
    pub present: NumberList,
    /// Memory nodes, ascending by number.
    pub nodes: Vec<HostNode>,
    /// All memory.
    pub memory: Bytes,
    /// Memory that can be had without swapping.
    pub available: Bytes,
    /// Huge pages of the usual size.
    pub huge: HugePages,
    /// What this process may ask of the scheduler.
    pub rights: Rights,
}

/// A memory node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostNode {
    /// Its number.
    pub number: u32,
    /// Its CPUs that run.
    pub cpus: NumberList,
    /// Its memory.
    pub memory: Bytes,
    /// What of it can be had: free, or file pages and caches that can be dropped.
    pub available: Bytes,
    /// Huge pages of the usual size that are reserved on it and free.
    pub huge_free: u64,
}

/// Huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HugePages {
    /// Size of one; zero where the kernel has none.
    pub size: Bytes,
    /// Reserved and free.
    pub free: u64,
}

/// What this process may ask of the scheduler for its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    /// Highest `SCHED_FIFO` priority; zero for none.
    pub realtime: u8,
    /// Lowest `nice` value.
    pub nice: i8,
}

/// Where nobody asks.
pub(super) const NO_RIGHTS: Rights = Rights { realtime: 0, nice: 0 };

impl HostTopology {
    /// This host's.
    ///
    /// # Errors
    /// A file of the kernel's that has to be there is not, or says what cannot be understood.
    pub fn of_this_host() -> Result<Self, Reason> {
        Self::read(Path::new("/"), rights(Path::new("/")))
    }

    /// Below a root folder that has `sys` and `proc`.
    ///
    /// # Errors
    /// See [`Self::of_this_host`].
    pub fn read(root: &Path, rights: Rights) -> Result<Self, Reason> {
        let system = root.join("sys/devices/system");
        let online = list(&system.join("cpu/online"))?;
        let present = list(&system.join("cpu/present")).unwrap_or_else(|_| online.clone());
        let meminfo = text(&root.join("proc/meminfo"))?;
        let kib = |name: &str| kib(&meminfo, name);
        let memory = kib("MemTotal").ok_or("wanted MemTotal in /proc/meminfo, and there is none")?;
        let huge = HugePages {
            size: Bytes::from_bytes(kib("Hugepagesize").unwrap_or(0).saturating_mul(1024)),
            free: self::kib(&meminfo, "HugePages_Free").unwrap_or(0),
        };
        let available = Bytes::from_bytes(kib("MemAvailable").unwrap_or(memory).saturating_mul(1024));
        let mut host = Self {
            nodes: nodes(&system.join("node"), &online, huge.size)?,
            online,
            present,
            memory: Bytes::from_bytes(memory.saturating_mul(1024)),
            available,
            huge,
            rights,
        };
        if host.nodes.is_empty() {
            // A kernel built without memory nodes: what it has is one.
            host.nodes.push(HostNode {
                number: 0,
                cpus: host.online.clone(),
                memory: host.memory,
                available: host.available,
                huge_free: host.huge.free,
            });
        }
        Ok(host)
    }

    /// The node of this number.
    pub fn node(&self, number: u32) -> Option<&HostNode> {
        self.nodes.iter().find(|node| node.number == number)
    }

    /// Numbers of all nodes.
    pub fn node_numbers(&self) -> NumberList {
        NumberList::of(self.nodes.iter().map(|node| node.number))
    }
}

fn nodes(folder: &Path, online: &NumberList, huge: Bytes) -> Result<Vec<HostNode>, Reason> {
    let Ok(numbers) = list(&folder.join("online")) else { return Ok(Vec::new()) };
    numbers
        .numbers()
        .iter()
        .map(|number| node(&folder.join(format!("node{number}")), *number, online, huge))
        .collect()
}

fn node(folder: &Path, number: u32, online: &NumberList, huge: Bytes) -> Result<HostNode, Reason> {
    let all = list(&folder.join("cpulist"))?;
    let cpus = NumberList::of(all.numbers().iter().copied().filter(|cpu| online.numbers().contains(cpu)));
    let meminfo = text(&folder.join("meminfo"))?;
    let field = |name: &str| kib(&meminfo, name).unwrap_or(0).saturating_mul(1024);
    let memory = field("MemTotal");
    // What the kernel itself counts as available, without the part of the caches that it keeps.
    let droppable =
        field("Active(file)").saturating_add(field("Inactive(file)")).saturating_add(field("SReclaimable"));
    let available = field("MemFree").saturating_add(droppable / 2).min(memory);
    let pool = folder.join(format!("hugepages/hugepages-{}kB/free_hugepages", huge.get() / 1024));
    let huge_free = text(&pool).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    Ok(HostNode {
        number,
        cpus,
        memory: Bytes::from_bytes(memory),
        available: Bytes::from_bytes(available),
        huge_free,
    })
}

/// What follows `name:` in a `meminfo`, also in those of nodes, whose lines begin with `Node N`.
fn kib(meminfo: &str, name: &str) -> Option<u64> {
    meminfo.lines().find_map(|line| {
        let (before, after) = line.split_once(':')?;
        let is_it = before.split_whitespace().last() == Some(name);
        is_it.then(|| after.split_whitespace().next()?.parse().ok()).flatten()
    })
}

/// A list of numbers in a file of the kernel's.
pub(super) fn list(path: &Path) -> Result<NumberList, Reason> {
    text(path)?.parse().map_err(|error| format!("{}: {error}", path.display()).into())
}

/// A file of the kernel's, bounded.
pub(super) fn text(path: &Path) -> Result<String, Reason> {
    let mut text = String::new();
    fs::File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text))
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(text)
}

/// What this process may do: everything with `CAP_SYS_NICE`, else what its limits say.
fn rights(root: &Path) -> Rights {
    let status = text(&root.join("proc/self/status")).unwrap_or_default();
    let throttle = text(&root.join("proc/sys/kernel/sched_rt_runtime_us")).unwrap_or_default();
    let limit = |resource| getrlimit(resource).map_or(0, |(soft, _hard)| soft);
    rights_of(&status, throttle.trim() == "0", limit(Resource::RLIMIT_RTPRIO), limit(Resource::RLIMIT_NICE))
}

fn rights_of(status: &str, no_realtime: bool, rtprio: u64, nice: u64) -> Rights {
    let capabilities = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0);
    let all = capabilities >> CAP_SYS_NICE & 1 == 1;
    let highest = u64::from(HIGHEST_PRIORITY);
    let realtime = if all { highest } else { rtprio.min(highest) };
    // The limit on nice is written as 20 minus the lowest value.
    let nice = if all { 40 } else { nice.min(40) };
    Rights {
        realtime: if no_realtime { 0 } else { u8::try_from(realtime).unwrap_or(HIGHEST_PRIORITY) },
        nice: i8::try_from(nice).map_or(-20, |nice| 20 - nice).min(19),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A made-up host: 16 CPUs of which 15 does not run, 4 nodes of 1 GiB, 8 huge pages on node 1.
    pub fn made_up(root: &Path) {
        let put = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("sys/devices/system/cpu/online", "0-14\n");
        put("sys/devices/system/cpu/present", "0-15\n");
        put("sys/devices/system/node/online", "0-3\n");
        put(
            "proc/meminfo",
            "MemTotal: 4194304 kB\nMemFree: 1 kB\nMemAvailable: 3145728 kB\nHugePages_Free: 8\nHugepagesize: 2048 kB\n",
        );
        for node in 0..4 {
            let at = |file: &str| format!("sys/devices/system/node/node{node}/{file}");
            put(&at("cpulist"), &format!("{}-{}\n", node * 4, node * 4 + 3));
            put(
                &at("meminfo"),
                &format!(
                    "Node {node} MemTotal: 1048576 kB\nNode {node} MemFree: 524288 kB\n\
                     Node {node} Inactive(file): 262144 kB\n"
                ),
            );
            let free = if node == 1 { "8\n" } else { "0\n" };
            put(&at("hugepages/hugepages-2048kB/free_hugepages"), free);
        }
    }

    /// The made-up host, with all rights.
    ///
    /// # Panics
    /// Where no files can be made.
    pub fn big_host() -> HostTopology {
        let root = tempfile::tempdir().unwrap();
        made_up(root.path());
        HostTopology::read(root.path(), Rights { realtime: 99, nice: -20 }).unwrap()
    }

    #[test]
    fn a_made_up_host_is_read() {
        let host = big_host();
        assert_eq!(host.online.to_string(), "0-14");
        assert_eq!(host.present.to_string(), "0-15");
        assert_eq!(host.node_numbers().to_string(), "0-3");
        let last = host.node(3).unwrap();
        assert_eq!(last.cpus.to_string(), "12-14", "CPU 15 does not run");
        assert_eq!(last.memory.get(), 1 << 30);
        assert_eq!(last.available.get(), (512 + 128) << 20);
        assert_eq!((host.node(1).unwrap().huge_free, last.huge_free), (8, 0));
        assert_eq!(host.huge, HugePages { size: Bytes::from_bytes(2 << 20), free: 8 });
        assert_eq!(host.node(4), None);
    }

    #[test]
    fn a_kernel_without_nodes_has_one() {
        let root = tempfile::tempdir().unwrap();
        made_up(root.path());
        fs::remove_dir_all(root.path().join("sys/devices/system/node")).unwrap();
        let host = HostTopology::read(root.path(), Rights { realtime: 0, nice: 0 }).unwrap();
        assert_eq!(host.node(0).unwrap().cpus, host.online);
    }

    #[test]
    fn what_is_missing_is_named() {
        let root = tempfile::tempdir().unwrap();
        let error = HostTopology::read(root.path(), Rights { realtime: 0, nice: 0 }).unwrap_err();
        assert!(error.to_string().contains("cpu/online"), "{error}");
    }

    #[test]
    fn rights_come_from_the_capability_or_the_limits() {
        let with = "Name:\tx\nCapEff:\t0000000000800000\n";
        assert_eq!(rights_of(with, false, 0, 0), Rights { realtime: 99, nice: -20 });
        assert_eq!(rights_of(with, true, 0, 0).realtime, 0);
        assert_eq!(rights_of("CapEff:\t0\n", false, 40, 25), Rights { realtime: 40, nice: -5 });
        assert_eq!(rights_of("", false, 0, 0), Rights { realtime: 0, nice: 19 });
    }

    #[test]
    fn this_host_is_read() {
        let host = HostTopology::of_this_host().unwrap();
        assert!(!host.online.numbers().is_empty() && !host.nodes.is_empty());
        assert!(host.available <= host.memory && host.memory.get() > 0);
        assert!(host.online.numbers().iter().all(|cpu| host.present.numbers().contains(cpu)));
    }
}
