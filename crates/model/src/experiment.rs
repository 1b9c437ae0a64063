//! An experiment: platforms × probes × loads × repetitions, as a TOML file that people read and write.
//!
//! The same type is what the user writes, what the run directory keeps as resolved, and what resume reads back.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::journal::{Cell, Neighbour};
pub use super::platform::{
    Accelerator, Capabilities, DiskBacking, DiskBus, FakeFailure, FakeScript, NicModel, PlatformSpec, SshSpec,
};
use super::scenario::line_of;
use probes::params::{ProbeKind, ProbeSpec, Probes};
use units::bounds::{OutOfBounds, within};
use units::layout::Layout;
use units::names::{LoadKind, LoadPlace, hint, nearest};

/// Largest experiment file that is read; longer ones are refused before parsing.
pub const MAX_FILE_BYTES: usize = 256 * 1024;
/// Most platforms in one experiment.
const MAX_PLATFORMS: usize = 32;
/// Most loads in one experiment.
const MAX_LOADS: usize = 64;
/// Most layouts in one experiment.
const MAX_LAYOUTS: usize = 32;

/// What is measured, where, beside what, how often.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Name shown in reports.
    #[serde(default = "default_name")]
    pub name: String,
    /// Label of the platform the others are compared with; unset means the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// Seed of order and data; unset means one is drawn and printed. Below 2^63, because TOML has no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Whether the kernel's tracer is to say who takes a probe's CPU, on platforms where it may. Tracing lengthens every
    /// interruption it sees, so such a run tells causes, not costs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trace: bool,
    /// How often each cell is repeated.
    #[serde(default)]
    pub repeat: Repeat,
    /// Where to measure.
    #[serde(default, rename = "platform")]
    pub platforms: Vec<PlatformSpec>,
    /// What to measure.
    #[serde(default, rename = "probe")]
    pub probes: Probes,
    /// How many instances measure at once. A probe that is not named by any layout is measured by one instance alone,
    /// the probes `net`, `mpi` and `share` by two on one host (`1x2`).
    #[serde(default, rename = "layout", skip_serializing_if = "Vec::is_empty")]
    pub layouts: Vec<LayoutEntry>,
    /// Beside what to measure; every probe is also measured without a neighbour.
    #[serde(default, rename = "load", skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<LoadEntry>,
}

fn default_name() -> String {
    "unnamed".to_owned()
}

/// When to stop repeating.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Repeat {
    /// Rounds of each probe at least, 1 … 1000.
    pub min: u32,
    /// Rounds of each probe at most, `min` … 1000.
    pub max: u32,
    /// A main metric is decided when its ratio to the baseline (alone: itself) is known to ± this much, 0.1 … 100 percent, or differs.
    pub target_percent: f64,
    /// No further round is begun after this much time spent measuring, 1 … 1e6 seconds. `min` rounds are always made.
    pub budget_s: u32,
    /// After `min` rounds first comes what decides the verdicts on classes of work, whatever `max` says, as long as the budget lasts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub until_decided: bool,
}

impl Default for Repeat {
    fn default() -> Self {
        Self { min: 5, max: 15, target_percent: 2.0, budget_s: 240, until_decided: false }
    }
}

/// A layout and the probes that are measured in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LayoutEntry {
    /// Hosts × instances per host, `2x4` for example.
    pub size: Layout,
    /// Probes measured in it; unset means those of the experiment that several instances make together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<Vec<ProbeKind>>,
}

impl LayoutEntry {
    /// Whether a probe is measured in it.
    fn measures(&self, probe: ProbeKind) -> bool {
        self.probes.as_ref().map_or(probe.is_made_together(), |probes| probes.contains(&probe))
    }
}

/// How many make a probe together in a layout; none for one that each instance makes for itself.
fn parties(probe: &ProbeSpec, layout: Layout) -> Option<u32> {
    match probe {
        ProbeSpec::Mpi(params) => Some(layout.instances().saturating_mul(params.ranks_per_instance)),
        probe => probe.kind().is_made_together().then_some(layout.instances()),
    }
}

/// A neighbour and the probes that are measured beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LoadEntry {
    /// Which stressor.
    pub kind: LoadKind,
    /// Where it runs.
    #[serde(default = "default_place")]
    pub place: LoadPlace,
    /// Its threads, 1 … 1024; unset means one per CPU granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Probes measured beside it; unset means all of the experiment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<Vec<ProbeKind>>,
}

const fn default_place() -> LoadPlace {
    LoadPlace::Second
}

impl LoadEntry {
    /// The neighbour this entry describes.
    pub const fn neighbour(&self) -> Neighbour {
        Neighbour { kind: self.kind, place: self.place }
    }
}

