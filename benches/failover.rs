//! How long a partition with doubled links cannot be reached when the switch it uses is killed, measured from outside
//! with an echo every 5 ms.
//!
//! `cargo bench --bench failover [-- ROUNDS]`. The mark: at most 700 ms in every round; published are 500 to 700 ms for
//! the doubled network cards of real machines (Lourot 2010).

#[path = "../tests/switch_fixture/mod.rs"]
mod switch_fixture;
mod verdict;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use bulkhead::platforms::ledger::Ledger;
use switch_fixture::doubled::Doubled;
use switch_fixture::guest;
use verdict::{Judge, Mark, say};

/// The mark for each round.
const MARK: Duration = Duration::from_millis(700);
/// Rounds unless said otherwise.
const ROUNDS: usize = 20;

fn main() -> ExitCode {
    verdict::ended("failover", run())
}

fn run() -> Result<Judge> {
    let rounds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(ROUNDS);
    let tools = guest::tools().context("no guest can be started here")?;
    let dir = tempfile::tempdir()?;
    let ledger = Ledger::open(dir.path())?;
    let mut network = Doubled::start(&tools, &ledger, dir.path());
    let outages: Vec<Duration> = (0..rounds).map(|round| network.outage(round % 2)).collect();
    network.end();
    let millis: Vec<f64> = outages.iter().map(|outage| outage.as_secs_f64() * 1000.0).collect();
    let worst = outages.iter().max().copied().unwrap_or_default();
    say(&format!("longest of {} outages: {worst:.1?}", outages.len()));
    let mut judge = Judge::default();
    let mark = MARK.as_secs_f64() * 1000.0;
    judge.rounds("outage when the active switch is killed, ms", &millis, Mark::AtMost(mark));
    // Published are 500 to 700 ms for the doubled network cards of real machines.
    let longer = outages.iter().filter(|outage| **outage > MARK).count();
    judge.never(&format!("outages longer than {MARK:?}"), longer as u64, outages.len() as u64);
    Ok(judge)
}
