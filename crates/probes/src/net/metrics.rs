//! Figures of the net probe.

use stats::summary::{histogram_max, histogram_quantile};
use units::Bytes;
use units::metric::{Better, Figure, Metric, Unit};

use super::pairs;
use crate::detail::{NetDetail, NetDirection, NetPoint};
use crate::figures::{figure, metric, p99, throughput, time};
use crate::params::{Exchange, Protocol};
use crate::probe::Definition;

/// What each figure is, and how it comes about.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        ids: "*_round_trip_p*_ns",
        words: "Time from a question until its answer, smallest message; this share stays within.",
    },
    Definition { ids: "*_round_trip_max_ns", words: "The longest round trip." },
    Definition { ids: "*_round_trip_lost_share", words: "Questions that no answer came to, over all." },
    Definition { ids: "*_lost_share", words: "Messages sent that did not arrive, over all sent." },
    Definition {
        ids: "*_cpu_ns_per_byte",
        words: "CPU time of the sending and the receiving thread per byte that arrived.",
    },
    Definition {
        ids: "*_system_ns_per_byte",
        words: "The same of both instances as a whole, as their kernels count it.",
    },
    Definition { ids: "*_host_ns_per_byte", words: "The same as the host counts what carries them." },
    Definition {
        ids: "*_bytes_per_s",
        words: "Bytes that arrived over the time of the stream, largest message.",
    },
];

/// Reasons come from the agent; more than this is not shown.
const LONGEST_REASON: usize = 200;

const NO_ROUND_TRIPS: &str = "no round trip was completed";

/// Every kind of stream, in the order of importance.
const STREAMS: [(Protocol, NetDirection, &str, &str); 4] = [
    (Protocol::Tcp, NetDirection::Out, "tcp_stream_out", "TCP stream out"),
    (Protocol::Tcp, NetDirection::In, "tcp_stream_in", "TCP stream in"),
    (Protocol::Udp, NetDirection::Out, "udp_stream_out", "UDP stream out"),
    (Protocol::Udp, NetDirection::In, "udp_stream_in", "UDP stream in"),
];

/// Network. The first figure there is, of streams first, then of round trips, is the main one. Figures of the first pair are
/// followed by those of all pairs together and of each other one.
pub(crate) fn metrics(detail: &NetDetail) -> Vec<Metric> {
    let mut all = of_one_pair(detail);
    // A kind that could not be measured at all does not stand for the whole probe if another could.
    if let Some(main) = all.iter().position(|metric| metric.figure.value().is_some()) {
        let metric = all.remove(main);
        all.insert(0, metric);
    }
    if all.is_empty() {
        let [(_, _, id, title), ..] = STREAMS;
        let nothing = Figure::Unsupported("no exchange was made".to_owned());
        all.push(throughput(&format!("{id}_bytes_per_s"), title, true, nothing));
    }
    if let Some(first) = all.first_mut() {
        first.headline = true;
    }
    all.extend(pairs::of_all_and_each(detail, of_one_pair));
    all
}

fn of_one_pair(detail: &NetDetail) -> Vec<Metric> {
    let mut all: Vec<Metric> = STREAMS.iter().filter_map(|kind| stream_rate(detail, *kind)).collect();
    for (protocol, id, name) in [(Protocol::Tcp, "tcp", "TCP"), (Protocol::Udp, "udp", "UDP")] {
        all.extend(round_trips(detail, protocol, id, name));
    }
    all.extend(STREAMS.iter().filter_map(|kind| lost(detail, *kind)));
    all.extend(STREAMS.iter().flat_map(|kind| cpu_per_byte(detail, *kind)));
    all
}

fn of(detail: &NetDetail, protocol: Protocol, direction: NetDirection) -> impl Iterator<Item = &NetPoint> {
    let exchange = if direction == NetDirection::Both { Exchange::RequestResponse } else { Exchange::Stream };
    detail.points.iter().filter(move |point| {
        (point.protocol, point.direction, point.exchange) == (protocol, direction, exchange)
    })
}

/// The point of the largest message that could be measured; else of one that could not.
fn largest(detail: &NetDetail, protocol: Protocol, direction: NetDirection) -> Option<&NetPoint> {
    of(detail, protocol, direction).max_by_key(|point| (point.unsupported.is_none(), point.message_bytes))
}

/// The value of a point that was measured, or the reason why it was not.
fn of_point(point: &NetPoint, value: impl FnOnce() -> Figure) -> Figure {
    match &point.unsupported {
        Some(reason) => {
            let kept: String =
                reason.chars().filter(|letter| !letter.is_control()).take(LONGEST_REASON).collect();
            let silent = kept.trim().is_empty();
            Figure::Unsupported(if silent { "the agent gave no reason".to_owned() } else { kept })
        }
        None => value(),
    }
}