/// Why an experiment cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The file is too large to be one.
    #[error("an experiment has at most {MAX_FILE_BYTES} bytes, this file has {0}")]
    TooLarge(usize),
    /// Not TOML, or a key or name that does not exist.
    #[error("{message}{}", .hint.as_deref().map(|hint| format!("\ndid you mean \"{hint}\"?")).unwrap_or_default())]
    Syntax {
        /// The parser's message with line and column.
        message: String,
        /// The nearest known name, when one is near.
        hint: Option<String>,
    },
    /// A value outside its bounds.
    #[error(transparent)]
    Bounds(#[from] OutOfBounds),
    /// Parts that contradict each other.
    #[error("{0}")]
    Contradiction(String),
    /// A part that cannot be as it is, by its path in the file.
    #[error("{problem}")]
    Impossible {
        /// `layout.0.size`.
        path: String,
        /// What was wanted, what was got, what to do.
        problem: String,
    },
}

impl Experiment {
    /// Parses and checks an experiment.
    pub fn from_toml(text: &str) -> Result<Self, ExperimentError> {
        if text.len() > MAX_FILE_BYTES {
            return Err(ExperimentError::TooLarge(text.len()));
        }
        let experiment: Self = toml::from_str(text).map_err(|error| syntax_error(&error))?;
        experiment.check().map_err(|error| with_line(error, text))?;
        Ok(experiment)
    }

    /// Writes the experiment down so that [`Self::from_toml`] reads the same back.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }

    /// Checks bounds and contradictions. Called by [`Self::from_toml`]; call it again after changing something.
    pub fn check(&self) -> Result<(), ExperimentError> {
        self.probes.check()?;
        self.check_repeat()?;
        self.check_platforms()?;
        self.check_loads()?;
        self.check_layouts()?;
        within("seed", self.seed.unwrap_or(0), 0, i64::MAX as u64).map_err(ExperimentError::from)
    }

    fn check_repeat(&self) -> Result<(), ExperimentError> {
        let repeat = self.repeat;
        within("repeat.min", repeat.min.into(), 1, 1000)?;
        if repeat.max < repeat.min {
            return Err(contradiction(format!(
                "repeat.max = {} is below repeat.min = {}: raise max or lower min",
                repeat.max, repeat.min
            )));
        }
        within("repeat.max", repeat.max.into(), 1, 1000)?;
        within("repeat.budget_s", repeat.budget_s.into(), 1, 1_000_000)?;
        if !(0.1..=100.0).contains(&repeat.target_percent) {
            return Err(contradiction(format!(
                "repeat.target_percent = {} is out of bounds; allowed is 0.1 to 100",
                repeat.target_percent
            )));
        }
        Ok(())
    }

    fn check_platforms(&self) -> Result<(), ExperimentError> {
        within("number of platforms", self.platforms.len() as u64, 1, MAX_PLATFORMS as u64)?;
        let mut seen = BTreeSet::new();
        for platform in &self.platforms {
            super::platform::check(platform, &self.probes)?;
            if !seen.insert(platform.label.as_str()) {
                return Err(contradiction(format!(
                    "two platforms are labelled \"{0}\": give one another label, \"{0}-2\" for example",
                    platform.label
                )));
            }
        }
        if let Some(baseline) = self.baseline.as_deref().filter(|baseline| !seen.contains(baseline)) {
            let labels: Vec<&str> = seen.into_iter().collect();
            return Err(contradiction(format!(
                "baseline \"{baseline}\" is no platform of this experiment ({}){}",
                labels.join(", "),
                hint(baseline, &labels)
            )));
        }
        Ok(())
    }

    fn check_loads(&self) -> Result<(), ExperimentError> {
        let probes: Vec<ProbeKind> =
            self.probes.specs().iter().map(probes::params::ProbeSpec::kind).collect();
        if probes.is_empty() {
            return Err(contradiction(
                "no probe: add a table such as [probe.gap] for each probe to be measured".to_owned(),
            ));
        }
        within("number of loads", self.loads.len() as u64, 0, MAX_LOADS as u64)?;
        let mut seen = BTreeSet::new();
        for load in &self.loads {
            within("load.threads", load.threads.unwrap_or(1).into(), 1, 1024)?;
            if !seen.insert(load.neighbour()) {
                return Err(contradiction(format!(
                    "load \"{}\" at place \"{}\" is there twice: merge their probes",
                    load.kind, load.place
                )));
            }
            if let Some(probe) = load.probes.iter().flatten().find(|probe| !probes.contains(probe)) {
                return Err(contradiction(format!(
                    "load \"{}\" names probe \"{probe}\", which this experiment does not measure: add [probe.{probe}]",
                    load.kind
                )));
            }
        }
        Ok(())
    }

