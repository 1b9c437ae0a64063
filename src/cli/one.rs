//! `bulkhead start`, `stop` and `restart`: one partition of a set that is up.

use anyhow::Context;

use super::args::OneArgs;
use super::ending::{Ending, OrStop, Verdict};
use super::{interrupt, output};
use partition::set::one::{Became, OneError, Request, one};
use partition::set::root::state_root;
use units::Nanos;

/// Does it, and says what became of it.
pub fn run(args: &OneArgs, request: Request) -> Verdict {
    let exe = std::env::current_exe().context("the program's own file cannot be found").or_lacking()?;
    let cancel = interrupt::token_saying("interrupted; what was begun goes on by itself").or_lacking()?;
    let name = &args.partition;
    match one(&state_root(), name, request, &exe, &cancel) {
        Ok(became) => {
            output::say(&match became {
                Became::Runs(took) => format!("{name}: runs after {}", Nanos::from_duration(took)),
                Became::Done => format!("{name}: has run, and ended with 0"),
                Became::Stopped => format!("{name}: stopped"),
                Became::Already(phase) => format!("{name}: left, it is {}", phase.word()),
            });
            Ok(Ending::Done)
        }
        Err(OneError::Interrupted) => Ok(Ending::Interrupted),
        Err(error @ OneError::Broke(_)) => Err(error).or_broke(),
        Err(error) => Err(error).or_bad_input(),
    }
}
