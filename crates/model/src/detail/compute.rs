//! Outcomes of the probes of computing: traps, locks, LU, compile job, first touch of pages.

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::units::{Bytes, Hertz, Nanos};

/// Outcome of the trap probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExitDetail {
    /// The instruction that traps under a hypervisor: `cpuid`.
    pub instruction: String,
    /// Rate of the cycle counter.
    pub counter_hz: Hertz,
    /// What the hypervisor calls itself, `KVMKVMKVM` for example; none when the CPU says that there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// Ticks from one counter read to the next with the instruction between them.
    pub trap_ticks: Histogram,
    /// The same with nothing between them.
    pub empty_ticks: Histogram,
}

/// A kind of spinlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LockKind {
    /// Plain test-and-set: whoever comes at the right moment.
    TestAndSet,
    /// FIFO ticket: first come, first served.
    Ticket,
}

/// Waits for one kind of lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LockPoint {
    /// Which kind.
    pub kind: LockKind,
    /// How long the threads fought, from the first one's begin to the last one's end.
    pub elapsed_ns: Nanos,
    /// The time from each thread's begin to its end, added up over all threads: what the waiting is a share of.
    pub thread_time_ns: Nanos,
    /// Waits whose length in ticks has its highest bit at this place: entry b counts `[2^b, 2^(b+1))`, 0 and 1 in the
    /// first. At most [`MOST_WAIT_BINS`] entries.
    pub waits: Vec<u64>,
    /// Ticks waited in each of those bins.
    pub wait_ticks: Vec<u64>,
    /// Turns of each thread.
    pub turns: Vec<u64>,
    /// Longest wait, ticks.
    pub longest_ticks: u64,
}

/// Outcome of the lock probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LockDetail {
    /// Rate of the cycle counter.
    pub counter_hz: Hertz,
    /// Threads that fought.
    pub threads: u32,
    /// CPUs the instance says it has.
    pub cpus: u32,
    /// One entry per kind of lock.
    pub points: Vec<LockPoint>,
}

/// Outcome of the LU probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LinpackDetail {
    /// Order of the system.
    pub n: u32,
    /// Threads.
    pub threads: u32,
    /// Time of factorisation and solution, one per sample. 2/3 n³ + 3/2 n² operations each.
    pub elapsed_ns: Vec<Nanos>,
    /// Largest scaled residual of all samples: ‖Ax − b‖∞ / (ε (‖A‖∞ ‖x‖∞ + ‖b‖∞) n). Below 16 the solution counts as
    /// right (the usual bound of HPL).
    pub residual: f64,
}

impl LinpackDetail {
    /// The usual bound of the scaled residual (HPL).
    pub const RESIDUAL_BOUND: f64 = 16.0;

    /// Whether a solution with this scaled residual counts as right.
    pub fn is_right(residual: f64) -> bool {
        (0.0..Self::RESIDUAL_BOUND).contains(&residual)
    }

    /// Operations of factorisation and solution, as HPL counts them.
    pub fn operations(n: u32) -> f64 {
        let n = f64::from(n);
        2.0 / 3.0 * n.powi(3) + 1.5 * n * n
    }
}

/// Outcome of the compile job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BuildDetail {
    /// Source files that were compiled.
    pub files: u32,
    /// Functions in each of them.
    pub functions: u32,
    /// Bytes of source.
    pub source_bytes: Bytes,
    /// Bytes of all object files.
    pub object_bytes: Bytes,
    /// Bytes of the image they were linked to.
    pub image_bytes: Bytes,
    /// CRC-32 of that image: the same wherever the same seed is compiled.
    pub image_crc32: u32,
    /// Compilers at once.
    pub jobs: u32,
    /// From the first start of a compiler until everything is linked.
    pub wall_ns: Nanos,
    /// Of which the linking, which runs alone.
    pub link_ns: Nanos,
    /// CPU time in user mode of all compilers and the linker.
    pub user_ns: Nanos,
    /// CPU time in the kernel of all compilers and the linker.
    pub system_ns: Nanos,
    /// For each file, in order of its end: from the start of its compiler until the end.
    pub file_ns: Vec<Nanos>,
}

/// Most bins of lock waits: one per bit of the counter.
pub const MOST_WAIT_BINS: usize = 64;

/// One pass over fresh pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PagesPass {
    /// When it began, counted from the start of the probe.
    pub start_ns: Nanos,
    /// How long it took.
    pub elapsed_ns: Nanos,
    /// Time of each first touch, nanoseconds.
    pub touch_ns: Histogram,
    /// Minor page faults the kernel of the instance counted.
    pub minor_faults: u64,
    /// Pages per memory node as `(node, pages)`; empty where the kernel does not say.
    pub nodes: Vec<(u32, u64)>,
}

/// Outcome of the page probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PagesDetail {
    /// Size of a page.
    pub page_bytes: Bytes,
    /// Memory touched per pass.
    pub size_bytes: Bytes,
    /// Whether the instance had just been started: only then the first pass finds it cold.
    pub fresh: bool,
    /// Node of the CPU the probe ran on; none when not known.
    pub own_node: Option<u32>,
    /// The first pass, then the warm ones.
    pub passes: Vec<PagesPass>,
}
