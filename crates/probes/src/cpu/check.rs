//! What is believed of the cpu probe's outcome, and whether it saw anything at all.

use crate::check::{Checked, MOST_POINTS, MOST_VALUES, at_most, because, no_time};
use crate::detail::CpuDetail;

pub(crate) fn check(detail: &CpuDetail) -> Checked {
    at_most("cpu.points", detail.points.len(), MOST_POINTS)?;
    detail.points.iter().try_for_each(|point| at_most("cpu.elapsed_ns", point.elapsed_ns.len(), MOST_VALUES))
}

pub(crate) fn saw_nothing(detail: &CpuDetail) -> Option<String> {
    because(
        detail.points.is_empty() || detail.points.iter().any(|point| no_time(&point.elapsed_ns)),
        "the work was timed with none, or not all, of the numbers of threads",
    )
}
