//! What a partition was really given, as the host's kernel and QEMU say it, to be held against what was asked.

use serde::{Deserialize, Serialize};

use super::resources::NumberList;
use units::{Bytes, Mebibytes};

/// What a partition was really given.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Given {
    /// One per virtual CPU, in their order.
    pub cpus: Vec<GivenCpu>,
    /// The guest's memory.
    pub memory: GivenMemory,
    /// Cgroup that holds it, where there is one.
    pub cgroup: Option<String>,
    /// Weight, as the cgroup says it.
    pub cpu_weight: Option<u32>,
    /// Cap in percent of one CPU, as the cgroup says it.
    pub cpu_cap_percent: Option<u32>,
    /// One per disk, in their order.
    pub disks: Vec<GivenDisk>,
    /// Limits that cgroups put on disks of the host, of QEMU, its threads, and what serves its files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub io_limits: Vec<GivenIoLimit>,
    /// What other cgroups set for it: those above its own, and those that some of its threads, or what serves its files, were put into.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub group_limits: Vec<GivenGroupLimit>,
    /// QEMU's first thread, which serves its devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulator: Option<GivenCpu>,
    /// The process that serves its files, where one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<GivenServer>,
}

/// The process that serves a partition's files. What its cgroups set is told with what QEMU's do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GivenServer {
    /// Its number.
    pub pid: u32,
    /// CPU group that holds it, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Its threads, of which it starts more and ends some: one of those that may run on the same CPUs and are scheduled alike.
    pub threads: Vec<GivenCpu>,
}

/// A virtual CPU, or what serves the devices.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GivenCpu {
    /// Thread that runs it.
    pub thread: u32,
    /// Host CPUs it may run on (`Cpus_allowed_list` of its thread).
    pub allowed: NumberList,
    /// How it is scheduled, in words: `usual`, `nice -5`, `realtime 50`.
    pub scheduling: String,
}

/// Memory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GivenMemory {
    /// Size of the guest's memory.
    #[serde(rename = "size_mib")]
    pub size: Mebibytes,
    /// Host memory nodes it may come from (the policy in `numa_maps`); empty when any.
    pub nodes: NumberList,
    /// Pages of it on each node so far, in bytes.
    pub present_bytes: Vec<(u32, Bytes)>,
    /// Whether it lies in huge pages.
    pub hugepages: bool,
}

/// A disk's throttle, as QEMU says it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GivenDisk {
    /// Bytes per second at most.
    pub bytes_per_s: Option<Bytes>,
    /// Operations per second at most.
    pub operations_per_s: Option<u64>,
}

/// A limit that a cgroup puts on a disk of the host, of what all in the group do together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenIoLimit {
    /// The group.
    pub cgroup: String,
    /// The disk, as the kernel names it: `254:0`.
    pub device: String,
    /// What is limited, in the kernel's word.
    pub what: IoLimitKind,
    /// Bytes or operations per second at most.
    pub most_per_s: u64,
}

/// What a cgroup limits of a disk, in the words of `io.max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IoLimitKind {
    /// Bytes read.
    Rbps,
    /// Bytes written.
    Wbps,
    /// Reads.
    Riops,
    /// Writes.
    Wiops,
}

impl IoLimitKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Rbps, Self::Wbps, Self::Riops, Self::Wiops];

    /// The kernel's word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rbps => "rbps",
            Self::Wbps => "wbps",
            Self::Riops => "riops",
            Self::Wiops => "wiops",
        }
    }
}

/// What a cgroup sets for all that is in it and below.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenGroupLimit {
    /// The group.
    pub cgroup: String,
    /// What is set.
    pub what: GroupLimitKind,
    /// To this, in the unit that `what` names.
    pub value: u64,
}

/// What a cgroup sets. A cap is in percent of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupLimitKind {
    /// Weight against the groups beside it.
    CpuWeight,
    /// Cap of CPU time.
    CpuCapPercent,
    /// Memory at most.
    MemoryBytes,
}

impl GroupLimitKind {
    /// Its word in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CpuWeight => "cpu_weight",
            Self::CpuCapPercent => "cpu_cap_percent",
            Self::MemoryBytes => "memory_bytes",
        }
    }
}

/// One thing that is not as it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// What, as a path: `cpus.3.allowed`.
    pub what: String,
    /// What was asked.
    pub asked: String,
    /// What was given.
    pub given: String,
}
