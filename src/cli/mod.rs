//! Ask for it: arguments, one file per verb, exit codes. The only room that composes the others.

mod hidden;

use std::process::ExitCode;

/// Entry point of the program.
pub fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    hidden::dispatch(&arguments).unwrap_or(ExitCode::from(2))
}
