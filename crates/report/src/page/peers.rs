//! Pictures of the network and message-passing probes over the size of a message: throughput, round trips, CPU time per
//! byte, per layout, with a word on what the layout means.

use maud::{Markup, html};

use model::results::RunResults;
use probes::ProbeKind;
use probes::detail::{Detail, MpiDetail, MpiPattern, MpiPoint, NetDetail, NetDirection, NetPoint};
use probes::params::Protocol;
use stats::summary::{histogram_max, histogram_quantile};
use units::histogram::Histogram;
use units::layout::Layout;
use units::metric::Unit;

use super::super::chart::axis::{Axis, Quantity, Scale};
use super::super::chart::palette::Ink;
use super::super::chart::plot::{Series, Stroke};
use super::super::figures::{details_in, value_text};
use super::parts::{Drawing, behind, bounded, figure, plain_table, xs, ys};

/// Layouts drawn at most; the tables of figures have every one.
const LAYOUTS: usize = 6;
/// Rows of a table of points at most.
const ROWS: usize = 400;
const PROTOCOLS: [(Protocol, &str); 2] = [(Protocol::Tcp, "TCP"), (Protocol::Udp, "UDP")];

/// What one platform brought home in one layout.
struct Of<'a, D> {
    ink: usize,
    label: String,
    detail: &'a D,
}

/// A picture over message sizes.
struct Sketch<'a> {
    title: &'a str,
    caption: &'a str,
    y: &'a str,
    unit: Unit,
}

pub(super) fn net(results: &RunResults) -> Markup {
    let all = |layout| -> Vec<Of<'_, NetDetail>> {
        let found = details_in(results, ProbeKind::Net, layout).into_iter();
        found
            .filter_map(|(ink, label, detail)| match detail {
                Detail::Net(detail) => Some(Of { ink, label, detail }),
                _ => None,
            })
            .collect()
    };
    by_layout(results, ProbeKind::Net, |layout| net_pictures(&all(layout)))
}

pub(super) fn mpi(results: &RunResults) -> Markup {
    let all = |layout| -> Vec<Of<'_, MpiDetail>> {
        let found = details_in(results, ProbeKind::Mpi, layout).into_iter();
        found
            .filter_map(|(ink, label, detail)| match detail {
                Detail::Mpi(detail) => Some(Of { ink, label, detail }),
                _ => None,
            })
            .collect()
    };
    by_layout(results, ProbeKind::Mpi, |layout| mpi_pictures(&all(layout)))
}

fn by_layout(results: &RunResults, probe: ProbeKind, pictures: impl Fn(Option<Layout>) -> Markup) -> Markup {
    let layouts = results.experiment.layouts_of(probe);
    html! {
        @for layout in layouts.iter().take(LAYOUTS) {
            @if let Some(layout) = layout {
                h4 { "Layout " (layout) }
                p { (place_words(*layout)) }
            }
            (pictures(*layout))
        }
        @if layouts.len() > LAYOUTS {
            p.soft.small { (LAYOUTS) " of " (layouts.len()) " layouts are drawn; the table of figures has all." }
        }
    }
}

/// What a layout means for the way of a message.
fn place_words(layout: Layout) -> &'static str {
    match (layout.hosts(), layout.per_host()) {
        (1, 1) => "One instance alone: its messages stay inside it.",
        (1, _) => {
            "All instances are on one host. Their messages never leave it: what shows is the platform's own network and the \
             memory of the host, not a network card."
        }
        (_, 1) => {
            "Each instance is on a host of its own, so every message passes the network between them. Where network name \
             spaces stand for hosts, that network is a virtual cable in one machine, quicker than a real one."
        }
        _ => {
            "Several instances on each of several hosts: the first two are on different hosts, so what passes between \
             them goes over the network between the hosts, and the others use it at the same time."
        }
    }
}

