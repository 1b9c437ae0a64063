//! What the mem-latency probe brings home: raw enough that every figure can be computed again.

use serde::{Deserialize, Serialize};
use units::Bytes;

use crate::params::ChaseOrder;

/// Latency at one array size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyPoint {
    /// Size of the array.
    pub size_bytes: Bytes,
    /// Median over the laps of the time per dependent load, nanoseconds.
    pub load_ns: f64,
}

/// Outcome of the memory-latency probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
