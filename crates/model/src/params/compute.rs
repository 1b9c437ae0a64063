//! Parameters of the probes of computing: traps, locks, LU, compile job, first touch of pages.

use serde::{Deserialize, Serialize};

use super::{HOUR_MS, OutOfBounds, within};
use crate::units::{Mebibytes, Millis};

/// Parameters of the trap probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.exit.duration_ms", self.duration_ms.get(), 1, HOUR_MS)
    }
}

/// Parameters of the lock probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct LockParams {
    /// How long per kind of lock, 10 ms … 1 h.
    pub duration_ms: Millis,
    /// Threads; unset means one per CPU granted. 1 … 1024.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Rounds of arithmetic while the lock is held, 0 … 1e6.
    pub held_iterations: u32,
    /// Rounds of arithmetic between two turns, 0 … 1e6.
    pub free_iterations: u32,
}

impl Default for LockParams {
    fn default() -> Self {
        Self {
            duration_ms: Millis::from_millis(200),
            threads: None,
            held_iterations: 50,
            free_iterations: 200,
        }
    }
}

impl LockParams {
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.lock.duration_ms", self.duration_ms.get(), 10, HOUR_MS)?;
        within("probe.lock.threads", self.threads.unwrap_or(1).into(), 1, 1024)?;
        within("probe.lock.held_iterations", self.held_iterations.into(), 0, 1_000_000)?;
        within("probe.lock.free_iterations", self.free_iterations.into(), 0, 1_000_000)
    }
}

/// Parameters of the LU probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.linpack.n", self.n.into(), 16, 20_000)?;
        within("probe.linpack.samples", self.samples.into(), 1, 1000)?;
        within("probe.linpack.threads", self.threads.into(), 1, 1024)
    }
}

/// Parameters of the compile job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.build.files", self.files.into(), 1, 10_000)?;
        within("probe.build.functions", self.functions.into(), 1, 1000)?;
        within("probe.build.jobs", self.jobs.unwrap_or(1).into(), 1, 1024)
    }
}

/// Parameters of the page probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.pages.size_mib", self.size_mib.get(), 1, 1 << 20)?;
        within("probe.pages.warm_passes", self.warm_passes.into(), 1, 100)
    }
}
