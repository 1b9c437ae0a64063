//! Figures of the probes that time work: fixed work quantum, threads, system calls, forks.

use model::detail::{CpuDetail, FwqDetail, RateDetail, RatePoint};
use model::metric::{Better, Figure, Metric, Unit};
use model::units::Nanos;

use super::super::interval::quantile_of_sorted;
use super::super::summary::{histogram_quantile, median, spread};
use super::super::threads::fit_threads;
use super::entry::{figure, metric, time, too_few_beyond};

const NO_SAMPLES: &str = "no samples were taken";

/// Fixed work quantum: typical, best and worst time of the same work.
pub(super) fn fwq(detail: &FwqDetail) -> Vec<Metric> {
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

/// Threads versus time.
pub(super) fn cpu(detail: &CpuDetail) -> Vec<Metric> {
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

/// System call cost.
pub(super) fn syscall(detail: &RateDetail) -> Vec<Metric> {
    let (one, all) = costs(detail);
    vec![
        time("call_ns", "one system call", true, one),
        time("call_all_cpus_ns", "one system call, every CPU busy with them", false, all),
    ]
}

/// fork + exec + wait.
pub(super) fn fork(detail: &RateDetail) -> Vec<Metric> {
    let (one, all) = costs(detail);
    let p99 = too_few_beyond(detail.latency_ns.count() as f64, 0.99, "forks were timed singly")
        .unwrap_or_else(|| figure(histogram_quantile(&detail.latency_ns, 0.99), NO_SAMPLES));
    vec![
        time("fork_ns", "fork, exec and wait", true, one),
        time("fork_all_cpus_ns", "fork, exec and wait, every CPU busy with them", false, all),
        time("fork_p99_ns", "fork, exec and wait, 99 % quantile", false, p99),
    ]
}

/// Time per operation seen by a thread: alone, and with the largest number of threads.
fn costs(detail: &RateDetail) -> (Figure, Figure) {
    let alone = detail.points.iter().find(|point| point.threads == 1);
    let crowded = detail.points.iter().max_by_key(|point| point.threads);
    let of = |point: Option<&RatePoint>, missing: &str| figure(point.and_then(cost), missing);
    (
        of(alone, "one thread alone finished no operation in half of its batches or more"),
        of(crowded, "the largest number of threads finished no operation in half of its batches or more"),
    )
}

/// Median over the batches of the time an operation takes its thread. One in which none ended took for ever: left out,
/// the busier a machine, the faster it would look.
fn cost(point: &RatePoint) -> Option<f64> {
    let batches = point.operations.iter().zip(&point.elapsed_ns);
    let mut each: Vec<f64> = batches
        .filter(|(_, elapsed)| elapsed.get() > 0)
        .map(|(operations, elapsed)| elapsed.as_f64() * f64::from(point.threads) / *operations as f64)
        .collect();
    each.sort_by(f64::total_cmp);
    let (below, above) = (each.get(each.len().checked_sub(1)? / 2)?, each.get(each.len() / 2)?);
    Some(f64::midpoint(*below, *above)).filter(|cost| cost.is_finite())
}

fn floats(times: &[Nanos]) -> Vec<f64> {
    times.iter().map(|time| time.as_f64()).collect()
}
