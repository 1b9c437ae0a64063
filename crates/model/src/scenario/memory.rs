//! Two-level paging, as written in a scenario: guests on memory nodes, whose pages the host gives out at first touch.

use serde::{Deserialize, Serialize};

use super::{Impossible, bounded, bounded_f64};
use units::Nanos;

/// The host's memory and the guests on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MemorySpec {
    /// Memory nodes of the host.
    pub nodes: u32,
    /// Pages of each.
    pub pages_per_node: u64,
    /// VMs: one over all nodes, or one per node.
    pub vms: VmsSpec,
    /// What the guests run.
    pub workers: WorkersSpec,
    /// Workers of all VMs together; node by node the same number.
    pub workers_in_all: u32,
    /// Pages that each worker touches in a run.
    pub pages_per_worker: u64,
    /// Share of the touched pages that a worker shares with others (threads only).
    #[serde(default)]
    pub shared_share: f64,
    /// Runs after each other; the first is the cold one.
    pub runs: u32,
    /// How often a run touches each of its pages.
    pub touches_per_page: u64,
    /// Of the touches, how many go to memory and not to a cache.
    pub miss_share: f64,
    /// Share of the guest's free pages that are mixed anew between two runs (0: the guest hands out the pages in the order
    /// in which they were freed; 1: at random).
    pub mixing: f64,
    /// Share of the pages that the host has given out already whose translation it has dropped by the next run (to see
    /// whether they are used, for example): their next fault reaches it again. Only then it learns who uses them.
    #[serde(default)]
    pub refault_share: f64,
    /// Whether the host moves pages that are used from another node, when it sees a fault of theirs.
    #[serde(default)]
    pub migration: bool,
    /// Cost of a fault that the guest handles alone.
    pub guest_fault_ns: Nanos,
    /// Cost of one that reaches the host, on top.
    pub host_fault_ns: Nanos,
    /// A miss in the cache, on the own node.
    pub local_ns: Nanos,
    /// A miss in the cache, on another node.
    pub remote_ns: Nanos,
    /// Computation of a worker besides memory, per touch.
    pub compute_ns: Nanos,
}

/// How VMs lie on nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum VmsSpec {
    /// One over all nodes, which does not know of them.
    OneOverAll,
    /// One per node.
    OnePerNode,
}

/// What shares an address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WorkersSpec {
    /// Nothing: processes (MPI, UPC) whose memory is freed at the end of each run.
    Processes,
    /// All: threads (OpenMP); the runtime keeps freed memory and hands it out again without any fault.
    Threads,
}

/// Most pages of a host: five bytes of memory each while it is simulated.
const MOST_PAGES: u64 = 1 << 30;

impl MemorySpec {
    pub(super) fn check(&self) -> Result<(), Impossible> {
        let path = |key: &str| format!("memory.{key}");
        bounded(path("nodes"), self.nodes.into(), 1, 64)?;
        bounded(path("pages_per_node"), self.pages_per_node, 1, 1 << 26)?;
        bounded(path("workers_in_all"), self.workers_in_all.into(), 1, 4096)?;
        if !self.workers_in_all.is_multiple_of(self.nodes) {
            let problem =
                format!("{} workers are not the same number on {} nodes", self.workers_in_all, self.nodes);
            return Err(Impossible::new(path("workers_in_all"), problem));
        }
        bounded(path("pages_per_worker"), self.pages_per_worker, 1, 1 << 26)?;
        let wanted = self.pages_per_worker * u64::from(self.workers_in_all);
        let there = self.pages_per_node * u64::from(self.nodes);
        if there > MOST_PAGES {
            let problem = format!("{there} pages on all nodes; {MOST_PAGES} can be simulated");
            return Err(Impossible::new(path("pages_per_node"), problem));
        }
        if wanted > there {
            let problem = format!("{wanted} pages are wanted in all, the host has {there}");
            return Err(Impossible::new(path("pages_per_worker"), problem));
        }
        bounded_f64(path("shared_share"), self.shared_share, 0.0, 1.0)?;
        if self.shared_share > 0.0 && self.workers == WorkersSpec::Processes {
            return Err(Impossible::new(
                path("shared_share"),
                "processes share no pages; wanted 0, or threads",
            ));
        }
        bounded(path("runs"), self.runs.into(), 1, 10_000)?;
        bounded(path("touches_per_page"), self.touches_per_page, 1, 1_000_000_000)?;
        bounded_f64(path("miss_share"), self.miss_share, 0.0, 1.0)?;
        bounded_f64(path("mixing"), self.mixing, 0.0, 1.0)?;
        bounded_f64(path("refault_share"), self.refault_share, 0.0, 1.0)?;
        for (key, value) in [
            ("guest_fault_ns", self.guest_fault_ns),
            ("host_fault_ns", self.host_fault_ns),
            ("local_ns", self.local_ns),
            ("remote_ns", self.remote_ns),
            ("compute_ns", self.compute_ns),
        ] {
            bounded(path(key), value.get(), 0, 1_000_000_000)?;
        }
        Ok(())
    }
}
