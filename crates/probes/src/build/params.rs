//! What a user may set of the build probe, with defaults and bounds.

use serde::{Deserialize, Serialize};

use units::bounds::{OutOfBounds, within};

/// Parameters of the compile job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct BuildParams {
    /// Source files to compile, 1 … 10 000.
    pub files: u32,
    /// Functions in each file, 1 … 1000.
    pub functions: u32,
    /// Compilers at once; unset means one per CPU granted. 1 … 1024.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u32>,
}

impl Default for BuildParams {
    fn default() -> Self {
        Self { files: 12, functions: 100, jobs: None }
    }
}

impl BuildParams {
    pub(crate) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.build.files", self.files.into(), 1, 10_000)?;
        within("probe.build.functions", self.functions.into(), 1, 1000)?;
        within("probe.build.jobs", self.jobs.unwrap_or(1).into(), 1, 1024)
    }
}
