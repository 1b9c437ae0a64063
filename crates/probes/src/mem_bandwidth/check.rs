//! What is believed of the mem-bandwidth probe's outcome, and whether it saw anything at all.

use crate::check::{Checked, MOST_POINTS, at_most, because, finite};
use crate::detail::MemBandwidthDetail;

pub(crate) fn check(detail: &MemBandwidthDetail) -> Checked {
    at_most("mem-bandwidth.points", detail.points.len(), MOST_POINTS)?;
    detail.points.iter().try_for_each(|point| finite("mem-bandwidth.bytes_per_s", point.bytes_per_s))
}

pub(crate) fn saw_nothing(detail: &MemBandwidthDetail) -> Option<String> {
    because(
        detail.points.is_empty() || detail.points.iter().any(|point| point.bytes_per_s <= 0.0),
        "no byte was moved at one of the sizes",
    )
}
