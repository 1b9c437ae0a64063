//! `bulkhead completions`: completion scripts made from the same definitions as the help texts.

use clap::CommandFactory;

use super::args::{Arguments, CompletionsArgs};
use super::ending::{Ending, OrStop, Verdict};
use super::output;

/// Prints the script for one shell.
pub fn run(args: &CompletionsArgs) -> Verdict {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Arguments::command(), "bulkhead", &mut script);
    output::data(&String::from_utf8_lossy(&script)).or_bad_input()?;
    Ok(Ending::Done)
}
