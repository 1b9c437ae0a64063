//! `results.json`: everything a report or a script needs, computed from the journal.

use serde::{Deserialize, Serialize};

use super::attribution::Attribution;
use super::classes::ClassVerdict;
use super::clocks::ClockVerdict;
use super::exceedance::Exceedance;
use super::experiment::Experiment;
use super::isolation::IsolationMatrix;
use super::journal::{Cell, Failure, PlatformState};
use super::policy::PolicyVerdict;
use super::prediction::SessionTime;
use super::preflight::Preflight;
use super::sides::BothSides;
use super::simulation::Simulation;
use probes::detail::Detail;
use probes::job::PlacedDose;
use units::Nanos;
use units::accounts::HostAccount;
use units::facts::{ClockFacts, MachineFacts, OwnCost};
use units::metric::{Answer, Better, Comparison, Unit};
use units::names::PlatformKind;
use units::outside::OutsideSpan;
use units::scheduling::Scheduling;

/// One run, complete or interrupted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunResults {
    /// [`super::SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// Version of the program.
    pub bulkhead_version: String,
    /// The experiment as resolved, its seed included.
    pub experiment: Experiment,
    /// When the run began, nanoseconds since 1970; 0 for what was simulated, which is the same whenever that is done.
    pub started_unix_ns: Nanos,
    /// Time spent measuring, interruptions left out.
    pub measured_ns: Nanos,
    /// Whether every measurement was made; false after an interruption.
    pub complete: bool,
    /// The host.
    pub host: MachineFacts,
    /// Was it quiet?
    pub preflight: Preflight,
    /// Why the run is dirty; empty when it is clean.
    pub dirty: Vec<String>,
    /// Platforms in the experiment's order, also those that could not be measured.
    pub platforms: Vec<PlatformState>,
    /// Labels of the platforms whose figures are made up from the seed: nothing was run on them, nothing measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made_up: Vec<String>,
    /// One sentence per platform, for people in a hurry; the baseline has none.
    pub verdicts: Vec<Verdict>,
    /// By which policy each platform shares the CPUs, where that was measured.
    #[serde(default)]
    pub policies: Vec<PolicyVerdict>,
    /// How long each session was said to take, and took; empty in files of schema 1.
    #[serde(default)]
    pub sessions: Vec<SessionTime>,
    /// What is known of the clock of each platform that was measured; empty in files of schema 1.
    #[serde(default)]
    pub clocks: Vec<ClockVerdict>,
    /// Lines of the journal that cannot be read: what they held is in none of the figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<LostLine>,
    /// One entry per cell.
    pub cells: Vec<CellResult>,
    /// Every failed measurement; also every instance that broke in one that the others came through.
    pub failures: Vec<FailedMeasurement>,
    /// Who hurts whom, one matrix per platform that was measured beside a neighbour.
    #[serde(default)]
    pub isolation: Vec<IsolationMatrix>,
    /// For which classes of work each platform is fit; empty when none was asked about.
    #[serde(default)]
    pub classes: Vec<ClassVerdict>,
    /// What was simulated, where nothing was measured: cases are the platforms then, replications the rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulation: Option<Simulation>,
}

/// A line of the journal that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LostLine {
    /// Which one, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub reason: String,
}

/// Labels of the platforms whose figures are made up.
pub fn made_up(platforms: &[PlatformState]) -> Vec<String> {
    let fakes = platforms.iter().filter(|platform| platform.kind == PlatformKind::Fake);
    fakes.map(|platform| platform.label.clone()).collect()
}

/// What a platform costs, in a sentence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verdict {
    /// Label of the platform.
    pub platform: String,
    /// How much it costs at a glance.
    pub level: VerdictLevel,
    /// The sentence.
    pub sentence: String,
    /// The figures behind it, strongest first: `cpu: 1.34 × native [1.31 … 1.38]`.
    pub because: Vec<String>,
}

/// Severity of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum VerdictLevel {
    /// No difference found, or none above 5 %.
    Free,
    /// Differences of 5 % to 2 ×.
    Costly,
    /// A difference of 2 × or more, or measurements that broke.
    Heavy,
    /// Too little data for a verdict.
    Unknown,
}

