//! What the linpack probe brings home: raw enough that every figure can be computed again.

use serde::{Deserialize, Serialize};
use units::Nanos;

/// Outcome of the LU probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinpackDetail {
    /// Order of the system.
    pub n: u32,
    /// Threads.
    pub threads: u32,
    /// Time of factorisation and solution, one per sample. 2/3 n³ + 3/2 n² operations each.
    pub elapsed_ns: Vec<Nanos>,
    /// Largest scaled residual of all samples: ‖Ax − b‖∞ / (ε (‖A‖∞ ‖x‖∞ + ‖b‖∞) n). Below 16 the solution counts as
    /// right (the usual bound of HPL).
    pub residual: f64,
}

impl LinpackDetail {
    /// The usual bound of the scaled residual (HPL).
    pub const RESIDUAL_BOUND: f64 = 16.0;

    /// Whether a solution with this scaled residual counts as right.
    pub fn is_right(residual: f64) -> bool {
        (0.0..Self::RESIDUAL_BOUND).contains(&residual)
    }

    /// Operations of factorisation and solution, as HPL counts them.
    pub fn operations(n: u32) -> f64 {
        let n = f64::from(n);
        2.0 / 3.0 * n.powi(3) + 1.5 * n * n
    }
}
