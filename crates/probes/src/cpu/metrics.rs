//! Figures of the cpu probe.

use stats::summary::median;
use stats::threads::fit_threads;
use units::metric::{Better, Metric, Unit};

use crate::detail::CpuDetail;
use crate::figures::{figure, floats, metric, time};
use crate::probe::Definition;

/// What each figure is, and how it comes about.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        ids: "time_all_cpus_ns",
        words: "Median time until as many threads as CPUs have each done the fixed work.",
    },
    Definition { ids: "time_one_thread_ns", words: "Median time of the fixed work on one thread." },
    Definition {
        ids: "slope_ns_per_thread",
        words: "Slope of time over threads, fitted where there are more threads than execution units.",
    },
    Definition {
        ids: "units_granted",
        words: "Where that line meets the flat part: CPUs that really work at once.",
    },
];

/// Threads versus time.
pub(crate) fn metrics(detail: &CpuDetail) -> Vec<Metric> {
    let at = |threads: u32| {
        detail
            .points
            .iter()
            .find(|point| point.threads == threads)
            .and_then(|point| median(&floats(&point.elapsed_ns)))
    };
    let points: Vec<(u32, f64)> = detail
        .points
        .iter()
        .filter_map(|point| Some((point.threads, median(&floats(&point.elapsed_ns))?)))
        .collect();
    let fit = fit_threads(&points);
    let no_fit = "at least two numbers of threads are needed";
    vec![
        time(
            "time_all_cpus_ns",
            "fixed work on every CPU at once",
            true,
            figure(at(detail.cpus), "not timed with as many threads as CPUs"),
        ),
        time(
            "time_one_thread_ns",
            "fixed work on one thread",
            true,
            figure(at(1), "not timed with one thread"),
        ),
        time(
            "slope_ns_per_thread",
            "time each thread beyond the CPUs adds",
            false,
            figure(fit.map(|fit| fit.slope_ns_per_thread), no_fit),
        ),
        metric(
            "units_granted",
            "execution units really granted",
            Unit::Count,
            Better::Neither,
            false,
            figure(fit.map(|fit| fit.units), no_fit),
        ),
    ]
}