/// All that is known of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellResult {
    /// What was measured.
    pub cell: Cell,
    /// Measurements that were done.
    pub done: u32,
    /// Measurements that broke.
    pub failed: u32,
    /// Its metrics.
    pub metrics: Vec<MetricResult>,
    /// Raw outcome for the pictures: gap histograms and share phases of all rounds pooled; otherwise the round whose main
    /// metric is the median. None when every measurement broke.
    pub detail: Option<Detail>,
    /// How often things took longer than a time, all rounds of one instance alone together; none where too little is known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exceedance: Option<Exceedance>,
    /// Confidence of its figures where it is not 95 %: of one that was looked at several times until verdicts were decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// How long a measurement took on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ns: Option<Nanos>,
    /// The clock of that round.
    pub clock: Option<ClockFacts>,
    /// The probe's own cost in that round.
    pub cost: Option<OwnCost>,
    /// How strong the neighbours were, median over the rounds.
    pub doses: Vec<PlacedDose>,
    /// How long each measurement took, inside and on the host's clock; those are left out whose clocks say nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<OutsideSpan>,
    /// Who took the time that the gap probe lost, made wake-ups late or held up the disk's operations, all rounds
    /// together; none for other probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribution: Option<Attribution>,
    /// One round of the gap probe as the instance and its host saw it; none where the host cannot look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sides: Option<BothSides>,
    /// What the host saw of the first instance in that round, its slices left out; only where it tells on which nodes the
    /// guest's memory lay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostAccount>,
    /// Every way in which the probe's threads were scheduled, each once; empty for probes that ask nothing of the
    /// scheduler, and in older files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scheduling: Vec<Scheduling>,
    /// Remarks, each once.
    pub notes: Vec<String>,
}

impl CellResult {
    /// A cell of which nothing is known.
    pub fn unmeasured(cell: &Cell) -> Self {
        Self {
            cell: cell.clone(),
            done: 0,
            failed: 0,
            metrics: Vec::new(),
            detail: None,
            exceedance: None,
            confidence: None,
            took_ns: None,
            clock: None,
            cost: None,
            doses: Vec::new(),
            outside: Vec::new(),
            attribution: None,
            sides: None,
            host: None,
            scheduling: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Every way in which the probe's threads were scheduled; in older files that of the round that is kept.
    pub fn scheduled(&self) -> Vec<Scheduling> {
        if self.scheduling.is_empty() {
            return self.detail.as_ref().and_then(Detail::scheduling).into_iter().collect();
        }
        self.scheduling.clone()
    }
}

/// A metric over all rounds of its cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MetricResult {
    /// Name with the unit last, unique within its probe.
    pub id: String,
    /// What it says.
    pub title: String,
    /// Unit of the figures.
    pub unit: Unit,
    /// Good direction.
    pub better: Better,
    /// Whether verdicts and summaries are drawn from it.
    pub headline: bool,
    /// `(round, value)` of every measurement that yielded a figure.
    pub samples: Vec<(u32, f64)>,
    /// Typical value with its interval, or why there is none.
    pub estimate: Answer,
    /// What it is at most, at the confidence of the cell's `exceedance`, where there is no interval and that can be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// This platform against the baseline, same probe and neighbour. None for the baseline itself.
    pub against_baseline: Option<Comparison>,
    /// This platform with the neighbour against the same without. None without a neighbour.
    pub against_undisturbed: Option<Comparison>,
    /// Several instances at once against one alone, same platform, probe and neighbour. For times and latencies the
    /// ratio is together / alone. For throughput it is what each instance got against its fair share, 1/n of what one
    /// alone gets, where n instances share a machine: 1 is the fair share, n means that the others are not felt. None
    /// for one alone, and for probes that only several instances can make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against_alone: Option<Comparison>,
}

/// A failed measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailedMeasurement {
    /// What was measured.
    pub cell: Cell,
    /// In which round.
    pub round: u32,
    /// How it broke.
    pub failure: Failure,
}
