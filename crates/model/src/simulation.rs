//! What a simulation yields: figures per case and replication, waiting times, a time line; and the published figures
//! they are held against.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::scenario::{CalibratedSpec, FigureLabel};
use probes::ProbeKind;
use units::metric::{Better, Unit};
use units::names::fits;
use units::{Micros, Nanos};

/// Everything a scenario yielded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Simulation {
    /// Name of the scenario.
    pub scenario: String,
    /// What it shows.
    pub about: String,
    /// Seed of everything random.
    pub seed: u64,
    /// How often each case was simulated.
    pub replications: u32,
    /// Its cases, in the order of the file.
    pub cases: Vec<CaseOutcome>,
    /// Whether the model's parameters come from a measured run; what it is held against was measured then, too.
    #[serde(default)]
    pub calibrated: bool,
    /// That run: whether it is dirty, and what could not be estimated. None where nothing was measured, and in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibrated_from: Option<CalibratedSpec>,
    /// Published (or measured) figures beside the simulated ones.
    pub published: Vec<PublishedOutcome>,
    /// Its parameters: where their values are from, and how much depends on them.
    pub assumptions: Vec<AssumptionOutcome>,
    /// The worst phases that were searched, by case and task; none where nobody asked for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseOutcome>,
    /// Labels of the cases that were simulated once because nothing in them is random; all their replications are the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub once: Vec<String>,
    /// How far it came, where somebody interrupted it: its figures are of the simulations that were done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<Unfinished>,
}

/// How far an interrupted simulation came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unfinished {
    /// Simulations that were done.
    pub done: u64,
    /// Simulations that there were to be.
    pub of: u64,
}

/// The worst that a search over the offsets of real-time tasks found for one of them. It is no bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PhaseOutcome {
    /// The case.
    pub case: String,
    /// The task, `vm.A.thread.0`.
    pub task: String,
    /// Alignments that were simulated, each once.
    pub tried: u64,
    /// Longest time from the arrival of a job to its end.
    pub response_max_ns: Nanos,
    /// Largest share of its jobs that missed their deadline in an alignment.
    pub missed_share_max: f64,
    /// Where the longest time was found: offsets by their paths, as `--set` takes them.
    pub offsets_us: BTreeMap<String, Micros>,
}

/// Most figures that a summary shows.
const MAIN_MOST: usize = 8;
/// So many of the telling ones at least, besides those that published figures ask for.
const TELLING_MOST: usize = 4;
/// Endings of ids that a summary shows where nothing published asks for others, the most telling first.
const TELLING: [&str; 9] = [
    ".host_share",
    ".wall_ns",
    ".slowdown",
    ".sample_p50_ns",
    ".sample_max_ns",
    ".missed_share",
    ".spin_share",
    ".steal_ns",
    "host.used_share",
];

/// Offsets as options of `simulate`: `--set vm.A.thread.0.run.offset_us=12`.
pub fn as_set_options(offsets: &BTreeMap<String, Micros>) -> String {
    let option = |(path, offset): (&String, &Micros)| format!("--set {path}={}", offset.get());
    offsets.iter().map(option).collect::<Vec<_>>().join(" ")
}

impl Simulation {
    /// Ids of the figures that a summary shows: those that published ones are held against, then the most telling, in
    /// the order in which cases yield them.
    pub fn main_figures(&self) -> Vec<&str> {
        let mut all = self.all_figures();
        let asked =
            |id: &&str| self.published.iter().any(|figure| figure.metrics.iter().any(|asked| asked == id));
        let mut main: Vec<&str> = all.iter().copied().filter(asked).collect();
        let most = main.len().clamp(TELLING_MOST, MAIN_MOST);
        for ending in TELLING {
            main.extend(all.iter().copied().filter(|id| id.ends_with(ending) && !asked(id)));
        }
        if main.is_empty() {
            main.clone_from(&all);
        }
        main.truncate(most);
        all.retain(|id| main.contains(id));
        all
    }

    /// Ids of all figures of the kinds that a summary shows, the most telling kinds first.
    pub fn telling_figures(&self) -> Vec<&str> {
        let all = self.all_figures();
        TELLING.iter().flat_map(|ending| all.iter().copied().filter(move |id| id.ends_with(ending))).collect()
    }

