//! Figures of the memory probes: latency and throughput at the ends of the size range, and the plateaus between.

use model::detail::{MemBandwidthDetail, MemLatencyDetail, MemoryOperation};
use model::metric::Figure;
use model::metric::{Better, Metric, Unit};
use model::units::Bytes;

use super::super::plateaus::{Plateau, plateaus};
use super::entry::{figure, metric, throughput, time};

/// More plateaus than this are no memory hierarchy.
const MOST_PLATEAUS: usize = 8;

/// Pointer chase.
pub(super) fn latency(detail: &MemLatencyDetail) -> Vec<Metric> {
    let points: Vec<(f64, f64)> =
        detail.points.iter().map(|point| (point.size_bytes.as_f64(), point.load_ns)).collect();
    let missing = "no array was chased";
    let mut all = vec![
        time(
            "largest_array_ns",
            &title("load from", ends(&points).map(|ends| ends.1)),
            true,
            figure(ends(&points).map(|ends| ends.1.1), missing),
        ),
        time(
            "smallest_array_ns",
            &title("load from", ends(&points).map(|ends| ends.0)),
            false,
            figure(ends(&points).map(|ends| ends.0.1), missing),
        ),
    ];
    let found = plateaus(&points);
    all.extend(found.iter().take(MOST_PLATEAUS).zip(1u32..).map(|(plateau, number)| {
        metric(
            &format!("plateau_{number}_ns"),
            &plateau_title(plateau),
            Unit::Nanoseconds,
            Better::Neither,
            false,
            figure(Some(plateau.level), missing),
        )
    }));
    all
}

/// Memory throughput.
pub(super) fn bandwidth(detail: &MemBandwidthDetail) -> Vec<Metric> {
    let of = |operation: MemoryOperation| {
        let own = detail.points.iter().filter(|point| point.operation == operation);
        own.map(|point| (point.size_bytes.as_f64(), point.bytes_per_s)).collect::<Vec<(f64, f64)>>()
    };
    let names =
        [(MemoryOperation::Read, "read"), (MemoryOperation::Write, "write"), (MemoryOperation::Copy, "copy")];
    let mut all: Vec<Metric> = names
        .iter()
        .map(|(operation, name)| {
            let largest = ends(&of(*operation)).map(|ends| ends.1);
            throughput(
                &format!("{name}_bytes_per_s"),
                &title(&format!("{name} of"), largest),
                *operation == MemoryOperation::Read,
                rate(largest, name),
            )
        })
        .collect();
    let smallest = ends(&of(MemoryOperation::Read)).map(|ends| ends.0);
    all.push(throughput(
        "smallest_read_bytes_per_s",
        &title("read of", smallest),
        false,
        rate(smallest, "read"),
    ));
    all
}

fn rate(point: Option<(f64, f64)>, name: &str) -> Figure {
    figure(point.map(|point| point.1), &format!("no {name} was timed"))
}

/// The points of the smallest and the largest size.
fn ends(points: &[(f64, f64)]) -> Option<((f64, f64), (f64, f64))> {
    let by_size = |a: &&(f64, f64), b: &&(f64, f64)| a.0.total_cmp(&b.0);
    Some((*points.iter().min_by(by_size)?, *points.iter().max_by(by_size)?))
}

fn title(what: &str, point: Option<(f64, f64)>) -> String {
    point.map_or_else(|| format!("{what} an array"), |point| format!("{what} an array of {}", size(point.0)))
}

fn plateau_title(plateau: &Plateau) -> String {
    format!("load, flat from {} to {}", size(plateau.from_bytes), size(plateau.to_bytes))
}

/// A size in words.
fn size(bytes: f64) -> String {
    Bytes::from_bytes(model::metric::saturate(bytes)).to_string()
}
