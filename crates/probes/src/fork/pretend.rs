//! Made-up outcomes of the fork probe, for the fake platform.

use crate::params::ForkParams;
use crate::pretend::Maker;
use crate::rate::RateDetail;

pub(crate) fn pretend(maker: &mut Maker, params: &ForkParams) -> RateDetail {
    maker.rate(params.duration_ms, params.max_threads, 600_000.0)
}
