//! Processes that no other one can be taken for: number, start time and boot together name one.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::model::partition::set::ProcessName;
use crate::platforms::ledger::Thing;

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

/// Sends it a signal if it still runs.
pub fn signal(process: &ProcessName, signal: Signal) {
    let Some(pid) = i32::try_from(process.pid).ok().filter(|pid| *pid > 1) else { return };
    if is_alive(process) {
        let _ = kill(Pid::from_raw(pid), signal);
    }
}
