//! What the wakeup probe brings home: raw enough that every figure can be computed again.

use serde::{Deserialize, Serialize};
use units::Nanos;
use units::histogram::Histogram;

use crate::witnessed::{Stretch, Witnessed};

/// How many later due times have come when something is done this late after its own: at the next one, it is one.
///
/// The one rule by which wake-ups and frames count what they missed, on both ends.
pub const fn due_times_passed(late: Nanos, period: Nanos) -> u64 {
    match late.get().checked_div(period.get()) {
        Some(passed) => passed,
        None => 0,
    }
}

/// Wake-ups of one thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WakeupThread {
    /// The CPU the thread was pinned to; none when pinning was refused.
    pub cpu: Option<u32>,
    /// `CLOCK_MONOTONIC` of the instance at the start of the probe; none in journals of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_ns: Option<Nanos>,
    /// Activations that were due; as many as the duration has periods, whatever happens.
    pub due: u64,
    /// Activations that had passed already when the thread got to run for an earlier one.
    pub missed: u64,
    /// Service time: of each wake-up that happened, from its own due time until the thread ran, nanoseconds.
    pub service_ns: Histogram,
    /// Response time: of each activation that was due, missed ones included, from its due time until the thread ran,
    /// nanoseconds. No omission of what happens during a stall.
    pub response_ns: Histogram,
    /// The latest wake-ups, latest first, at most [`crate::witnessed::WORST_KEPT`]: due time since the start of the probe, and how
    /// late. Of a stall that several activations missed this is the first one, which waited longest.
    pub worst: Vec<Stretch>,
    /// What the scheduler counted around each of those, as far as it tells; none in journals of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub witnessed: Vec<Witnessed>,
}

/// Outcome of the wake-up probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WakeupDetail {
    /// Time between two activations.
    pub period_ns: Nanos,
    /// `SCHED_FIFO` priority that was granted; none when it was refused or not asked for.
    pub priority: Option<u32>,
    /// One entry per thread.
    pub threads: Vec<WakeupThread>,
}
