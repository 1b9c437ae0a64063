//! An experiment: platforms × probes × loads × repetitions, as a TOML file that people read and write.
//!
//! The same type is what the user writes, what the run directory keeps as resolved, and what resume reads back.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::journal::{Cell, Neighbour};
use super::names::{LoadKind, LoadPlace, PlatformKind, ProbeKind, nearest};
use super::params::{OutOfBounds, Probes, within};
use super::units::Mebibytes;

/// Largest experiment file that is read; longer ones are refused before parsing.
pub const MAX_FILE_BYTES: usize = 256 * 1024;
/// Most platforms in one experiment.
const MAX_PLATFORMS: usize = 32;
/// Most loads in one experiment.
const MAX_LOADS: usize = 64;

/// What is measured, where, beside what, how often.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// How often each cell is repeated.
    #[serde(default)]
    pub repeat: Repeat,
    /// Where to measure.
    #[serde(default, rename = "platform")]
    pub platforms: Vec<PlatformSpec>,
    /// What to measure.
    #[serde(default, rename = "probe")]
    pub probes: Probes,
    /// Beside what to measure; every probe is also measured without a neighbour.
    #[serde(default, rename = "load", skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<LoadEntry>,
}

fn default_name() -> String {
    "unnamed".to_owned()
}

/// When to stop repeating.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Repeat {
    /// Rounds at least, 1 … 1000.
    pub min: u32,
    /// Rounds at most, `min` … 1000.
    pub max: u32,
    /// A cell is done when the interval of its main metric is at most ± this much, 0.1 … 100 percent.
    pub target_percent: f64,
    /// No further round is begun after this much time spent measuring, 1 … 1e6 seconds. `min` rounds are always made.
    pub budget_s: u32,
}

impl Default for Repeat {
    fn default() -> Self {
        Self { min: 5, max: 15, target_percent: 2.0, budget_s: 240 }
    }
}

/// A platform with its settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlatformSpec {
    /// Label, unique in the experiment: letters, digits, `-`, `_`, `#`, at most 40.
    pub label: String,
    /// Kind of platform.
    pub kind: PlatformKind,
    /// CPUs of an instance, 1 … 1024; unset means all the host grants. `native` and `container` are
    /// held to the first so many CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Memory of a VM, 128 MiB … 1 TiB; unset means what the probes need, within what the host has free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<Mebibytes>,
    /// OCI runtime: a name found in PATH, or a path. Unset means the first found of crun, runc, youki, runsc.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// QEMU binary: a name found in PATH, or a path. Unset means `qemu-system-` with the host's architecture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qemu: Option<String>,
    /// Accelerator of a VM.
    #[serde(default)]
    pub accelerator: Accelerator,
    /// Kernel image of a VM; unset means the set-up's, then the host's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Modules folder of that kernel (`…/lib/modules/RELEASE`); unset means it is looked for beside the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modules: Option<String>,
    /// Script of a fake platform; see `platforms::fake`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<FakeScript>,
}

impl PlatformSpec {
    /// A platform with default settings, labelled like its kind.
    pub fn of_kind(kind: PlatformKind) -> Self {
        Self {
            label: kind.as_str().to_owned(),
            kind,
            cpus: None,
            memory_mib: None,
            runtime: None,
            qemu: None,
            accelerator: Accelerator::Auto,
            kernel: None,
            modules: None,
            script: None,
        }
    }
}

/// How a VM's CPUs are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Accelerator {
    /// KVM when a trial guest reaches its agent in time, else TCG.
    #[default]
    Auto,
    /// KVM or nothing.
    Kvm,
    /// QEMU's translator.
    Tcg,
}

/// What a fake platform pretends.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FakeScript {
    /// Times are this many percent of the fake native ones; 100 is no overhead. 1 … 100 000.
    pub slowdown_percent: Option<u32>,
    /// Random spread of times in percent, 0 … 100.
    pub noise_percent: u32,
    /// Real time each measurement takes, so that interruptions can hit it, 0 … 60 000 ms.
    pub delay_ms: u32,
    /// Measurements (counted from 1 per instance) that break, and how.
    pub failures: Vec<FakeFailure>,
}

/// A scripted failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FakeFailure {
    /// Which measurement of an instance, from 1; 0 means its start.
    pub at: u32,
    /// How it breaks.
    pub kind: super::journal::FailureKind,
}

/// A neighbour and the probes that are measured beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
}

