//! Outcomes of the probes of predictability: fixed time quantum, timer wake-up, frames.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::basic::Stretch;
use crate::model::histogram::Histogram;
use crate::model::units::Nanos;

/// Outcome of the fixed-time-quantum probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FtqDetail {
    /// Length of a quantum.
    pub quantum_ns: Nanos,
    /// The CPU the thread was pinned to; none when pinning was refused.
    pub cpu: Option<u32>,
    /// Rounds of work finished in each quantum, in order, without holes: a quantum that was lost whole has 0.
    pub work: Vec<u32>,
}

/// Wake-ups of one thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WakeupThread {
    /// The CPU the thread was pinned to; none when pinning was refused.
    pub cpu: Option<u32>,
    /// Activations that were due.
    pub due: u64,
    /// Activations that had passed already when the thread got to run for an earlier one.
    pub missed: u64,
    /// Service time: of each wake-up that happened, from its own due time until the thread ran, nanoseconds.
    pub service_ns: Histogram,
    /// Response time: of each activation that was due, missed ones included, from its due time until the thread ran,
    /// nanoseconds. No omission of what happens during a stall.
    pub response_ns: Histogram,
    /// The longest responses, longest first, at most [`super::WORST_KEPT`].
    pub worst: Vec<Stretch>,
}

/// Outcome of the wake-up probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WakeupDetail {
    /// Time between two activations.
    pub period_ns: Nanos,
    /// `SCHED_FIFO` priority that was granted; none when it was refused or not asked for.
    pub priority: Option<u32>,
    /// One entry per thread.
    pub threads: Vec<WakeupThread>,
}

/// Outcome of the frame probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FramesDetail {
    /// Time between two frames.
    pub period_ns: Nanos,
    /// Rounds of arithmetic per frame.
    pub iterations: u64,
    /// For each frame that was made, in order: from its due time until it was done.
    pub frame_ns: Vec<Nanos>,
    /// For each frame that was made, in order: how long its work took.
    pub work_ns: Vec<Nanos>,
    /// Due times that passed without a frame of their own.
    pub missed: u64,
}
