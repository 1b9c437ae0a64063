//! What is believed of the fwq probe's outcome, and whether it saw anything at all.

use crate::check::{Checked, MOST_VALUES, at_most, because, no_time};
use crate::detail::FwqDetail;

pub(crate) fn check(detail: &FwqDetail) -> Checked {
    at_most("fwq.samples_ns", detail.samples_ns.len(), MOST_VALUES)
}

pub(crate) fn saw_nothing(detail: &FwqDetail) -> Option<String> {
    because(no_time(&detail.samples_ns), "no fixed work was timed")
}
