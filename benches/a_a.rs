//! A/A: does `measure native native` find a difference where there is none?
//!
//! Because a hundred real repetitions would take hours (the bench `power` makes some), they are resampled from one long
//! recording: a random stretch of consecutive rounds, the two labels exchanged at random within each round. Both halves
//! of a pair ran on the same platform in random order, so the exchange changes nothing but the names. A repetition
//! counts as wrong when any headline metric of any probe is called different.
//!
//! Wanted are 95 of 100 without a difference. A share is held against that with its exact interval, so fewer than 72
//! repetitions decide nothing even if all are right; resampled ones share rounds and are less certain than it says.
//!
//! `cargo bench --bench a_a -- [ROUNDS]`: rounds of the recording (default 40).
//!
//! `cargo bench --bench a_a -- carriers [ROUNDS] [PERCENT]` is the same across carriers: native against an agent that an
//! OCI runtime starts with no wall but files of its own. What differs then is how the two are started, and that must not show.
//! Each headline metric is judged by its whole interval against ± PERCENT (default 5): exit code 0 when all lie within, 1 when
//! one lies outside, 4 when one is not decided. The wake-up probe's threads are ordinary ones here, because kernels with
//! real-time budgets per group give containers none. `net`, `mpi` and `share` are left out: they take two instances, which
//! reach each other by other ways on either carrier.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints, and ends when something is missing"
)]

mod verdict;

use std::path::Path;
use std::process::{Command, ExitCode};

use bulkhead::campaign::analysis::analyse;
use bulkhead::campaign::journal::{Contents, read};
use bulkhead::model::experiment::Experiment;
use bulkhead::model::journal::Measurement;
use bulkhead::model::results::RunResults;
use bulkhead::units::metric::Difference;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use verdict::{Judge, Mark};

const REPETITIONS: u32 = 100;
/// Share of repetitions that are to find no difference.
const MARK: Mark = Mark::AtLeast(0.95);
const SEED: u64 = 20_261_121;
/// Rounds of one repetition: what the default experiment makes at least.
const ROUNDS_EACH: u32 = 5;

fn measure(out: &Path, rounds: u32, seed: u64) {
    let status = Command::new(env!("CARGO_BIN_EXE_bulkhead"))
        .args(["measure", "native", "native", "--quick", "--budget-s", "3600"])
        .args(["--rounds", &rounds.to_string(), "--seed", &seed.to_string()])
        .arg("--out")
        .arg(out)
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "bulkhead measure: {status}");
}

fn load(run: &Path) -> (Experiment, Contents) {
    let text = std::fs::read_to_string(run.join("experiment.toml")).unwrap();
    (Experiment::from_toml(&text).unwrap(), read(&run.join("journal.jsonl")).unwrap())
}

/// Headline metrics that were called different.
fn differences(results: &RunResults) -> Vec<String> {
    let found = Difference::is_called;
    results
        .cells
        .iter()
        .flat_map(|cell| cell.metrics.iter().map(move |metric| (cell, metric)))
        .filter(|(_, metric)| metric.headline)
        .filter(|(_, metric)| metric.against_baseline.as_ref().is_some_and(|c| found(c.difference)))
        .map(|(cell, metric)| format!("{} {}", cell.cell.probe, metric.id))
        .collect()
}

/// A stretch of consecutive rounds, renumbered from 0, labels exchanged at random per round.
fn resampled(
    contents: &Contents,
    labels: &[String],
    rounds: u32,
    random: &mut Xoshiro256PlusPlus,
) -> Contents {
    let from = random.random_range(0..=rounds - ROUNDS_EACH);
    let exchange: Vec<bool> = (0..ROUNDS_EACH).map(|_| random.random()).collect();
    let inside = |m: &&Measurement| (from..from + ROUNDS_EACH).contains(&m.round);
    let measurements = contents.measurements.iter().filter(inside).map(|measurement| {
        let mut moved = measurement.clone();
        moved.round -= from;
        if exchange.get(moved.round as usize) == Some(&true) {
            let other = labels.iter().find(|label| **label != measurement.cell.platform).unwrap();
            moved.cell.platform.clone_from(other);
        }
        moved
    });
    Contents { measurements: measurements.collect(), ..contents.clone() }
}

/// Rounds of the comparison across carriers, and the mark in percent.
const CARRIER_ROUNDS: u32 = 15;
const CARRIER_MARK: u32 = 5;

