//! What PID 1 of a guest, and all that it calls, say and do alike: lines on the console, errors in their context, the end.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use nix::sys::reboot::{RebootMode, reboot};

use probes::job::{Job, JobReply};
use units::Reason;
use units::stage::Stage;

/// How a guest runs a job: the folder (or device) for disk files, the job, the order to stop, and what to call when
/// its loads are up.
pub type RunInGuest<'a> = dyn Fn(&Path, &Job, &AtomicBool, &mut dyn Stage) -> JobReply + Sync + 'a;

/// Prints a line on the console, where the host keeps the last ones.
pub fn say(message: &str) {
    // There is nobody to tell when the console itself fails.
    let _ = writeln!(io::stderr(), "bulkhead: {message}");
}

/// Puts an error into its context.
pub fn in_context<E: Display>(what: &str) -> impl FnOnce(E) -> Reason {
    let what = what.to_owned();
    move |error| format!("{what}: {error}").into()
}

/// Ends the guest. QEMU is told to end on a restart, which needs no power management in the guest; when even that is
/// refused, the panic that follows the end of PID 1 does the same.
#[expect(clippy::exit, reason = "the last resort of PID 1")]
pub fn power_off() -> ! {
    nix::unistd::sync();
    let Err(error) = reboot(RebootMode::RB_AUTOBOOT);
    say(&format!("restart refused: {error}"));
    std::process::exit(1)
}
