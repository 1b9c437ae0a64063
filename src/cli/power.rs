//! `bulkhead doctor --power`: which slowdowns do runs on this host find? Two native instances, one made slower by a known amount, in many
//! short runs, the amounts in turns; how often each is found, and how often a difference is called where there is none.
//!
//! ```text
//!  for each run:  0 %, 2 %, 5 %, 10 % (in another order each time) ─► a whole run in a folder that is removed ─► called?
//!  until all runs are made, the time is used up, or Ctrl-C: what was found so far is told in any case
//! ```

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::ProgressBar;

use super::args::DoctorArgs;
use super::ending::{Ending, OrStop, Verdict};
use super::measure::{fresh_seed, header, platform_context};
use super::{interrupt, json, output};
use campaign::event::Stop;
use campaign::read_run;
use campaign::rundir::RunDir;
use campaign::runner::{self, Setup};
use model::classes::ClassSet;
use model::experiment::Experiment;
use model::journal::Header;
use model::power::{PowerReport, ProbePower, Slowdown};
use model::results::RunResults;
use platforms::reaper::Reaper;
use platforms::sweep::new_folder;
use platforms::{Cancel, PlatformContext, make};
use probes::ProbeKind;
use stats::interval::share_interval;
use stats::summary::median;
use units::metric::Difference;
use units::{Nanos, three_digits};

/// How much more work the slower instance does, percent.
const SLOWER: [f64; 4] = [0.0, 2.0, 5.0, 10.0];
/// Runs of each, unless it is told.
const RUNS: u32 = 10;
/// Seconds for all of it, unless it is told.
const BUDGET_S: u32 = 150;
/// Confidence of the shares.
const CONFIDENCE: f64 = 0.95;
/// Elsewhere than on a terminal: a line per this time.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// A short run: probes of fixed work, as `--quick` makes them.
const EXPERIMENT: &str = r#"
name = "power"
[repeat]
min = 20
max = 20
budget_s = 600
[[platform]]
label = "native"
kind = "native"
[[platform]]
label = "slower"
kind = "native"
[probe.fwq]
iterations = 50_000
samples = 200
[probe.cpu]
iterations = 1_000_000
samples = 1
"#;

/// What one run called.
#[derive(Default)]
struct Called {
    /// Some figure of the slower one is worse.
    slower: bool,
    /// Some figure differs, either way.
    any: bool,
    /// Per probe which difference it could have seen.
    detectable: Vec<(ProbeKind, f64)>,
}

/// What was found so far.
struct Found {
    runs: [Vec<Called>; SLOWER.len()],
    broke: u32,
    interrupted: bool,
}

/// Measures, tells.
pub fn run(args: &DoctorArgs) -> Verdict {
    let words = "interrupted; ending what was started, what was found so far follows (again: at once)";
    let cancel = interrupt::token_saying(words).or_lacking()?;
    let began = Instant::now();
    let wanted = args.runs.unwrap_or(RUNS);
    let budget = Duration::from_secs(args.budget_s.unwrap_or(BUDGET_S).into());
    let work = new_folder("power").context("no folder for the runs").or_lacking()?;
    let header = header(work.path());
    let found = measure(work.path(), &header, wanted, began + budget, &cancel).or_lacking()?;
    let report = report(&found, &header, wanted, began.elapsed());
    let text = if args.json { json::pretty(&report).or_bad_input()? } else { words_of(&report, found.broke) };
    output::data(&text).or_bad_input()?;
    Ok(match found {
        Found { interrupted: true, .. } => Ending::Interrupted,
        Found { broke: 1.., .. } => Ending::Broke,
        _ => Ending::Done,
    })
}

fn measure(
    work: &Path,
    header: &Header,
    wanted: u32,
    until: Instant,
    cancel: &Cancel,
) -> anyhow::Result<Found> {
    let context = platform_context(work, 0, false)?;
    let reaper = Reaper::start(work, &context.exe)?;
    let mut found = Found { runs: Default::default(), broke: 0, interrupted: false };
    let mut progress = Progress::new(wanted);
    'all: for number in 0..wanted as usize {
        // In turns, and each as often first: what drifts hits all alike.
        for place in (0..SLOWER.len()).map(|place| (place + number) % SLOWER.len()) {
            let percent = SLOWER.get(place).copied().unwrap_or_default();
            if Instant::now() >= until {
                break 'all;
            }
            progress.on(percent, number);
            match one(&work.join("run"), percent, header, &context, cancel)? {
                Outcome::Called(called) => {
                    if let Some(runs) = found.runs.get_mut(place) {
                        runs.push(called);
                    }
                }
                Outcome::Broke => found.broke += 1,
                Outcome::Interrupted => {
                    found.interrupted = true;
                    break 'all;
                }
            }
        }
    }
    progress.end();
    drop(context);
    reaper.goodbye();
    Ok(found)
}

enum Outcome {
    Called(Called),
    Broke,
    Interrupted,
}

/// One run, in a folder that is there for it alone.
fn one(
    folder: &Path,
    percent: f64,
    header: &Header,
    context: &PlatformContext,
    cancel: &Cancel,
) -> anyhow::Result<Outcome> {
    let rundir = RunDir::create(folder, &experiment(percent)?, fresh_seed())?;
    let platforms = rundir.experiment().platforms.iter();
    let setup = Setup {
        platforms: platforms.map(|spec| (spec.clone(), make::make(spec, context))).collect(),
        host: None,
        header: header.clone(),
        durations: None,
        classes: ClassSet::default(),
        cancel: cancel.clone(),
    };
    let end = runner::run(&rundir, setup, &mut |_| ())?;
    let results = read_run(folder)?;
    drop(rundir);
    std::fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    Ok(if end.stop == Stop::Interrupted {
        Outcome::Interrupted
    } else if results.failures.is_empty() {
        Outcome::Called(called(&results))
    } else {
        Outcome::Broke
    })
}

