//! Made-up outcomes of the linpack probe, for the fake platform.

use rand::RngExt;
use units::Nanos;

use crate::detail::LinpackDetail;
use crate::params::LinpackParams;
use crate::pretend::Maker;

/// Operations per nanosecond of one CPU of the fake machine.
const OPERATIONS_PER_NS: f64 = 20.0;

pub(crate) fn pretend(maker: &mut Maker, params: &LinpackParams) -> LinpackDetail {
    let at_once = f64::from(params.threads.min(maker.cpus).max(1));
    let native = LinpackDetail::operations(params.n) / OPERATIONS_PER_NS / at_once;
    let elapsed_ns = (0..params.samples).map(|_| Nanos::from_nanos(maker.nanos(native))).collect();
    let residual = 0.005 + 0.005 * maker.random.random::<f64>();
    LinpackDetail { n: params.n, threads: params.threads, elapsed_ns, residual }
}
