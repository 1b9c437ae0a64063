//! What a user may set of the wakeup probe, with defaults and bounds.

use serde::{Deserialize, Serialize};
use units::{Micros, Millis};

use units::bounds::{HOUR_MS, OutOfBounds, within};

/// Parameters of the wake-up probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    pub(crate) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.wakeup.period_us", self.period_us.get(), 50, 1_000_000)?;
        within("probe.wakeup.duration_ms", self.duration_ms.get(), 10, HOUR_MS)?;
        within("probe.wakeup.priority", self.priority.into(), 0, 99)?;
        within("probe.wakeup.threads", self.threads.into(), 1, 1024)
    }
}
