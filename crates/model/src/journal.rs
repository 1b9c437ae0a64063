//! The journal: one line per finished measurement, written at once.
//!
//! The first line is the [`Header`]; each further one a [`Measurement`]. A line that a crash cut off is dropped on
//! reading and measured again.

use serde::{Deserialize, Serialize};

use super::prediction::Prediction;
use super::preflight::Preflight;
use probes::ProbeKind;
use probes::job::{PlacedDose, ProbeReport};
use units::Nanos;
use units::accounts::HostAccount;
use units::facts::MachineFacts;
use units::layout::Layout;
use units::names::{LoadKind, LoadPlace, PlatformKind};

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "line", rename_all = "kebab-case")]
pub enum JournalLine {
    /// First line.
    Header(Box<Header>),
    /// Which platforms can be measured; written anew after each resume.
    Platforms {
        /// One entry per platform of the experiment, in its order.
        platforms: Vec<PlatformState>,
    },
    /// How long this session was said to take, before its first measurement.
    Predicted {
        /// The prediction.
        predicted: Prediction,
    },
    /// How long it took, when it was not killed.
    Took {
        /// From the prediction until every instance was ended.
        took_ns: Nanos,
        /// Whether all that was planned is measured; not said in journals of older programs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        is_done: Option<bool>,
    },
    /// What is measured until verdicts are looked at the next time.
    Look(VerdictLook),
    /// A finished measurement.
    Measurement(Box<Measurement>),
}

/// A look at which verdicts on classes of work are decided, and what is measured because of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VerdictLook {
    /// Its number, from 1.
    pub number: u32,
    /// How many measurements there were.
    #[serde(default)]
    pub measurements: u64,
    /// What is measured until the next one; nothing when no verdict is open that measuring decides.
    pub rounds: Vec<LookRounds>,
}

/// Rounds of a probe, alone or beside a neighbour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LookRounds {
    /// The probe.
    pub probe: ProbeKind,
    /// The neighbour, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<Neighbour>,
    /// How many instances measure at once, if it is not one alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
    /// Labels of the platforms on which they are made.
    pub platforms: Vec<String>,
    /// The first of the rounds.
    pub from_round: u32,
    /// The one after the last.
    pub until_round: u32,
}

/// What a run is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Header {
    /// [`super::SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// Version of the program.
    pub bulkhead_version: String,
    /// When the run began, nanoseconds since 1970.
    pub started_unix_ns: Nanos,
    /// The host.
    pub host: MachineFacts,
    /// Was it quiet?
    pub preflight: Preflight,
}

/// Whether a platform can be measured here, and what it turned out to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlatformState {
    /// Its label in the experiment.
    pub label: String,
    /// Its kind.
    pub kind: PlatformKind,
    /// Why it cannot be measured and what to install; none when it can.
    pub unavailable: Option<String>,
    /// What it turned out to be, in order of interest: `("accelerator", "tcg")`, `("why", "…")`, `("qemu", "7.2.15")`.
    pub properties: Vec<(String, String)>,
    /// What its agent sees of its machine; none before it was started.
    pub facts: Option<MachineFacts>,
    /// From the start of the instance until its agent answered; none before it was started.
    pub start_ns: Option<Nanos>,
}

/// A neighbour in a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Neighbour {
    /// Which stressor.
    pub kind: LoadKind,
    /// Where it runs.
    pub place: LoadPlace,
}

impl Neighbour {
    /// `cpu load in a second instance`.
    pub fn words(self) -> String {
        let place = match self.place {
            LoadPlace::Same => "in the same instance",
            LoadPlace::Second => "in a second instance",
            LoadPlace::Host => "on the host",
        };
        format!("{} load {place}", self.kind)
    }
}

/// What is measured: a probe under a load on a platform. Repetitions of a cell are compared with each other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cell {
    /// The probe.
    pub probe: ProbeKind,
    /// The neighbour; none means nothing else was started.
    pub neighbour: Option<Neighbour>,
    /// Label of the platform.
    pub platform: String,
    /// How many instances measure at once; none for one alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
}

