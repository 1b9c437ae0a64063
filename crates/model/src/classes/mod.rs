//! Classes of work and what a platform must show to be fit for each. Classes are data: TOML files that people read,
//! change and add to; those in `classes/` come with the program.
//!
//! ```text
//!  classes/*.toml ─► ClassSet ◄─ FILE of the user (a class of the same name replaces)
//!                       │
//!      RunResults ──────┴─► suitability (stats) ─► ClassVerdict per platform and class
//! ```
//! Source of the eight requirements that conditions refer to by number: Danciu et al., *High-performance aspects in
//! virtualized infrastructures* (2010), section III.B.

mod names;
mod shipped;
mod verdict;

pub use names::{BadName, Beside, MetricName, Pattern};
pub use shipped::{shipped, shipped_texts};
pub use verdict::{ClassVerdict, ConditionResult, Deciding, Held, Missing, OpenCell, Suitability};

use serde::{Deserialize, Serialize};

use super::experiment::{ExperimentError, contradiction, syntax_error};
use units::bounds::within;
use units::{Micros, Reason};

/// Largest file of classes that is read.
pub const MAX_FILE_BYTES: usize = 256 * 1024;
/// Most classes of a set.
const MAX_CLASSES: usize = 64;
/// Most conditions of a class.
const MAX_CONDITIONS: usize = 64;
/// Longest title, sentence or name of a class or condition.
const LONGEST_TEXT: usize = 600;
/// Longest deadline: an hour.
const LONGEST_DEADLINE_US: u64 = 3_600_000_000;

/// A file of classes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ClassSet {
    /// The classes, in the order they are shown.
    #[serde(default, rename = "class")]
    pub classes: Vec<ClassSpec>,
}

/// A class of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ClassSpec {
    /// Short name for tables and the command line, `real-time` for example.
    pub name: String,
    /// Name for headings.
    pub title: String,
    /// What kind of work it is, in a sentence.
    pub about: String,
    /// The deadline of its conditions on tails, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Deadline>,
    /// What a platform must show.
    #[serde(rename = "condition")]
    pub conditions: Vec<Condition>,
}

/// When an answer must be there, and how often it may be late.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Deadline {
    /// From the moment something is due, 1 µs … 1 h.
    pub deadline_us: Micros,
    /// Share of activations that may be late, 0 (none) … 0.5.
    pub miss_rate: f64,
}

/// What a platform must show. It names either one figure with a bound, or a tail: figures for falling miss rates,
/// of which the one that fits the allowed miss rate must stay within the deadline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// What it demands, in a few words.
    pub title: String,
    /// Why the class needs it.
    pub why: String,
    /// Which of the eight requirements of Danciu 2010 it stands for, 1 … 8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requirement: Option<u8>,
    /// The figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<MetricName>,
    /// The figures of a tail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tail: Vec<TailMetric>,
    /// What the figure is held against.
    #[serde(default)]
    pub against: Against,
    /// Largest value allowed: in the figure's unit, or as a ratio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// Smallest value allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// Beside whom it must hold; the worst counts.
    #[serde(default = "default_neighbours")]
    pub neighbours: Beside,
    /// What it means for the class when it does not hold.
    #[serde(default)]
    pub weight: Weight,
}

const fn default_neighbours() -> Beside {
    Beside::Alone
}

/// A figure that tells how long all but a share of the activations take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TailMetric {
    /// The share that may take longer: 0.01 for a 99 % quantile, 0 for the longest ever seen.
    pub miss_rate: f64,
    /// The figure, a time in nanoseconds.
    pub metric: MetricName,
}

/// What a figure is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Against {
    /// Itself, in its own unit.
    #[default]
    Value,
    /// The same figure on the baseline: this over that.
    Baseline,
    /// The same figure without the neighbour: disturbed over undisturbed.
    Undisturbed,
    /// What a fair division gives: the part that is left beside a neighbour, over 1/n for n that share. 1 is fair,
    /// more is better; a figure that is a time counts as its inverse.
    FairShare,
}

/// What it means for the class when a condition does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// The platform is unsuited.
    #[default]
    Required,
    /// Of all conditions of this weight at least one must hold; otherwise the platform is unsuited.
    Some,
    /// The platform is suited with limits.
    Wanted,
}

impl ClassSet {
    /// Parses and checks a file of classes.
    ///
    /// # Errors
    /// When it is too large, no TOML, names what does not exist, or contradicts itself.
    pub fn from_toml(text: &str) -> Result<Self, ExperimentError> {
        if text.len() > MAX_FILE_BYTES {
            return Err(contradiction(format!(
                "a file of classes has at most {MAX_FILE_BYTES} bytes, this one has {}",
                text.len()
            )));
        }
        let set: Self = toml::from_str(text).map_err(|error| syntax_error(&error))?;
        set.check()?;
        Ok(set)
    }

    /// Writes the set down so that [`Self::from_toml`] reads the same back.
    ///
    /// # Errors
    /// Never for a set that was checked.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }

