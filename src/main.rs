//! The program: hands the command line to `cli` and maps its answer to an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    bulkhead::cli::main()
}
