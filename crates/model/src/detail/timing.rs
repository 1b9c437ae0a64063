//! Outcomes of the probes of predictability: fixed time quantum, timer wake-up, frames.

use serde::{Deserialize, Serialize};

use super::basic::Stretch;
use super::witnessed::Witnessed;
use crate::histogram::Histogram;
use crate::units::Nanos;

/// How many later due times have come when something is done this late after its own: at the next one, it is one.
///
/// The one rule by which wake-ups and frames count what they missed, on both ends.
pub const fn due_times_passed(late: Nanos, period: Nanos) -> u64 {
    match late.get().checked_div(period.get()) {
        Some(passed) => passed,
        None => 0,
    }
}

/// Outcome of the fixed-time-quantum probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FtqDetail {
    /// Length of a quantum.
    pub quantum_ns: Nanos,
    /// The CPU the thread was pinned to; none when pinning was refused.
    pub cpu: Option<u32>,
    /// Rounds of work finished in each quantum, in order, without holes: a quantum that was lost whole has 0. Quantum k
    /// begins k lengths after the first, however long anything took: there is no drift.
    pub work: Vec<u32>,
}

/// Wake-ups of one thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    /// The latest wake-ups, latest first, at most [`super::WORST_KEPT`]: due time since the start of the probe, and how
    /// late. Of a stall that several activations missed this is the first one, which waited longest.
    pub worst: Vec<Stretch>,
    /// What the scheduler counted around each of those, as far as it tells; none in journals of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub witnessed: Vec<Witnessed>,
}

/// Outcome of the wake-up probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WakeupDetail {
    /// Time between two activations.
    pub period_ns: Nanos,
    /// `SCHED_FIFO` priority that was granted; none when it was refused or not asked for.
    pub priority: Option<u32>,
    /// One entry per thread.
    pub threads: Vec<WakeupThread>,
}

/// Outcome of the frame probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FramesDetail {
    /// Time between two frames.
    pub period_ns: Nanos,
    /// Rounds of arithmetic per frame.
    pub iterations: u64,
    /// For each frame that was made, in order: from its due time until it was done.
    pub frame_ns: Vec<Nanos>,
    /// For each frame that was made, in order: how long its work took.
    pub work_ns: Vec<Nanos>,
    /// Due times that passed without a frame of their own, by [`due_times_passed`].
    pub missed: u64,
}

impl FramesDetail {
    /// Number of each made frame's due time, counted from 0 through those that were missed.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.frame_ns.iter().scan(0_u64, |next, frame| {
            let number = *next;
            *next = number.saturating_add(1).saturating_add(due_times_passed(*frame, self.period_ns));
            Some(number)
        })
    }
}
