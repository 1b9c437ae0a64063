//! Published figures and assumptions, as written in a scenario: they are printed beside what was simulated.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::calibrated::check_ends;
use super::{Impossible, bounded_f64};

/// A published figure and where it comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FigureSpec {
    /// What it says.
    pub title: String,
    /// The simulated figure that it is held against, by its id: `vm.A.cpus`.
    pub metric: String,
    /// Divided by this one, of the same case unless `over_case` names another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
    /// The case, by what the sweep set in it: `{ "host.policy.name" = "proportional" }`. Without: every case.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, serde_json::Value>"))]
    pub case: BTreeMap<String, toml::Value>,
    /// The case of the divisor.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, serde_json::Value>"))]
    pub over_case: BTreeMap<String, toml::Value>,
    /// The published value, as the source says it, in the unit of the metric (shares from 0 to 1, times in nanoseconds).
    pub published: f64,
    /// The value that is demanded, where that is another one than the published; `tolerance` and `bound` say how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand: Option<f64>,
    /// How far the simulated value may be off what is demanded, absolutely. With neither tolerance nor bound it is shown,
    /// and nothing is demanded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<f64>,
    /// It only has to be at least (or at most) what is demanded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<BoundSpec>,
    /// Both ends of the 95 % interval of the published value, in its unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// Both ends of what is predicted, as factors on the simulated value: `[0.9, 1.1]`. The published value must lie between
    /// the two, which is demanded instead of a tolerance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_within: Option<[f64; 2]>,
    /// What its coming out says of the model. Only what is predicted counts as held. Without a label it counts as fitted:
    /// for nothing.
    #[serde(default)]
    pub label: FigureLabel,
    /// An older word for the label `fitted`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub set_from: bool,
    /// Where it was published.
    pub source: String,
}

/// What it says of a model that a published figure comes out of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FigureLabel {
    /// Nothing was chosen for it: the model could have missed it on either side.
    Predicted,
    /// A parameter was chosen for it, or nobody says.
    #[default]
    Fitted,
    /// True by construction: the model cannot yield anything else.
    Set,
    /// One-sided: half of all that could come out satisfies it.
    Bound,
}

impl FigureLabel {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Self; 4] = [Self::Predicted, Self::Fitted, Self::Set, Self::Bound];

    /// As it is written.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Predicted => "predicted",
            Self::Fitted => "fitted",
            Self::Set => "set",
            Self::Bound => "bound",
        }
    }
}

/// On which side of the demanded value the simulated one must lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BoundSpec {
    /// At least as large.
    AtLeast,
    /// At most as large.
    AtMost,
}

/// A parameter that no source gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AssumptionSpec {
    /// The key: `vm.0.thread.0.run.hold_ns`.
    pub key: String,
    /// Why this value, and from which single-guest figure or document it was set.
    pub why: String,
    /// Both ends of its 95 % interval, where it was estimated from a measured run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// The cases that it is about, as at a figure. Without: every case.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, serde_json::Value>"))]
    pub case: BTreeMap<String, toml::Value>,
    /// Factors by which it is changed to see how much the result depends on it. Without factors and values a small change
    /// is tried: the other one of yes and no, a step from zero, half of any other number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub try_factors: Vec<f64>,
    /// Values that are put in its place to see the same, where a factor makes no sense.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<serde_json::Value>"))]
    pub try_values: Vec<toml::Value>,
}

impl FigureSpec {
    pub(super) fn check(&self, number: usize) -> Result<(), Impossible> {
        let path = |key: &str| format!("figure.{number}.{key}");
        if !self.published.is_finite() {
            return Err(Impossible::new(path("published"), format!("{} is no figure", self.published)));
        }
        if self.label == FigureLabel::Predicted && (self.bound.is_some() || self.set_from) {
            let problem = if self.set_from { "parameters were set from it" } else { "it is one-sided" };
            let problem = format!("{problem}, so it is not predicted: wanted label fitted, set or bound");
            return Err(Impossible::new(path("label"), problem));
        }
        if self.label == FigureLabel::Bound && self.bound.is_none() {
            let problem =
                "it says on no side of what it must lie: wanted bound, \"at-least\" or \"at-most\", too";
            return Err(Impossible::new(path("label"), problem));
        }
        check_ends(&path("interval"), self.interval, (-1e18, 1e18))?;
        check_ends(&path("predicted_within"), self.predicted_within, (0.0, 1e6))?;
        if self.predicted_within.is_some() && (self.tolerance.is_some() || self.bound.is_some()) {
            let problem = "what is predicted has its ends here: leave tolerance and bound out";
            return Err(Impossible::new(path("predicted_within"), problem));
        }
        if let Some(demand) = self.demand {
            if !demand.is_finite() {
                return Err(Impossible::new(path("demand"), format!("{demand} is no figure")));
            }
            if self.bound.is_none() && self.tolerance.is_none() {
                let problem =
                    "it does not say how: wanted bound, \"at-least\" or \"at-most\", or a tolerance, too";
                return Err(Impossible::new(path("demand"), problem));
            }
        }
        self.tolerance.map_or(Ok(()), |tolerance| bounded_f64(path("tolerance"), tolerance, 0.0, 1e18))
    }
}

impl AssumptionSpec {
    pub(super) fn check(&self, number: usize) -> Result<(), Impossible> {
        check_ends(&format!("assumption.{number}.interval"), self.interval, (-1e18, 1e18))
    }
}
