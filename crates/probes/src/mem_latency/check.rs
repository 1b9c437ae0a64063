//! What is believed of the mem-latency probe's outcome, and whether it saw anything at all.

use crate::check::{Checked, MOST_POINTS, at_most, because, finite};
use crate::detail::MemLatencyDetail;

pub(crate) fn check(detail: &MemLatencyDetail) -> Checked {
    at_most("mem-latency.points", detail.points.len(), MOST_POINTS)?;
    detail.points.iter().try_for_each(|point| finite("mem-latency.load_ns", point.load_ns))
}

pub(crate) fn saw_nothing(detail: &MemLatencyDetail) -> Option<String> {
    because(
        detail.points.is_empty() || detail.points.iter().any(|point| point.load_ns <= 0.0),
        "no load was timed at one of the sizes",
    )
}
