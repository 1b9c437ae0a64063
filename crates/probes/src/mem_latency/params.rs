//! What a user may set of the mem-latency probe, with defaults and bounds.

use serde::{Deserialize, Serialize};
use units::{Kibibytes, Mebibytes, Millis};

use units::bounds::{HOUR_MS, OutOfBounds, within};

/// In which order a pointer chase visits its array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ChaseOrder {
    /// One random cycle through all lines: no prefetcher can help.
    Random,
    /// From the end to the start with a fixed stride, as lmbench and the thesis do.
    Backward,
}

/// Parameters of the memory-latency probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct MemLatencyParams {
    /// Smallest array, 1 KiB … 1 GiB.
    pub min_size_kib: Kibibytes,
    /// Largest array; unset means twice the last-level cache, at most a quarter of the memory. 1 MiB … 1 TiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_size_mib: Option<Mebibytes>,
    /// Distance of neighbouring elements, 8 … 4096 bytes, a power of two.
    pub stride_bytes: u32,
    /// Order of the visit.
    pub order: ChaseOrder,
    /// How long each size is chased at least, 1 ms … 1 h.
    pub duration_ms: Millis,
    /// Array sizes per doubling, 1 … 8.
    pub steps_per_octave: u32,
}

impl Default for MemLatencyParams {
    fn default() -> Self {
        Self {
            min_size_kib: Kibibytes::from_kib(4),
            max_size_mib: None,
            stride_bytes: 64,
            order: ChaseOrder::Random,
            duration_ms: Millis::from_millis(10),
            steps_per_octave: 1,
        }
    }
}

impl MemLatencyParams {
    pub(crate) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.mem-latency.min_size_kib", self.min_size_kib.get(), 1, 1 << 20)?;
        within("probe.mem-latency.max_size_mib", self.max_size_mib.map_or(1, Mebibytes::get), 1, 1 << 20)?;
        within("probe.mem-latency.stride_bytes", self.stride_bytes.into(), 8, 4096)?;
        within(
            "probe.mem-latency.stride_bytes (a power of two)",
            self.stride_bytes.into(),
            self.stride_bytes.next_power_of_two().into(),
            self.stride_bytes.next_power_of_two().into(),
        )?;
        within("probe.mem-latency.duration_ms", self.duration_ms.get(), 1, HOUR_MS)?;
        within("probe.mem-latency.steps_per_octave", self.steps_per_octave.into(), 1, 8)
    }
}
