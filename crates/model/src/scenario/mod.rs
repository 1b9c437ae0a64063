//! A scenario: what `bulkhead simulate` runs, as a TOML file.
//!
//! ```text
//!  scenario.toml ─► a table ─ [sweep] puts values in ─► one case per combination ─► Scenario ─ check ─► simulated
//! ```
//! A case describes one of three worlds: a host with VMs (`[host]` and `[[vm]]`), a program on many nodes (`[nodes]`), or
//! a host's memory (`[memory]`). Every `check` names the key at fault as a path (`vm.1.cpus`), from which the line in the
//! file is found.

mod blame;
mod calibrated;
mod change;
mod figure;
mod free;
mod host;
pub mod label;
mod locks;
mod memory;
mod mistake;
mod nodes;
mod place;
mod planner;
mod program;
mod promises;
mod queues;
pub mod reserved;
mod servers;
mod sweep;
mod table;

pub use calibrated::CalibratedSpec;
pub use change::written;
pub use figure::*;
pub use free::{Parameter, is_question, small_change};
pub use host::*;
pub use locks::*;
pub use memory::*;
pub use nodes::*;
pub use place::{line_at, line_of, line_of_offset, offset_at};
pub use program::*;
pub use queues::{QueuesSpec, WeightsSpec};
pub use sweep::{Case, MAX_BYTES, MOST_CASES, ScenarioError, cases};
pub use table::{CellSpec, Table, TableCell, table};

use serde::{Deserialize, Serialize};

/// Most replications of a case.
pub const MOST_REPLICATIONS: u32 = 10_000;

/// One case: a scenario whose sweep has been resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name for output and lists.
    pub name: String,
    /// What it shows, in a sentence or two.
    #[serde(default)]
    pub about: String,
    /// Seed of everything random.
    #[serde(default)]
    pub seed: u64,
    /// How often each case is simulated, each time with a seed of its own.
    #[serde(default = "one")]
    pub replications: u32,
    /// When a simulation ends.
    #[serde(default)]
    pub limits: LimitSpec,
    /// The measured run that parameters were estimated from; none where nothing was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibrated: Option<CalibratedSpec>,
    /// A host, with the VMs below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostSpec>,
    /// VMs of the host.
    #[serde(default, rename = "vm", skip_serializing_if = "Vec::is_empty")]
    pub vms: Vec<VmSpec>,
    /// A bulk-synchronous program on many nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodesSpec>,
    /// Two-level paging on a host with several memory nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemorySpec>,
    /// Published figures to show beside our own.
    #[serde(default, rename = "figure", skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<FigureSpec>,
    /// What had to be assumed where a source is silent.
    #[serde(default, rename = "assumption", skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<AssumptionSpec>,
}

const fn one() -> u32 {
    1
}

/// When a simulation ends, whatever happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct LimitSpec {
    /// Simulated time; a simulation whose programs all end is over when they have.
    pub simulated_s: u64,
    /// Events.
    pub events: u64,
}

impl Default for LimitSpec {
    fn default() -> Self {
        Self { simulated_s: 3600, events: 2_000_000_000 }
    }
}

/// Why a scenario cannot be simulated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct Impossible {
    /// The key at fault, as a path: `vm.1.thread.0.period_us`.
    pub path: String,
    /// What was wanted and what was got.
    pub problem: String,
}

impl Impossible {
    /// This problem of the key at `path`.
    pub fn new(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { path: path.into(), problem: problem.into() }
    }
}

/// Checks a number against its bounds.
pub(super) fn bounded(path: String, got: u64, least: u64, most: u64) -> Result<(), Impossible> {
    if (least..=most).contains(&got) {
        return Ok(());
    }
    Err(Impossible::new(path, format!("{got} is out of bounds; allowed is {least} to {most}")))
}

/// Checks a float against its bounds.
pub(super) fn bounded_f64(path: String, got: f64, least: f64, most: f64) -> Result<(), Impossible> {
    if (least..=most).contains(&got) {
        return Ok(());
    }
    Err(Impossible::new(path, format!("{got} is out of bounds; allowed is {least} to {most}")))
}

impl Scenario {
    /// Checks everything that can be known before it runs.
    ///
    /// # Errors
    /// The first key at fault.
    pub fn check(&self) -> Result<(), Impossible> {
        let printable =
            |text: &str| !text.is_empty() && text.len() <= 200 && !text.chars().any(char::is_control);
        if !printable(&self.name) {
            return Err(Impossible::new("name", "wanted 1 to 200 printable characters"));
        }
        bounded("replications".into(), self.replications.into(), 1, MOST_REPLICATIONS.into())?;
        bounded("limits.simulated_s".into(), self.limits.simulated_s, 1, 300_000_000)?;
        bounded("limits.events".into(), self.limits.events, 1, 1_000_000_000_000)?;
        let worlds = [self.host.is_some(), self.nodes.is_some(), self.memory.is_some()]
            .into_iter()
            .filter(|is| *is)
            .count();
        if worlds != 1 {
            let problem = format!("wanted exactly one of [host], [nodes] and [memory], got {worlds}");
            return Err(Impossible::new("name", problem));
        }
        match (&self.host, &self.nodes, &self.memory) {
            (Some(host), _, _) => host::check(host, &self.vms)?,
            _ if !self.vms.is_empty() => {
                return Err(Impossible::new("vm", "there is no [host] that they could run on"));
            }
            (_, Some(nodes), _) => nodes.check()?,
            (_, _, Some(memory)) => memory.check()?,
            _ => {}
        }
        self.figures.iter().enumerate().try_for_each(|(number, figure)| figure.check(number))?;
        self.assumptions.iter().enumerate().try_for_each(|(number, assumption)| assumption.check(number))
    }
}
