//! What a user may set of the cpu probe, with defaults and bounds.

use serde::{Deserialize, Serialize};

use units::bounds::{OutOfBounds, within};

/// Parameters of the threads-versus-time probe. The work per thread is the same on every platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct CpuParams {
    /// Rounds of the loop per thread, 1e5 … 1e12.
    pub iterations: u64,
    /// Largest number of threads; unset means 2 × CPUs. 1 … 1024.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_threads: Option<u32>,
    /// How often each thread count is timed, 1 … 1000.
    pub samples: u32,
}

impl Default for CpuParams {
    fn default() -> Self {
        Self { iterations: 10_000_000, max_threads: None, samples: 5 }
    }
}

impl CpuParams {
    pub(crate) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.cpu.iterations", self.iterations, 100_000, 1_000_000_000_000)?;
        within("probe.cpu.max_threads", self.max_threads.unwrap_or(1).into(), 1, 1024)?;
        within("probe.cpu.samples", self.samples.into(), 1, 1000)
    }
}
