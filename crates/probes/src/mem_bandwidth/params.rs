//! What a user may set of the mem-bandwidth probe, with defaults and bounds.

use serde::{Deserialize, Serialize};
use units::{Kibibytes, Mebibytes, Millis};

use units::bounds::{HOUR_MS, OutOfBounds, within};

/// Parameters of the memory-bandwidth probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct MemBandwidthParams {
    /// Smallest array, 1 KiB … 1 GiB.
    pub min_size_kib: Kibibytes,
    /// Largest array; unset means twice the last-level cache, at most a quarter of the memory. 1 MiB … 1 TiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_size_mib: Option<Mebibytes>,
    /// How long each size and operation is timed at least, 1 ms … 1 h.
    pub duration_ms: Millis,
    /// Threads that do the same at once, 1 … 1024.
    pub threads: u32,
    /// Array sizes per doubling, 1 … 8.
    pub steps_per_octave: u32,
}

impl Default for MemBandwidthParams {
    fn default() -> Self {
        Self {
            min_size_kib: Kibibytes::from_kib(4),
            max_size_mib: None,
            duration_ms: Millis::from_millis(10),
            threads: 1,
            steps_per_octave: 1,
        }
    }
}

impl MemBandwidthParams {
    pub(crate) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.mem-bandwidth.min_size_kib", self.min_size_kib.get(), 1, 1 << 20)?;
        within("probe.mem-bandwidth.max_size_mib", self.max_size_mib.map_or(1, Mebibytes::get), 1, 1 << 20)?;
        within("probe.mem-bandwidth.duration_ms", self.duration_ms.get(), 1, HOUR_MS)?;
        within("probe.mem-bandwidth.threads", self.threads.into(), 1, 1024)?;
        within("probe.mem-bandwidth.steps_per_octave", self.steps_per_octave.into(), 1, 8)
    }
}