fn net_pictures(all: &[Of<'_, NetDetail>]) -> Markup {
    html! {
        @for (protocol, name) in PROTOCOLS {
            @let series = net_series(all, protocol, throughput);
            @if !series.is_empty() {
                (draw(all, series, &Sketch {
                    title: &format!("{name} streams: throughput by size of the messages"),
                    caption: "Bytes that arrived per second. Lines with marks: the first instance sends; plain lines: it receives.",
                    y: "throughput (logarithmic)", unit: Unit::BytesPerSecond,
                }))
            }
            @let series = round_trip_series(all, protocol);
            @if !series.is_empty() {
                (draw(all, series, &Sketch {
                    title: &format!("{name} round trips by size of the messages"),
                    caption: "A message there and one of the same size back. Lines with marks: the median; plain lines: 99 of \
                        100 are below; marks alone: the longest. Where the three lie apart, answers cannot be relied upon.",
                    y: "round trip (logarithmic)", unit: Unit::Nanoseconds,
                }))
            }
            @let series = net_series(all, protocol, cpu_per_byte);
            @if !series.is_empty() {
                (draw(all, series, &Sketch {
                    title: &format!("{name} streams: CPU time per byte"),
                    caption: "CPU time of both ends together for each byte that arrived. Lines with marks: the first instance \
                        sends; plain lines: it receives. The table says what the kernels count for the whole instances, and the host's \
                        for all that carries them.",
                    y: "CPU time per byte (logarithmic)", unit: Unit::Nanoseconds,
                }))
            }
        }
        @if all.iter().any(|of| !of.detail.others.is_empty()) {
            p.soft.small { "The pictures show the first pair of instances; the tables have every pair, all of them at once." }
        }
        (behind("Table: exchanges", &net_table(all)))
    }
}

fn mpi_pictures(all: &[Of<'_, MpiDetail>]) -> Markup {
    html! {
        (draw(all, mpi_series(all, MpiPattern::PingPong, 2.0), &Sketch {
            title: "Ping-pong: half the round trip by size of the messages",
            caption: "Between the first and the last rank. Lines with marks: the median; plain lines: 99 of 100 are below; marks \
                alone: the longest.",
            y: "half the round trip (logarithmic)", unit: Unit::Nanoseconds,
        }))
        (draw(all, bandwidth_series(all), &Sketch {
            title: "Ping-pong: throughput by size of the messages",
            caption: "Bytes per second, one direction at a time.",
            y: "throughput (logarithmic)", unit: Unit::BytesPerSecond,
        }))
        (draw(all, mpi_series(all, MpiPattern::AllToAll, 1.0), &Sketch {
            title: "All-to-all by size of the messages",
            caption: "Until every rank has a message from every other one, as the first rank sees it. Lines with marks: the \
                median; plain lines: 99 of 100 are below; marks alone: the longest.",
            y: "time (logarithmic)", unit: Unit::Nanoseconds,
        }))
        (behind("Table: message passing", &mpi_table(all)))
    }
}

fn draw<D>(all: &[Of<'_, D>], series: Vec<Series>, sketch: &Sketch<'_>) -> Markup {
    let legend: Vec<(Ink, String)> = all.iter().map(|of| (Ink(of.ink), of.label.clone())).collect();
    let drawing = Drawing {
        x: Axis::enclosing(
            Scale::Log,
            Quantity::Of(Unit::Bytes),
            "size of a message (logarithmic)",
            xs(&series),
        ),
        y: Axis::enclosing(Scale::Log, Quantity::Of(sketch.unit), sketch.y, ys(&series)),
        rules: Vec::new(),
        series,
    };
    figure(sketch.title, sketch.caption, &legend, &drawing.draw(sketch.title))
}

/// The points of one kind over message sizes; none when there are no points at all.
fn series_of<P>(
    ink: usize,
    stroke: Stroke,
    points: impl Iterator<Item = P>,
    value: impl Fn(&P) -> Option<(u32, f64)>,
) -> Option<Series> {
    let mut points: Vec<(f64, f64)> =
        points.filter_map(|point| value(&point).map(|(size, y)| (f64::from(size), y))).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    (!points.is_empty()).then_some(Series { ink: Ink(ink), stroke, points })
}

fn throughput(point: &NetPoint) -> Option<f64> {
    let seconds = point.elapsed_ns.as_secs_f64();
    (point.bytes.get() > 0 && seconds > 0.0).then(|| point.bytes.as_f64() / seconds)
}

fn cpu_per_byte(point: &NetPoint) -> Option<f64> {
    let nanos = point.first_cpu_ns.as_f64() + point.second_cpu_ns.as_f64();
    (point.bytes.get() > 0 && nanos > 0.0).then(|| nanos / point.bytes.as_f64())
}

/// Streams out and in.
fn net_series(
    all: &[Of<'_, NetDetail>],
    protocol: Protocol,
    value: fn(&NetPoint) -> Option<f64>,
) -> Vec<Series> {
    let kinds = [(NetDirection::Out, Stroke::MarkedLine), (NetDirection::In, Stroke::Line)];
    let of = |of: &Of<'_, NetDetail>, direction, stroke| {
        let points = of.detail.points.iter();
        let own = points.filter(|point| (point.protocol, point.direction) == (protocol, direction));
        series_of(of.ink, stroke, own, |point| Some((point.message_bytes, value(point)?)))
    };
    all.iter()
        .flat_map(|platform| kinds.map(|(direction, stroke)| of(platform, direction, stroke)))
        .flatten()
        .collect()
}

/// What is drawn of many times: how, and which.
const LEVELS: [(Stroke, f64); 3] = [(Stroke::MarkedLine, 0.5), (Stroke::Line, 0.99), (Stroke::Marks, 1.0)];

fn level(times: &Histogram, quantile: f64) -> Option<f64> {
    if quantile < 1.0 {
        histogram_quantile(times, quantile)
    } else {
        histogram_max(times).map(|longest| longest as f64)
    }
}

fn round_trip_series(all: &[Of<'_, NetDetail>], protocol: Protocol) -> Vec<Series> {
    let of = |of: &Of<'_, NetDetail>, stroke, quantile| {
        let points = of.detail.points.iter().filter(|point| point.protocol == protocol);
        series_of(of.ink, stroke, points, |point| {
            Some((point.message_bytes, level(&point.round_trip_ns, quantile)?))
        })
    };
    all.iter()
        .flat_map(|platform| LEVELS.map(|(stroke, quantile)| of(platform, stroke, quantile)))
        .flatten()
        .collect()
}

fn mpi_series(all: &[Of<'_, MpiDetail>], pattern: MpiPattern, divisor: f64) -> Vec<Series> {
    let of = |of: &Of<'_, MpiDetail>, stroke, quantile| {
        let points = of.detail.points.iter().filter(|point| point.pattern == pattern);
        series_of(of.ink, stroke, points, |point| {
            Some((point.message_bytes, level(&point.iteration_ns, quantile)? / divisor))
        })
    };
    all.iter()
        .flat_map(|platform| LEVELS.map(|(stroke, quantile)| of(platform, stroke, quantile)))
        .flatten()
        .collect()
}

/// Bytes per second in one direction at a time.
fn bandwidth(point: &MpiPoint) -> Option<f64> {
    let moved = 2.0 * f64::from(point.message_bytes) * point.iterations as f64;
    let seconds = point.elapsed_ns.as_secs_f64();
    (point.iterations > 0 && seconds > 0.0).then(|| moved / seconds)
}

fn bandwidth_series(all: &[Of<'_, MpiDetail>]) -> Vec<Series> {
    all.iter()
        .filter_map(|of| {
            let points = of.detail.points.iter().filter(|point| point.pattern == MpiPattern::PingPong);
            series_of(of.ink, Stroke::MarkedLine, points, |point| {
                Some((point.message_bytes, bandwidth(point)?))
            })
        })
        .collect()
}

/// A value of a table, or a dash where it means nothing.
fn cell(unit: Unit, value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or_else(|| "–".to_owned(), |value| value_text(unit, value))
}

fn net_table(all: &[Of<'_, NetDetail>]) -> Markup {
    let rows: Vec<Vec<String>> = all
        .iter()
        .flat_map(|of| pairs(of))
        .flat_map(|(label, detail)| detail.points.iter().map(move |point| net_row(&label, point)))
        .take(ROWS)
        .collect();
    let head = [
        "Platform",
        "Exchange",
        "Message",
        "Throughput",
        "Round trip, median",
        "99 % quantile",
        "Longest",
        "Lost",
        "CPU per byte",
        "Whole instances",
        "On the host",
    ];
    plain_table(&head, &rows)
}

/// Every pair of a platform, with its number where there are several.
fn pairs<'a>(of: &Of<'a, NetDetail>) -> Vec<(String, &'a NetDetail)> {
    let all = std::iter::once(of.detail).chain(&of.detail.others);
    let label = |number: usize| match of.detail.others.len() {
        0 => of.label.clone(),
        _ => format!("{}, pair {number}", of.label),
    };
    (1..).zip(all).map(|(number, detail)| (label(number), detail)).collect()
}

fn net_row(label: &str, point: &NetPoint) -> Vec<String> {
    let protocol = PROTOCOLS.iter().find(|known| known.0 == point.protocol).map_or("", |known| known.1);
    let kind = match point.direction {
        NetDirection::Out => "stream out",
        NetDirection::In => "stream in",
        NetDirection::Both => "there and back",
    };
    let mut row = vec![
        label.to_owned(),
        format!("{protocol} {kind}"),
        value_text(Unit::Bytes, f64::from(point.message_bytes)),
    ];
    if let Some(reason) = &point.unsupported {
        row.push(format!("n/a: {}", bounded(reason)));
        return row;
    }
    let is_stream = point.direction != NetDirection::Both;
    let lost = (point.sent as f64 - point.arrived as f64) / point.sent as f64;
    let system = point.first_system_ns.zip(point.second_system_ns);
    let host = point.first_host_ns.zip(point.second_host_ns);
    let bytes = point.bytes.as_f64();
    row.extend([
        cell(Unit::BytesPerSecond, throughput(point).filter(|_| is_stream)),
        cell(Unit::Nanoseconds, level(&point.round_trip_ns, 0.5)),
        cell(Unit::Nanoseconds, level(&point.round_trip_ns, 0.99)),
        cell(Unit::Nanoseconds, level(&point.round_trip_ns, 1.0)),
        cell(Unit::Share, Some(lost.max(0.0)).filter(|_| point.protocol == Protocol::Udp && point.sent > 0)),
        cell(Unit::Nanoseconds, cpu_per_byte(point)),
        cell(Unit::Nanoseconds, system.map(|(first, second)| (first.as_f64() + second.as_f64()) / bytes)),
        cell(Unit::Nanoseconds, host.map(|(first, second)| (first.as_f64() + second.as_f64()) / bytes)),
    ]);
    row
}

fn mpi_table(all: &[Of<'_, MpiDetail>]) -> Markup {
    let rows: Vec<Vec<String>> = all
        .iter()
        .flat_map(|of| of.detail.points.iter().map(move |point| (of, point)))
        .take(ROWS)
        .map(|(of, point)| {
            let (pattern, divisor) = match point.pattern {
                MpiPattern::PingPong => ("ping-pong, half the round trip", 2.0),
                MpiPattern::AllToAll => ("all-to-all", 1.0),
            };
            let time = |quantile| {
                cell(Unit::Nanoseconds, level(&point.iteration_ns, quantile).map(|time| time / divisor))
            };
            let rate = bandwidth(point).filter(|_| point.pattern == MpiPattern::PingPong);
            vec![
                of.label.clone(),
                of.detail.ranks.to_string(),
                pattern.to_owned(),
                value_text(Unit::Bytes, f64::from(point.message_bytes)),
                point.iterations.to_string(),
                time(0.5),
                time(0.99),
                time(1.0),
                cell(Unit::BytesPerSecond, rate),
            ]
        })
        .collect();
    let head = [
        "Platform",
        "Ranks",
        "Pattern",
        "Message",
        "Iterations",
        "Median",
        "99 % quantile",
        "Longest",
        "Throughput",
    ];
    plain_table(&head, &rows)
}
