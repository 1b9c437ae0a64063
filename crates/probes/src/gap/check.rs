//! What is believed of the gap probe's outcome, and whether it saw anything at all.

use units::histogram::Histogram;

use crate::check::{Checked, at_most, because, histogram, stretches};
use crate::detail::GapDetail;

pub(crate) fn check(gap: &GapDetail) -> Checked {
    at_most("gap.batches", gap.batches.len(), 256)?;
    gap.batches.iter().try_for_each(|batch| histogram("gap.batches", batch))?;
    stretches("gap.worst", &gap.worst)?;
    if gap.counter_hz.get() == 0 {
        return Err("gap.counter_hz is 0: a counter that stands still measures nothing".into());
    }
    Ok(())
}

pub(crate) fn saw_nothing(detail: &GapDetail) -> Option<String> {
    because(detail.batches.iter().all(Histogram::is_empty), "no gap")
}
