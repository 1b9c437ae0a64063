//! Output of `doctor --power --json`: which known slowdowns short runs on this host find.

use serde::{Deserialize, Serialize};

use units::Nanos;

/// How often each slowdown was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PowerReport {
    /// Version of the program.
    pub bulkhead_version: String,
    /// Rounds of each run.
    pub rounds: u32,
    /// How many runs of each slowdown were asked for.
    pub runs_wanted: u32,
    /// How long all of it took.
    pub took_ns: Nanos,
    /// Whether the user ended it before that.
    pub interrupted: bool,
    /// Why this host was not quiet; empty when it was.
    pub dirty: Vec<String>,
    /// The slowdowns, the smallest first; the first one is none.
    pub slowdowns: Vec<Slowdown>,
    /// Which difference each probe's main figure could have seen in such a run.
    pub probes: Vec<ProbePower>,
}

/// One slowdown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slowdown {
    /// How much more work one of two native instances did, percent; 0 is the same thing twice.
    pub more_work_percent: f64,
    /// Runs that were made.
    pub runs: u32,
    /// Runs in which it was called slower; of the same thing twice, in which any difference was called, wrongly.
    pub found: u32,
    /// The share of such runs lies from here, with 95 % (Clopper and Pearson) …
    pub share_low: f64,
    /// … to here.
    pub share_high: f64,
}

/// One probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbePower {
    /// Its name.
    pub probe: String,
    /// The smallest difference that a run would have called with 90 % power, percent; median over the runs.
    pub detectable_percent: f64,
}