    fn check_layouts(&self) -> Result<(), ExperimentError> {
        within("number of layouts", self.layouts.len() as u64, 0, MAX_LAYOUTS as u64)?;
        let mut seen = BTreeSet::new();
        let probes: Vec<ProbeKind> =
            self.probes.specs().iter().map(probes::params::ProbeSpec::kind).collect();
        for (number, entry) in self.layouts.iter().enumerate() {
            if !seen.insert(entry.size) {
                return Err(contradiction(format!(
                    "layout \"{}\" is there twice: merge their probes",
                    entry.size
                )));
            }
            if let Some(probe) = entry.probes.iter().flatten().find(|probe| !probes.contains(probe)) {
                return Err(contradiction(format!(
                    "layout \"{}\" names probe \"{probe}\", which this experiment does not measure: add [probe.{probe}]",
                    entry.size
                )));
            }
            self.check_parties(number, entry)?;
        }
        Ok(())
    }

    /// What is made together needs somebody to make it with.
    fn check_parties(&self, number: usize, entry: &LayoutEntry) -> Result<(), ExperimentError> {
        let specs = self.probes.specs();
        let alone =
            specs.iter().find(|spec| entry.measures(spec.kind()) && parties(spec, entry.size) == Some(1));
        let Some(spec) = alone else { return Ok(()) };
        let (probe, size) = (spec.kind(), entry.size);
        let or_ranks = match probe {
            ProbeKind::Mpi => ", or set ranks_per_instance = 2 in [probe.mpi]",
            _ => "",
        };
        let other = specs.iter().map(ProbeSpec::kind).find(|other| !other.is_made_together());
        let or_name = other
            .map(|other| format!(", or let others measure in it: probes = [\"{other}\"]"))
            .unwrap_or_default();
        Err(ExperimentError::Impossible {
            path: format!("layout.{number}.size"),
            problem: format!(
                "probe \"{probe}\" needs two parties, layout \"{size}\" has one instance: use size = \"1x2\" for \
                 example{or_ranks}{or_name}"
            ),
        })
    }

    /// Label of the baseline.
    pub fn baseline_label(&self) -> &str {
        self.baseline
            .as_deref()
            .or_else(|| self.platforms.first().map(|platform| platform.label.as_str()))
            .unwrap_or("native")
    }

    /// Layouts in which a probe is measured, in the order written; `None` is one instance alone. A probe that one
    /// instance makes for itself is measured alone, too, so that the layouts can be compared with that.
    pub fn layouts_of(&self, probe: ProbeKind) -> Vec<Option<Layout>> {
        let written = self.layouts.iter().filter(|entry| entry.measures(probe)).map(|entry| Some(entry.size));
        if !probe.is_made_together() {
            return std::iter::once(None).chain(written).collect();
        }
        let written: Vec<_> = written.collect();
        if written.is_empty() { vec![Some(Layout::PAIR)] } else { written }
    }

    /// Every cell: probes alone first, then beside each load; layouts, then platforms innermost, in the order written.
    /// Beside a load a probe is measured in its first layout only.
    pub fn cells(&self) -> Vec<Cell> {
        let probes: Vec<ProbeKind> =
            self.probes.specs().iter().map(probes::params::ProbeSpec::kind).collect();
        let alone = probes
            .iter()
            .flat_map(|probe| self.layouts_of(*probe).into_iter().map(|layout| (*probe, None, layout)));
        let beside = self.loads.iter().flat_map(|load| {
            let wanted = load.probes.clone().unwrap_or_else(|| probes.clone());
            let measured: Vec<_> = probes.iter().copied().filter(|probe| wanted.contains(probe)).collect();
            measured.into_iter().map(|probe| {
                (probe, Some(load.neighbour()), self.layouts_of(probe).first().copied().flatten())
            })
        });
        alone
            .chain(beside)
            .flat_map(|(probe, neighbour, layout)| {
                self.platforms.iter().map(move |platform| Cell {
                    probe,
                    neighbour,
                    platform: platform.label.clone(),
                    layout,
                })
            })
            .collect()
    }
}

/// Says on which line of the file the problem is.
fn with_line(error: ExperimentError, text: &str) -> ExperimentError {
    match error {
        ExperimentError::Impossible { path, problem } => {
            let line = line_of(text, &path).map(|line| format!("line {line}: ")).unwrap_or_default();
            ExperimentError::Impossible { problem: format!("{line}{problem}"), path }
        }
        other => other,
    }
}

pub(super) fn contradiction(text: String) -> ExperimentError {
    ExperimentError::Contradiction(text)
}

