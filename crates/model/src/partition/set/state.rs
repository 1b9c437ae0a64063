//! What is known of a set that is up: what each of its supervisors was told to keep, how that stands, and what is shown of it.
//!
//! ```text
//!  (nothing) ─► Starting ─► Running ─┬─► Ended ────────────────┐
//!                  ▲           │     └─► Stopping ─► Stopped   ├─ the policy says so ─► Waiting ─► Starting
//!                  │           └───────► Failed ───────────────┘
//!                  └─ back-off ─ Waiting
//!  a supervisor that is gone without a last word: Lost (nobody writes this, whoever reads finds it);
//!  what has a policy is then given a new supervisor, which goes on with the policy
//! ```

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Health, PartitionSet, Ready, Restart};
use crate::experiment::Accelerator;
use crate::partition::{Content, Given, Inherited, PartitionSpec, ProgramEnd};
use units::{Mebibytes, Nanos};

/// What a supervisor keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum UnitSpec {
    /// A partition.
    Partition(Box<PartitionUnit>),
    /// A switch of a network.
    Switch(SwitchUnit),
}

impl UnitSpec {
    /// The same, its program with this from who starts it.
    #[must_use]
    pub fn with_inherited(mut self, inherited: &Inherited) -> Self {
        if let Self::Partition(unit) = &mut self
            && let Content::Program(program) = &mut unit.spec.content
        {
            program.inherited = inherited.clone();
        }
        self
    }

    /// Whether both are the same but for what comes from who started it and not from the file.
    pub fn is_same(&self, other: &Self) -> bool {
        let nothing = Inherited::default();
        self.clone().with_inherited(&nothing) == other.clone().with_inherited(&nothing)
    }
}

/// A partition as its supervisor starts it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionUnit {
    /// The partition.
    pub spec: PartitionSpec,
    /// What happens when it ends.
    pub restart: Restart,
    /// Restarts at most without a good run between them.
    pub restart_limit: u32,
    /// When it is ready; without it, when its program runs.
    #[serde(default)]
    pub ready: Option<Ready>,
    /// How it is watched from then on.
    #[serde(default)]
    pub health: Option<Health>,
    /// With what it is made.
    pub tools: Tools,
}

/// What partitions of a set are made with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tools {
    /// What runs the CPUs.
    pub accelerator: Accelerator,
    /// Cache folder.
    pub cache: PathBuf,
    /// QEMU, where the user named it.
    pub qemu: Option<String>,
    /// Guest kernel, where the user named it.
    pub kernel: Option<String>,
    /// Its modules, where the user named them.
    pub modules: Option<String>,
    /// Seconds from creation until the program runs.
    pub boot_deadline_s: Option<u32>,
}

/// A switch as its supervisor starts it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchUnit {
    /// Folder of the link, in which plugs listen.
    pub link: PathBuf,
    /// First five bytes of the hardware addresses that its plugs may have; any when not set.
    pub prefix: Option<[u8; 5]>,
    /// Numbers of plugs with the bytes per second that are taken from them at most; ascending.
    pub rates: Vec<(u8, u64)>,
    /// Socket at which it waits for the switch of the other link.
    pub trunk_at: Option<PathBuf>,
    /// Socket at which the switch of the other link waits for it.
    pub trunk_to: Option<PathBuf>,
}

/// A process that no other one can be taken for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessName {
    /// Its number.
    pub pid: u32,
    /// When it started, in ticks since boot.
    pub start_ticks: u64,
    /// The boot.
    pub boot_id: String,
}

/// How far something that is kept has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// In the file, but nothing of it is there.
    Missing,
    /// Its supervisor works on it.
    Starting,
    /// Its program runs.
    Running,
    /// It broke or ended and is started again soon.
    Waiting,
    /// It was told to end.
    Stopping,
    /// It ended because it was told to.
    Stopped,
    /// Its program ended, and is not started again.
    Ended,
    /// It could not be started, or broke, and is not started again.
    Failed,
    /// Its supervisor is gone without a last word; `up` starts it again, `down` clears up.
    Lost,
}

impl Phase {
    /// Whether nothing more will happen by itself.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Missing | Self::Stopped | Self::Ended | Self::Failed | Self::Lost)
    }

    /// As it is shown and written.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Ended => "ended",
            Self::Failed => "failed",
            Self::Lost => "lost",
        }
    }
}