fn stream_rate(detail: &NetDetail, kind: (Protocol, NetDirection, &str, &str)) -> Option<Metric> {
    let (protocol, direction, id, title) = kind;
    let point = largest(detail, protocol, direction)?;
    let value = of_point(point, || {
        figure(
            (point.bytes.get() > 0).then(|| point.bytes.as_f64() / point.elapsed_ns.as_secs_f64()),
            "nothing arrived",
        )
    });
    Some(throughput(
        &format!("{id}_bytes_per_s"),
        &format!("{title}, messages of {}", size(point.message_bytes)),
        false,
        value,
    ))
}

fn round_trips(detail: &NetDetail, protocol: Protocol, id: &str, name: &str) -> Vec<Metric> {
    let smallest = of(detail, protocol, NetDirection::Both)
        .min_by_key(|point| (point.unsupported.is_some(), point.message_bytes));
    let Some(point) = smallest else { return Vec::new() };
    let times = &point.round_trip_ns;
    let messages = format!("messages of {}", size(point.message_bytes));
    let p50 = of_point(point, || figure(histogram_quantile(times, 0.5), NO_ROUND_TRIPS));
    let p99 = of_point(point, || p99(times, "round trips", NO_ROUND_TRIPS));
    let max = of_point(point, || figure(histogram_max(times).map(|max| max as f64), NO_ROUND_TRIPS));
    let mut all = vec![
        time(
            &format!("{id}_round_trip_p50_ns"),
            &format!("{name} round trip, {messages}, median"),
            true,
            p50,
        ),
        time(&format!("{id}_round_trip_p99_ns"), &format!("{name} round trip, 99 % quantile"), true, p99),
        time(&format!("{id}_round_trip_max_ns"), &format!("{name} round trip, longest"), false, max),
    ];
    if protocol == Protocol::Udp {
        let share = of_point(point, || lost_share(point));
        all.push(loss(&format!("{id}_round_trip_lost_share"), &format!("{name} round trips lost"), share));
    }
    all
}

fn loss(id: &str, title: &str, share: Figure) -> Metric {
    metric(id, title, Unit::Share, Better::Lower, false, share)
}

/// What was sent and did not arrive. A network may double datagrams: more than was sent is no loss.
fn lost_share(point: &NetPoint) -> Figure {
    let (sent, arrived) = (point.sent as f64, point.arrived as f64);
    figure((point.sent > 0).then(|| ((sent - arrived) / sent).max(0.0)), "nothing was sent")
}

fn lost(detail: &NetDetail, kind: (Protocol, NetDirection, &str, &str)) -> Option<Metric> {
    let (protocol, direction, id, title) = kind;
    if protocol != Protocol::Udp {
        return None;
    }
    let point = largest(detail, protocol, direction)?;
    let title = format!("{title}, lost of messages of {}", size(point.message_bytes));
    Some(loss(&format!("{id}_lost_share"), &title, of_point(point, || lost_share(point))))
}

/// CPU time per byte of the two threads, of the two instances where their kernels say, and of what carries them where the
/// host says.
fn cpu_per_byte(detail: &NetDetail, kind: (Protocol, NetDirection, &str, &str)) -> Vec<Metric> {
    let (protocol, direction, id, title) = kind;
    let Some(point) = largest(detail, protocol, direction) else { return Vec::new() };
    let per_byte = |nanos: f64| {
        of_point(point, || {
            figure((point.bytes.get() > 0).then(|| nanos / point.bytes.as_f64()), "nothing arrived")
        })
    };
    let threads = point.first_cpu_ns.as_f64() + point.second_cpu_ns.as_f64();
    let mut all = vec![time(
        &format!("{id}_cpu_ns_per_byte"),
        &format!("{title}, CPU time per byte, both ends"),
        false,
        per_byte(threads),
    )];
    if let Some((first, second)) = point.first_system_ns.zip(point.second_system_ns) {
        all.push(time(
            &format!("{id}_system_ns_per_byte"),
            &format!("{title}, CPU time per byte, both whole instances"),
            false,
            per_byte(first.as_f64() + second.as_f64()),
        ));
    }
    if let Some((first, second)) = point.first_host_ns.zip(point.second_host_ns) {
        all.push(time(
            &format!("{id}_host_ns_per_byte"),
            &format!("{title}, CPU time per byte, both ends, as the host counts it"),
            false,
            per_byte(first.as_f64() + second.as_f64()),
        ));
    }
    all
}

fn size(bytes: u32) -> String {
    Bytes::from_bytes(bytes.into()).to_string()
}
