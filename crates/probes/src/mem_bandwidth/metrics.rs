//! Figures of the mem-bandwidth probe.

use units::metric::{Figure, Metric};

use crate::detail::{MemBandwidthDetail, MemoryOperation};
use crate::figures::{ends, figure, throughput, title};
use crate::probe::Definition;

/// What each figure is, and how it comes about.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        ids: "smallest_read_bytes_per_s",
        words: "Bytes per second that all threads read of the smallest array: a cache.",
    },
    Definition {
        ids: "*_bytes_per_s",
        words: "Bytes per second of all threads over the largest array: memory.",
    },
];

/// Memory throughput.
pub(crate) fn metrics(detail: &MemBandwidthDetail) -> Vec<Metric> {
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
