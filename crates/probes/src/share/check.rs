//! What is believed of the share probe's outcome, and whether it saw anything at all.

use crate::check::{Checked, MOST_CPUS, MOST_POINTS, at_most, because, histogram};
use crate::detail::ShareDetail;

pub(crate) fn check(detail: &ShareDetail) -> Checked {
    at_most("share.phases", detail.phases.len(), MOST_POINTS)?;
    at_most("share.cpus", detail.cpus as usize, MOST_CPUS as usize)?;
    if detail.counter_hz.get() == 0 {
        return Err("share.counter_hz is 0: a counter that stands still measures nothing".into());
    }
    // An instance speaks for itself only; the host puts the others' outcomes beside it.
    at_most("share.others", detail.others.len(), 0)?;
    detail.phases.iter().try_for_each(|phase| {
        histogram("share.away_ticks", &phase.away_ticks)?;
        histogram("share.running_ticks", &phase.running_ticks)
    })
}

pub(crate) fn saw_nothing(detail: &ShareDetail) -> Option<String> {
    because(detail.phases.iter().all(|phase| phase.rounds == 0), "no round of work was done")
}
