//! `bulkhead start`, `stop` and `restart`: one partition of a set that is up.

use anyhow::Context;

use super::args::OneArgs;
use super::ending::{Ending, OrStop, Verdict};
use super::remote::{self, Errand};
use super::{interrupt, output, plan};
use partition::set::one::{Became, OneError, Request, one};
use partition::set::root::state_root;
use platforms::Cancel;
use units::Nanos;

/// Does it, here or on the host of a plan, and says what became of it.
pub fn run(args: &OneArgs, request: Request) -> Verdict {
    let meant = plan::chosen_with_partition(&args.partition, args.on.as_deref()).or_bad_input()?;
    let (partition, planned) = meant;
    if let Some((plan, chosen)) = &planned
        && let Some(destination) = &chosen.destination
    {
        return remote::run(chosen, destination, &Errand::One { partition, request }, plan);
    }
    let cancel = interrupt::token_saying("interrupted; what was begun goes on by itself").or_lacking()?;
    change(&partition, request, &cancel)
}

/// Does it on this machine, and says what became of it.
pub fn change(name: &str, request: Request, cancel: &Cancel) -> Verdict {
    let exe = std::env::current_exe().context("the program's own file cannot be found").or_lacking()?;
    match one(&state_root(), name, request, &exe, cancel) {
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