impl Cell {
    /// The probe, and its layout if it is not one instance alone: `net 2x1`.
    pub fn probe_words(&self) -> String {
        probe_words(self.probe, self.layout)
    }
}

/// A probe, and its layout if it is not one instance alone: `net 2x1`.
pub fn probe_words(probe: ProbeKind, layout: Option<Layout>) -> String {
    layout.map_or_else(|| probe.to_string(), |layout| format!("{probe} {layout}"))
}

/// One finished measurement: done or failed, never missing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measurement {
    /// What was measured.
    pub cell: Cell,
    /// Number of the interleaved round, from 0. Measurements of one round and probe are compared as pairs.
    pub round: u32,
    /// When it began, nanoseconds since 1970, host clock.
    pub started_unix_ns: Nanos,
    /// How long it took on the host's clock, from request to reply.
    pub duration_ns: Nanos,
    /// How strong the neighbours were.
    pub doses: Vec<PlacedDose>,
    /// What came of it; with a layout, in its first instance.
    pub outcome: Outcome,
    /// What came of it in the other instances of the layout, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Outcome>,
    /// From the first instance's start to the last one's, on the host's clock; none for one instance alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_skew_ns: Option<Skew>,
    /// What the host saw of the first instance meanwhile; none where it cannot look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostAccount>,
    /// The instances that made it, in the order of the outcomes; empty when they could not be had, and in journals of
    /// older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<InstanceLife>,
}

impl Measurement {
    /// Outcomes of all instances, in order.
    pub fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        std::iter::once(&self.outcome).chain(&self.others)
    }

    /// Instances that broke, each with its number in the layout.
    pub fn broken_instances(&self) -> impl Iterator<Item = (usize, &Failure)> {
        self.outcomes().enumerate().filter_map(|(rank, outcome)| match outcome {
            Outcome::Failed(failure) => Some((rank, failure)),
            Outcome::Done(_) => None,
        })
    }

    /// How it broke; none when it yields figures. Instances that measure each for itself yield some as long as no more than
    /// half of them broke; those that need each other, only when none did.
    pub fn broke(&self) -> Option<&Failure> {
        let (_, first) = self.broken_instances().next()?;
        let needs_all = self.cell.layout.is_none() || self.cell.probe.is_made_together();
        let is_about_all = first.kind == FailureKind::Neighbour;
        let most_broke = self.broken_instances().count() * 2 > self.others.len() + 1;
        (needs_all || is_about_all || most_broke).then_some(first)
    }
}

/// An instance when it began a measurement, as its host knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InstanceLife {
    /// Number of its start among all starts of the run: measurements with the same one were made by the same instance.
    pub start: u32,
    /// For how long it had no CPU since its start, from each pause's confirmation until its end was asked for.
    pub paused_at_least_ns: Nanos,
    /// The same from when each pause was asked for until its end was confirmed.
    pub paused_at_most_ns: Nanos,
}

/// How far apart instances started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Skew {
    /// From the first to the last.
    pub skew_ns: Nanos,
    /// Error bar: the sum of the two instances' own.
    pub error_ns: Nanos,
}

/// What came of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The probe's report.
    Done(Box<ProbeReport>),
    /// It broke.
    Failed(Failure),
}

/// How something that was measured broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The instance could not be started.
    Start,
    /// It ended by itself: panic, kill, out of memory, early exit.
    Died,
    /// No heartbeat and no reply within the deadline.
    Hung,
    /// It sent something that is not a message, or a message that may not be sent.
    Garbage,
    /// The probe said it could not be done.
    Refused,
    /// A neighbour broke.
    Neighbour,
}

/// A recorded failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Failure {
    /// How.
    pub kind: FailureKind,
    /// What was wanted, what was got, when.
    pub reason: String,
    /// Last lines of the instance's console or error output.
    pub console: Vec<String>,
}
