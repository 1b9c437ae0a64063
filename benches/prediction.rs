//! How long a run takes: said before it is measured, and taken.
//!
//! Experiments of different kinds, none of them the full matrix that the nominal costs were fitted on; each on an idle
//! machine and beside busy loops of this bench, each first on a host without history and then with that of the run
//! before it. A run's ratio said / taken is to lie within 25 %. Every run is printed with its time of day and the load of
//! the machine; how many hours were covered is said at the end, because a machine shared with others has moods.
//!
//! `cargo bench --bench prediction [-- --passes N] [--pause-s S]`: passes over all experiments, and rest between them.

mod verdict;

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bulkhead::cli::cache_folder;
use bulkhead::model::prediction::Prediction;
use bulkhead::units::Nanos;
use verdict::{Judge, Mark, say};

/// How far off what was said may be.
const OFF: f64 = 0.25;

/// Experiments: name, words for `measure`, and a file where it takes one.
const EXPERIMENTS: [(&str, &[&str], Option<&str>); 5] = [
    ("native, memory and kernel", &["native", "-p", "mem-latency", "-p", "syscall", "-p", "fork"], None),
    ("native and container, quick", &["native", "container", "--quick"], None),
    ("vm, timers and kernel", &["vm:tcg", "-p", "wakeup", "-p", "gap", "-p", "exit"], None),
    ("container, disk", &["container", "-p", "disk", "-p", "fwq"], None),
    ("two instances", &["--experiment", "two.toml"], Some(TWO)),
];

const TWO: &str = r#"
name = "two"
[[platform]]
label = "native"
kind = "native"
[[platform]]
label = "vm"
kind = "vm"
accelerator = "tcg"
[probe.share]
duration_ms = 300
[probe.fwq]
[[load]]
kind = "cpu"
probes = ["fwq"]
[[layout]]
size = "1x2"
probes = ["share"]
"#;
/// Of each experiment, so that it is known how many come.
const ROUNDS: &str = "2";

fn main() -> ExitCode {
    verdict::ended("prediction", run())
}

fn number(name: &str, usual: u64) -> u64 {
    let words: Vec<String> = std::env::args().collect();
    let at = words.iter().position(|word| word == name);
    at.and_then(|at| words.get(at + 1)?.parse().ok()).unwrap_or(usual)
}

/// Ratios said / taken on a host without history and with it.
#[derive(Default)]
struct Ratios {
    first: Vec<f64>,
    known: Vec<f64>,
}

fn run() -> Result<Judge> {
    let (began, mut measured) = (Instant::now(), Duration::ZERO);
    let (mut idle, mut busy, mut failed) = (Ratios::default(), Ratios::default(), 0_u32);
    for pass in 0..number("--passes", 1) {
        if pass > 0 {
            std::thread::sleep(Duration::from_secs(number("--pause-s", 0)));
        }
        for (name, words, file) in EXPERIMENTS {
            for is_busy in [false, true] {
                let loops = is_busy.then(BusyLoops::start);
                let cache = tempfile::tempdir()?;
                bring_kernel(cache.path())?;
                let place = if is_busy { "beside busy loops" } else { "idle" };
                let ratios = if is_busy { &mut busy } else { &mut idle };
                for list in [&mut ratios.first, &mut ratios.known] {
                    let (said, taken) = match measure(words, file, cache.path()) {
                        Ok(both) => both,
                        Err(error) => {
                            // The others still say something; this one is told and counted.
                            say(&format!("pass {pass}, {name}, {place}: no run: {error:#}"));
                            failed += 1;
                            continue;
                        }
                    };
                    let ratio = said.least_ns.as_f64() / taken.as_f64();
                    say(&line(pass, name, place, &said, taken, ratio));
                    measured += Duration::from_secs_f64(taken.as_secs_f64());
                    list.push(ratio);
                }
                drop(loops);
            }
        }
    }
    let hours = |time: Duration| time.as_secs_f64() / 3600.0;
    say(&format!("{:.2} hours covered, {:.2} of them measured", hours(began.elapsed()), hours(measured)));
    let mut judge = judged(&[
        ("idle, without history", &idle.first),
        ("beside busy loops, without history", &busy.first),
        ("idle, with history", &idle.known),
        ("beside busy loops, with history", &busy.known),
    ]);
    if failed > 0 {
        judge.not_taken("runs that failed", &format!("{failed} of them (see above)"));
    }
    Ok(judge)
}

fn judged(groups: &[(&str, &Vec<f64>)]) -> Judge {
    let mut judge = Judge::default();
    let mark = Mark::Within(1.0 - OFF, 1.0 + OFF);
    for (name, ratios) in groups {
        judge.rounds(&format!("said / taken, {name}"), ratios, mark);
        let off = ratios.iter().filter(|ratio| (*ratio - 1.0).abs() > OFF).count();
        judge.never(&format!("runs off by more than 25 %, {name}"), off as u64, ratios.len() as u64);
    }
    judge
}

fn line(pass: u64, name: &str, place: &str, said: &Prediction, taken: Nanos, ratio: f64) -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?").to_owned();
    let word = if (ratio - 1.0).abs() <= OFF { "within 25 %" } else { "OFF" };
    format!(
        "pass {pass}, {name}, {place}, load {load}, {} of {} known: said {:.1} s, taken {:.1} s, ratio {ratio:.2}: {word}",
        said.known,
        said.measurements,
        said.least_ns.as_secs_f64(),
        taken.as_secs_f64()
    )
}

/// A cache folder without history still has the guests' kernel. No link to it: what is booted must lie in the cache itself.
fn bring_kernel(cache: &Path) -> Result<()> {
    let real = cache_folder().join("kernel");
    if real.exists() {
        let copied = Command::new("cp").arg("-a").arg(real).arg(cache).status().context("cp")?;
        ensure!(copied.success(), "cp -a of the guests' kernel ended with {copied}");
    }
    Ok(())
}

/// Runs an experiment; what was said of its time, and the time it took.
fn measure(words: &[&str], file: Option<&str>, cache: &Path) -> Result<(Prediction, Nanos)> {
    let folder = tempfile::tempdir()?;
    if let Some(text) = file {
        std::fs::write(folder.path().join("two.toml"), text)?;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_bulkhead"))
        .arg("measure")
        .args(words)
        .args(["--rounds", ROUNDS, "--budget-s", "3600", "--json", "--out", "run"])
        .env("BULKHEAD_CACHE", cache)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()?;
    ensure!(
        matches!(output.status.code(), Some(0 | 4)),
        "measure {words:?} ended with {}:\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let results: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let session = &results["sessions"][0];
    let predicted: Prediction =
        serde_json::from_value(session["predicted"].clone()).context("no forecast")?;
    let taken = session["took_ns"].as_u64().context("the run does not say how long it took")?;
    Ok((predicted, Nanos::from_nanos(taken)))
}

/// A busy loop for every CPU, until dropped.
struct BusyLoops {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl BusyLoops {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let spin = |_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let threads = (0..cpus).map(spin).collect();
        Self { stop, threads }
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It has nothing that could fail.
            let _ = thread.join();
        }
    }
}
