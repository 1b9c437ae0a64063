//! Judges what `bulkhead channel bench` measures. The verb itself stays a measurement: it ends with 0 whether its marks
//! were reached or not, and with 4 when a series failed.
//!
//! `cargo bench --bench partitions_channel [-- ARGUMENTS OF THE VERB | --read FILE]`: runs the verb, or reads the JSON that
//! it wrote before, and holds every mark against the whole interval of its ratio.

mod verdict;

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};
use bulkhead::analysis::channel_bench::MARKS;
use bulkhead::model::channel_bench::{ChannelBench, Quantity};
use verdict::{Judge, Mark, say};

fn main() -> ExitCode {
    verdict::ended("partitions_channel", run())
}

fn run() -> Result<Judge> {
    // Cargo adds --bench.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let text = match words.as_slice() {
        [read, file] if read == "--read" => std::fs::read(file).with_context(|| file.clone())?,
        words => measured(words)?,
    };
    let bench: ChannelBench = serde_json::from_slice(&text).context("what the verb wrote")?;
    let engine = bench.engine.as_deref().unwrap_or("no partitions");
    say(&format!("{} rounds, {engine}, seed {}", bench.rounds, bench.seed));
    for failure in &bench.failures {
        say(&format!("failed: {}, round {}: {}", failure.way, failure.round, failure.reason));
    }
    let mut judge = Judge::default();
    for mark in &bench.marks {
        let what = name(mark.quantity, mark.size_bytes, mark.this.as_str(), mark.other.as_str());
        let wanted = if mark.at_most { Mark::AtMost(mark.wanted) } else { Mark::AtLeast(mark.wanted) };
        judge.answer(&what, &mark.ratio, bench.rounds as usize, wanted);
    }
    for (quantity, size, this, other, ..) in MARKS {
        let is_there = bench.marks.iter().any(|mark| {
            (mark.quantity, mark.size_bytes, mark.this, mark.other) == (quantity, size, this, other)
        });
        if !is_there {
            let what = name(quantity, size, this.as_str(), other.as_str());
            judge.not_taken(&what, "this run did not go both ways at this size");
        }
    }
    Ok(judge)
}

fn name(quantity: Quantity, bytes: u64, this: &str, other: &str) -> String {
    let quantity = match quantity {
        Quantity::RoundTrip => "round trip, p50",
        Quantity::Bandwidth => "bandwidth",
    };
    format!("{quantity}, {bytes} B: {this} / {other}")
}

fn measured(words: &[String]) -> Result<Vec<u8>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bulkhead"));
    command.args(["channel", "bench", "--json"]).args(words).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().context("bulkhead channel bench")?;
    // Whatever its code: what it could measure is judged, the rest is not decided.
    anyhow::ensure!(!output.stdout.is_empty(), "bulkhead channel bench ended with {}", output.status);
    Ok(output.stdout)
}
