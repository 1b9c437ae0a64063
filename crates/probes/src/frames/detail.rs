//! What the frames probe brings home: raw enough that every figure can be computed again.

use serde::{Deserialize, Serialize};
use units::Nanos;

use crate::detail::due_times_passed;

/// Outcome of the frame probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
