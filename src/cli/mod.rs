//! Ask for it: arguments, one file per verb, exit codes. The only room that composes the others.
//!
//! ```text
//!  argv ─► args ─► verb (one file each) ─► Ending ─► exit code
//!             └──► agent side: `agent`, `noop`, `reaper`, or PID 1 of a guest
//! ```

mod agent;
mod args;
mod classes;
mod compare;
mod completions;
mod doctor;
mod ending;
mod experiment;
mod fit;
mod interrupt;
mod json;
mod man;
mod measure;
mod moment;
mod output;
mod preview;
mod progress;
mod report;
mod resolve;
mod schema;
mod simulate;

use std::process::ExitCode;

use clap::Parser;

use args::{Arguments, Verb};
use ending::{Ending, Verdict};

/// Entry point of the program.
pub fn main() -> ExitCode {
    // The agent's side comes first: it must start fast, and PID 1 of a guest has no command line of its own.
    if let Some(code) = agent::take_over() {
        return code;
    }
    match Arguments::try_parse() {
        Ok(arguments) => ending::exit_code(run(arguments.verb)),
        Err(error) => usage_error(&error),
    }
}

fn run(verb: Verb) -> Verdict {
    match verb {
        Verb::Measure(args) => measure::run(&args),
        Verb::Simulate(args) => simulate::run(&args),
        Verb::Doctor(args) => doctor::run(&args),
        Verb::Compare(args) => compare::run(&args),
        Verb::Report(args) => report::run(&args),
        Verb::Experiment(args) => experiment::run(&args),
        Verb::Classes(args) => classes::run(&args),
        Verb::Schema(args) => schema::run(&args),
        Verb::Completions(args) => completions::run(&args),
        Verb::Man(args) => man::run(&args),
    }
}

/// Help and version go to stdout with code 0; everything else is bad usage.
fn usage_error(error: &clap::Error) -> ExitCode {
    // Nothing can be done when the terminal is gone.
    let _ = error.print();
    if error.use_stderr() { Ending::BadInput.into() } else { Ending::Done.into() }
}
