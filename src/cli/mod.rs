//! Ask for it: arguments, one file per verb, exit codes. The only room that composes the others.

mod hidden;

use std::process::ExitCode;

use crate::platforms::vm::init;

/// Entry point of the program.
pub fn main() -> ExitCode {
    if init::is_guest() {
        init::guest_main(|| None, &|_scratch, job, stop, running| hidden::pretend(job, stop, running));
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    hidden::dispatch(&arguments).unwrap_or(ExitCode::from(2))
}
