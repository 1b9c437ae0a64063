//! How often did it take longer than t? What is known of that for each t, enough to bound the share at any time and confidence.

use probes::probe::Whole;
use serde::{Deserialize, Serialize};
use units::Nanos;

/// How often things took longer in one cell, all rounds together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Exceedance {
    /// What the shares are shares of.
    pub of: Whole,
    /// Time from one to the next; 0 where the whole is time.
    #[serde(default)]
    pub period_ns: Nanos,
    /// Time that was observed.
    pub observed_ns: Nanos,
    /// The longest of all.
    pub longest_ns: Nanos,
    /// Confidence of each bound, the upper and the lower one, 0.5 … 1.
    pub confidence: f64,
    /// Where too little was seen to tell, what happens is taken to be one thing for at least this many times the time asked about.
    pub draw_per_time: f64,
    /// Metrics that are quantiles of these times.
    pub quantiles: Vec<Quantile>,
    /// Ascending; the last one has none beyond it, unless the longest took longer than any time that is looked at.
    pub points: Vec<ExceedancePoint>,
}

/// A metric that is a quantile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quantile {
    /// Its id.
    pub metric: String,
    /// The share beyond it, 0.001 of a quantile of 99.9 %.
    pub beyond_share: f64,
}

/// What is known of one time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExceedancePoint {
    /// The time.
    pub longer_than_ns: Nanos,
    /// Share that took longer.
    pub share: f64,
    /// For how long what happens is one thing: the observed time holds so many independent draws as this fits into it.
    pub draw_ns: Nanos,
    /// Whether that is known from how rounds and batches scatter; otherwise it is at least as long as one disturbance.
    pub is_from_scatter: bool,
}
