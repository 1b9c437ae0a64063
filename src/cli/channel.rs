//! `bulkhead channel bench`: what a channel between two partitions gives on this host.
//!
//! ```text
//!  arguments ─► plan ─► runtime folder, reaper ─► workers ─► rounds ─► tables or JSON
//! ```

use anyhow::{Context, anyhow};

use super::args::{BenchArgs, ChannelArgs, ChannelVerb};
use super::ending::{Ending, OrStop, Verdict};
use super::exec::folder::RuntimeFolder;
use super::exec::surroundings;
use super::measure::fresh_seed;
use super::{interrupt, json, output};
use channels::bench::{self, Plan};
use channels::gather::{NoAnswer, Workers, two_cpus};
use model::channel_bench::{BenchLimits, ChannelBench};
use partition::run::Surroundings;
use platforms::Cancel;
use report::channel_bench::text;

/// Sizes of messages.
const SIZES: [u64; 8] = [1, 8, 64, 1 << 10, 8 << 10, 64 << 10, 1 << 20, 4 << 20];
/// Those of `--quick`: what marks need, and the ends.
const QUICK_SIZES: [u64; 4] = [1, 8, 1 << 20, 4 << 20];
const LIMITS: BenchLimits =
    BenchLimits { trips: 20_000, trips_ms: 60, batch_ms: 20, stream_ms: 60, tcp_factor: 4 };
const QUICK_LIMITS: BenchLimits =
    BenchLimits { trips: 10_000, trips_ms: 30, batch_ms: 10, stream_ms: 30, tcp_factor: 4 };
const ROUNDS: u32 = 9;
const QUICK_ROUNDS: u32 = 4;

/// Runs a verb of channels.
pub fn run(args: &ChannelArgs) -> Verdict {
    match &args.verb {
        ChannelVerb::Bench(args) => run_bench(args),
    }
}

fn run_bench(args: &BenchArgs) -> Verdict {
    let cancel = interrupt::token_saying("interrupted; ending partitions").or_lacking()?;
    let exe = std::env::current_exe().context("the program's own file cannot be found").or_lacking()?;
    let plan = plan(args);
    output::say(&format!("bulkhead: channel bench, {} rounds, seed {}", plan.rounds, plan.seed));
    if plan.cpus.is_empty() {
        output::say(
            "bulkhead: this host gives one CPU only: who leads and who follows take turns, nothing is representative",
        );
    }
    let folder = RuntimeFolder::make(&exe).context("a folder for what is made").or_lacking()?;
    let around = surroundings(&args.engine, exe, &folder);
    let measured = measure(args, &plan, &around, &cancel);
    drop(around);
    if let Err(error) = folder.remove() {
        output::say(&format!("bulkhead: removing the folder of what was made: {error}"));
    }
    let bench = match measured {
        Ok(bench) => bench,
        Err(NoAnswer::Interrupted) => return Ok(Ending::Interrupted),
        Err(NoAnswer::Failed(reason)) => {
            let advice =
                "`bulkhead doctor` says what is missing; --host-only measures what needs no partition";
            return Err(anyhow!("{reason}; {advice}")).or_lacking();
        }
    };
    let shown =
        if args.json { json::pretty(&bench).or_bad_input()? } else { text(&bench, output::stdout_style()) };
    output::data(&shown).or_bad_input()?;
    for failure in bench.failures.iter().take(3) {
        output::say(&format!("bulkhead: {} failed: {}", failure.way, failure.reason));
    }
    Ok(if bench.interrupted {
        Ending::Interrupted
    } else if bench.failures.is_empty() {
        Ending::Done
    } else {
        Ending::Broke
    })
}

fn plan(args: &BenchArgs) -> Plan {
    Plan {
        seed: args.seed.unwrap_or_else(fresh_seed),
        rounds: args.rounds.unwrap_or(if args.quick { QUICK_ROUNDS } else { ROUNDS }),
        sizes: if args.quick { QUICK_SIZES.to_vec() } else { SIZES.to_vec() },
        limits: if args.quick { QUICK_LIMITS } else { LIMITS },
        cpus: two_cpus(),
    }
}

fn measure(
    args: &BenchArgs,
    plan: &Plan,
    around: &Surroundings,
    cancel: &Cancel,
) -> Result<ChannelBench, NoAnswer> {
    let mut workers = if args.host_only {
        Workers::on_host(&around.exe, cancel)?
    } else {
        output::say("bulkhead: starting two partitions");
        Workers::with_partitions(around, &plan.cpus, cancel)?
    };
    let bar = output::bar();
    let bench = bench::run(plan, &mut workers, cancel, &mut |done, all| {
        if let Some(bar) = &bar {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
            bar.set_message("series");
        }
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    Ok(bench)
}
