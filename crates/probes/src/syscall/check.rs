//! What is believed of the syscall probe's outcome, and whether it saw anything at all.

use crate::check::Checked;
use crate::detail::RateDetail;
use crate::rate;

pub(crate) fn check(detail: &RateDetail) -> Checked {
    rate::check(detail)
}

pub(crate) fn saw_nothing(detail: &RateDetail) -> Option<String> {
    rate::saw_nothing(detail, "system call")
}
