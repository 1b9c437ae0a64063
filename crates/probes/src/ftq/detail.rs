//! What the ftq probe brings home: raw enough that every figure can be computed again.

use serde::{Deserialize, Serialize};
use units::Nanos;

/// Outcome of the fixed-time-quantum probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FtqDetail {
    /// Length of a quantum.
    pub quantum_ns: Nanos,
    /// The CPU the thread was pinned to; none when pinning was refused.
    pub cpu: Option<u32>,
    /// Rounds of work finished in each quantum, in order, without holes: a quantum that was lost whole has 0. Quantum k
    /// begins k lengths after the first, however long anything took: there is no drift.
    pub work: Vec<u32>,
}
