//! MPI over the provider beside Open MPI's own transports, in turn within one run; the ratios count, not the times.
//!
//! `cargo bench --bench mpi [-- host|partitions …] [--rounds N] [--sizes B,B,…] [--seconds S] [--accel KIND] [--no-hpcc]`
//!
//! * host: between two processes of this host, the provider against Open MPI's own shared memory (vader).
//! * partitions: between two partitions, against vader between two processes inside one partition of the same
//!   accelerator, and against TCP over virtual network cards between the same two partitions.
//!
//! Marks: half a round trip of 8 B at most 2 × vader's, bandwidth from 1 MiB on at least 1 ×; the latency that HPCC's
//! ping-pong finds at least 10 × better than over TCP, its results right everywhere.

#[path = "../tests/mpi_fixture/mod.rs"]
mod mpi_fixture;
mod verdict;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use mpi_fixture::launch::{Launch, Over};
use mpi_fixture::{Programs, find, hpcc, programs, provider};
use verdict::{Judge, Mark, say, show};

/// Rounds unless said otherwise.
const ROUNDS: usize = 7;
/// Message sizes unless said otherwise: the first for the latency, all from 1 MiB on for the bandwidth.
const SIZES: &str = "8,1024,65536,1048576,4194304";
/// Longest time of one run; guests without hardware support are slow.
const PATIENCE: Duration = Duration::from_secs(600);
/// From here on the bandwidth has a mark.
const LARGE: u64 = 1 << 20;
const LATENCY_MARK: f64 = 2.0;
const BANDWIDTH_MARK: f64 = 1.0;
const HPCC_MARK: f64 = 10.0;
/// Order of HPCC's system of equations, small: only its messages are of interest.
const ORDER: u32 = 400;

fn main() -> ExitCode {
    verdict::ended("mpi", run())
}

/// What the command line asked for.
struct Plan {
    rounds: usize,
    sizes: String,
    seconds: String,
    accelerator: Option<String>,
    hpcc: bool,
    places: Vec<Place>,
}

/// Where both sides run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Host,
    Partitions,
}

/// One way between two ranks.
#[derive(Debug, Clone)]
enum Way {
    OnHost(Over),
    /// By `bulkhead mpirun`.
    InGuests {
        partitions: &'static str,
        transport: &'static str,
    },
}

/// A way and its name in the table.
struct Side {
    name: &'static str,
    way: Way,
}

impl Plan {
    fn read() -> Result<Self> {
        // Cargo adds --bench.
        let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
        let after =
            |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1)).cloned();
        let named = |name: &str| words.iter().any(|word| word == name);
        let mut places: Vec<Place> = [("host", Place::Host), ("partitions", Place::Partitions)]
            .into_iter()
            .filter_map(|(name, place)| named(name).then_some(place))
            .collect();
        if places.is_empty() {
            places = vec![Place::Host, Place::Partitions];
        }
        Ok(Self {
            rounds: after("--rounds").map_or(Ok(ROUNDS), |text| text.parse()).context("--rounds")?,
            sizes: after("--sizes").unwrap_or_else(|| SIZES.to_owned()),
            seconds: after("--seconds").unwrap_or_else(|| "0.3".to_owned()),
            accelerator: after("--accel"),
            hpcc: !named("--no-hpcc"),
            places,
        })
    }

    /// Message sizes in bytes.
    fn bytes(&self) -> Result<Vec<u64>> {
        self.sizes.split(',').map(|size| size.parse().context("--sizes")).collect()
    }
}

fn run() -> Result<Judge> {
    let plan = Plan::read()?;
    let programs = programs().ok_or_else(|| anyhow!("no Open MPI to compare with"))?;
    let library = provider().ok_or_else(|| anyhow!("no provider to measure"))?;
    let mut judge = Judge::default();
    for place in &plan.places {
        let sides = sides(*place, &library);
        compare_messages(&plan, programs, *place, &sides, &mut judge)?;
        if plan.hpcc && find("hpcc").is_some() {
            compare_hpcc(&plan, *place, &sides, &mut judge)?;
        } else if plan.hpcc {
            judge.not_taken(&format!("{place:?}: HPCC's latency"), "hpcc is not installed (package hpcc)");
        }
    }
    Ok(judge)
}

