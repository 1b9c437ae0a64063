//! From a checked scenario to what it yields: builds the world it describes, runs it, and reads the figures off.
//!
//! ```text
//!  Scenario + seed ─► build ─► Machine ─► run ─► figures     [host]
//!                  ─► nodes::run ─────────────► figures      [nodes]
//!                  ─► paging::run ────────────► figures      [memory]
//! ```

mod assumed;
mod build;
pub(crate) mod catalogue;
mod cells;
mod chance;
mod figures;
mod goals;
mod names;
mod phases;
mod published;
mod response_bounds;
pub mod shipped;
mod study;
#[cfg(test)]
mod tests;
mod watch;

pub use build::{build, micros};
pub use catalogue::{Known, Yields, all as all_figures};
pub use cells::results;
pub use names::Names;
pub use phases::{Offsets, Search};
pub use study::{Changes, Job, Options, Study, TraceName};
pub use watch::Watch;

use crate::brake::Brake;
use crate::nodes::NoiseTrace;
use crate::{nodes, paging};
use model::scenario::Scenario;
use model::simulation::{TimeLine, WaitTimes};
use probes::ProbeKind;
use units::metric::{Better, Unit};

/// A figure of one replication.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Its name, with whose it is: `vm.A.cpus`.
    pub id: String,
    /// What it says.
    pub title: String,
    /// Unit of the value.
    pub unit: Unit,
    /// Good direction.
    pub better: Better,
    /// The probe that measures the same on a real machine.
    pub probe: ProbeKind,
    /// Of a bound: whether it can be reached.
    pub is_exact: Option<bool>,
    /// The value.
    pub value: f64,
}

/// What one replication yields.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Replication {
    /// Its figures.
    pub figures: Vec<Figure>,
    /// Waiting times of locks, by VM.
    pub waits: Vec<WaitTimes>,
    /// Who ran where.
    pub time_line: Option<TimeLine>,
    /// Why it ended otherwise than by being done or by the stated time.
    pub trouble: Option<String>,
    /// What has to be known of its figures.
    pub notes: Vec<String>,
    /// Whether somebody interrupted it: its trouble says what still waited, and its figures say nothing.
    pub interrupted: bool,
    /// Events that were handled.
    pub events: u64,
}

/// Runs a scenario once, keeping so many stretches of who ran where; `trace` is the one that its noise names, if it names one.
pub fn run(
    scenario: &Scenario,
    seed: u64,
    stretches: usize,
    trace: Option<&NoiseTrace>,
    brake: &Brake,
) -> Replication {
    match (&scenario.nodes, &scenario.memory) {
        (Some(spec), _) => nodes::run_within(spec, trace, seed, &scenario.limits, brake),
        (_, Some(spec)) => paging::run(spec, seed, &scenario.limits, brake),
        (None, None) => Watch::new(scenario, seed, stretches).finish(brake),
    }
}

/// Runs a host with its VMs once, keeping so many stretches of who ran where.
pub fn run_host(scenario: &Scenario, seed: u64, stretches: usize) -> Replication {
    Watch::new(scenario, seed, stretches).finish(&Brake::default())
}
