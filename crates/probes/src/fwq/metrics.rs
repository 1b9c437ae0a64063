//! Figures of the fwq probe.

use stats::interval::quantile_of_sorted;
use stats::summary::spread;
use units::metric::{Better, Metric, Unit};

use crate::detail::FwqDetail;
use crate::figures::{figure, floats, metric, time, too_few_beyond};
use crate::probe::Definition;

/// What each figure is, and how it comes about.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition { ids: "quantum_ns", words: "Median time of the fixed work." },
    Definition { ids: "quantum_max_ns", words: "Longest time of the fixed work." },
    Definition {
        ids: "quantum_p99_ns",
        words: "Time that 99 of 100 repetitions stay within; wants 1000 of them.",
    },
    Definition { ids: "quantum_min_ns", words: "Shortest time: the work without interference." },
    Definition { ids: "spread_share", words: "Standard deviation of the times over their mean." },
    Definition { ids: "worst_per_best_ratio", words: "Longest time over the shortest." },
];

const NO_SAMPLES: &str = "no samples were taken";

/// Fixed work quantum: typical, best and worst time of the same work.
pub(crate) fn metrics(detail: &FwqDetail) -> Vec<Metric> {
    let samples = floats(&detail.samples_ns);
    let summary = spread(&samples);
    let p99 = too_few_beyond(samples.len() as f64, 0.99, "samples").unwrap_or_else(|| {
        let mut sorted = samples.clone();
        sorted.sort_by(f64::total_cmp);
        figure(Some(quantile_of_sorted(&sorted, 0.99)), NO_SAMPLES)
    });
    let worst_per_best = summary.map(|summary| summary.max / summary.min);
    vec![
        time("quantum_ns", "same work, median", true, figure(summary.map(|s| s.median), NO_SAMPLES)),
        time("quantum_max_ns", "same work, worst", true, figure(summary.map(|s| s.max), NO_SAMPLES)),
        time("quantum_p99_ns", "same work, 99 % quantile", false, p99),
        time("quantum_min_ns", "same work, best", false, figure(summary.map(|s| s.min), NO_SAMPLES)),
        metric(
            "spread_share",
            "standard deviation over mean",
            Unit::Share,
            Better::Lower,
            false,
            figure(summary.and_then(|s| s.variation), "fewer than two samples, or all are zero"),
        ),
        metric(
            "worst_per_best_ratio",
            "worst over best",
            Unit::Count,
            Better::Lower,
            false,
            figure(worst_per_best, "no samples, or the best took no time"),
        ),
    ]
}
