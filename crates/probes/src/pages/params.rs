//! What a user may set of the pages probe, with defaults and bounds.

use serde::{Deserialize, Serialize};
use units::Mebibytes;

use units::bounds::{OutOfBounds, within};

/// Parameters of the page probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct PagesParams {
    /// Memory touched per pass, 1 MiB … 1 TiB.
    pub size_mib: Mebibytes,
    /// Passes after the first one, 1 … 100: they find a warm guest.
    pub warm_passes: u32,
}

impl Default for PagesParams {
    fn default() -> Self {
        Self { size_mib: Mebibytes::from_mib(64), warm_passes: 3 }
    }
}

impl PagesParams {
    pub(crate) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.pages.size_mib", self.size_mib.get(), 1, 1 << 20)?;
        within("probe.pages.warm_passes", self.warm_passes.into(), 1, 100)
    }
}
