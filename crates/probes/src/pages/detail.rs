//! What the pages probe brings home: raw enough that every figure can be computed again.

use serde::{Deserialize, Serialize};
use units::histogram::Histogram;
use units::{Bytes, Nanos};

/// One pass over fresh pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
