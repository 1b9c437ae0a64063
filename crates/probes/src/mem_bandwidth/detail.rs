//! What the mem-bandwidth probe brings home: raw enough that every figure can be computed again.

use serde::{Deserialize, Serialize};
use units::Bytes;

/// What the memory-bandwidth probe does with its array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
