//! What a user gets of `bulkhead measure` as it is shipped: how narrow, how much decided, how long, how large, how soon one measurement follows on another.
//!
//! `cargo bench --bench default_run -- [RUNS] [PROGRAM]`: so many runs (default 3, of about four minutes each), in turns with as many
//! of another build of the program, if one is named. `… -- FOLDER [FOLDER]`: the runs that were kept in a folder, and those of another build
//! in another one, each as long ago as its namesake. Both are analysed by this one, so at the same confidence. A median of widths
//! is taken over figures that are no tails, without a neighbour; fewer than three runs have no interval and decide nothing.

mod verdict;

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bulkhead::analysis::suitability;
use bulkhead::campaign::{journal, read_results};
use bulkhead::model::classes::{Suitability, shipped};
use bulkhead::model::journal::Measurement;
use bulkhead::model::results::{CellResult, MetricResult, RunResults};
use bulkhead::stats::summary::median;
use verdict::{Judge, Mark, say};

/// Figures that are no tails.
const NO_TAILS: [&str; 11] = [
    "call_ns",
    "fork_ns",
    "largest_array_ns",
    "quantum_ns",
    "random_read_per_s",
    "read_bytes_per_s",
    "ticket_spin_share",
    "time_all_cpus_ns",
    "time_one_thread_ns",
    "trap_ns",
    "write_fsync_bytes_per_s",
];
/// Platforms that are compared with native, and how wide the ratios may be in the median, in percent.
const WIDEST: [(&str, f64); 2] = [("container", 3.0), ("vm", 10.0)];
/// How wide a container's ratio may be at most, in percent.
const WIDEST_OF_ALL: f64 = 10.0;
/// How soon the next measurement is to follow on a platform's, in milliseconds.
const TURNS: [(&str, f64); 3] = [("native", 2.0), ("container", 2.0), ("vm", 5.0)];
/// How many times as wide another build's are to be.
const NARROWER: f64 = 4.0;

fn main() -> ExitCode {
    verdict::ended("default_run", run())
}

/// One run of a program.
struct Run {
    results: RunResults,
    /// The whole command; none of a run that was kept.
    took: Option<Duration>,
    journal_bytes: u64,
    measurements: Vec<Measurement>,
}

fn run() -> Result<Judge> {
    // What cargo adds begins with a dash.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let before = words.get(1).map(Path::new);
    let (now, then) = if let Some(folder) = words.first().map(Path::new).filter(|word| word.is_dir()) {
        (kept(folder)?, before.map(kept).transpose()?.unwrap_or_default())
    } else {
        let runs = words.first().map_or(Ok(3), |text| text.parse());
        in_turns(runs.context("RUNS is a number, or a folder of runs")?, before)?
    };
    let mut judge = Judge::default();
    widths_judged(&mut judge, &now, &then);
    let of_runs = |of: &dyn Fn(&Run) -> f64| now.iter().map(of).collect::<Vec<f64>>();
    judge.rounds("class verdicts undecided", &of_runs(&|run| undecided(&run.results)), Mark::AtMost(2.0));
    let took: Vec<f64> = now.iter().filter_map(|run| Some(run.took?.as_secs_f64())).collect();
    if !took.is_empty() {
        judge.rounds("the whole command, s", &took, Mark::AtMost(300.0));
    }
    judge.rounds("its journal, MB", &of_runs(&|run| run.journal_bytes as f64 / 1e6), Mark::AtMost(10.0));
    for (platform, most_ms) in TURNS {
        for (beside, words) in [(false, "alone"), (true, "beside loads")] {
            let all: Vec<f64> =
                now.iter().filter_map(|run| median(&turns(&run.measurements, platform, beside))).collect();
            let what = format!("{platform} {words}: from one slice to the next, ms, median");
            judge.rounds_without(&what, &all, now.len() - all.len(), Mark::AtMost(most_ms));
        }
    }
    Ok(judge)
}

/// So many runs of this build, in turns with as many of another one.
fn in_turns(runs: u32, other: Option<&Path>) -> Result<(Vec<Run>, Vec<Run>)> {
    let (mut now, mut then) = (Vec::new(), Vec::new());
    for number in 1..=runs {
        say(&format!("run {number} of {runs}"));
        now.push(measured(Path::new(env!("CARGO_BIN_EXE_bulkhead")))?);
        if let Some(program) = other {
            then.push(measured(program)?);
        }
    }
    Ok((now, then))
}

/// The runs in a folder, by their names.
fn kept(folder: &Path) -> Result<Vec<Run>> {
    let entries: Vec<_> = std::fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    let mut folders: Vec<_> =
        entries.into_iter().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders.iter().map(|out| read(out, None)).collect()
}

