//! Outcomes of the probes of time, memory and disk that every machine can run alone.

use serde::{Deserialize, Serialize};

use super::Alignment;
use super::witnessed::Witnessed;
use crate::histogram::Histogram;
use crate::params::{ChaseOrder, DiskMode};
use crate::units::{Bytes, Hertz, Millis, Nanos};

/// A stretch of time that was taken away, or in which nothing moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Stretch {
    /// When it began, counted from the start of the probe.
    pub start_ns: Nanos,
    /// How long it lasted.
    pub length_ns: Nanos,
}

/// Outcome of the gap probe. Histograms are in ticks of the cycle counter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GapDetail {
    /// Rate of the cycle counter, measured against the monotonic clock during the probe.
    pub counter_hz: Hertz,
    /// How long the loop ran.
    pub observed_ns: Nanos,
    /// The CPU the thread was pinned to; none when pinning was refused.
    pub cpu: Option<u32>,
    /// One histogram per equal span of time (of equally many reads, where `reads` was set), in order. A gap counts
    /// for the batch in which it began.
    pub batches: Vec<Histogram>,
    /// The longest gaps, longest first, at most [`super::WORST_KEPT`].
    pub worst: Vec<Stretch>,
}

/// Outcome of the fixed-work-quantum probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FwqDetail {
    /// Rounds of the loop per quantum.
    pub iterations: u64,
    /// The CPU the thread was pinned to; none when pinning was refused.
    pub cpu: Option<u32>,
    /// Time of each quantum, in order.
    pub samples_ns: Vec<Nanos>,
}

/// Times at one number of threads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CpuPoint {
    /// Threads running at once.
    pub threads: u32,
    /// From the common start until the last thread is done, one per repetition.
    pub elapsed_ns: Vec<Nanos>,
}

/// Outcome of the threads-versus-time probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CpuDetail {
    /// Rounds of the loop per thread.
    pub iterations: u64,
    /// CPUs the instance says it has.
    pub cpus: u32,
    /// One entry per number of threads, ascending.
    pub points: Vec<CpuPoint>,
}

/// How often something was done by a number of threads, in one batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RatePoint {
    /// Threads running at once.
    pub threads: u32,
    /// For each batch in order: operations done by all threads together.
    pub operations: Vec<u64>,
    /// For each batch in order: how long it lasted.
    pub elapsed_ns: Vec<Nanos>,
}

/// Outcome of the system-call and fork probes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RateDetail {
    /// One entry per number of threads, ascending.
    pub points: Vec<RatePoint>,
    /// Latency of single operations in nanoseconds; empty where timing each would cost more than it shows.
    pub latency_ns: Histogram,
}

/// Latency at one array size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LatencyPoint {
    /// Size of the array.
    pub size_bytes: Bytes,
    /// Median over the laps of the time per dependent load, nanoseconds.
    pub load_ns: f64,
}

/// Outcome of the memory-latency probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MemLatencyDetail {
    /// Distance of neighbouring elements.
    pub stride_bytes: Bytes,
    /// Order of the visit.
    pub order: ChaseOrder,
    /// Last-level cache as the instance sees it; none when it does not say.
    pub last_level_cache_bytes: Option<Bytes>,
    /// Whether the array was backed by huge pages, when known.
    pub huge_pages: Option<bool>,
    /// One entry per array size, ascending.
    pub points: Vec<LatencyPoint>,
}

/// What the memory-bandwidth probe does with its array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MemoryOperation {
    /// Sum all words.
    Read,
    /// Store to all words; write-allocate traffic is not counted.
    Write,
    /// Copy one half to the other; bytes read plus bytes written are counted.
    Copy,
}

/// Throughput at one array size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BandwidthPoint {
    /// What was done.
    pub operation: MemoryOperation,
    /// Size of each thread's array.
    pub size_bytes: Bytes,
    /// Median over the laps of all threads' bytes per second.
    pub bytes_per_s: f64,
}

/// Outcome of the memory-bandwidth probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MemBandwidthDetail {
    /// Threads running at once.
    pub threads: u32,
    /// Last-level cache as the instance sees it; none when it does not say.
    pub last_level_cache_bytes: Option<Bytes>,
    /// Whether the arrays were backed by huge pages, when known.
    pub huge_pages: Option<bool>,
    /// One entry per operation and array size, by operation, then ascending.
    pub points: Vec<BandwidthPoint>,
}

/// Direction of a disk phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DiskDirection {
    /// Sequential write.
    Write,
    /// Sequential read.
    Read,
    /// Reads of single blocks anywhere, one after the other (queue depth 1).
    RandomRead,
}

/// Bytes moved per window of time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DiskWindows {
    /// Length of a window: 50 ms, 200 ms, 1 s.
    pub window_ms: Millis,
    /// Bytes finished in each window, in order; the last one is cut off by the end of the phase and left out.
    pub bytes: Vec<u64>,
}

/// One direction, mode and block size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DiskPhase {
    /// Write or read.
    pub direction: DiskDirection,
    /// How.
    pub mode: DiskMode,
    /// Size of each operation.
    pub block_bytes: Bytes,
    /// Why this phase could not run, for example a file system without `O_DIRECT`; all below is empty then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsupported: Option<String>,
    /// Bytes moved.
    pub bytes: Bytes,
    /// How long it took, the final fsync included.
    pub elapsed_ns: Nanos,
    /// Latency of single operations in nanoseconds.
    pub latency_ns: Histogram,
    /// Throughput over time.
    pub windows: Vec<DiskWindows>,
    /// The longest operations, longest first, at most [`super::WORST_KEPT`]: each a stall as long as it lasts.
    pub stalls: Vec<Stretch>,
    /// What the scheduler counted around each of those, as far as it tells; none in journals of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub witnessed: Vec<Witnessed>,
}

/// Outcome of the disk probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DiskDetail {
    /// What was written to, for example `file on ext4`.
    pub target: String,
    /// One entry per direction, mode and block size.
    pub phases: Vec<DiskPhase>,
    /// How what was written to lies on the device; none in journals of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alignment: Option<Alignment>,
}
