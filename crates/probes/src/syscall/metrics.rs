//! Figures of the syscall probe.

use units::metric::Metric;

use crate::detail::RateDetail;
use crate::figures::time;
use crate::probe::Definition;
use crate::rate::costs;

/// What each figure is, and how it comes about.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        ids: "call_ns",
        words: "Time of getppid on one thread: elapsed over calls, median of the batches.",
    },
    Definition { ids: "call_all_cpus_ns", words: "The same with a thread on every CPU." },
];

/// System call cost.
pub(crate) fn metrics(detail: &RateDetail) -> Vec<Metric> {
    let (one, all) = costs(detail);
    vec![
        time("call_ns", "one system call", true, one),
        time("call_all_cpus_ns", "one system call, every CPU busy with them", false, all),
    ]
}
