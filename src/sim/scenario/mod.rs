//! From a checked scenario to what it yields: builds the world it describes, runs it, and reads the figures off.
//!
//! ```text
//!  Scenario + seed ─► build ─► Machine ─► run ─► figures     [host]
//!                  ─► nodes::run ─────────────► figures      [nodes]
//!                  ─► paging::run ────────────► figures      [memory]
//! ```

mod build;
mod cells;
mod figures;
mod names;
mod published;
pub mod shipped;
mod study;
#[cfg(test)]
mod tests;

pub use build::{build, micros};
pub use cells::results;
pub use names::Names;
pub use study::{Job, Options, Study, TraceName};

use crate::model::metric::{Better, Unit};
use crate::model::names::ProbeKind;
use crate::model::scenario::Scenario;
use crate::model::simulation::{TimeLine, WaitTimes};
use crate::sim::host::{Limits, Stopped};
use crate::sim::nodes::NoiseTrace;
use crate::sim::time::{Span, Time};
use crate::sim::{nodes, paging};

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
    /// Events that were handled.
    pub events: u64,
}

/// Runs a scenario once, keeping so many stretches of who ran where; `trace` is the one that its noise names, if it names one.
pub fn run(scenario: &Scenario, seed: u64, stretches: usize, trace: Option<&NoiseTrace>) -> Replication {
    match (&scenario.nodes, &scenario.memory) {
        (Some(spec), _) => nodes::run_within(spec, trace, seed, &scenario.limits),
        (_, Some(spec)) => paging::run(spec, seed),
        (None, None) => run_host(scenario, seed, stretches),
    }
}

/// Runs a host with its VMs once, keeping so many stretches of who ran where.
pub fn run_host(scenario: &Scenario, seed: u64, stretches: usize) -> Replication {
    let names = Names::of(scenario);
    let mut machine = build(scenario, seed);
    machine.keep_trace(stretches);
    let limits = Limits {
        until: Time::ZERO + Span::from_secs(scenario.limits.simulated_s),
        events: scenario.limits.events,
        when_done: machine.guests().iter().any(|guest| guest.unfinished() > 0),
    };
    let stopped = machine.run(&limits);
    Replication {
        figures: figures::of(&machine, &names, scenario),
        waits: figures::waits(&machine, &names),
        time_line: (stretches > 0).then(|| figures::time_line(&machine, &names)),
        trouble: trouble(&stopped, &machine, &names, limits.when_done),
        events: machine.report().events,
    }
}

/// Why a simulation did not end as it should, and who still waited.
fn trouble(
    stopped: &Stopped,
    machine: &crate::sim::host::Machine,
    names: &Names,
    was_to_end: bool,
) -> Option<String> {
    let why = match stopped {
        Stopped::Done => return None,
        Stopped::Time if !was_to_end => return None,
        Stopped::Time => {
            "the stated time (limits.simulated_s) was over before every program had ended".to_owned()
        }
        Stopped::Events => "the stated number of events (limits.events) was used up".to_owned(),
        Stopped::Deadlock => "nothing will ever happen again: a deadlock".to_owned(),
        Stopped::Circles => "a program went round in circles without time going on".to_owned(),
        Stopped::Broken(words) => format!("the simulator is wrong: {words}"),
    };
    let waiting = machine
        .guests()
        .iter()
        .zip(&names.vms)
        .flat_map(|(guest, vm)| guest.waiting().into_iter().map(move |words| format!("{vm}: {words}")));
    let mut waiting: Vec<String> = waiting.take(4).collect();
    if waiting.is_empty() {
        waiting.push("nobody waits".to_owned());
    }
    Some(format!("{why}; at {}: {}", machine.view().now, waiting.join("; ")))
}
