//! What the share probe brings home: raw enough that every figure can be computed again.

use serde::{Deserialize, Serialize};
use units::histogram::Histogram;
use units::{Hertz, Nanos};

/// What one instance got in one phase of the share probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SharePhase {
    /// Threads of the first instance in this phase; 0 when it rested.
    pub first_threads: u32,
    /// Threads of each other instance in this phase; 0 when they rested.
    pub other_threads: u32,
    /// How long this instance worked.
    pub elapsed_ns: Nanos,
    /// CPU time its threads took, as its own kernel says.
    pub cpu_time_ns: Nanos,
    /// Rounds of the fixed loop its threads finished.
    pub rounds: u64,
    /// Stretches in which a thread did not run, in ticks, at least 50 µs long.
    pub away_ticks: Histogram,
    /// Stretches between those, in ticks: how long a thread runs at once.
    pub running_ticks: Histogram,
}

/// Outcome of the share probe in one instance. The curve needs those of all instances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShareDetail {
    /// Number of this instance in its layout.
    pub rank: u32,
    /// Instances in all.
    pub ranks: u32,
    /// CPUs this instance says it has.
    pub cpus: u32,
    /// Rate of the cycle counter.
    pub counter_hz: Hertz,
    /// The same phases in every instance, in order.
    pub phases: Vec<SharePhase>,
    /// The outcomes of the other instances, in order; filled in by the host, empty on the wire.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<ShareDetail>,
}
