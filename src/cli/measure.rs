//! `bulkhead measure`: from arguments to a run directory with its journal, results and report.
//!
//! ```text
//!  arguments ─► experiment ─► run directory ─► preflight ─► campaign::run ─► conclude ─► results.json, report.html
//!                              (or --resume)                  │                            terminal summary
//!                                                             └─ events ─► progress
//! ```

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;

use super::agent::counter_rate;
use super::args::MeasureArgs;
use super::ending::{Ending, OrStop, Verdict};
use super::progress::Progress;
use super::{cache, fit, interrupt, json, output, resolve};
use campaign;
use campaign::event::Stop;
use campaign::rundir::{REPORT_FILE, RunDir};
use campaign::runner::{self, RunEnd, Setup};
use model::SCHEMA_VERSION;
use model::classes::ClassSet;
use model::experiment::PlatformSpec;
use model::journal::Header;
use model::results::RunResults;
use platforms::ledger::Ledger;
use platforms::reaper::Reaper;
use platforms::{Cancel, PlatformContext, facts, host, make};
use report::text::ascii;
use report::{brief, page, terminal};
use units::Nanos;
use units::names::PlatformKind;

/// Where it is kept how long measurements take on this host.
pub const DURATIONS_FILE: &str = "durations.json";
/// Measures, writes everything down, prints the summary.
pub fn run(args: &MeasureArgs) -> Verdict {
    if args.plan {
        return super::preview::run(args);
    }
    let cancel = interrupt::token().or_lacking()?;
    // What is wrong with the classes is said before anything is measured.
    let resumed = args.resume.as_deref();
    let classes = fit::resolve(&args.fit, resumed).or_bad_input()?;
    let rundir = open(args)?;
    fit::keep(&args.fit, &rundir, &classes).or_bad_input()?;
    output::say(&format!(
        "bulkhead: measuring into {}, seed {}",
        rundir.path().display(),
        rundir.experiment().seed.unwrap_or_default()
    ));
    let end = measure(&rundir, &classes, args.i_know_this_destroys_data, &cancel).or_lacking();
    // Whatever ended the run, what is in the journal becomes results and a report.
    let results = match campaign::conclude(&rundir, &classes) {
        Ok(results) => results,
        Err(error) => {
            end?;
            return Err(error).or_lacking();
        }
    };
    rundir.publish(REPORT_FILE, page::html(&results).as_bytes()).or_lacking()?;
    let end = end?;
    show(&results, Shown::of(args.json, args.full)).or_bad_input()?;
    output::say(&format!("\nreport: {}", rundir.path().join(REPORT_FILE).display()));
    if !(args.full || args.json) {
        output::say(&format!("all of it: bulkhead report {} --full", rundir.path().display()));
    }
    Ok(ending(args, &results, end, &rundir))
}

fn open(args: &MeasureArgs) -> Result<RunDir, super::ending::Stop> {
    if let Some(dir) = &args.resume {
        return RunDir::resume(dir).or_bad_input();
    }
    let seed = fresh_seed();
    let experiment = resolve::experiment(args, seed).or_bad_input()?;
    let out = args.out.clone().unwrap_or_else(default_out);
    RunDir::create(&out, &experiment, seed).or_bad_input()
}

/// `bulkhead-run-20260102-150405`, UTC.
fn default_out() -> PathBuf {
    PathBuf::from(format!("bulkhead-run-{}", report::utc::compact_utc(now())))
}

/// Nanoseconds since 1970.
pub fn now() -> Nanos {
    Nanos::from_duration(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

fn measure(
    rundir: &RunDir,
    classes: &ClassSet,
    may_destroy: bool,
    cancel: &Cancel,
) -> anyhow::Result<RunEnd> {
    let seed = rundir.experiment().seed.unwrap_or_default();
    let context = platform_context(rundir.path(), seed, may_destroy)?;
    let reaper = Reaper::start(rundir.path(), &context.exe)?;
    let header = header(rundir.path());
    let dirty = header.preflight.dirty_reasons();
    if !dirty.is_empty() {
        output::say("bulkhead: this host is not quiet, the run will be marked dirty:");
        for reason in &dirty {
            output::say(&format!("  - {reason}"));
        }
    }
    let made = |spec: &PlatformSpec| make::make(spec, &context);
    let setup = Setup {
        platforms: rundir.experiment().platforms.iter().map(|spec| (spec.clone(), made(spec))).collect(),
        host: Some(made(&PlatformSpec::of_kind(PlatformKind::Native))),
        header,
        durations: Some(context.cache.join(DURATIONS_FILE)),
        classes: classes.clone(),
        cancel: cancel.clone(),
    };
    let mut progress = Progress::new();
    let end = runner::run(rundir, setup, &mut |event| progress.on(event))?;
    drop(context);
    reaper.goodbye();
    rundir.tidy()?;
    Ok(end)
}

/// What platforms are made with. Only the command line can allow data to be destroyed, never an experiment file.
pub fn platform_context(work: &Path, seed: u64, may_destroy: bool) -> anyhow::Result<PlatformContext> {
    let exe = std::env::current_exe().context("the program's own file cannot be found")?;
    let ledger = Ledger::open(work).context("the list of started things cannot be opened")?;
    Ok(PlatformContext { exe, ledger, cache: cache::folder(), counter_hz: counter_rate(), seed, may_destroy })
}

/// What a session begins with: host and preflight.
pub fn header(dir: &Path) -> Header {
    Header {
        schema_version: SCHEMA_VERSION,
        bulkhead_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_unix_ns: now(),
        host: facts::collect(counter_rate()),
        preflight: host::preflight(dir),
    }
}

/// A short seed, so that it can be typed again.
pub fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(now().get()) >> 40
}

/// How results are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// One screen.
    Brief,
    /// All that is known.
    Full,
    /// As JSON.
    Json,
}

impl Shown {
    /// As the flags say.
    pub const fn of(json: bool, full: bool) -> Self {
        match (json, full) {
            (true, _) => Self::Json,
            (false, true) => Self::Full,
            (false, false) => Self::Brief,
        }
    }
}

/// Prints results.
pub fn show(results: &RunResults, shown: Shown) -> anyhow::Result<()> {
    let style = output::stdout_style();
    let text = match shown {
        Shown::Json => return Ok(output::data(&json::pretty(results)?)?),
        Shown::Full => terminal::summary(results, style),
        Shown::Brief => brief::screen(results, style),
    };
    Ok(output::data(&if output::stdout_is_ascii() { ascii(&text) } else { text })?)
}

fn ending(args: &MeasureArgs, results: &RunResults, end: RunEnd, rundir: &RunDir) -> Ending {
    if end.stop == Stop::Interrupted {
        output::say(&format!("go on with: bulkhead measure --resume {}", rundir.path().display()));
        return Ending::Interrupted;
    }
    if !fit::is_met(&args.fit, results) {
        return Ending::NotMet;
    }
    if !results.failures.is_empty() {
        return Ending::Broke;
    }
    // A platform that was asked for by name and is not there is worth a code of its own; the default takes what is there.
    let named = !args.platforms.is_empty();
    let lacking = results.platforms.iter().any(|platform| platform.unavailable.is_some());
    if named && lacking { Ending::Lacking } else { Ending::Done }
}
