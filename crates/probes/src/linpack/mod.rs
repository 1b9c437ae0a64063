//! Solves a random dense system by blocked LU factorisation with partial pivoting, and checks the solution: what a
//! numerical program gets of a machine. Source: Dongarra, LINPACK (1979); HPL 2.3 (Petitet, Whaley, Dongarra, Cleary),
//! whose count of operations and whose bound of the residual are used.

pub(crate) mod check;
pub mod detail;
pub mod factor;
pub(crate) mod metrics;
pub mod params;
pub(crate) mod pretend;
pub mod product;
pub mod run;
pub mod strips;
pub mod system;

use units::Bytes;
use units::facts::MachineFacts;

use self::detail::LinpackDetail;
use self::params::LinpackParams;
use crate::probe::{About, Cost, Probe, Slowdown};

/// The probe.
#[derive(Debug, Clone, Copy)]
pub struct Linpack;

impl Probe for Linpack {
    type Params = LinpackParams;
    type Detail = LinpackDetail;

    const ABOUT: About = About {
        is_about_shares: true,
        slowdown: Slowdown { virtualized: 1.15, translated: 60.0 },
        ..About::new(
            "Solving linear equations",
            "A dense system of linear equations is solved, and the solution is checked. Longer bars are better.",
        )
    };

    fn cost(params: &LinpackParams, _facts: &MachineFacts) -> Cost {
        // 2/3 n³ operations each.
        Cost::work(f64::from(params.n).powi(3) * 2.0 / 3.0 * f64::from(params.samples), 0.2)
    }

    fn memory(params: &LinpackParams, _facts: &MachineFacts) -> Bytes {
        Bytes::from_bytes(u64::from(params.n) * u64::from(params.n) * 16)
    }
}
