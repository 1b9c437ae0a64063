//! Solves a random dense system by blocked LU factorisation with partial pivoting, and checks the solution: what a
//! numerical program gets of a machine. Source: Dongarra, LINPACK (1979); HPL 2.3 (Petitet, Whaley, Dongarra, Cleary),
//! whose count of operations and whose bound of the residual are used.

mod check;
pub mod detail;
pub mod factor;
mod metrics;
pub mod params;
mod pretend;
pub mod product;
pub mod run;
pub mod strips;
pub mod system;

use units::Bytes;
use units::facts::MachineFacts;
use units::metric::Metric;

use self::detail::LinpackDetail;
use self::params::LinpackParams;
use crate::check::{Checked, because, no_time};
use crate::context::Context;
use crate::detail::Detail;
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::pretend::Maker;
use crate::probe::{About, Cost, OutOfBounds, Probe, Slowdown};

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

    fn check_params(params: &LinpackParams) -> Result<(), OutOfBounds> {
        params.check()
    }

    fn cost(params: &LinpackParams, _facts: &MachineFacts) -> Cost {
        // 2/3 n³ operations each.
        Cost::work(f64::from(params.n).powi(3) * 2.0 / 3.0 * f64::from(params.samples), 0.2)
    }

    fn memory(params: &LinpackParams, _facts: &MachineFacts) -> Bytes {
        Bytes::from_bytes(u64::from(params.n) * u64::from(params.n) * 16)
    }

    fn run(params: &LinpackParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
        run::measure(params, context)
    }

    fn pretend(maker: &mut Maker, params: &LinpackParams) -> Result<Detail, String> {
        Ok(pretend::pretend(maker, params))
    }

    fn saw_nothing(detail: &LinpackDetail) -> Option<String> {
        because(no_time(&detail.elapsed_ns), "no system was solved")
    }

    fn check(detail: &LinpackDetail) -> Checked {
        check::check(detail)
    }

    fn metrics(detail: &LinpackDetail) -> Vec<Metric> {
        metrics::metrics(detail)
    }
}
