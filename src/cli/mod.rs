//! Ask for it: arguments, one file per verb, exit codes. The only room that composes the others.
//!
//! ```text
//!  argv ─► args ─► verb (one file each) ─► Ending ─► exit code
//!             └──► agent side: `agent`, `noop`, `reaper`, or PID 1 of a guest
//! ```

mod agent;
mod args;
mod cache;
mod channel;
mod channel_args;
mod classes;
mod compare;
mod completions;
mod doctor;
mod down;
mod emit;
mod ending;
mod exec;
mod experiment;
mod file;
mod fit;
mod host_file;
mod interrupt;
mod json;
mod logs;
mod man;
mod measure;
mod moment;
mod mpirun;
mod one;
mod output;
mod plan;
mod power;
mod preview;
mod progress;
mod ps;
mod remote;
mod report;
mod resolve;
mod schema;
mod set_args;
mod simulate;
mod tool_args;
mod up;
mod verify;
mod volume;

use std::process::ExitCode;

pub use cache::folder as cache_folder;
pub use plan::{Asking, known_hosts};

use clap::Parser;
use nix::sys::signal::{SigSet, Signal};

use partition::set::one::Request;

use args::{Arguments, Verb};
use ending::{Ending, Verdict};

/// Entry point of the program.
pub fn main() -> ExitCode {
    // The agent's side comes first: it must start fast, and PID 1 of a guest has no command line of its own.
    if let Some(code) = agent::take_over() {
        return code;
    }
    outlive_limits();
    let code = match Arguments::try_parse() {
        Ok(arguments) => match arguments.verb {
            // The verbs whose code is another program's.
            Verb::Exec(args) => exec::run(&args),
            Verb::Mpirun(args) => mpirun::run(&args),
            verb => ending::exit_code(run(verb)),
        },
        Err(error) => usage_error(&error),
    };
    cache::leave();
    code
}

/// What goes beyond the caller's `ulimit -f` is an error that is told, not the end of this process. Threads take the mask over, and
/// programs that are started.
pub(crate) fn outlive_limits() {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGXFSZ);
    // It is as before where that fails.
    let _ = signals.thread_block();
}

fn run(verb: Verb) -> Verdict {
    match verb {
        Verb::Exec(_) | Verb::Mpirun(_) => Ok(Ending::Done),
        Verb::Measure(args) => measure::run(&args),
        Verb::Plan(args) => plan::run(&args),
        Verb::Verify(args) => verify::run(&args),
        Verb::Simulate(args) => simulate::run(&args),
        Verb::Channel(args) => channel::run(&args),
        Verb::Up(args) => up::run(&args),
        Verb::Down(args) => down::run(&args),
        Verb::Ps(args) => ps::run(&args),
        Verb::Start(args) => one::run(&args, Request::Start),
        Verb::Stop(args) => one::run(&args, Request::Stop),
        Verb::Restart(args) => one::run(&args, Request::Restart),
        Verb::Logs(args) => logs::run(&args),
        Verb::Volume(args) => volume::run(&args),
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
    if !error.use_stderr() {
        return Ending::Done.into();
    }
    // Bad usage must not look like an answer of the program.
    let runs_another = std::env::args_os().nth(1).is_some_and(|verb| verb == "exec" || verb == "mpirun");
    if runs_another { ExitCode::from(exec::OWN_FAILURE) } else { Ending::BadInput.into() }
}
