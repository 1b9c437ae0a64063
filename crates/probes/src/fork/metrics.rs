//! Figures of the fork probe.

use stats::summary::histogram_quantile;
use units::metric::Metric;

use crate::detail::RateDetail;
use crate::figures::{figure, time, too_few_beyond};
use crate::probe::Definition;
use crate::rate::costs;

/// What each figure is, and how it comes about.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        ids: "fork_ns",
        words: "fork, exec of an empty program, and wait for its end, on one thread: elapsed over forks, median of the batches.",
    },
    Definition { ids: "fork_all_cpus_ns", words: "The same with a thread on every CPU." },
    Definition { ids: "fork_p99_ns", words: "Time that 99 of 100 single forks stay within." },
];

/// fork + exec + wait.
pub(crate) fn metrics(detail: &RateDetail) -> Vec<Metric> {
    let (one, all) = costs(detail);
    let p99 = too_few_beyond(detail.latency_ns.count() as f64, 0.99, "forks were timed singly")
        .unwrap_or_else(|| figure(histogram_quantile(&detail.latency_ns, 0.99), "no samples were taken"));
    vec![
        time("fork_ns", "fork, exec and wait", true, one),
        time("fork_all_cpus_ns", "fork, exec and wait, every CPU busy with them", false, all),
        time("fork_p99_ns", "fork, exec and wait, 99 % quantile", false, p99),
    ]
}