/// Two carriers, no walls, every probe that one instance makes for itself. The windows of `syscall` and `fork` are long
/// enough that something ends in each on a busy machine, too.
const CARRIERS: &str = r#"
name = "carriers"
[[platform]]
label = "native"
kind = "native"
[[platform]]
label = "carried"
kind = "container"
seccomp = false
capabilities = "all"
user_namespace = false
namespaces = false
[probe.gap]
duration_ms = 300
[probe.fwq]
iterations = 50_000
samples = 400
[probe.ftq]
quantum_us = 200
duration_ms = 600
[probe.wakeup]
period_us = 500
duration_ms = 520
priority = 0
[probe.frames]
rate_hz = 200
iterations = 200_000
frames = 200
[probe.cpu]
iterations = 1_000_000
samples = 5
[probe.syscall]
duration_ms = 800
max_threads = 1
[probe.fork]
duration_ms = 800
max_threads = 1
[probe.exit]
duration_ms = 100
[probe.lock]
duration_ms = 200
[probe.linpack]
n = 300
samples = 3
[probe.build]
files = 4
functions = 10
[probe.mem-latency]
max_size_mib = 16
duration_ms = 4
[probe.mem-bandwidth]
max_size_mib = 16
duration_ms = 4
[probe.pages]
size_mib = 32
warm_passes = 2
[probe.disk]
file_size_mib = 16
block_sizes_kib = [64]
modes = ["buffered", "fsync", "direct"]
duration_ms = 200
"#;

/// Native against native through the container's carrier.
fn carriers(rounds: u32, percent: u32) -> ExitCode {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("carriers.toml");
    let repeat = format!("[repeat]\nmin = {rounds}\nmax = {rounds}\nbudget_s = 36000\n");
    std::fs::write(&file, format!("{CARRIERS}{repeat}")).unwrap();
    let out = work.path().join("run");
    let status = Command::new(env!("CARGO_BIN_EXE_bulkhead"))
        .args(["measure", "--seed", &SEED.to_string(), "--experiment"])
        .arg(&file)
        .arg("--out")
        .arg(&out)
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    println!("bulkhead measure: {status}");
    let (experiment, contents) = load(&out);
    let results = analyse(&experiment, &contents).unwrap();
    let share = f64::from(percent) / 100.0;
    let mut judge = Judge::default();
    for cell in results.cells.iter().filter(|cell| cell.cell.platform == "carried") {
        for metric in cell.metrics.iter().filter(|metric| metric.headline) {
            let Some(comparison) = &metric.against_baseline else { continue };
            let what = format!("through the container's carrier, {} {}", cell.cell.probe, metric.id);
            let mark = Mark::Within(1.0 - share, 1.0 + share);
            judge.answer(&what, &comparison.ratio, comparison.pairs as usize, mark);
        }
    }
    judge.close()
}

fn main() -> ExitCode {
    // `cargo bench` and `cargo test --benches` add flags of their own.
    let numbers: Vec<u32> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    if std::env::args().any(|word| word == "carriers") {
        let rounds = numbers.first().copied().unwrap_or(CARRIER_ROUNDS);
        return carriers(rounds, numbers.get(1).copied().unwrap_or(CARRIER_MARK));
    }
    let rounds = numbers.first().copied().unwrap_or(40).max(ROUNDS_EACH);
    let work = tempfile::tempdir().unwrap();
    let mut judge = Judge::default();
    let out = work.path().join("recording");
    measure(&out, rounds, SEED - 1);
    let (experiment, contents) = load(&out);
    let labels: Vec<String> = experiment.platforms.iter().map(|platform| platform.label.clone()).collect();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut clean = 0;
    for repetition in 0..REPETITIONS {
        let part = resampled(&contents, &labels, rounds, &mut random);
        let found = differences(&analyse(&experiment, &part).unwrap());
        clean += u32::from(found.is_empty());
        if !found.is_empty() {
            println!("resampled repetition {}: {}", repetition + 1, told(&found));
        }
    }
    println!("resampled: {ROUNDS_EACH} of {rounds} recorded rounds each, seed {SEED}");
    judge.share("resampled repetitions without a difference", clean, REPETITIONS, MARK);
    judge.close()
}

fn told(found: &[String]) -> String {
    if found.is_empty() {
        "no difference".to_owned()
    } else {
        format!("WRONGLY DIFFERENT: {}", found.join(", "))
    }
}
