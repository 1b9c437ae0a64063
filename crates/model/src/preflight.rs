//! Preflight: is this host fit to be measured? A list of checks, each with what was found and what to do.

use serde::{Deserialize, Serialize};

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CheckLevel {
    /// Good.
    Ok,
    /// A fact worth knowing; figures stand.
    Note,
    /// The host is not quiet or not stable: the run is marked dirty with this reason.
    Dirty,
    /// Something is missing; what depends on it cannot be measured here.
    Missing,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Check {
    /// Short stable name, `governor` for example.
    pub id: String,
    /// How it ended.
    pub level: CheckLevel,
    /// What was found, in one line.
    pub found: String,
    /// What to do about it; empty when there is nothing to do.
    pub advice: String,
}

/// The whole list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Preflight {
    /// Checks in the order they are shown.
    pub checks: Vec<Check>,
}

impl Preflight {
    /// Why the run is dirty; empty when it is clean.
    pub fn dirty_reasons(&self) -> Vec<String> {
        self.checks
            .iter()
            .filter(|check| check.level == CheckLevel::Dirty)
            .map(|check| check.found.clone())
            .collect()
    }
}
