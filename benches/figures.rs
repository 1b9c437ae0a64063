//! Figures that tests state: runs a test in its strict form, shows what it prints and collects the verdicts of its figures
//! (`benches/verdict`). `cargo test` alone has two codes; this has three.
//!
//! ```text
//!   cargo bench --bench figures -- ground-truth ftq coverage     these; without a name it says which there are
//!   cargo bench --bench figures -- all
//! ```
//! A test that prints no figure, because it was skipped or broke, has decided nothing: 4, unless all it can fail for is
//! what its figure counts.

mod verdict;

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use verdict::{Judge, Verdict, say};

/// How many trials a printed line tells of.
type TrialsOf = fn(&str) -> u64;

/// A test with figures.
struct Stated {
    name: &'static str,
    /// Program of tests, and the beginning of their names.
    words: [&'static str; 2],
    /// Variable that asks for the strict form.
    strict: Option<(&'static str, &'static str)>,
    /// Where the test says no figure itself and passes only if nothing failed: what is promised, and how many trials a line
    /// that it prints tells of.
    counted: Option<(&'static str, TrialsOf)>,
}

/// The number before these words.
fn before(line: &str, words: &str) -> u64 {
    let number = line.split(words).next().filter(|start| start.len() < line.len());
    number.and_then(|start| start.split_whitespace().next_back()?.parse().ok()).unwrap_or(0)
}

const ALL: [Stated; 14] = [
    Stated { name: "ground-truth", words: ["measure", "ground_truth::"], strict: None, counted: None },
    Stated {
        name: "ftq",
        words: ["measure", "ftq_injected::"],
        // At six frequencies: 60 in all.
        strict: Some(("BULKHEAD_FTQ_ATTEMPTS", "10")),
        counted: None,
    },
    Stated { name: "coverage", words: ["results", "stats_coverage::"], strict: None, counted: None },
    Stated {
        name: "calibration",
        words: [
            "measure",
            "calibration_real::what_is_measured_of_a_load_held_out_lies_where_it_is_predicted",
        ],
        strict: Some(("BULKHEAD_CALIBRATIONS", "1")),
        counted: None,
    },
    Stated {
        name: "placement",
        words: ["partitions", "numa_bench::asked_and_given_agree_on_a_big_host"],
        strict: Some(("BULKHEAD_PLACEMENTS", "200")),
        counted: Some(("placements given otherwise than asked, or started though impossible", |line| {
            before(line, " valid") + before(line, " invalid ones started nothing")
        })),
    },
    Stated {
        name: "sets",
        words: ["partitions", "sets_crash::eight_real"],
        strict: Some(("BULKHEAD_SETS_FULL", "1")),
        counted: Some(("kills of what controls eight partitions that lost or left something", |line| {
            u64::from(line.contains(": kill -9 of "))
        })),
    },
    Stated {
        name: "crash",
        words: ["measure", "crash::"],
        strict: None,
        counted: Some(("kills of sessions that lost or doubled a result", |line| before(line, " kills in "))),
    },
    Stated {
        name: "crash-real",
        words: ["measure", "crash_real::"],
        strict: None,
        counted: Some(("kills beside real instances that lost or left something", |line| {
            u64::from(line.starts_with("kill ") && line.ends_with(" measurements kept"))
        })),
    },
    Stated {
        name: "mutations",
        words: ["untrusted", "mutations::"],
        strict: Some(("BULKHEAD_MUTATIONS", "1000000")),
        counted: Some(("mutated inputs that made a parser panic", |line| before(line, " inputs, BULKHEAD_"))),
    },
    Stated {
        name: "files-kills",
        words: ["partitions", "files_durable::"],
        strict: Some(("BULKHEAD_KILLS", "100")),
        counted: Some(("kills beneath databases that lost what was committed", |line| {
            u64::from(line.ends_with(" committed, all are there"))
        })),
    },
    Stated {
        name: "files-race",
        words: ["partitions", "files_race::"],
        strict: Some(("BULKHEAD_FILES_RACE", "10000")),
        counted: Some((
            "steps of host and guest by turns after which something is not as natively",
            |line| before(line, " steps by turns, seed"),
        )),
    },
    Stated {
        name: "files-fsx",
        words: ["partitions", "files_stress::fsx"],
        strict: Some(("BULKHEAD_FILES_STRESS", "10")),
        counted: Some(("operations of fsx that found another byte", |line| {
            before(line, " operations, seed")
        })),
    },
    Stated {
        name: "files-stress",
        words: ["partitions", "files_stress::stress_ng"],
        strict: Some(("BULKHEAD_FILES_STRESS", "10")),
        counted: Some((
            "stressors of stress-ng's class filesystem that found what is not so natively",
            |line| before(line, " stressors, "),
        )),
    },
    Stated {
        name: "files-pjdfstest",
        words: ["partitions", "pjdfstest::"],
        strict: Some(("BULKHEAD_PJDFSTEST", "1")),
        counted: Some(("files of pjdfstest that fail otherwise than listed", |line| {
            before(line, " files, as listed")
        })),
    },
];

fn main() -> ExitCode {
    verdict::ended("figures", run())
}

fn run() -> Result<Judge> {
    // Cargo adds --bench.
    let names: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let known = || ALL.iter().map(|stated| stated.name).collect::<Vec<_>>().join(", ");
    if let Some(name) = names.iter().find(|name| *name != "all" && ALL.iter().all(|one| one.name != **name)) {
        bail!("there are no figures \"{name}\"; there are {}, all", known());
    }
    if names.is_empty() {
        bail!("which figures? There are {}, all", known());
    }
    let mut judge = Judge::default();
    for stated in ALL.iter().filter(|one| names.iter().any(|name| name == one.name || name == "all")) {
        take(stated, &mut judge)?;
    }
    Ok(judge)
}

fn take(stated: &Stated, judge: &mut Judge) -> Result<()> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let [program, tests] = stated.words;
    command.args(["test", "--release", "--test", program, "--", "--nocapture", tests]);
    if let Some((name, value)) = stated.strict
        && std::env::var_os(name).is_none()
    {
        command.env(name, value);
    }
    // Skipped tests say why on standard error: both in one.
    let (out, both) = std::io::pipe().context("a pipe")?;
    let mut child = command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .stdout(both.try_clone()?)
        .stderr(both)
        .spawn()
        .context("cargo test")?;
    // It holds the pipe's other end.
    drop(command);
    let (mut seen, mut trials) = (0_usize, 0);
    for line in BufReader::new(out).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        if let Some(verdict) = Verdict::of_line(&line) {
            judge.heard(verdict);
            seen += 1;
        }
        trials += stated.counted.map_or(0, |(_, of)| of(&line));
        say(&line);
    }
    let passed = child.wait()?.success();
    match stated.counted {
        Some((what, _)) if passed => drop(judge.never(what, 0, trials)),
        Some((what, _)) => {
            // What it can fail for is mostly this; what it was, it has said.
            say(&format!("{}: the test failed, after {trials} trials", stated.name));
            judge.never(what, 1, trials.max(1));
        }
        None if seen == 0 => drop(judge.not_taken(stated.name, "the test said none (its output says why)")),
        None if !passed => drop(judge.not_taken(stated.name, "the test failed after it said its figures")),
        None => {}
    }
    Ok(())
}
