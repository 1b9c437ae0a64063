//! Parameters of the probes of predictability: fixed time quantum, timer wake-up, frames.

use serde::{Deserialize, Serialize};

use super::{HOUR_MS, OutOfBounds, within};
use crate::units::{Micros, Millis};

/// Parameters of the fixed-time-quantum probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct FtqParams {
    /// Length of a quantum, 10 µs … 100 ms. Noise up to half its frequency can be named.
    pub quantum_us: Micros,
    /// How long to measure, 100 ms … 1 h; the spectrum resolves one over this time.
    pub duration_ms: Millis,
}

impl Default for FtqParams {
    fn default() -> Self {
        Self { quantum_us: Micros::from_micros(100), duration_ms: Millis::from_millis(2000) }
    }
}

impl FtqParams {
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.ftq.quantum_us", self.quantum_us.get(), 10, 100_000)?;
        within("probe.ftq.duration_ms", self.duration_ms.get(), 100, HOUR_MS)?;
        // Bounded by what one reply may carry.
        let quanta = self.duration_ms.get().saturating_mul(1000) / self.quantum_us.get().max(1);
        within("probe.ftq.duration_ms / quantum_us (number of quanta)", quanta, 64, 1_000_000)
    }
}

/// Parameters of the wake-up probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct WakeupParams {
    /// Time between two activations, 50 µs … 1 s.
    pub period_us: Micros,
    /// How long to measure, 10 ms … 1 h.
    pub duration_ms: Millis,
    /// `SCHED_FIFO` priority, 1 … 99; where it is refused, the probe says so and runs without. 0 asks for none.
    pub priority: u32,
    /// Threads, each on a CPU of its own, 1 … 1024.
    pub threads: u32,
}

impl Default for WakeupParams {
    fn default() -> Self {
        Self {
            period_us: Micros::from_micros(1000),
            // Twice what its 99 % quantile wants, so that missed activations do not deny that of the wake-ups.
            duration_ms: Millis::from_millis(2000),
            priority: 80,
            threads: 1,
        }
    }
}

impl WakeupParams {
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.wakeup.period_us", self.period_us.get(), 50, 1_000_000)?;
        within("probe.wakeup.duration_ms", self.duration_ms.get(), 10, HOUR_MS)?;
        within("probe.wakeup.priority", self.priority.into(), 0, 99)?;
        within("probe.wakeup.threads", self.threads.into(), 1, 1024)
    }
}

/// Parameters of the frame probe. The work per frame is the same on every platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.frames.rate_hz", self.rate_hz.into(), 1, 1000)?;
        within("probe.frames.iterations", self.iterations, 1000, 1_000_000_000)?;
        within("probe.frames.frames", self.frames.into(), 10, 1_000_000)
    }
}
