//! What the gap probe brings home: raw enough that every figure can be computed again.

use serde::{Deserialize, Serialize};
use units::histogram::Histogram;
use units::{Hertz, Nanos};

use crate::witnessed::Stretch;

/// Outcome of the gap probe. Histograms are in ticks of the cycle counter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// The longest gaps, longest first, at most [`crate::witnessed::WORST_KEPT`].
    pub worst: Vec<Stretch>,
}
