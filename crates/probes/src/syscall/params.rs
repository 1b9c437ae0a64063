//! What a user may set of the syscall probe, with defaults and bounds.

use serde::{Deserialize, Serialize};
use units::Millis;

use units::bounds::{HOUR_MS, OutOfBounds, within};

/// Parameters of the system-call probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SyscallParams {
    /// How long per thread count, 10 ms … 1 h.
    pub duration_ms: Millis,
    /// Largest number of threads; unset means the CPUs granted. 1 … 1024.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_threads: Option<u32>,
}

impl Default for SyscallParams {
    fn default() -> Self {
        Self { duration_ms: Millis::from_millis(150), max_threads: None }
    }
}

impl SyscallParams {
    pub(crate) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.syscall.duration_ms", self.duration_ms.get(), 10, HOUR_MS)?;
        within("probe.syscall.max_threads", self.max_threads.unwrap_or(1).into(), 1, 1024)
    }
}