impl Experiment {
    /// Parses and checks an experiment.
    pub fn from_toml(text: &str) -> Result<Self, ExperimentError> {
        if text.len() > MAX_FILE_BYTES {
            return Err(ExperimentError::TooLarge(text.len()));
        }
        let experiment: Self = toml::from_str(text).map_err(|error| syntax_error(&error))?;
        experiment.check()?;
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
        within("seed", self.seed.unwrap_or(0), 0, i64::MAX as u64)?;
        Ok(())
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
            check_label(&platform.label)?;
            if !seen.insert(platform.label.as_str()) {
                return Err(contradiction(format!(
                    "two platforms are labelled \"{0}\": give one another label, \"{0}-2\" for example",
                    platform.label
                )));
            }
            check_platform(platform)?;
        }
        if let Some(baseline) = self.baseline.as_deref().filter(|baseline| !seen.contains(baseline)) {
            let labels: Vec<&str> = seen.into_iter().collect();
            let hint =
                nearest(baseline, &labels).map(|n| format!("; did you mean \"{n}\"?")).unwrap_or_default();
            return Err(contradiction(format!(
                "baseline \"{baseline}\" is no platform of this experiment ({}){hint}",
                labels.join(", ")
            )));
        }
        Ok(())
    }

    fn check_loads(&self) -> Result<(), ExperimentError> {
        let probes: Vec<ProbeKind> = self.probes.specs().iter().map(super::params::ProbeSpec::kind).collect();
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

    /// Label of the baseline.
    pub fn baseline_label(&self) -> &str {
        self.baseline
            .as_deref()
            .or_else(|| self.platforms.first().map(|platform| platform.label.as_str()))
            .unwrap_or("native")
    }

    /// Every cell: probes alone first, then beside each load; platforms innermost, in the order written.
    pub fn cells(&self) -> Vec<Cell> {
        let probes: Vec<ProbeKind> = self.probes.specs().iter().map(super::params::ProbeSpec::kind).collect();
        let alone = probes.iter().map(|probe| (*probe, None));
        let beside = self.loads.iter().flat_map(|load| {
            let wanted = load.probes.clone().unwrap_or_else(|| probes.clone());
            let measured: Vec<_> = probes.iter().copied().filter(|probe| wanted.contains(probe)).collect();
            measured.into_iter().map(|probe| (probe, Some(load.neighbour())))
        });
        alone
            .chain(beside)
            .flat_map(|(probe, neighbour)| {
                self.platforms.iter().map(move |platform| Cell {
                    probe,
                    neighbour,
                    platform: platform.label.clone(),
                })
            })
            .collect()
    }
}

fn contradiction(text: String) -> ExperimentError {
    ExperimentError::Contradiction(text)
}

fn check_label(label: &str) -> Result<(), ExperimentError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '#');
    if label.is_empty() || label.len() > 40 || !label.chars().all(allowed) {
        return Err(contradiction(format!(
            "platform label \"{}\" may only have letters, digits, '-', '_', '#', and 1 to 40 of them",
            label.chars().take(60).collect::<String>()
        )));
    }
    Ok(())
}

fn check_platform(platform: &PlatformSpec) -> Result<(), ExperimentError> {
    within("platform.cpus", platform.cpus.unwrap_or(1).into(), 1, 1024)?;
    within("platform.memory_mib", platform.memory_mib.map_or(128, Mebibytes::get), 128, 1 << 20)?;
    let kind = platform.kind;
    let vm_only = [
        ("memory_mib", platform.memory_mib.is_some()),
        ("qemu", platform.qemu.is_some()),
        ("kernel", platform.kernel.is_some()),
        ("modules", platform.modules.is_some()),
        ("accelerator", platform.accelerator != Accelerator::Auto),
    ];
    let misplaced =
        vm_only.iter().find(|(_, set)| *set && kind != PlatformKind::Vm).map(|(key, _)| (*key, "vm"));
    let misplaced = misplaced
        .or_else(|| {
            (platform.runtime.is_some() && kind != PlatformKind::Container)
                .then_some(("runtime", "container"))
        })
        .or_else(|| (platform.script.is_some() && kind != PlatformKind::Fake).then_some(("script", "fake")));
    if let Some((key, owner)) = misplaced {
        return Err(contradiction(format!(
            "platform \"{}\" is of kind \"{kind}\", but {key} is a setting of kind \"{owner}\": remove it or change the kind",
            platform.label
        )));
    }
    if let Some(script) = &platform.script {
        within("script.slowdown_percent", script.slowdown_percent.unwrap_or(100).into(), 1, 100_000)?;
        within("script.noise_percent", script.noise_percent.into(), 0, 100)?;
        within("script.delay_ms", script.delay_ms.into(), 0, 60_000)?;
        within("number of script.failures", script.failures.len() as u64, 0, 1000)?;
    }
    Ok(())
}

/// Adds the nearest of the names the parser expected to its message.
fn syntax_error(error: &toml::de::Error) -> ExperimentError {
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
            let text = if change.starts_with("base") {
                format!("{change}\n{SMALL}")
            } else {
                format!("{SMALL}\n{change}")
            };
            let error = Experiment::from_toml(&text).unwrap_err();
            assert!(error.to_string().contains(part), "{change}: {error}");
        }
    }
}
