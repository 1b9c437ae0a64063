//! Well-known tools beside our probes: the same work with the same settings, one after the other in random order (or at
//! once, where neither takes from the other), round after round; then a table of ratios with intervals.
//!
//! ```text
//!   make crosscheck ARGS="--rounds 3 disk hpcc"       some of it, shorter
//!   make crosscheck ARGS="--scratch /mnt/disk"        another disk than the one the build lies on
//! ```
//!
//! A tool that is not installed is named with its package (`./setup.sh crosscheck` installs them all). Only ratios of
//! one run count: on a busy machine both sides suffer, and the intervals tell how much: what an interval does not decide is
//! not decided, so that more noise never passes more easily. A pair that failed is counted below the figure; more than one
//! of them, and it is not decided, for what fails may be what would have been slow.

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]

mod checks;
mod own;
mod parse;
mod rounds;
mod table;
mod tool;
#[path = "../verdict/mod.rs"]
mod verdict;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use rounds::{Check, Outcome, World};
use verdict::Judge;

/// Enough for an interval that a mark of three percent can be read off on a quiet machine.
const ROUNDS: u32 = 7;

struct Wanted {
    rounds: u32,
    scratch: PathBuf,
    names: Vec<String>,
}

fn main() -> ExitCode {
    match wanted().and_then(|wanted| crosscheck(&wanted)) {
        Ok(judge) => judge.close(),
        Err(reason) => {
            println!("crosscheck: {reason}");
            ExitCode::from(3)
        }
    }
}

fn wanted() -> Result<Wanted, String> {
    let mut wanted =
        Wanted { rounds: ROUNDS, scratch: PathBuf::from(env!("CARGO_TARGET_TMPDIR")), names: Vec::new() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            // Given by cargo.
            "--bench" => {}
            "--rounds" => {
                let rounds = words.next().and_then(|rounds| rounds.parse().ok());
                wanted.rounds =
                    rounds.filter(|rounds| (1..=1000).contains(rounds)).ok_or("--rounds wants 1 to 1000")?;
            }
            "--scratch" => {
                wanted.scratch = words.next().map(PathBuf::from).ok_or("--scratch wants a folder")?;
            }
            name if name.starts_with('-') => {
                return Err(format!(
                    "{name} is unknown; there are --rounds N, --scratch DIR and names of checks"
                ));
            }
            name => wanted.names.push(name.to_owned()),
        }
    }
    Ok(wanted)
}

fn chosen(names: &[String]) -> Result<Vec<Box<dyn Check>>, String> {
    let mut all = checks::all();
    let known: Vec<&str> = all.iter().map(|check| check.name()).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("there is no check \"{name}\"; there are {}", known.join(", ")));
    }
    all.retain(|check| names.is_empty() || names.iter().any(|name| name == check.name()));
    Ok(all)
}

fn crosscheck(wanted: &Wanted) -> Result<Judge, String> {
    let checks = chosen(&wanted.names)?;
    std::fs::create_dir_all(&wanted.scratch)
        .map_err(|error| format!("the folder {}: {error}", wanted.scratch.display()))?;
    let folder = tempfile::tempdir().map_err(|error| format!("a folder for the tools: {error}"))?;
    let world = World { scratch: wanted.scratch.clone(), folder };
    let mut say = |text: &str| {
        if std::io::stdout().is_terminal() {
            print!("\r\u{1b}[K{text}");
            let _ = std::io::stdout().flush();
        }
    };
    let outcomes = rounds::run(checks, wanted.rounds, &world, &mut say);
    say("");
    println!("{}", table::head().trim_end());
    let mut judge = Judge::default();
    for outcome in &outcomes {
        print(outcome, &mut judge);
    }
    Ok(judge)
}

/// Prints the rows of a check with their verdicts.
fn print(outcome: &Outcome, judge: &mut Judge) {
    for (row, pairs) in outcome.check.rows().iter().zip(&outcome.pairs) {
        let (text, verdict) = table::row(row, pairs, &outcome.failed);
        print!("{text}");
        judge.heard(verdict);
    }
    let mut text = String::new();
    for remark in
        outcome.check.remarks().iter().filter(|_| outcome.pairs.iter().any(|pairs| !pairs.is_empty()))
    {
        table::wrapped(&mut text, remark);
    }
    print!("{text}");
}
