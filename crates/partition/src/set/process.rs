//! Processes that no other one can be taken for: number, start time and boot together name one.

use std::path::Path;

use nix::sys::signal::Signal;

use model::partition::set::ProcessName;
use platforms::held_process::HeldProcess;
use platforms::ledger::Thing;
use units::Reason;

/// The process `pid` as it runs now; none when there is none.
pub fn named(pid: u32) -> Option<ProcessName> {
    match Thing::process(pid) {
        Some(Thing::Process { pid, start_ticks, boot_id }) => Some(ProcessName { pid, start_ticks, boot_id }),
        _ => None,
    }
}

/// This process.
pub fn own() -> Option<ProcessName> {
    named(std::process::id())
}

/// Whether it still runs.
pub fn is_alive(process: &ProcessName) -> bool {
    named(process.pid).as_ref() == Some(process)
}

/// Sends it a signal if it still runs and was started for `folder`, links resolved; says why not when it was not.
///
/// # Errors
/// There is such a process, but it is none of that folder's, or cannot be sent signals.
pub fn signal(process: &ProcessName, folder: &Path, signal: Signal) -> Result<(), Reason> {
    let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    let found = HeldProcess::find(process.pid, process.start_ticks, &process.boot_id, &folder)?;
    found.map_or(Ok(()), |held| {
        held.signal(signal).map_err(|error| format!("process {}: {error}", process.pid).into())
    })
}