/// What a user would write to make one of two native instances slower.
fn experiment(percent: f64) -> anyhow::Result<Experiment> {
    let mut experiment = Experiment::from_toml(EXPERIMENT)?;
    for slower in experiment.platforms.iter_mut().skip(1).filter(|_| percent > 0.0) {
        slower.more_work_percent = Some(percent);
    }
    Ok(experiment)
}

fn called(results: &RunResults) -> Called {
    let mut called = Called::default();
    for cell in &results.cells {
        let headline = cell.metrics.iter().filter(|metric| metric.headline);
        for (place, metric) in headline.enumerate() {
            let Some(comparison) = &metric.against_baseline else { continue };
            called.slower |= comparison.difference == Difference::Worse;
            called.any |= comparison.difference.is_called();
            let main = comparison.detectable_percent.filter(|_| place == 0);
            called.detectable.extend(main.map(|percent| (cell.cell.probe, percent)));
        }
    }
    called
}

fn report(found: &Found, header: &Header, wanted: u32, took: Duration) -> PowerReport {
    let slowdown = |(percent, runs): (f64, &Vec<Called>)| {
        let is_found = |called: &&Called| if percent > 0.0 { called.slower } else { called.any };
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let (runs, found) = (count(runs.len()), count(runs.iter().filter(is_found).count()));
        let (share_low, share_high) = share_interval(found, runs, CONFIDENCE);
        Slowdown { more_work_percent: percent, runs, found, share_low, share_high }
    };
    let all = || found.runs.iter().flatten().flat_map(|called| &called.detectable);
    let probe = |kind: &ProbeKind| {
        let of_probe = all().filter(|(probe, _)| probe == kind).map(|(_, percent)| *percent);
        let detectable_percent = median(&of_probe.collect::<Vec<f64>>())?;
        Some(ProbePower { probe: kind.as_str().to_owned(), detectable_percent })
    };
    PowerReport {
        bulkhead_version: header.bulkhead_version.clone(),
        rounds: experiment(0.0).map_or(0, |experiment| experiment.repeat.min),
        runs_wanted: wanted,
        took_ns: Nanos::from_duration(took),
        interrupted: found.interrupted,
        dirty: header.preflight.dirty_reasons(),
        slowdowns: SLOWER.into_iter().zip(&found.runs).map(slowdown).collect(),
        probes: ProbeKind::ALL.iter().filter_map(probe).collect(),
    }
}

fn words_of(report: &PowerReport, broke: u32) -> String {
    let mut text = String::new();
    let names: Vec<&str> = report.probes.iter().map(|probe| probe.probe.as_str()).collect();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "Native against native made slower, in runs of {} rounds of {}:\n",
        report.rounds,
        if names.is_empty() { "fwq, cpu".to_owned() } else { names.join(", ") }
    );
    let _ = writeln!(text, "  slower by   found in       share of such runs, 95 %");
    for one in &report.slowdowns {
        let name = if one.more_work_percent > 0.0 {
            format!("{} %", one.more_work_percent)
        } else {
            "nothing".to_owned()
        };
        let (low, high) = (one.share_low * 100.0, one.share_high * 100.0);
        let share = if one.runs == 0 { String::new() } else { format!("[{low:.0} … {high:.0}] %") };
        let wrongly = if one.more_work_percent > 0.0 { "" } else { "   called though there is none" };
        let of = format!("{} of {}", one.found, one.runs);
        let _ = writeln!(text, "  {name:<10}  {of:<13}  {share}{wrongly}");
    }
    let seen = report.probes.iter();
    let seen: Vec<String> =
        seen.map(|probe| format!("{} {} %", probe.probe, three_digits(probe.detectable_percent))).collect();
    if !seen.is_empty() {
        let _ = writeln!(text, "\nWhat one such run would see, with 90 % power: {}.", seen.join(", "));
    }
    text.push_str("Longer runs see more: bulkhead measure --plan says what a run of yours will see.\n");
    let made = report.slowdowns.iter().map(|one| one.runs).min().unwrap_or(0);
    let all = report.slowdowns.iter().map(|one| one.runs).fold(0, u32::saturating_add);
    if report.interrupted {
        text.push_str("Interrupted: what was found so far.\n");
    } else if all + broke < report.runs_wanted.saturating_mul(u32::try_from(SLOWER.len()).unwrap_or(u32::MAX))
    {
        let _ =
            writeln!(text, "The time was used up after {made} of {} runs (--budget-s).", report.runs_wanted);
    }
    if broke > 0 {
        let _ = writeln!(text, "{broke} runs broke and are not counted.");
    }
    if let Some(reason) = report.dirty.first() {
        let _ = writeln!(text, "This host was not quiet: {reason}.");
    }
    text
}

/// A bar on a terminal, a line now and then elsewhere.
struct Progress {
    bar: Option<ProgressBar>,
    last_line: Instant,
    wanted: u32,
}

impl Progress {
    fn new(wanted: u32) -> Self {
        let bar = output::bar();
        if let Some(bar) = &bar {
            bar.set_length(u64::from(wanted) * SLOWER.len() as u64);
        }
        Self { bar, last_line: Instant::now(), wanted }
    }

    fn on(&mut self, percent: f64, number: usize) {
        let words = format!("run {} of {}, slower by {percent} %", number + 1, self.wanted);
        match &self.bar {
            Some(bar) => {
                bar.set_message(words);
                bar.inc(1);
            }
            None if self.last_line.elapsed() >= LINE_EVERY => {
                self.last_line = Instant::now();
                output::say(&words);
            }
            None => {}
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
