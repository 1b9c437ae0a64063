//! What a user may set of the lock probe, with defaults and bounds.

use serde::{Deserialize, Serialize};
use units::Millis;

use units::bounds::{HOUR_MS, OutOfBounds, within};

/// Parameters of the lock probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    pub(crate) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.lock.duration_ms", self.duration_ms.get(), 10, HOUR_MS)?;
        within("probe.lock.threads", self.threads.unwrap_or(1).into(), 1, 1024)?;
        within("probe.lock.held_iterations", self.held_iterations.into(), 0, 1_000_000)?;
        within("probe.lock.free_iterations", self.free_iterations.into(), 0, 1_000_000)
    }
}
