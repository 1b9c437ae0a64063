//! What a user may set of the switch probe, with defaults and bounds.

use serde::{Deserialize, Serialize};
use units::Millis;

use units::bounds::{HOUR_MS, OutOfBounds, within};

/// Parameters of the context-switch probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SwitchParams {
    /// How long for each of the eight kinds, 10 ms … 1 h.
    pub duration_ms: Millis,
}

impl Default for SwitchParams {
    fn default() -> Self {
        Self { duration_ms: Millis::from_millis(25) }
    }
}

impl SwitchParams {
    pub(crate) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.switch.duration_ms", self.duration_ms.get(), 10, HOUR_MS)
    }
}