/// Ours first, then vader, then what else there is.
fn sides(place: Place, library: &Path) -> Vec<Side> {
    let guests = |partitions, transport| Way::InGuests { partitions, transport };
    match place {
        Place::Host => vec![
            Side { name: "provider", way: Way::OnHost(Over::Provider(library.to_owned())) },
            Side { name: "vader", way: Way::OnHost(Over::Vader) },
        ],
        Place::Partitions => vec![
            Side { name: "channels between two", way: guests("2", "channel") },
            // Within a partition, this is Open MPI's own shared memory.
            Side { name: "vader inside one", way: guests("1", "tcp") },
            Side { name: "TCP between two", way: guests("2", "tcp") },
        ],
    }
}

/// Runs a program by one way; what it printed, and the folder it ran in.
fn run_by(plan: &Plan, way: &Way, program: &Path, words: &[&str], folder: &Path) -> Result<String> {
    match way {
        Way::OnHost(over) => {
            let launch = Launch::new(over, 2).bound();
            let ended = launch.run_in(folder, program, words, PATIENCE);
            ensure!(ended.code() == Some(0), "{over:?}: {:?}\n{}\n{}", ended.status, ended.out, ended.err);
            Ok(ended.out)
        }
        Way::InGuests { partitions, transport } => {
            let mut command = Command::new(env!("CARGO_BIN_EXE_bulkhead"));
            command.args(["mpirun", "-n", "2", "--partitions", partitions, "--transport", transport]);
            command.args(["--memory", "1GiB", "--env", "OPENBLAS_NUM_THREADS=1", "--rw"]).arg(folder);
            command.arg("--workdir").arg(folder);
            if let Some(library) = provider() {
                command.arg("--provider").arg(library);
            }
            if let Some(accelerator) = &plan.accelerator {
                command.args(["--accel", accelerator]);
            }
            let output = command.arg("--").arg(program).args(words).stdin(Stdio::null()).output()?;
            let err = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{way:?}: {}\n{err}", output.status);
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
    }
}

/// What one run of the ping-pong found, by message size.
#[derive(Debug, Default)]
struct Figures {
    /// Size, median half round trip in nanoseconds.
    latency_ns: Vec<(u64, f64)>,
    /// Size, shortest half round trip in nanoseconds: what is left of the latency on a host that is busy otherwise.
    shortest_ns: Vec<(u64, f64)>,
    /// Size, bytes per second.
    bytes_per_s: Vec<(u64, f64)>,
}

impl Figures {
    fn read(out: &str) -> Result<Self> {
        let mut figures = Self::default();
        for line in out.lines().filter(|line| line.starts_with('{')) {
            let found: serde_json::Value = serde_json::from_str(line).context(line.to_owned())?;
            let number = |key: &str| found[key].as_f64().ok_or_else(|| anyhow!("no {key} in {line}"));
            let bytes = found["bytes"].as_u64().ok_or_else(|| anyhow!("no bytes in {line}"))?;
            match found["what"].as_str() {
                Some("latency") => {
                    figures.latency_ns.push((bytes, number("p50_ns")?));
                    figures.shortest_ns.push((bytes, number("min_ns")?));
                }
                Some("bandwidth") => figures.bytes_per_s.push((bytes, number("bytes_per_s")?)),
                _ => {}
            }
        }
        Ok(figures)
    }

    fn latency(&self, bytes: u64) -> f64 {
        of_size(&self.latency_ns, bytes)
    }

    fn shortest(&self, bytes: u64) -> f64 {
        of_size(&self.shortest_ns, bytes)
    }

    fn bandwidth(&self, bytes: u64) -> f64 {
        of_size(&self.bytes_per_s, bytes)
    }
}

fn of_size(list: &[(u64, f64)], bytes: u64) -> f64 {
    list.iter().find(|(size, _)| *size == bytes).map_or(f64::NAN, |(_, value)| *value)
}

fn compare_messages(
    plan: &Plan,
    programs: &Programs,
    place: Place,
    sides: &[Side],
    judge: &mut Judge,
) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let words = ["--sizes", &plan.sizes, "--seconds", &plan.seconds];
    let mut rounds: Vec<Vec<Figures>> = Vec::new();
    for round in 0..plan.rounds {
        let mut found = Vec::new();
        // Whoever is first in one round is last in the next.
        for side in in_turn(sides, round) {
            found.push(Figures::read(&run_by(plan, &side.way, &programs.pingpong, &words, folder.path())?)?);
        }
        if round % 2 == 1 {
            found.reverse();
        }
        say(&line_of(place, round, sides, &found, &plan.bytes()?));
        rounds.push(found);
    }
    for (at, other) in sides.iter().enumerate().skip(1) {
        hold(plan, place, other.name, (&rounds, at), judge)?;
    }
    Ok(())
}

