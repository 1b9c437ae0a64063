//! What is believed of the exit probe's outcome, and whether it saw anything at all.

use crate::check::{Checked, NAME_CHARS, because, histogram, moving, text};
use crate::detail::ExitDetail;

pub(crate) fn check(detail: &ExitDetail) -> Checked {
    text("exit.instruction", &detail.instruction, NAME_CHARS)?;
    detail.hypervisor.iter().try_for_each(|name| text("exit.hypervisor", name, NAME_CHARS))?;
    moving("exit.counter_hz", detail.counter_hz)?;
    histogram("exit.trap_ticks", &detail.trap_ticks)?;
    histogram("exit.empty_ticks", &detail.empty_ticks)
}

pub(crate) fn saw_nothing(detail: &ExitDetail) -> Option<String> {
    because(detail.trap_ticks.is_empty() || detail.empty_ticks.is_empty(), "no instruction was timed")
}
