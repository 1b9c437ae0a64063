//! What the exit probe brings home: raw enough that every figure can be computed again.

use serde::{Deserialize, Serialize};
use units::Hertz;
use units::histogram::Histogram;

/// Outcome of the trap probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExitDetail {
    /// The instruction that traps under a hypervisor: `cpuid`.
    pub instruction: String,
    /// Rate of the cycle counter.
    pub counter_hz: Hertz,
    /// What the hypervisor calls itself, `KVMKVMKVM` for example; none when the CPU says that there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// Ticks from one counter read to the next with the instruction between them.
    pub trap_ticks: Histogram,
    /// The same with nothing between them.
    pub empty_ticks: Histogram,
}