fn in_turn(sides: &[Side], round: usize) -> Vec<&Side> {
    let mut order: Vec<&Side> = sides.iter().collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

fn line_of(place: Place, round: usize, sides: &[Side], found: &[Figures], lengths: &[u64]) -> String {
    let (small, large) = (lengths.first().copied().unwrap_or(8), lengths.last().copied().unwrap_or(LARGE));
    let each = sides.iter().zip(found).map(|(side, figures)| {
        let (latency, shortest) = (figures.latency(small) / 1e3, figures.shortest(small) / 1e3);
        let bandwidth = figures.bandwidth(large) / 1e9;
        format!(
            "{}: {small} B {latency:.2} us (shortest {shortest:.2}), {large} B {bandwidth:.2} GB/s",
            side.name
        )
    });
    format!("{place:?}, round {round}: {}", each.collect::<Vec<_>>().join("; "))
}

/// Ratios against one other side. Only vader has marks here.
fn hold(
    plan: &Plan,
    place: Place,
    name: &str,
    (rounds, at): (&[Vec<Figures>], usize),
    judge: &mut Judge,
) -> Result<()> {
    let is_vader = at == 1;
    for (number, bytes) in plan.bytes()?.into_iter().enumerate() {
        let latency = ratios(rounds, at, |figures| figures.latency(bytes));
        let what = format!("{place:?}: {bytes} B latency / {name}'s");
        if is_vader && number == 0 {
            judge.rounds(&what, &latency, Mark::AtMost(LATENCY_MARK));
        } else {
            show(&what, &latency);
        }
        let shortest = ratios(rounds, at, |figures| figures.shortest(bytes));
        show(&format!("{place:?}: {bytes} B shortest latency / {name}'s"), &shortest);
        let bandwidth = ratios(rounds, at, |figures| figures.bandwidth(bytes));
        let what = format!("{place:?}: {bytes} B bandwidth / {name}'s");
        if is_vader && bytes >= LARGE {
            judge.rounds(&what, &bandwidth, Mark::AtLeast(BANDWIDTH_MARK));
        } else {
            show(&what, &bandwidth);
        }
    }
    Ok(())
}

fn ratios(rounds: &[Vec<Figures>], at: usize, of: impl Fn(&Figures) -> f64) -> Vec<f64> {
    rounds.iter().filter_map(|found| Some(of(found.first()?) / of(found.get(at)?))).collect()
}

fn compare_hpcc(plan: &Plan, place: Place, sides: &[Side], judge: &mut Judge) -> Result<()> {
    let mut rounds: Vec<Vec<f64>> = Vec::new();
    for round in 0..plan.rounds.div_ceil(2) {
        let mut found = Vec::new();
        for side in in_turn(sides, round) {
            let folder = tempfile::tempdir()?;
            hpcc::prepare(folder.path(), ORDER, 2);
            let program = find("hpcc").unwrap_or_else(|| PathBuf::from("hpcc"));
            run_by(plan, &side.way, &program, &[], folder.path())?;
            let text = hpcc::output_in(folder.path()).map_err(|error| anyhow!("{}: {error}", side.name))?;
            let read = hpcc::read(&text)
                .map_err(|wrong| anyhow!("{}: HPCC's results are wrong: {wrong}", side.name))?;
            found.push(read.latency_s);
        }
        if round % 2 == 1 {
            found.reverse();
        }
        let each =
            sides.iter().zip(&found).map(|(side, latency)| format!("{} {:.2} us", side.name, latency * 1e6));
        say(&format!(
            "{place:?}, HPCC round {round}: results right; {}",
            each.collect::<Vec<_>>().join(", ")
        ));
        rounds.push(found);
    }
    for (at, other) in sides.iter().enumerate().skip(1) {
        let ratios: Vec<f64> =
            rounds.iter().filter_map(|found| Some(found.get(at)? / found.first()?)).collect();
        let what = format!("{place:?}: HPCC's latency of {} / ours", other.name);
        if at == 2 {
            judge.rounds(&what, &ratios, Mark::AtLeast(HPCC_MARK));
        } else {
            show(&what, &ratios);
        }
    }
    Ok(())
}
