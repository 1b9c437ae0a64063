//! A job: what an agent is asked to do, and what it answers. One job is one measurement, or one neighbour.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::detail::Detail;
use super::facts::{ClockFacts, OwnCost};
use super::names::{LoadKind, LoadPlace};
use super::params::ProbeSpec;
use super::units::{Millis, Nanos};

/// A load to run; how strong it really was comes back as its [`Dose`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoadSpec {
    /// Which stressor.
    pub kind: LoadKind,
    /// Its threads; unset means one per CPU granted.
    pub threads: Option<u32>,
}

/// What an agent is asked to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Job {
    /// Number of the job on its link; replies carry it.
    pub id: u64,
    /// The probe; without one the loads run until the host says stop.
    pub probe: Option<ProbeSpec>,
    /// Loads that run in the same instance, before, during and until the end of the probe.
    pub loads: Vec<LoadSpec>,
    /// Seed of everything random in the job.
    pub seed: u64,
    /// The agent gives up by itself after this time.
    pub deadline_ms: Millis,
}

/// How strong a load really was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Dose {
    /// Which stressor.
    pub kind: LoadKind,
    /// Its threads.
    pub threads: u32,
    /// How long it ran.
    pub elapsed_ns: Nanos,
    /// What it did per second.
    pub rate_per_s: f64,
    /// Unit of what it did: `rounds`, `bytes`.
    pub unit: String,
    /// CPU time its threads took.
    pub cpu_time_ns: Nanos,
}

/// A dose with the place it came from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlacedDose {
    /// Where the load ran.
    pub place: LoadPlace,
    /// How strong it was.
    pub dose: Dose,
}

/// What a probe brings home.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeReport {
    /// The clock that was used.
    pub clock: ClockFacts,
    /// What the probe itself costs.
    pub cost: OwnCost,
    /// Raw outcome.
    pub detail: Detail,
    /// Remarks for the reader: a size that was capped, a pin that was refused.
    pub notes: Vec<String>,
}

/// What an agent answers to a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobReply {
    /// The probe's report, or why it could not be done; none for a job without a probe.
    pub report: Option<Result<ProbeReport, String>>,
    /// One dose per load, in the order of the job.
    pub doses: Vec<Dose>,
}
