//! What a user may set of the gap probe, with defaults and bounds.

use serde::{Deserialize, Serialize};
use units::Millis;

use units::bounds::{HOUR_MS, OutOfBounds, within};

/// Parameters of the gap probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct GapParams {
    /// How long to read, 1 ms … 1 h. Ignored when `reads` is set.
    pub duration_ms: Millis,
    /// Read the counter this often instead (the thesis used 1e9+1), 1000 … 1e13.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<u64>,
    /// Into how many equal spans of time the distribution is split, so that intervals can respect serial
    /// dependence, 8 … 256.
    pub batches: u32,
}

impl Default for GapParams {
    fn default() -> Self {
        Self { duration_ms: Millis::from_millis(1000), reads: None, batches: 32 }
    }
}

impl GapParams {
    pub(crate) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.gap.duration_ms", self.duration_ms.get(), 1, HOUR_MS)?;
        within("probe.gap.reads", self.reads.unwrap_or(1000), 1000, 10_000_000_000_000)?;
        within("probe.gap.batches", self.batches.into(), 8, 256)
    }
}
