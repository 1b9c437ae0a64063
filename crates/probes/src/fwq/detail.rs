//! What the fwq probe brings home: raw enough that every figure can be computed again.

use serde::{Deserialize, Serialize};
use units::Nanos;

/// Outcome of the fixed-work-quantum probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FwqDetail {
    /// Rounds of the loop per quantum.
    pub iterations: u64,
    /// The CPU the thread was pinned to; none when pinning was refused.
    pub cpu: Option<u32>,
    /// Time of each quantum, in order.
    pub samples_ns: Vec<Nanos>,
}
