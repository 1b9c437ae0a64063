//! What a user may set of the frames probe, with defaults and bounds.

use serde::{Deserialize, Serialize};

use units::bounds::{OutOfBounds, within};

/// Parameters of the frame probe. The work per frame is the same on every platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct FramesParams {
    /// Frames per second, 1 … 1000.
    pub rate_hz: u32,
    /// Rounds of arithmetic per frame, 1000 … 1e9.
    pub iterations: u64,
    /// Number of due times, frames made and missed together, 10 … 1e6. Its 95 % quantile wants 200, 99 % wants 1000.
    pub frames: u32,
}

impl Default for FramesParams {
    fn default() -> Self {
        Self { rate_hz: 60, iterations: 1_000_000, frames: 200 }
    }
}

impl FramesParams {
    pub(crate) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.frames.rate_hz", self.rate_hz.into(), 1, 1000)?;
        within("probe.frames.iterations", self.iterations, 1000, 1_000_000_000)?;
        within("probe.frames.frames", self.frames.into(), 10, 1_000_000)
    }
}