    /// This set with the classes of `other`: one of a name that is there already replaces it, the others follow.
    #[must_use]
    pub fn extended_by(mut self, other: Self) -> Self {
        for class in other.classes {
            match self.classes.iter_mut().find(|known| known.name == class.name) {
                Some(known) => *known = class,
                None => self.classes.push(class),
            }
        }
        self
    }

    /// Names of the classes.
    pub fn names(&self) -> Vec<&str> {
        self.classes.iter().map(|class| class.name.as_str()).collect()
    }

    /// Checks bounds and contradictions.
    ///
    /// # Errors
    /// The first thing that is wrong, with its class and condition.
    pub fn check(&self) -> Result<(), ExperimentError> {
        within("number of classes", self.classes.len() as u64, 1, MAX_CLASSES as u64)?;
        for (index, class) in self.classes.iter().enumerate() {
            if self.classes.iter().take(index).any(|other| other.name == class.name) {
                return Err(contradiction(format!("class \"{}\" is there twice: rename one", class.name)));
            }
            class.check().map_err(|wrong| contradiction(format!("class \"{}\": {wrong}", class.name)))?;
        }
        Ok(())
    }
}

impl ClassSpec {
    fn check(&self) -> Result<(), Reason> {
        let plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
        if self.name.is_empty() || self.name.len() > 20 || !self.name.chars().all(plain) {
            return Err("a name has 1 to 20 lower-case letters, digits and \"-\"".into());
        }
        readable(&[("title", &self.title), ("about", &self.about)])?;
        if let Some(deadline) = self.deadline {
            deadline.check()?;
        }
        if self.conditions.is_empty() || self.conditions.len() > MAX_CONDITIONS {
            return Err(format!(
                "wanted 1 to {MAX_CONDITIONS} conditions, there are {}",
                self.conditions.len()
            )
            .into());
        }
        for condition in &self.conditions {
            condition
                .check(self.deadline.is_some())
                .map_err(|wrong| format!("condition \"{}\": {wrong}", condition.title))?;
        }
        Ok(())
    }
}

impl Deadline {
    /// Checks the bounds stated at the fields.
    ///
    /// # Errors
    /// Which bound is passed.
    pub fn check(self) -> Result<(), Reason> {
        within("deadline_us", self.deadline_us.get(), 1, LONGEST_DEADLINE_US).map_err(|e| e.to_string())?;
        if (0.0..=0.5).contains(&self.miss_rate) {
            Ok(())
        } else {
            Err(format!("miss_rate = {} is out of bounds; allowed is 0 to 0.5", self.miss_rate).into())
        }
    }
}

impl Condition {
    fn check(&self, has_deadline: bool) -> Result<(), Reason> {
        readable(&[("title", &self.title), ("why", &self.why)])?;
        if self.requirement.is_some_and(|number| !(1..=8).contains(&number)) {
            return Err("requirement is one of 1 to 8".into());
        }
        match (&self.metric, self.tail.is_empty()) {
            (Some(_), true) => self.check_bound()?,
            (None, false) => self.check_tail(has_deadline)?,
            _ => return Err("wanted either metric or tail".into()),
        }
        let compares = matches!(self.against, Against::Undisturbed | Against::FairShare);
        if compares && self.neighbours == Beside::Alone {
            return Err("compares with the undisturbed, so neighbours cannot be \"alone\"".into());
        }
        Ok(())
    }

    fn check_bound(&self) -> Result<(), Reason> {
        match (self.at_most, self.at_least) {
            (Some(bound), None) | (None, Some(bound)) if bound.is_finite() && bound >= 0.0 => Ok(()),
            (Some(_), None) | (None, Some(_)) => Err("the bound is no number from 0 on".into()),
            _ => Err("wanted either at_most or at_least".into()),
        }
    }

    fn check_tail(&self, has_deadline: bool) -> Result<(), Reason> {
        if !has_deadline {
            return Err("has a tail, but the class has no [class.deadline]".into());
        }
        if self.at_most.is_some() || self.at_least.is_some() || self.against != Against::Value {
            return Err("a tail is held against the deadline: leave out at_most, at_least, against".into());
        }
        if self.tail.iter().any(|entry| !(0.0..1.0).contains(&entry.miss_rate)) {
            return Err("miss_rate of a tail is 0 to below 1".into());
        }
        if !self.tail.is_sorted_by(|a, b| a.miss_rate > b.miss_rate) {
            return Err("wanted falling miss rates in tail".into());
        }
        match self.tail.iter().find(|entry| !entry.metric.id.ends_with("_ns")) {
            Some(entry) => Err(format!("{} is no time in nanoseconds", entry.metric).into()),
            None => Ok(()),
        }
    }
}

fn readable(texts: &[(&str, &String)]) -> Result<(), Reason> {
    let bad = |text: &str| {
        text.trim().is_empty() || text.len() > LONGEST_TEXT || text.chars().any(char::is_control)
    };
    match texts.iter().find(|(_, text)| bad(text)) {
        Some((key, _)) => Err(format!("{key} must have 1 to {LONGEST_TEXT} bytes on one line").into()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
