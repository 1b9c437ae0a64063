//! Pictures of the memory probes: latency and throughput against array size, with the plateaus that were found.

use maud::{Markup, html};

use model::results::RunResults;
use probes::ProbeKind;
use probes::detail::{Detail, MemoryOperation};
use stats::plateaus::plateaus;
use units::Bytes;
use units::metric::Unit;

use super::super::chart::axis::{Axis, Quantity, Scale};
use super::super::chart::palette::Ink;
use super::super::chart::plot::{Rule, Series, Stroke};
use super::super::figures::{details, value_text};
use super::host_memory;
use super::parts::{Drawing, behind, figure, plain_table, xs, ys};

/// A curve over array sizes.
struct Curve {
    ink: usize,
    label: String,
    last_level_cache: Option<Bytes>,
    points: Vec<(f64, f64)>,
}

pub(super) fn latency(results: &RunResults) -> Markup {
    let curves: Vec<Curve> = details(results, ProbeKind::MemLatency)
        .into_iter()
        .filter_map(|(ink, label, detail)| match detail {
            Detail::MemLatency(detail) => Some(Curve {
                ink,
                label,
                last_level_cache: detail.last_level_cache_bytes,
                points: detail
                    .points
                    .iter()
                    .map(|point| (point.size_bytes.as_f64(), point.load_ns))
                    .collect(),
            }),
            _ => None,
        })
        .collect();
    let caption = "Each mark is the time of one load that waits for the one before. Level stretches are listed below \
                   with the size at which they end: the size of a cache.";
    html! {
        (section("Time of a load by array size", caption, "time of a load", Unit::Nanoseconds, &curves))
        (host_memory::table(results, ProbeKind::MemLatency))
    }
}

pub(super) fn bandwidth(results: &RunResults) -> Markup {
    let operations = [
        (MemoryOperation::Read, "Reading"),
        (MemoryOperation::Write, "Writing"),
        (MemoryOperation::Copy, "Copying"),
    ];
    html! {
        @for (operation, words) in operations {
            @let curves = bandwidth_curves(results, operation);
            @if curves.iter().any(|curve| !curve.points.is_empty()) {
                (section(words, "Throughput by size of the array.", "throughput", Unit::BytesPerSecond, &curves))
            }
        }
        (host_memory::table(results, ProbeKind::MemBandwidth))
    }
}

fn bandwidth_curves(results: &RunResults, operation: MemoryOperation) -> Vec<Curve> {
    details(results, ProbeKind::MemBandwidth)
        .into_iter()
        .filter_map(|(ink, label, detail)| match detail {
            Detail::MemBandwidth(detail) => Some(Curve {
                ink,
                label,
                last_level_cache: detail.last_level_cache_bytes,
                points: detail
                    .points
                    .iter()
                    .filter(|point| point.operation == operation)
                    .map(|point| (point.size_bytes.as_f64(), point.bytes_per_s))
                    .collect(),
            }),
            _ => None,
        })
        .collect()
}

fn section(title: &str, caption: &str, y_caption: &str, unit: Unit, curves: &[Curve]) -> Markup {
    let legend: Vec<(Ink, String)> =
        curves.iter().map(|curve| (Ink(curve.ink), curve.label.clone())).collect();
    let series: Vec<Series> = curves
        .iter()
        .map(|curve| Series { ink: Ink(curve.ink), stroke: Stroke::MarkedLine, points: curve.points.clone() })
        .collect();
    let rules = curves.iter().flat_map(|curve| {
        sound_plateaus(curve)
            .into_iter()
            .rev()
            .skip(1)
            .map(|plateau| Rule::Upright(Ink(curve.ink), plateau.to_bytes))
    });
    let scale = if unit == Unit::Nanoseconds { Scale::Log } else { Scale::FromZero };
    let drawing = Drawing {
        x: Axis::enclosing(
            Scale::Log,
            Quantity::Of(Unit::Bytes),
            "size of the array (logarithmic)",
            xs(&series),
        ),
        y: Axis::enclosing(scale, Quantity::Of(unit), y_caption, ys(&series)),
        rules: rules.collect(),
        series,
    };
    html! {
        (figure(title, &format!("{caption} Upright dashed lines: where a plateau ends."), &legend, &drawing.draw(title)))
        (behind("Table: plateaus and points", &html! { (plateau_table(curves, unit)) (point_table(curves, unit)) }))
    }
}

/// Plateaus of the points that are numbers above zero.
fn sound_plateaus(curve: &Curve) -> Vec<stats::plateaus::Plateau> {
    let sound = |point: &&(f64, f64)| [point.0, point.1].iter().all(|x| x.is_finite() && *x > 0.0);
    plateaus(&curve.points.iter().filter(sound).copied().collect::<Vec<_>>())
}

fn plateau_table(curves: &[Curve], unit: Unit) -> Markup {
    let mut rows = Vec::new();
    for curve in curves {
        for plateau in sound_plateaus(curve) {
            rows.push(vec![
                curve.label.clone(),
                value_text(Unit::Bytes, plateau.from_bytes),
                value_text(Unit::Bytes, plateau.to_bytes),
                value_text(unit, plateau.level),
                curve.last_level_cache.map_or_else(|| "does not say".to_owned(), |size| size.to_string()),
            ]);
        }
    }
    plain_table(&["Platform", "Plateau from", "to", "Level", "Last-level cache it reports"], &rows)
}

fn point_table(curves: &[Curve], unit: Unit) -> Markup {
    let mut sizes: Vec<f64> =
        curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.0)).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let head: Vec<&str> =
        std::iter::once("Array").chain(curves.iter().map(|curve| curve.label.as_str())).collect();
    let rows: Vec<Vec<String>> = sizes
        .iter()
        .map(|size| {
            let value = |curve: &Curve| {
                let found = curve.points.iter().find(|point| point.0.total_cmp(size).is_eq());
                match found {
                    Some((_, value)) if value.is_finite() => value_text(unit, *value),
                    Some(_) => "n/a: not a number".to_owned(),
                    None => "not measured".to_owned(),
                }
            };
            std::iter::once(value_text(Unit::Bytes, *size)).chain(curves.iter().map(value)).collect()
        })
        .collect();
    plain_table(&head, &rows)
}
