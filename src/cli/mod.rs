//! Ask for it: arguments, one file per verb, exit codes. The only room that composes the others.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::model::job::{Job, JobReply};
use crate::platforms::vm::init;

/// Entry point of the program.
pub fn main() -> ExitCode {
    if init::is_guest() {
        init::guest_main(&run_in_guest);
    }
    ExitCode::from(2)
}

fn run_in_guest(scratch: &Path, job: &Job, stop: &AtomicBool, running: &mut dyn FnMut()) -> JobReply {
    running();
    while job.probe.is_none() && !stop.load(Ordering::SeqCst) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let report =
        job.probe.as_ref().map(|_| Err(format!("no probes here; disk files go to {}", scratch.display())));
    JobReply { report, doses: vec![] }
}
