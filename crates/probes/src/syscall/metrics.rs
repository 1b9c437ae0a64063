//! Figures of the syscall probe.

use units::metric::Metric;

use crate::detail::RateDetail;
use crate::figures::time;
use crate::rate::costs;

/// System call cost.
pub(crate) fn metrics(detail: &RateDetail) -> Vec<Metric> {
    let (one, all) = costs(detail);
    vec![
        time("call_ns", "one system call", true, one),
        time("call_all_cpus_ns", "one system call, every CPU busy with them", false, all),
    ]
}
