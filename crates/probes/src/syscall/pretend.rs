//! Made-up outcomes of the syscall probe, for the fake platform.

use crate::params::SyscallParams;
use crate::pretend::Maker;
use crate::rate::RateDetail;

pub(crate) fn pretend(maker: &mut Maker, params: &SyscallParams) -> RateDetail {
    maker.rate(params.duration_ms, params.max_threads, 120.0)
}
