//! What a user may set of the fwq probe, with defaults and bounds.

use serde::{Deserialize, Serialize};

use units::bounds::{OutOfBounds, within};

/// Parameters of the fixed-work-quantum probe. The work is the same on every platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct FwqParams {
    /// Rounds of the empty loop per quantum, 1000 … 1e10.
    pub iterations: u64,
    /// Number of quanta, 100 … 1e6.
    pub samples: u32,
}

impl Default for FwqParams {
    fn default() -> Self {
        Self { iterations: 500_000, samples: 1000 }
    }
}

impl FwqParams {
    pub(crate) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.fwq.iterations", self.iterations, 1000, 10_000_000_000)?;
        within("probe.fwq.samples", self.samples.into(), 100, 1_000_000)
    }
}