fn widths_judged(judge: &mut Judge, now: &[Run], then: &[Run]) {
    for (platform, widest) in WIDEST {
        let widths =
            |runs: &[Run]| runs.iter().filter_map(|run| median_width(&run.results, platform)).collect();
        let (new, old): (Vec<f64>, Vec<f64>) = (widths(now), widths(then));
        let what = format!("{platform} to native: median half-width of the ratios that are no tails, %");
        judge.rounds_without(&what, &new, now.len() - new.len(), Mark::AtMost(widest));
        if platform == "container" {
            let worst: Vec<f64> = now.iter().filter_map(|run| widest_of(&run.results, platform)).collect();
            let what = format!("{platform} to native: the widest of them, %");
            judge.rounds_without(&what, &worst, now.len() - worst.len(), Mark::AtMost(WIDEST_OF_ALL));
        }
        if !then.is_empty() {
            let times: Vec<f64> =
                now.iter().zip(then).filter_map(|(new, old)| narrower(new, old, platform)).collect();
            let what = format!(
                "{platform} to native: as wide with the other build ({old:.1?} %), median of figures, times"
            );
            judge.rounds_without(&what, &times, now.len() - times.len(), Mark::AtLeast(NARROWER));
        }
    }
}

fn measured(program: &Path) -> Result<Run> {
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("run");
    let began = Instant::now();
    let mut command = Command::new(program);
    command.arg("measure").arg("--out").arg(&out).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().with_context(|| format!("starting {}", program.display()))?;
    let took = began.elapsed();
    // Measurements that broke are told by the figures that they have not.
    ensure!(matches!(status.code(), Some(0 | 4)), "{} measure: {status}", program.display());
    read(&out, Some(took))
}

fn read(out: &Path, took: Option<Duration>) -> Result<Run> {
    let journal = out.join("journal.jsonl");
    let journal_bytes = std::fs::metadata(&journal)?.len();
    let measurements = journal::read(&journal)?.measurements;
    let mut results = read_results(out)?;
    // Made from the journal, results have no verdicts on classes yet.
    results.classes = suitability::judge(&results, &shipped()?);
    ensure!(!results.classes.is_empty(), "no class was judged");
    Ok(Run { results, took, journal_bytes, measurements })
}

/// What each of a platform's measurements took besides its own time, ms: resuming, loads, pausing, writing down, until the next began.
/// Starts of instances, which last for seconds, are among them.
fn turns(measurements: &[Measurement], platform: &str, beside: bool) -> Vec<f64> {
    let pairs = measurements.iter().zip(measurements.iter().skip(1));
    let wanted =
        pairs.filter(|(this, _)| this.cell.platform == platform && this.cell.neighbour.is_some() == beside);
    let turn = |(this, next): (&Measurement, &Measurement)| {
        let own = this.started_unix_ns.get().saturating_add(this.duration_ns.get());
        next.started_unix_ns.get().saturating_sub(own) as f64 / 1e6
    };
    wanted.map(turn).collect()
}

fn undecided(results: &RunResults) -> f64 {
    results.classes.iter().filter(|verdict| verdict.level == Suitability::Unknown).count() as f64
}

/// Figures that are no tails of a platform, each with the half-width of its ratio to native in percent, where there is a ratio.
fn widths(results: &RunResults, platform: &str) -> Vec<(String, f64)> {
    let is_wanted = |cell: &&CellResult| cell.cell.platform == platform && cell.cell.neighbour.is_none();
    let width = |metric: &MetricResult| {
        let ratio = metric.against_baseline.as_ref()?.ratio.estimate()?;
        Some((metric.id.clone(), ((ratio.high / ratio.low).sqrt() - 1.0) * 100.0))
    };
    let metrics = results.cells.iter().filter(is_wanted).flat_map(|cell| &cell.metrics);
    metrics.filter(|metric| NO_TAILS.contains(&metric.id.as_str())).filter_map(width).collect()
}

fn median_width(results: &RunResults, platform: &str) -> Option<f64> {
    let widths: Vec<f64> = widths(results, platform).into_iter().map(|(_, width)| width).collect();
    say(&format!("  {platform}: {} of {} figures have a ratio", widths.len(), NO_TAILS.len()));
    median(&widths)
}

/// The widest, and which one it is.
fn widest_of(results: &RunResults, platform: &str) -> Option<f64> {
    let (id, width) = widths(results, platform).into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    say(&format!("  {platform}: the widest is {id}, ± {width:.1} %"));
    Some(width)
}

/// How many times as wide the same figures are in the other run; those of no width in either say nothing.
fn narrower(new: &Run, old: &Run, platform: &str) -> Option<f64> {
    let old = widths(&old.results, platform);
    let pair = |(id, new): (String, f64)| {
        let (_, old) = old.iter().find(|(other, _)| *other == id)?;
        (new > 0.0 && *old > 0.0).then(|| old / new)
    };
    median(&widths(&new.results, platform).into_iter().filter_map(pair).collect::<Vec<f64>>())
}
