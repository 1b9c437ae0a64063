//! What is believed of the disk probe's outcome, and whether it saw anything at all.

use crate::check::{Checked, MOST_VALUES, NAME_CHARS, TEXT_CHARS, at_most, histogram, stretches, text};
use crate::detail::{Alignment, DiskDetail, DiskPhase, WORST_KEPT};

/// Most phases of the disk probe: 2 directions × 3 modes × 8 block sizes, and random reads.
const MOST_PHASES: usize = 49;

pub(crate) fn check(disk: &DiskDetail) -> Checked {
    text("disk.target", &disk.target, NAME_CHARS)?;
    at_most("disk.phases", disk.phases.len(), MOST_PHASES)?;
    disk.alignment.iter().try_for_each(check_alignment)?;
    disk.phases.iter().try_for_each(check_phase)
}

fn check_alignment(alignment: &Alignment) -> Checked {
    alignment.device.iter().try_for_each(|device| text("disk.alignment.device", device, NAME_CHARS))?;
    text("disk.alignment.why", &alignment.why, TEXT_CHARS)?;
    alignment.not_shifted.iter().try_for_each(|why| text("disk.alignment.not_shifted", why, TEXT_CHARS))
}

fn check_phase(phase: &DiskPhase) -> Checked {
    phase.unsupported.iter().try_for_each(|reason| text("disk.unsupported", reason, TEXT_CHARS))?;
    histogram("disk.latency_ns", &phase.latency_ns)?;
    stretches("disk.stalls", &phase.stalls)?;
    at_most("disk.witnessed", phase.witnessed.len(), WORST_KEPT)?;
    at_most("disk.windows", phase.windows.len(), 16)?;
    phase
        .windows
        .iter()
        .try_for_each(|windows| at_most("disk.windows.bytes", windows.bytes.len(), MOST_VALUES))
}

/// A phase that could be measured and moved nothing; or none that could.
pub(crate) fn saw_nothing(disk: &DiskDetail) -> Option<String> {
    let mut measured = disk.phases.iter().filter(|phase| phase.unsupported.is_none()).peekable();
    if measured.peek().is_none() {
        let why = disk.phases.iter().find_map(|phase| phase.unsupported.as_deref());
        return Some(format!("no phase could be measured: {}", why.unwrap_or("there was none")));
    }
    let idle = measured.find(|phase| phase.bytes.get() == 0 || phase.latency_ns.is_empty())?;
    Some(format!("no block was moved in {:?} {:?}: give the probe more time", idle.mode, idle.direction))
}
