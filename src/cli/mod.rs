//! Ask for it: arguments, one file per verb, exit codes. The only room that composes the others.

use std::process::ExitCode;

/// Entry point of the program.
pub fn main() -> ExitCode {
    ExitCode::from(2)
}