/// Adds the nearest of the names the parser expected to its message.
pub(super) fn syntax_error(error: &toml::de::Error) -> ExperimentError {
    let message = error.to_string().trim_end().to_owned();
    let mut quoted = error.message().split('`').skip(1).step_by(2);
    let got = quoted.next().unwrap_or_default().to_owned();
    let expected: Vec<&str> = quoted.collect();
    let hint = nearest(&got, &expected).map(str::to_owned);
    ExperimentError::Syntax { message, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
        [[platform]]
        label = "native"
        kind = "native"

        [[platform]]
        label = "box"
        kind = "container"

        [probe.gap]
        duration_ms = 200

        [probe.fork]

        [[load]]
        kind = "cpu"
        probes = ["gap"]
    "#;

    #[test]
    fn cells_are_probes_alone_then_beside_each_load() {
        let experiment = Experiment::from_toml(SMALL).unwrap();
        let cells: Vec<String> = experiment
            .cells()
            .iter()
            .map(|cell| format!("{} {} {}", cell.probe, cell.neighbour.is_some(), cell.platform))
            .collect();
        assert_eq!(
            cells,
            [
                "gap false native",
                "gap false box",
                "fork false native",
                "fork false box",
                "gap true native",
                "gap true box"
            ]
        );
        assert_eq!(experiment.baseline_label(), "native");
    }

    #[test]
    fn what_is_written_down_reads_back_the_same() {
        let experiment = Experiment::from_toml(SMALL).unwrap();
        let again = Experiment::from_toml(&experiment.to_toml().unwrap()).unwrap();
        assert_eq!(experiment, again);
    }

    #[test]
    fn unknown_names_are_answered_with_the_nearest() {
        for (wrong, hint) in [
            ("[probe.gapp]", "gap"),
            ("[probe.gap]\nduraton_ms = 5", "duration_ms"),
            ("[[platform]]\nlabel = \"x\"\nkind = \"containr\"", "container"),
            ("[repeet]\nmin = 1", "repeat"),
        ] {
            let error = Experiment::from_toml(wrong).unwrap_err();
            assert!(error.to_string().contains(&format!("did you mean \"{hint}\"?")), "{wrong}: {error}");
        }
    }

    #[test]
    fn probes_made_together_by_one_are_refused_with_the_line_before_anything_starts() {
        let layout = |probe: &str, entry: &str| {
            let text =
                format!("[[platform]]\nlabel = \"a\"\nkind = \"fake\"\n[probe.gap]\n{probe}\n{entry}\n");
            Experiment::from_toml(&text).map(|_| ()).map_err(|error| error.to_string())
        };
        let one = "[[layout]]\nsize = \"1x2\"\n[[layout]]\nsize = \"1x1\"";
        for (probe, help) in
            [("net", "use size = \"1x2\" for example"), ("mpi", "ranks_per_instance = 2"), ("share", "1x2")]
        {
            for entry in [one.to_owned(), format!("{one}\nprobes = [\"gap\", \"{probe}\"]")] {
                let refused = layout(&format!("[probe.{probe}]"), &entry).unwrap_err();
                let wanted = format!("line 9: probe \"{probe}\" needs two parties");
                assert!(refused.starts_with(&wanted) && refused.contains(help), "{refused}");
            }
        }
        let other = format!("{one}\nprobes = [\"gap\"]");
        assert_eq!(layout("[probe.net]", &other), Ok(()), "another probe may be alone");
        assert_eq!(layout("[probe.mpi]\nranks_per_instance = 2", one), Ok(()), "two ranks in one instance");
    }

    #[test]
    fn contradictions_are_named() {
        for (change, part) in [
            ("baseline = \"natve\"", "did you mean \"native\"?"),
            ("[repeat]\nmin = 9\nmax = 3", "below repeat.min"),
            ("[[platform]]\nlabel = \"native\"\nkind = \"native\"", "two platforms"),
            ("[[platform]]\nlabel = \"n2\"\nkind = \"native\"\nmemory_mib = 512", "setting of kind \"vm\""),
            ("[[load]]\nkind = \"cpu\"\nplace = \"host\"\nprobes = [\"disk\"]", "add [probe.disk]"),
            ("[probe.mem-latency]\nstride_bytes = 48", "power of two"),
            ("[probe.disk]\nblock_sizes_kib = []", "out of bounds"),
        ] {
            let (first, second) = if change.starts_with("base") { (change, SMALL) } else { (SMALL, change) };
            let text = format!("{first}\n{second}");
            let error = Experiment::from_toml(&text).unwrap_err();
            assert!(error.to_string().contains(part), "{change}: {error}");
        }
    }
}