    /// Ids of all figures, in the order in which cases yield them.
    pub fn all_figures(&self) -> Vec<&str> {
        let mut known: BTreeSet<&str> = BTreeSet::new();
        let ids = self.cases.iter().flat_map(|case| &case.figures).map(|figure| figure.id.as_str());
        ids.filter(|id| known.insert(id)).collect()
    }

    /// Those that one of these patterns fits, in which `*` stands for any text.
    pub fn figures_like(&self, patterns: &[String]) -> Vec<&str> {
        let mut all = self.all_figures();
        all.retain(|id| patterns.iter().any(|pattern| fits(pattern, id)));
        all
    }

    /// Whether no published figure is missed, whatever its label.
    pub fn is_met(&self) -> bool {
        self.published.iter().all(|figure| figure.holds != Some(false))
    }

    /// Whether some replication ended otherwise than it should.
    pub fn had_trouble(&self) -> bool {
        self.cases.iter().any(|case| !case.troubles.is_empty())
    }
}

impl CaseOutcome {
    /// The figure with this id.
    pub fn figure(&self, id: &str) -> Option<&SimulatedFigure> {
        self.figures.iter().find(|figure| figure.id == id)
    }
}

/// What a case yielded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CaseOutcome {
    /// What distinguishes it.
    pub label: String,
    /// What the sweep set in it, by path, as written.
    pub settings: BTreeMap<String, String>,
    /// Figures, each with a value per replication that yielded it.
    pub figures: Vec<SimulatedFigure>,
    /// Waiting times of locks, by VM.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<WaitTimes>,
    /// Who ran where in the first replication, from its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_line: Option<TimeLine>,
    /// Why replications ended otherwise than by being done or by the stated time, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub troubles: Vec<String>,
    /// What has to be known of its figures, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Events that were handled in all.
    pub events: u64,
}

/// A figure of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulatedFigure {
    /// Its name, with whose it is: `vm.A.cpus`.
    pub id: String,
    /// What it says.
    pub title: String,
    /// The unit of the values.
    pub unit: Unit,
    /// Good direction.
    pub better: Better,
    /// The probe that measures the same on a real machine.
    pub probe: ProbeKind,
    /// Of a bound: whether some phase and draw of the tasks and the host as they are written reaches it. False: the worst case may
    /// be less. None: it is no bound, or an older file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_exact: Option<bool>,
    /// `(replication, value)`.
    pub values: Vec<(u32, f64)>,
}

/// Waiting times of all locks of a VM, in log2 bins of cycles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitTimes {
    /// Name of the VM.
    pub vm: String,
    /// Waits of 2^b to 2^(b+1) − 1 cycles, b from 0 on.
    pub counts: Vec<u64>,
    /// Time waited in each.
    pub time_ns: Vec<Nanos>,
}

/// Who ran where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeLine {
    /// CPUs of the host.
    pub cpus: u32,
    /// Names of the virtual CPUs: `A.0`.
    pub vcpus: Vec<String>,
    /// Stretches in the order of their ends.
    pub stretches: Vec<TimeStretch>,
    /// Stretches there was no room for.
    pub left_out: u64,
}

/// A stretch of time on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeStretch {
    /// The CPU.
    pub cpu: u32,
    /// Number of the virtual CPU in the time line's list.
    pub vcpu: u32,
    /// Its begin.
    pub start_ns: Nanos,
    /// Its length.
    pub length_ns: Nanos,
    /// What the virtual CPU was at.
    pub mode: StretchMode,
}

/// What a virtual CPU was at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StretchMode {
    /// A program's own code.
    User,
    /// The guest's kernel.
    Kernel,
    /// Spinning for a lock.
    Spin,
    /// Being brought onto the CPU.
    Switch,
}

