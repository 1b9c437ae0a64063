//! Figures of the mem-latency probe.

use stats::plateaus::{Plateau, plateaus};
use units::metric::{Better, Metric, Unit};

use crate::detail::MemLatencyDetail;
use crate::figures::{ends, figure, metric, size, time, title};
use crate::probe::Definition;

/// What each figure is, and how it comes about.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        ids: "largest_array_ns",
        words: "Time of a load that depends on the one before, in the largest array: memory.",
    },
    Definition { ids: "smallest_array_ns", words: "The same in the smallest array: the nearest cache." },
    Definition {
        ids: "plateau_*_ns",
        words: "Level of a stretch of array sizes over which a load takes the same time: a cache, or memory.",
    },
];

/// More plateaus than this are no memory hierarchy.
const MOST_PLATEAUS: usize = 8;

/// Pointer chase.
pub(crate) fn metrics(detail: &MemLatencyDetail) -> Vec<Metric> {
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

fn plateau_title(plateau: &Plateau) -> String {
    format!("load, flat from {} to {}", size(plateau.from_bytes), size(plateau.to_bytes))
}
