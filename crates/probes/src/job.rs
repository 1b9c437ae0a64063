//! A job: what an agent is asked to do, and what it answers. One job is one measurement, or one neighbour.

use std::net::{SocketAddr, SocketAddrV4};

use serde::{Deserialize, Serialize};

use crate::detail::Detail;
use crate::params::ProbeSpec;
use units::accounts::Accounts;
use units::facts::{ClockFacts, OwnCost};
use units::names::{LoadKind, LoadPlace};
use units::outside::OutsideTime;
use units::{Millis, Nanos, Reason};

/// A load to run; how strong it really was comes back as its [`Dose`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadSpec {
    /// Which stressor.
    pub kind: LoadKind,
    /// Its threads; unset means one per CPU granted.
    pub threads: Option<u32>,
}

/// One instance of a layout, as the others reach it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Peer {
    /// Number of its host.
    pub host: u32,
    /// Where it listens during a job; this port and the 99 after it are its own.
    pub address: SocketAddr,
}

/// A way on which packets of a load leave the instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Line {
    /// Its other end: datagrams to this port are taken or dropped there, echo requests to this address are answered, and
    /// nobody listens at the port after it.
    pub sink: SocketAddrV4,
    /// In words, as the dose repeats it: `veth to the host`.
    pub way: String,
    /// Whether it may begin at a network card: what comes back is then an interrupt of the instance's own machine.
    pub has_card: bool,
}

/// The part of an instance in a measurement that several make at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Part {
    /// Number of this instance, from 0.
    pub rank: u32,
    /// Instances in all.
    pub ranks: u32,
    /// All instances in order, this one included; empty when they have no network.
    pub peers: Vec<Peer>,
}

/// What an agent is asked to do.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Its part among several instances; none for one that measures alone. With a part, the probe begins when the host
    /// says so ([`units::stage::Stage::await_start`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// Where the host's clock answers datagrams; none means it is asked over the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<SocketAddr>,
    /// The way out of the instance for loads that send packets; none means that they stay on its loopback device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<Line>,
    /// Whether the instance has just been started.
    #[serde(default)]
    pub fresh: bool,
    /// Whether the kernel's tracer is to say who takes the probe's CPU, where it may. Tracing lengthens what it traces, so
    /// it is never on unless asked for.
    #[serde(default)]
    pub trace: bool,
}

/// How strong a load really was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// CPU time its threads took, and the processes they started.
    pub cpu_time_ns: Nanos,
    /// How it was done, where there is more than one way: `ICMP echo through a raw socket over veth to the host (eth0)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<String>,
    /// Interrupts per second of the network card that its packets used, in the machine where it ran; none without a card,
    /// and where the kernel does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupts_per_s: Option<f64>,
    /// Soft interrupts per second for packets, in the machine where it ran, that of all its containers; none for loads
    /// that send none, and where the kernel does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_interrupts_per_s: Option<f64>,
    /// The same work in another unit, or the loads that a mixed one is made of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<DosePart>,
}

/// What else is known of a dose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DosePart {
    /// Which stressor.
    pub kind: LoadKind,
    /// What it did per second.
    pub rate_per_s: f64,
    /// Unit of what it did.
    pub unit: String,
}

/// A dose with the place it came from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlacedDose {
    /// Where the load ran.
    pub place: LoadPlace,
    /// How strong it was.
    pub dose: Dose,
}

/// What a probe brings home.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbeReport {
    /// The clock that was used.
    pub clock: ClockFacts,
    /// What the probe itself costs.
    pub cost: OwnCost,
    /// Raw outcome.
    pub detail: Detail,
    /// Remarks for the reader: a size that was capped, a pin that was refused.
    pub notes: Vec<String>,
    /// The same span on the host's clock; none when that could not be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<OutsideTime>,
    /// What the instance's kernel counted meanwhile; none when nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accounts: Option<Accounts>,
}

impl ProbeReport {
    /// A report of the probe itself; time outside and accounts are added by who runs the job.
    pub const fn new(clock: ClockFacts, cost: OwnCost, detail: Detail, notes: Vec<String>) -> Self {
        Self { clock, cost, detail, notes, outside: None, accounts: None }
    }
}

/// What an agent answers to a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobReply {
    /// The probe's report, or why it could not be done; none for a job without a probe.
    pub report: Option<Result<ProbeReport, Reason>>,
    /// One dose per load, in the order of the job.
    pub doses: Vec<Dose>,
}
