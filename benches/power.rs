//! Power: does a run find what is there, and nothing where nothing is?
//!
//! Each run is a shipped experiment with other platforms: native, native again, and native made 5 % slower (`more_work_percent`), so that
//! it has as many as the shipped one. What it says is asked for each of the two against the first as if it had been alone with it: of
//! the slower one whether it is called slower in a probe that was given more work, of the same thing whether any difference is called.
//!
//! `cargo bench --bench power -- [RUNS] [default|quick] [--busy]`: so many runs of each experiment (default 10; four minutes each of
//! `default`, one of `quick`), of both unless one is named; `--busy` beside other work, which is started here: on every CPU
//! bursts of arithmetic and pauses, both of 1 to 100 ms, half of its time in all.
//!
//! Few runs decide little: without a miss it takes 36 to say 9 in 10 and 72 to say that at most 1 in 20 is wrong.
//!
//! Marks: 5 % found in 9 of 10 default runs and 6 of 10 quick ones; a difference in 5 % of A/A runs at most, of 20 or more.

mod busy;
mod verdict;

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use bulkhead::campaign::analysis::analyse;
use bulkhead::campaign::journal::{Contents, read};
use bulkhead::campaign::shipped;
use bulkhead::model::experiment::{Experiment, PlatformSpec};
use bulkhead::model::results::RunResults;
use bulkhead::probes::params::ProbeSpec;
use bulkhead::units::metric::Difference;
use bulkhead::units::names::PlatformKind;
use busy::Busy;
use verdict::{Judge, Mark, say};

const NATIVE: &str = "native";
const AGAIN: &str = "native-again";
const SLOWER: &str = "native-5";
const SLOWER_PERCENT: f64 = 5.0;
/// Shares of runs that are to find it, by experiment.
const TO_BE_FOUND: [(&str, f64); 2] = [("default", 0.9), ("quick", 0.6)];
/// Share of A/A runs that may find anything.
const WRONG_MOST: f64 = 0.05;
/// Fewer of them say nothing.
const FEWEST_RUNS: u32 = 20;

fn main() -> ExitCode {
    verdict::ended("power", run())
}

fn run() -> Result<Judge> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let is_there = |wanted: &str| words.iter().any(|word| word == wanted);
    let runs: u32 = words.iter().find_map(|word| word.parse().ok()).unwrap_or(10);
    let busy = is_there("--busy").then(Busy::start);
    let beside = if busy.is_some() { ", beside other work" } else { "" };
    let named = TO_BE_FOUND.iter().any(|(name, _)| is_there(name));
    let (mut judge, mut clean, mut wrong) = (Judge::default(), 0, 0);
    for (name, least) in TO_BE_FOUND.into_iter().filter(|(name, _)| !named || is_there(name)) {
        let mut found = 0;
        for number in 1..=runs {
            let (slower, same) = one(name)?;
            let words = |all: &[String]| if all.is_empty() { "nothing".to_owned() } else { all.join(", ") };
            say(&format!(
                "{name} run {number} of {runs}: slower found in {}; A/A: {}",
                words(&slower),
                words(&same)
            ));
            found += u32::from(!slower.is_empty());
            wrong += u32::from(!same.is_empty());
            clean += u32::from(same.is_empty());
        }
        let what = format!("{name} runs that find native made {SLOWER_PERCENT} % slower{beside}");
        judge.share(&what, found, runs, Mark::AtLeast(least));
    }
    let all = clean + wrong;
    let what = format!("A/A: runs with any difference{beside}");
    if all < FEWEST_RUNS {
        judge.not_taken(&what, &format!("{wrong} of {all} runs; {FEWEST_RUNS} are wanted"));
    } else {
        judge.share(&what, wrong, all, Mark::AtMost(WRONG_MOST));
    }
    drop(busy);
    Ok(judge)
}

/// One run: in which figures the slower one was called slower, and in which the same thing was called different.
fn one(name: &str) -> Result<(Vec<String>, Vec<String>)> {
    let folder = tempfile::tempdir()?;
    let (file, out) = (folder.path().join("experiment.toml"), folder.path().join("run"));
    std::fs::write(&file, with_natives(shipped::get(name)?).to_toml()?)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_bulkhead"));
    command.arg("measure").arg("--experiment").arg(&file).arg("--out").arg(&out);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().context("starting bulkhead")?;
    // What broke is told by the figures that it has not.
    ensure!(matches!(status.code(), Some(0 | 4)), "bulkhead measure: {status}");
    let experiment = Experiment::from_toml(&std::fs::read_to_string(out.join("experiment.toml"))?)?;
    let contents = read(&out.join("journal.jsonl"))?;
    let with_work = |probe: &str| {
        let all = experiment.probes.specs();
        all.iter().any(|spec: &ProbeSpec| spec.kind().as_str() == probe && spec.with_more_work(1.0).is_some())
    };
    let slower = called(&against_native(&experiment, &contents, SLOWER)?);
    let slower = slower.into_iter().filter(|(probe, _, way)| *way == Difference::Worse && with_work(probe));
    let same = called(&against_native(&experiment, &contents, AGAIN)?);
    let names = |(probe, id, _): (String, String, Difference)| format!("{probe} {id}");
    Ok((slower.map(names).collect(), same.into_iter().map(names).collect()))
}

fn with_natives(mut experiment: Experiment) -> Experiment {
    let native =
        |label: &str| PlatformSpec { label: label.to_owned(), ..PlatformSpec::of_kind(PlatformKind::Native) };
    let slower = PlatformSpec { more_work_percent: Some(SLOWER_PERCENT), ..native(SLOWER) };
    experiment.platforms = vec![native(NATIVE), native(AGAIN), slower];
    experiment.baseline = Some(NATIVE.to_owned());
    experiment
}

/// What the run says of one platform and native, had there been no other: its comparisons are held to their own confidence.
fn against_native(experiment: &Experiment, contents: &Contents, label: &str) -> Result<RunResults> {
    let is_there = |of: &str| of == NATIVE || of == label;
    let (mut experiment, mut contents) = (experiment.clone(), contents.clone());
    experiment.platforms.retain(|platform| is_there(&platform.label));
    contents.measurements.retain(|measurement| is_there(&measurement.cell.platform));
    if let Some(platforms) = &mut contents.platforms {
        platforms.retain(|state| is_there(&state.label));
    }
    analyse(&experiment, &contents).context("the run has no results")
}

/// Headline figures that are called different from native's, and which way.
fn called(results: &RunResults) -> Vec<(String, String, Difference)> {
    let metrics = results.cells.iter().flat_map(|cell| cell.metrics.iter().map(move |metric| (cell, metric)));
    let called = metrics.filter(|(_, metric)| metric.headline).filter_map(|(cell, metric)| {
        let difference = metric.against_baseline.as_ref()?.difference;
        let is_called = difference.is_called();
        is_called.then(|| (cell.cell.probe.to_string(), metric.id.clone(), difference))
    });
    called.collect()
}
