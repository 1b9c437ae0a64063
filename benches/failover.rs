//! How long a partition with doubled links cannot be reached when the switch it uses is killed, measured from outside
//! with an echo every 5 ms.
//!
//! `cargo bench --bench failover [-- ROUNDS]`. The mark: at most 700 ms in every round; published are 500 to 700 ms for
//! the doubled network cards of real machines (Lourot 2010).

#[path = "../tests/switch_kit/mod.rs"]
mod switch_kit;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use bulkhead::platforms::ledger::Ledger;
use switch_kit::doubled::Doubled;
use switch_kit::guest;

/// The mark for the worst round.
const MARK: Duration = Duration::from_millis(700);
/// Rounds unless said otherwise.
const ROUNDS: usize = 20;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            say(&format!("failover: {error:#}"));
            ExitCode::from(3)
        }
    }
}

fn say(line: &str) {
    // Nobody is left to tell when standard output is gone.
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn run() -> Result<bool> {
    let rounds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(ROUNDS);
    let tools = guest::tools().context("no guest can be started here")?;
    let dir = tempfile::tempdir()?;
    let ledger = Ledger::open(dir.path())?;
    let mut network = Doubled::start(&tools, &ledger, dir.path());
    let mut outages: Vec<Duration> = (0..rounds).map(|round| network.outage(round % 2)).collect();
    network.end();
    outages.sort_unstable();
    let at = |share: usize| outages.get((outages.len() - 1) * share / 100).copied().unwrap_or_default();
    let (median, worst) = (at(50), at(100));
    let ratio = worst.as_secs_f64() / MARK.as_secs_f64();
    say(&format!("{rounds} switches killed: median {median:.1?}, worst {worst:.1?} without an answer"));
    say(&format!("worst / mark of {MARK:?} (published 500 to 700 ms): {ratio:.2}"));
    Ok(worst <= MARK)
}
