//! What a user may set of the ftq probe, with defaults and bounds.

use serde::{Deserialize, Serialize};
use units::{Micros, Millis};

use units::bounds::{HOUR_MS, OutOfBounds, within};

/// Parameters of the fixed-time-quantum probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct FtqParams {
    /// Length of a quantum, 10 µs … 100 ms. Noise up to half its frequency can be named.
    pub quantum_us: Micros,
    /// How long to measure, 100 ms … 1 h; the spectrum resolves one over this time.
    pub duration_ms: Millis,
}

impl Default for FtqParams {
    fn default() -> Self {
        Self { quantum_us: Micros::from_micros(100), duration_ms: Millis::from_millis(2000) }
    }
}

impl FtqParams {
    pub(crate) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.ftq.quantum_us", self.quantum_us.get(), 10, 100_000)?;
        within("probe.ftq.duration_ms", self.duration_ms.get(), 100, HOUR_MS)?;
        // Bounded by what one reply may carry.
        let quanta = self.duration_ms.get().saturating_mul(1000) / self.quantum_us.get().max(1);
        within("probe.ftq.duration_ms / quantum_us (number of quanta)", quanta, 64, 1_000_000)
    }
}
