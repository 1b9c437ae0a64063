//! Figures of the mpi probe.

use stats::summary::{histogram_max, histogram_quantile};
use units::Bytes;
use units::histogram::Histogram;
use units::metric::{Figure, Metric};

use crate::detail::{MpiDetail, MpiPattern, MpiPoint};
use crate::figures::{figure, p99, throughput, time};
use crate::probe::Definition;

/// What each figure is, and how it comes about.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition { ids: "ping_pong_half_max_ns", words: "Half of the longest round trip." },
    Definition {
        ids: "ping_pong_half_p*_ns",
        words: "Half of a ping-pong's round trip, smallest message; this share stays within.",
    },
    Definition {
        ids: "ping_pong_bytes_per_s",
        words: "Bytes of the largest message over half its round trip.",
    },
    Definition {
        ids: "all_to_all*_ns",
        words: "Time until every rank has a message of every other; this share of the exchanges stays within.",
    },
];

const NO_ITERATIONS: &str = "no iteration was timed";

/// Message passing.
pub(crate) fn metrics(detail: &MpiDetail) -> Vec<Metric> {
    let of = |pattern: MpiPattern| detail.points.iter().filter(move |point| point.pattern == pattern);
    let short = of(MpiPattern::PingPong).min_by_key(|point| point.message_bytes);
    let long = of(MpiPattern::PingPong).max_by_key(|point| point.message_bytes);
    let mut all = half_round_trips(short);
    all.push(throughput(
        "ping_pong_bytes_per_s",
        &format!("ping-pong{}, there and back", messages(long)),
        false,
        figure(long.and_then(bandwidth), NO_ITERATIONS),
    ));
    let short = of(MpiPattern::AllToAll).min_by_key(|point| point.message_bytes);
    let long = of(MpiPattern::AllToAll).max_by_key(|point| point.message_bytes);
    all.extend(exchanges(short, "all_to_all", true));
    if let Some(long) =
        long.filter(|long| short.is_some_and(|short| short.message_bytes < long.message_bytes))
    {
        all.extend(exchanges(Some(long), "all_to_all_largest", false));
    }
    all
}

/// Half the round trips of ping-pong at its smallest message.
fn half_round_trips(point: Option<&MpiPoint>) -> Vec<Metric> {
    let none = Histogram::default();
    let times = point.map_or(&none, |point| &point.iteration_ns);
    let half = |value: Figure| match value {
        Figure::Value(value) => Figure::Value(value / 2.0),
        other @ Figure::Unsupported(_) => other,
    };
    let p50 = figure(histogram_quantile(times, 0.5), NO_ITERATIONS);
    let max = figure(histogram_max(times).map(|max| max as f64), NO_ITERATIONS);
    let title = |what: &str| format!("half the round trip{}, {what}", messages(point));
    vec![
        time("ping_pong_half_p50_ns", &title("median"), true, half(p50)),
        time(
            "ping_pong_half_p99_ns",
            &title("99 % quantile"),
            true,
            half(p99(times, "round trips", NO_ITERATIONS)),
        ),
        time("ping_pong_half_max_ns", &title("longest"), false, half(max)),
    ]
}

fn exchanges(point: Option<&MpiPoint>, id: &str, headline: bool) -> Vec<Metric> {
    let none = Histogram::default();
    let times = point.map_or(&none, |point| &point.iteration_ns);
    let title = |what: &str| format!("all-to-all{}, {what}", messages(point));
    let p50 = figure(histogram_quantile(times, 0.5), NO_ITERATIONS);
    vec![
        time(&format!("{id}_p50_ns"), &title("median"), headline, p50),
        time(
            &format!("{id}_p99_ns"),
            &title("99 % quantile"),
            false,
            p99(times, "iterations", NO_ITERATIONS),
        ),
    ]
}

/// Bytes per second in one direction at a time: a ping-pong moves its message twice.
fn bandwidth(point: &MpiPoint) -> Option<f64> {
    let moved = 2.0 * f64::from(point.message_bytes) * point.iterations as f64;
    (point.iterations > 0).then(|| moved / point.elapsed_ns.as_secs_f64())
}

fn messages(point: Option<&MpiPoint>) -> String {
    point.map_or_else(String::new, |point| format!(", messages of {}", size(point.message_bytes)))
}

fn size(bytes: u32) -> String {
    Bytes::from_bytes(bytes.into()).to_string()
}
