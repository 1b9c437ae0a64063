//! What a user may set of the mpi probe, with defaults and bounds.

use serde::{Deserialize, Serialize};
use units::Millis;

use units::bounds::{HOUR_MS, OutOfBounds, within};

/// Parameters of the message-passing probe, made by all instances of a layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct MpiParams {
    /// Message sizes, 1 B … 32 MiB each, 1 to 16 of them.
    pub message_bytes: Vec<u32>,
    /// How long per pattern and size, 10 ms … 1 h.
    pub duration_ms: Millis,
    /// Ranks in each instance, 1 … 64.
    pub ranks_per_instance: u32,
}

impl Default for MpiParams {
    fn default() -> Self {
        Self {
            message_bytes: vec![1, 1024, 65_536, 1 << 20],
            duration_ms: Millis::from_millis(100),
            ranks_per_instance: 1,
        }
    }
}

impl MpiParams {
    pub(crate) fn check(&self) -> Result<(), OutOfBounds> {
        within("number of probe.mpi.message_bytes", self.message_bytes.len() as u64, 1, 16)?;
        for size in &self.message_bytes {
            within("probe.mpi.message_bytes", (*size).into(), 1, 32 << 20)?;
        }
        within("probe.mpi.duration_ms", self.duration_ms.get(), 10, HOUR_MS)?;
        within("probe.mpi.ranks_per_instance", self.ranks_per_instance.into(), 1, 64)
    }
}