/// What a supervisor writes down at each step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptState {
    /// How far it is.
    pub phase: Phase,
    /// Since when, on the host's clock since 1970.
    pub since_unix_ns: Nanos,
    /// The supervisor.
    pub supervisor: ProcessName,
    /// QEMU, or the switch.
    pub process: Option<ProcessName>,
    /// What serves a partition's file trees, where something does.
    #[serde(default)]
    pub files: Option<ProcessName>,
    /// `kvm` or `tcg`.
    pub engine: Option<String>,
    /// What it was really given.
    pub given: Option<Given>,
    /// Whether its guest has booted and its program runs, ready or not.
    #[serde(default)]
    pub booted: bool,
    /// How often it was started again.
    pub restarts: u32,
    /// How often without a good run between.
    #[serde(default)]
    pub in_a_row: u32,
    /// How it ended last.
    pub last: Option<LastEnd>,
    /// When memory ran out in its guest last, since its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_of_memory: Option<OutOfMemory>,
}

/// Memory ran out in a partition's guest, which killed a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutOfMemory {
    /// When, on the host's clock since 1970.
    pub at_unix_ns: Nanos,
    /// In words.
    pub reason: String,
}

/// How something that is kept ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastEnd {
    /// When, on the host's clock since 1970.
    pub at_unix_ns: Nanos,
    /// How its program ended; none where there is no end of a program to tell.
    pub program: Option<ProgramEnd>,
    /// In words.
    pub reason: String,
    /// The last lines of the guest's console, after a failure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub console: Vec<String>,
}

/// A set that is up, as it was resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetRecord {
    /// [`SET_SCHEMA`] of the program that wrote it.
    pub schema_version: u32,
    /// The file it came from.
    pub file: PathBuf,
    /// The set.
    pub set: PartitionSet,
}

/// Version of what is written of a set that is up.
pub const SET_SCHEMA: u32 = 1;

/// What an `up` is about to start, written down before: undone when it dies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undertaking {
    /// The `up`.
    pub by: ProcessName,
    /// Whether there was no such set before.
    pub fresh: bool,
    /// Names of the folders of what it starts.
    pub starts: Vec<String>,
}

/// A set as `ps` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetStatus {
    /// Its name.
    pub set: String,
    /// The file it came from.
    pub file: PathBuf,
    /// Who works on it just now: `up, process 4711`.
    pub busy: Option<String>,
    /// The process that starts supervisors again which were killed, where there is something to start again.
    #[serde(default)]
    pub watcher_pid: Option<u32>,
    /// Partitions, by name.
    pub partitions: Vec<PartitionStatus>,
    /// Switches, by name.
    pub switches: Vec<SwitchStatus>,
    /// Channels, by name.
    #[serde(default)]
    pub channels: Vec<ChannelStatus>,
}

/// A partition as `ps` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionStatus {
    /// Its name.
    pub name: String,
    /// How far it is.
    pub phase: Phase,
    /// Seconds in this phase.
    pub seconds: u64,
    /// QEMU's process, while there is one.
    pub pid: Option<u32>,
    /// The process that serves its files, while there is one.
    #[serde(default)]
    pub files_pid: Option<u32>,
    /// Its supervisor's process, while there is one.
    pub supervisor_pid: Option<u32>,
    /// `kvm` or `tcg`.
    pub engine: Option<String>,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Host CPUs they may run on, as asked.
    pub pin: Option<String>,
    /// Memory.
    pub memory_mib: Mebibytes,
    /// Host memory node, as asked.
    pub node: Option<u32>,
    /// When it is started again.
    #[serde(default)]
    pub restart: Restart,
    /// How often it was started again.
    pub restarts: u32,
    /// Its addresses, one per network: `control 10.77.1.2/24`.
    pub addresses: Vec<String>,
    /// How it ended last.
    pub last: Option<LastEnd>,
    /// When memory ran out in its guest last, since its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_of_memory: Option<OutOfMemory>,
    /// What it was really given.
    pub given: Option<Given>,
    /// Folder with its logs.
    pub folder: PathBuf,
}

/// A channel as `ps` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelStatus {
    /// Its name.
    pub name: String,
    /// The partition that may write.
    pub writer: String,
    /// Those that may read.
    pub readers: Vec<String>,
    /// Its size.
    pub size_mib: Mebibytes,
    /// Its memory on the host.
    pub file: PathBuf,
    /// What its writer made of it: `absent` (nothing yet), `ready`, `gone`, …; or why that cannot be told.
    pub state: String,
    /// Which start of its writer that is; 0 when there was none.
    pub generation: u64,
}

/// A switch as `ps` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchStatus {
    /// Network and number of the link: `control.0`.
    pub name: String,
    /// How far it is.
    pub phase: Phase,
    /// Seconds in this phase.
    #[serde(default)]
    pub seconds: u64,
    /// Its process, while there is one.
    pub pid: Option<u32>,
    /// Its supervisor's process, while there is one.
    #[serde(default)]
    pub supervisor_pid: Option<u32>,
    /// How often it was started again.
    #[serde(default)]
    pub restarts: u32,
    /// How it ended last.
    #[serde(default)]
    pub last: Option<LastEnd>,
}
