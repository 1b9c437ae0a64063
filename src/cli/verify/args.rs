//! Arguments of `bulkhead verify`.

use std::path::PathBuf;

use clap::{Args, value_parser};

const AFTER: &str = "\
Examples:
  bulkhead verify plant.toml                 all requirements of the set that is up; evidence in plant-verify/
  bulkhead verify plant.toml --failures      also those about outages: parts are made to fail, and started again
  bulkhead verify plant.toml --only R3       this one anew; what was seen of the others is held against today
  bulkhead verify plant.toml --no-run        nothing is measured: what still counts of what was seen?
  bulkhead verify plant.toml --watch         until interrupted: tells once what does not hold any more
  bulkhead verify --check plant-verify       every verdict anew from the raw data, offline

In DIR afterwards:
  verify.html verify.json junit.xml          verdicts: to look at, for programs, for requirement tools
  journal.jsonl requirements.toml            all that was seen, by each run; what was wanted
  manifest.json                              digests of these files

Exit codes:
  0 every requirement that can be tested holds   1 one does not   2 bad input
  3 the set is not up   4 one is undecided, stale or was not run, or none can be tested
  130 interrupted; what was seen is kept";

/// Verify that every requirement of a set holds
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct VerifyArgs {
    /// File with [requirement.ID] tables: a set's, a system's, or one of their own
    #[arg(required_unless_present = "check")]
    pub file: Option<PathBuf>,
    /// Folder for the evidence; what an earlier verification saw there is kept. Unset means SET-verify
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Run the tests of this requirement and its parts alone (may be repeated)
    #[arg(long, value_name = "ID")]
    pub only: Vec<String>,
    /// Make parts fail, where a requirement is about that: they are started again
    #[arg(long)]
    pub failures: bool,
    /// Run nothing: hold what was seen against what it rests on today
    #[arg(long, conflicts_with_all = ["only", "failures"])]
    pub no_run: bool,
    /// Repeat what adds no load and breaks nothing until interrupted, with at most 1 % of the CPUs; what is different is told once
    #[arg(long, conflicts_with_all = ["failures", "no_run", "full"])]
    pub watch: bool,
    /// Seconds until a test that was done is due again
    #[arg(long, value_name = "S", default_value = "600", requires = "watch", value_parser = value_parser!(u64).range(1..=86_400))]
    pub every_s: u64,
    /// Derive every verdict of this folder anew from its raw data, and check its digests
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "out", "only", "failures", "no_run", "watch", "seed"])]
    pub check: Option<PathBuf>,
    /// Seed of everything random; drawn and told unless set
    #[arg(long, conflicts_with = "no_run")]
    pub seed: Option<u64>,
    /// Print verify.json; with --watch a line of JSON for each that is different
    #[arg(long)]
    pub json: bool,
    /// Print every requirement
    #[arg(long)]
    pub full: bool,
}