/// A published figure beside the simulated one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PublishedOutcome {
    /// What it says.
    pub title: String,
    /// The case.
    pub case: String,
    /// Ids of the figures that it is made of: one, or one and its divisor.
    pub metrics: Vec<String>,
    /// Where it was published.
    pub source: String,
    /// Unit of both.
    pub unit: Unit,
    /// The published value.
    pub published: f64,
    /// The simulated one, mean over the replications; none where the case did not yield it.
    pub simulated: Option<f64>,
    /// Half the width of its 95 % interval; none for one replication.
    pub half_width: Option<f64>,
    /// The published value's own 95 % interval, where one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_interval: Option<[f64; 2]>,
    /// Between which values it is predicted, what the model does not know included; the published value must lie there. None
    /// where something else is demanded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<[f64; 2]>,
    /// What its coming out says of the model.
    #[serde(default)]
    pub label: FigureLabel,
    /// Between which values the simulated one must lie; none where nothing is demanded, or where the file is of a version
    /// that wrote it in words only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand: Option<Demand>,
    /// The same in words.
    pub demanded: String,
    /// Whether that holds: the whole interval lies within what is demanded, or wholly outside. None where nothing is
    /// demanded, or where the interval does not decide.
    pub holds: Option<bool>,
    /// Whether something is demanded and the interval does not decide, or there is none because of one replication.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undecided: bool,
}

/// Between which values, in the figure's unit, a simulated one must lie.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Demand {
    /// At least this; none: nothing is too small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least: Option<f64>,
    /// At most this; none: nothing is too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<f64>,
}

impl PublishedOutcome {
    /// Width of what is predicted over its middle; none where no interval is.
    pub fn relative_width(&self) -> Option<f64> {
        let [low, high] = self.predicted?;
        Some((high - low) / f64::midpoint(low, high)).filter(|width| width.is_finite())
    }
}

impl Demand {
    /// Whether a whole interval is between the two, or none of it; none where a part is.
    pub fn is_met_by_interval(&self, middle: f64, half_width: f64) -> Option<bool> {
        // What comes out of decimal fractions may lie a last binary digit beside them.
        let rounding = |end: f64| 1e-12 * end.abs();
        let (low, high) = (middle - half_width, middle + half_width);
        let is_outside = self.least.is_some_and(|least| high < least - rounding(least))
            || self.most.is_some_and(|most| low > most + rounding(most));
        let is_inside = self.least.is_none_or(|least| low >= least - rounding(least))
            && self.most.is_none_or(|most| high <= most + rounding(most));
        (is_inside || is_outside).then_some(is_inside)
    }

    /// Whether a value is between the two.
    pub fn is_met_by(&self, value: f64) -> bool {
        self.least.is_none_or(|least| value >= least) && self.most.is_none_or(|most| value <= most)
    }
}

/// A parameter: its value, where it is from, and how much depends on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AssumptionOutcome {
    /// The key.
    pub key: String,
    /// Its value, as written; several where cases differ.
    pub value: String,
    /// Where the value is from.
    #[serde(default)]
    pub origin: Origin,
    /// Why this one.
    pub why: String,
    /// Both ends of its 95 % interval, where it was estimated from a measured run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// What becomes of each published figure when it is changed: factor, and the simulated values in their order.
    pub sensitivity: Vec<(f64, Vec<Option<f64>>)>,
    /// The same for changes that are no stated factors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<Tried>,
    /// Why nothing was tried, or not everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untried: Option<String>,
}

/// Where the value of a parameter is from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The scenario says so, with its reason.
    #[default]
    Assumed,
    /// It was not given: the default.
    Default,
    /// The scenario sets it without a word on it.
    Set,
    /// It was estimated from a measured run.
    Estimated,
}

/// A change of a parameter and what became of the published figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tried {
    /// The change, in words: `times 0.5`, `set to true`.
    pub change: String,
    /// The simulated values, in the order of the published figures.
    pub simulated: Vec<Option<f64>>,
}

impl AssumptionOutcome {
    /// Every change that was tried: in words, and the simulated values in the order of the published figures.
    pub fn changes(&self) -> impl Iterator<Item = (String, &[Option<f64>])> {
        let factors =
            self.sensitivity.iter().map(|(factor, values)| (format!("times {factor}"), values.as_slice()));
        factors.chain(self.tried.iter().map(|tried| (tried.change.clone(), tried.simulated.as_slice())))
    }
}
