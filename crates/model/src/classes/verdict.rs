//! What came of holding a platform against a class.

use serde::{Deserialize, Serialize};

use super::Weight;
use crate::journal::Cell;
use crate::prediction::minutes;
use probes::ProbeKind;
use units::Nanos;

/// Is this platform fit for this class of work?
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassVerdict {
    /// Name of the class.
    pub class: String,
    /// Its name for headings.
    pub title: String,
    /// Label of the platform.
    pub platform: String,
    /// The verdict.
    pub level: Suitability,
    /// What decided: the measurement and its bound, or what is missing.
    pub reason: String,
    /// Platform, class, verdict and reason in a sentence.
    pub sentence: String,
    /// Every condition of the class, in its order.
    pub conditions: Vec<ConditionResult>,
    /// Which of them decided; none when no condition could be looked at.
    pub decided_by: Option<u32>,
    /// Of an undecided one: how much more measuring would decide it if the figures stayed what they are. None where something was
    /// not measured, or lies on its bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_ns: Option<Nanos>,
    /// What would have to be measured for that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<OpenCell>,
    /// What would change the verdict.
    pub would_change: String,
    /// What the class looks at and the run has not, in the order of the conditions, each probe once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
    /// The command that measures all that the class looks at; none when nothing is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measure_with: Option<String>,
}

impl ClassVerdict {
    /// `not measured: linpack, mpi, gap beside a neighbour`; none when nothing is missing.
    pub fn missing_words(&self) -> Option<String> {
        let all: Vec<String> = self.missing.iter().map(Missing::words).collect();
        (!all.is_empty()).then(|| format!("not measured: {}", all.join(", ")))
    }

    /// `40 s`: how much more measuring would decide it.
    pub fn needs_words(&self) -> Option<String> {
        self.needs_ns.map(minutes)
    }
}

/// Something a class looks at that was not measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Missing {
    /// The probe.
    pub probe: ProbeKind,
    /// It was measured, but beside none of the neighbours that count.
    pub beside_neighbours: bool,
}

impl Missing {
    /// `mpi`, `gap beside a neighbour`.
    pub fn words(&self) -> String {
        let beside = if self.beside_neighbours { " beside a neighbour" } else { "" };
        format!("{}{beside}", self.probe)
    }
}

/// A verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Suitability {
    /// Every required condition holds, and no wanted one is broken.
    Suited,
    /// Every required condition holds, a wanted one does not.
    Limited,
    /// A required condition does not hold.
    Unsuited,
    /// A required condition was not measured, or not well enough; none is broken.
    Unknown,
}

impl Suitability {
    /// Whether every required condition was shown to hold.
    pub const fn is_met(self) -> bool {
        matches!(self, Self::Suited | Self::Limited)
    }
}

/// What came of one condition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConditionResult {
    /// What it demands.
    pub title: String,
    /// Why the class needs it.
    pub why: String,
    /// Which of the eight requirements of Danciu 2010 it stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requirement: Option<u8>,
    /// What it means for the class.
    pub weight: Weight,
    /// Whether it holds.
    pub held: Held,
    /// What was measured, with its interval; or why nothing was, and what to do about it.
    pub measured: String,
    /// What was demanded.
    pub bound: String,
    /// How far the measured figure is from its bound, as a factor: above 1 it is on the bad side. None without both.
    pub factor: Option<f64>,
    /// The measurement that decided; none when there is none.
    pub decided_by: Option<Deciding>,
    /// Measurements that leave it open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<OpenCell>,
    /// Measurements in which it does not hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken_in: Vec<Cell>,
}

/// A measurement that leaves a condition open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OpenCell {
    /// The cell.
    pub cell: Cell,
    /// The one it is compared with, where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared_with: Option<Cell>,
    /// Whether what was seen so far is beyond the bound.
    pub leans_broken: bool,
    /// How many more rounds of it would decide it if the figures stayed what they are; none where its value lies on the bound.
    pub needs_rounds: Option<u32>,
    /// How long those take, with those of the cell that it is compared with.
    pub needs_ns: Option<Nanos>,
}

/// The measurement that decided a condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Deciding {
    /// The cell.
    pub cell: Cell,
    /// Id of the metric.
    pub metric: String,
}

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Held {
    /// The interval lies on the good side of the bound.
    Yes,
    /// The interval lies on the bad side of the bound, or the instance died or hung in it.
    No,
    /// The interval contains the bound, or the data supports none.
    Unclear,
    /// Nothing was measured that could tell.
    NotMeasured,
}
