//! What a user may set of the linpack probe, with defaults and bounds.

use serde::{Deserialize, Serialize};

use units::bounds::{OutOfBounds, within};

/// Parameters of the LU probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct LinpackParams {
    /// Order of the system, 16 … 20 000; the literature uses 1000 … 8000.
    pub n: u32,
    /// How often it is solved, 1 … 1000.
    pub samples: u32,
    /// Threads, 1 … 1024.
    pub threads: u32,
}

impl Default for LinpackParams {
    fn default() -> Self {
        Self { n: 500, samples: 3, threads: 1 }
    }
}

impl LinpackParams {
    pub(crate) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.linpack.n", self.n.into(), 16, 20_000)?;
        within("probe.linpack.samples", self.samples.into(), 1, 1000)?;
        within("probe.linpack.threads", self.threads.into(), 1, 1024)
    }
}
