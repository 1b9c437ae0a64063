//! Figures of the wakeup probe.

use stats::summary::{histogram_max, histogram_quantile};
use units::histogram::Histogram;
use units::metric::{Metric, Unit};

use crate::detail::WakeupDetail;
use crate::figures::{figure, lower, time, too_few_beyond};
use crate::probe::{Definition, Lengths, Whole};

/// What each figure is, and how it comes about.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        ids: "response_p*_ns",
        words: "Lateness that this share of all activations stays within. It counts from when each was due; those that passed while the thread could not run count, too.",
    },
    Definition { ids: "response_max_ns", words: "Lateness of the latest activation." },
    Definition {
        ids: "missed_share",
        words: "Activations that came due while the thread could not run, over all.",
    },
    Definition {
        ids: "service_p*_ns",
        words: "The same of those wake-ups only that happened, which is all that most tools show.",
    },
];

const NO_ACTIVATIONS: &str = "no activation was due";

fn service(detail: &WakeupDetail) -> Histogram {
    Histogram::merge_all(detail.threads.iter().map(|thread| &thread.service_ns))
}

fn response(detail: &WakeupDetail) -> Histogram {
    Histogram::merge_all(detail.threads.iter().map(|thread| &thread.response_ns))
}

/// Quantiles of the response times, each with the share beyond it.
const RESPONSES: [(&str, f64); 3] =
    [("response_p99_ns", 0.01), ("response_p99_9_ns", 0.001), ("response_p99_99_ns", 0.0001)];

/// The times of which a metric is a quantile, and which one.
pub(crate) fn tail(detail: &WakeupDetail, metric: &str) -> Option<(Histogram, f64)> {
    if metric == "service_p99_ns" {
        return Some((service(detail), 0.99));
    }
    let (_, beyond) = RESPONSES.iter().find(|(id, _)| *id == metric)?;
    Some((response(detail), 1.0 - beyond))
}

/// Response times of all activations. What one thread waits for, those on other CPUs may wait for, too.
pub(crate) fn lengths(detail: &WakeupDetail) -> Lengths {
    Lengths {
        batches: vec![response(detail)],
        of: Whole::Activations,
        unit_ns: 1.0,
        period_ns: detail.period_ns.as_f64(),
        at_once: detail.threads.len() as f64,
        quantiles: RESPONSES.to_vec(),
    }
}

/// Timer wake-up: response of every activation, service of those that were slept for.
pub(crate) fn metrics(detail: &WakeupDetail) -> Vec<Metric> {
    let (service, response) = (service(detail), response(detail));
    let due = response.count();
    let missed = due.saturating_sub(service.count());
    let quantile = |histogram: &Histogram, q: f64| {
        too_few_beyond(histogram.count() as f64, q, "activations")
            .unwrap_or_else(|| figure(histogram_quantile(histogram, q), NO_ACTIVATIONS))
    };
    // The list holds the exact value; a histogram only its bucket.
    let listed =
        detail.threads.iter().filter_map(|thread| thread.worst.first()).map(|worst| worst.length_ns.as_f64());
    let longest = listed.reduce(f64::max).or_else(|| histogram_max(&response).map(|most| most as f64));
    let share = (due > 0).then(|| missed as f64 / due as f64);
    vec![
        time("response_p99_ns", "late, 99 % of activations", true, quantile(&response, 0.99)),
        time("response_max_ns", "latest activation", true, figure(longest, NO_ACTIVATIONS)),
        lower("missed_share", "activations missed", Unit::Share, true, figure(share, NO_ACTIVATIONS)),
        time("response_p99_9_ns", "late, 99.9 % of activations", false, quantile(&response, 0.999)),
        time("response_p99_99_ns", "late, 99.99 % of activations", false, quantile(&response, 0.9999)),
        time("service_p99_ns", "late, 99 % of wake-ups that happened", false, quantile(&service, 0.99)),
        time(
            "service_p50_ns",
            "late, median of wake-ups that happened",
            false,
            figure(histogram_quantile(&service, 0.5), NO_ACTIVATIONS),
        ),
    ]
}
