//! Isolation: what each neighbour does to each probe of a platform, as one matrix.
//!
//! ```text
//!               cpu@second   memory@second   disk@host         harm = disturbed / undisturbed, turned so that
//!  gap   tail      1.9           1.0            -              more than 1 is worse
//!  cpu   main      2.0           1.1          failed
//! ```

use serde::{Deserialize, Serialize};

use super::journal::Neighbour;
use probes::ProbeKind;
use probes::job::PlacedDose;
use units::layout::Layout;
use units::metric::{Better, Difference, Estimate, Unit};

/// Who hurts whom on one platform.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IsolationMatrix {
    /// Label of the platform.
    pub platform: String,
    /// The neighbours, in the order of the experiment; one per column.
    pub neighbours: Vec<Neighbour>,
    /// One row per probe, in the order of the probes.
    pub rows: Vec<IsolationRow>,
}

/// What the neighbours do to one probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IsolationRow {
    /// The probe.
    pub probe: ProbeKind,
    /// How many instances measured at once; none for one alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
    /// The figure that is judged: of the tail where the probe has one.
    pub judged: JudgedFigure,
    /// The main figure, where another one is judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main: Option<JudgedFigure>,
    /// One per neighbour of the matrix, in its order.
    pub cells: Vec<IsolationCell>,
}

/// A figure of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JudgedFigure {
    /// Id of the metric.
    pub id: String,
    /// What it says.
    pub title: String,
    /// Its unit.
    pub unit: Unit,
    /// Its good direction.
    pub better: Better,
    /// Whether it speaks of the tail: a bound, a high quantile, the worst.
    pub is_tail: bool,
    /// Whether it is throughput of something that is shared as a whole, so that a fair share can be named.
    pub is_shared: bool,
}

/// What one neighbour does to one probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IsolationCell {
    /// What came of it.
    pub state: CellState,
    /// The figure that is judged.
    pub judged: Option<Harm>,
    /// The main figure, where another one is judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main: Option<Harm>,
    /// How strong the neighbour was, median over the rounds.
    pub doses: Vec<PlacedDose>,
    /// Why there is no figure; empty when there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// What came of a cell of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CellState {
    /// Compared.
    Compared,
    /// Measured, but the data supports no comparison.
    Unsupported,
    /// Measured with the neighbour and without, but not in the same way.
    NotComparable,
    /// Every measurement broke.
    Failed,
    /// Not part of the experiment, or not measured yet.
    NotMeasured,
}

/// What a neighbour does to a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Harm {
    /// How many times worse than undisturbed, with its interval; below 1 is better. None when there is no ratio, because
    /// a figure was zero, for example.
    pub times_worse: Option<Estimate>,
    /// What the interval allows to say.
    pub difference: Difference,
    /// The figure without the neighbour.
    pub undisturbed: Option<Estimate>,
    /// The figure beside the neighbour: the bound that holds there.
    pub disturbed: Option<Estimate>,
    /// The part that is left, over the fair share 1/n: 1 is fair, more is better. Only of throughput that is shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_fair_share: Option<Estimate>,
    /// The n of the fair share: how many want the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parties: Option<u32>,
}
