//! What a user may set of the exit probe, with defaults and bounds.

use serde::{Deserialize, Serialize};
use units::Millis;

use units::bounds::{HOUR_MS, OutOfBounds, within};

/// Parameters of the trap probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ExitParams {
    /// How long to trap, 1 ms … 1 h.
    pub duration_ms: Millis,
}

impl Default for ExitParams {
    fn default() -> Self {
        Self { duration_ms: Millis::from_millis(100) }
    }
}

impl ExitParams {
    pub(crate) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.exit.duration_ms", self.duration_ms.get(), 1, HOUR_MS)
    }
}
