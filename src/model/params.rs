//! Parameters of each probe: what a user may set in an experiment, with defaults and bounds.
//!
//! Every struct refuses unknown keys; [`Probes::check`] refuses values outside the bounds stated at each field.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names::ProbeKind;
use super::units::{Kibibytes, Mebibytes, Millis};

/// The probes of an experiment: a probe is measured when its table is there, `[probe.gap]` for example.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Probes {
    /// Gap probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<GapParams>,
    /// Fixed work quantum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fwq: Option<FwqParams>,
    /// Threads versus time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuParams>,
    /// System call cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub syscall: Option<SyscallParams>,
    /// fork + exec + wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<ForkParams>,
    /// Pointer chase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_latency: Option<MemLatencyParams>,
    /// Memory throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_bandwidth: Option<MemBandwidthParams>,
    /// Disk throughput and stalls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskParams>,
}

/// One probe with its parameters, as it is sent to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "probe", content = "params", rename_all = "kebab-case")]
pub enum ProbeSpec {
    /// Gap probe.
    Gap(GapParams),
    /// Fixed work quantum.
    Fwq(FwqParams),
    /// Threads versus time.
    Cpu(CpuParams),
    /// System call cost.
    Syscall(SyscallParams),
    /// fork + exec + wait.
    Fork(ForkParams),
    /// Pointer chase.
    MemLatency(MemLatencyParams),
    /// Memory throughput.
    MemBandwidth(MemBandwidthParams),
    /// Disk throughput and stalls.
    Disk(DiskParams),
}

impl ProbeSpec {
    /// Which probe this is.
    pub const fn kind(&self) -> ProbeKind {
        match self {
            Self::Gap(_) => ProbeKind::Gap,
            Self::Fwq(_) => ProbeKind::Fwq,
            Self::Cpu(_) => ProbeKind::Cpu,
            Self::Syscall(_) => ProbeKind::Syscall,
            Self::Fork(_) => ProbeKind::Fork,
            Self::MemLatency(_) => ProbeKind::MemLatency,
            Self::MemBandwidth(_) => ProbeKind::MemBandwidth,
            Self::Disk(_) => ProbeKind::Disk,
        }
    }
}

impl Probes {
    /// The probes that are to be measured, in the order of [`ProbeKind::ALL`].
    pub fn specs(&self) -> Vec<ProbeSpec> {
        [
            self.gap.clone().map(ProbeSpec::Gap),
            self.fwq.clone().map(ProbeSpec::Fwq),
            self.cpu.clone().map(ProbeSpec::Cpu),
            self.syscall.clone().map(ProbeSpec::Syscall),
            self.fork.clone().map(ProbeSpec::Fork),
            self.mem_latency.clone().map(ProbeSpec::MemLatency),
            self.mem_bandwidth.clone().map(ProbeSpec::MemBandwidth),
            self.disk.clone().map(ProbeSpec::Disk),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Drops every probe that is not in `keep`.
    pub fn retain(&mut self, keep: &[ProbeKind]) {
        let drop = |kind| !keep.contains(&kind);
        self.gap.take_if(|_| drop(ProbeKind::Gap));
        self.fwq.take_if(|_| drop(ProbeKind::Fwq));
        self.cpu.take_if(|_| drop(ProbeKind::Cpu));
        self.syscall.take_if(|_| drop(ProbeKind::Syscall));
        self.fork.take_if(|_| drop(ProbeKind::Fork));
        self.mem_latency.take_if(|_| drop(ProbeKind::MemLatency));
        self.mem_bandwidth.take_if(|_| drop(ProbeKind::MemBandwidth));
        self.disk.take_if(|_| drop(ProbeKind::Disk));
    }

    /// Checks every bound; the error names the key, what was written and what is allowed.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        for spec in self.specs() {
            match spec {
                ProbeSpec::Gap(p) => p.check()?,
                ProbeSpec::Fwq(p) => p.check()?,
                ProbeSpec::Cpu(p) => p.check()?,
                ProbeSpec::Syscall(p) => p.check()?,
                ProbeSpec::Fork(p) => p.check()?,
                ProbeSpec::MemLatency(p) => p.check()?,
                ProbeSpec::MemBandwidth(p) => p.check()?,
                ProbeSpec::Disk(p) => p.check()?,
            }
        }
        Ok(())
    }
}

/// A parameter outside its bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {got} is out of bounds; allowed is {least} to {most}")]
pub struct OutOfBounds {
    /// The key as it is written in an experiment.
    pub key: &'static str,
    /// The value written.
    pub got: u64,
    /// Smallest allowed value.
    pub least: u64,
    /// Largest allowed value.
    pub most: u64,
}

/// Checks one value against its bounds.
pub(crate) fn within(key: &'static str, got: u64, least: u64, most: u64) -> Result<(), OutOfBounds> {
    if (least..=most).contains(&got) { Ok(()) } else { Err(OutOfBounds { key, got, least, most }) }
}

const HOUR_MS: u64 = 3_600_000;

/// Parameters of the gap probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GapParams {
    /// How long to read, 1 ms … 1 h. Ignored when `reads` is set.
    pub duration_ms: Millis,
    /// Read the counter this often instead (the thesis used 1e9+1), 1000 … 1e13.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<u64>,
    /// Into how many equal spans of time the distribution is split, so that intervals can respect serial
    /// dependence, 8 … 256.
    pub batches: u32,
}

impl Default for GapParams {
    fn default() -> Self {
        Self { duration_ms: Millis::from_millis(1000), reads: None, batches: 32 }
    }
}

impl GapParams {
    fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.gap.duration_ms", self.duration_ms.get(), 1, HOUR_MS)?;
        within("probe.gap.reads", self.reads.unwrap_or(1000), 1000, 10_000_000_000_000)?;
        within("probe.gap.batches", self.batches.into(), 8, 256)
    }
}

/// Parameters of the fixed-work-quantum probe. The work is the same on every platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FwqParams {
    /// Rounds of the empty loop per quantum, 1000 … 1e10.
    pub iterations: u64,
    /// Number of quanta, 100 … 1e6.
    pub samples: u32,
}

impl Default for FwqParams {
    fn default() -> Self {
        Self { iterations: 500_000, samples: 1000 }
    }
}

impl FwqParams {
    fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.fwq.iterations", self.iterations, 1000, 10_000_000_000)?;
        within("probe.fwq.samples", self.samples.into(), 100, 1_000_000)
    }
}

/// Parameters of the threads-versus-time probe. The work per thread is the same on every platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CpuParams {
    /// Rounds of the loop per thread, 1e5 … 1e12.
    pub iterations: u64,
    /// Largest number of threads; unset means 2 × CPUs. 1 … 1024.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_threads: Option<u32>,
    /// How often each thread count is timed, 1 … 1000.
    pub samples: u32,
}

impl Default for CpuParams {
    fn default() -> Self {
        Self { iterations: 10_000_000, max_threads: None, samples: 5 }
    }
}

impl CpuParams {
    fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.cpu.iterations", self.iterations, 100_000, 1_000_000_000_000)?;
        within("probe.cpu.max_threads", self.max_threads.unwrap_or(1).into(), 1, 1024)?;
        within("probe.cpu.samples", self.samples.into(), 1, 1000)
    }
}

/// Parameters of the system-call probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SyscallParams {
    /// How long per thread count, 10 ms … 1 h.
    pub duration_ms: Millis,
    /// Largest number of threads; unset means the CPUs granted. 1 … 1024.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_threads: Option<u32>,
}

impl Default for SyscallParams {
    fn default() -> Self {
        Self { duration_ms: Millis::from_millis(150), max_threads: None }
    }
}

impl SyscallParams {
    fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.syscall.duration_ms", self.duration_ms.get(), 10, HOUR_MS)?;
        within("probe.syscall.max_threads", self.max_threads.unwrap_or(1).into(), 1, 1024)
    }
}

/// Parameters of the fork probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ForkParams {
    /// How long per thread count, 10 ms … 1 h.
    pub duration_ms: Millis,
    /// Largest number of threads; unset means the CPUs granted. 1 … 1024.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_threads: Option<u32>,
}

impl Default for ForkParams {
    fn default() -> Self {
        Self { duration_ms: Millis::from_millis(400), max_threads: None }
    }
}

impl ForkParams {
    fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.fork.duration_ms", self.duration_ms.get(), 10, HOUR_MS)?;
        within("probe.fork.max_threads", self.max_threads.unwrap_or(1).into(), 1, 1024)
    }
}

/// In which order a pointer chase visits its array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChaseOrder {
    /// One random cycle through all lines: no prefetcher can help.
    Random,
    /// From the end to the start with a fixed stride, as lmbench and the thesis do.
    Backward,
}

/// Parameters of the memory-latency probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemLatencyParams {
    /// Smallest array, 1 KiB … 1 GiB.
    pub min_size_kib: Kibibytes,
    /// Largest array; unset means twice the last-level cache, at most a quarter of the memory. 1 MiB … 1 TiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_size_mib: Option<Mebibytes>,
    /// Distance of neighbouring elements, 8 … 4096 bytes, a power of two.
    pub stride_bytes: u32,
    /// Order of the visit.
    pub order: ChaseOrder,
    /// How long each size is chased at least, 1 ms … 1 h.
    pub duration_ms: Millis,
    /// Array sizes per doubling, 1 … 8.
    pub steps_per_octave: u32,
}

impl Default for MemLatencyParams {
    fn default() -> Self {
        Self {
            min_size_kib: Kibibytes::from_kib(4),
            max_size_mib: None,
            stride_bytes: 64,
            order: ChaseOrder::Random,
            duration_ms: Millis::from_millis(10),
            steps_per_octave: 1,
        }
    }
}

impl MemLatencyParams {
    fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.mem-latency.min_size_kib", self.min_size_kib.get(), 1, 1 << 20)?;
        within("probe.mem-latency.max_size_mib", self.max_size_mib.map_or(1, Mebibytes::get), 1, 1 << 20)?;
        within("probe.mem-latency.stride_bytes", self.stride_bytes.into(), 8, 4096)?;
        within(
            "probe.mem-latency.stride_bytes (a power of two)",
            self.stride_bytes.into(),
            self.stride_bytes.next_power_of_two().into(),
            self.stride_bytes.next_power_of_two().into(),
        )?;
        within("probe.mem-latency.duration_ms", self.duration_ms.get(), 1, HOUR_MS)?;
        within("probe.mem-latency.steps_per_octave", self.steps_per_octave.into(), 1, 8)
    }
}

/// Parameters of the memory-bandwidth probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemBandwidthParams {
    /// Smallest array, 1 KiB … 1 GiB.
    pub min_size_kib: Kibibytes,
    /// Largest array; unset means twice the last-level cache, at most a quarter of the memory. 1 MiB … 1 TiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_size_mib: Option<Mebibytes>,
    /// How long each size and operation is timed at least, 1 ms … 1 h.
    pub duration_ms: Millis,
    /// Threads that do the same at once, 1 … 1024.
    pub threads: u32,
    /// Array sizes per doubling, 1 … 8.
    pub steps_per_octave: u32,
}

impl Default for MemBandwidthParams {
    fn default() -> Self {
        Self {
            min_size_kib: Kibibytes::from_kib(4),
            max_size_mib: None,
            duration_ms: Millis::from_millis(10),
            threads: 1,
            steps_per_octave: 1,
        }
    }
}

impl MemBandwidthParams {
    fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.mem-bandwidth.min_size_kib", self.min_size_kib.get(), 1, 1 << 20)?;
        within("probe.mem-bandwidth.max_size_mib", self.max_size_mib.map_or(1, Mebibytes::get), 1, 1 << 20)?;
        within("probe.mem-bandwidth.duration_ms", self.duration_ms.get(), 1, HOUR_MS)?;
        within("probe.mem-bandwidth.threads", self.threads.into(), 1, 1024)?;
        within("probe.mem-bandwidth.steps_per_octave", self.steps_per_octave.into(), 1, 8)
    }
}

/// How the disk probe writes and reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiskMode {
    /// Through the page cache; one fsync at the end, inside the time.
    Buffered,
    /// Through the page cache, fsync after each block.
    Fsync,
    /// `O_DIRECT`: past the page cache of the instance.
    Direct,
}

/// Parameters of the disk probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DiskParams {
    /// Size of the file, 1 MiB … 1 TiB.
    pub file_size_mib: Mebibytes,
    /// Block sizes, 4 KiB … 64 MiB each, 1 to 8 of them.
    pub block_sizes_kib: Vec<Kibibytes>,
    /// Ways to write and read, 1 to 3 of them.
    pub modes: Vec<DiskMode>,
    /// At most this long per direction, mode and block size, 10 ms … 1 h.
    pub duration_ms: Millis,
}

impl Default for DiskParams {
    fn default() -> Self {
        Self {
            file_size_mib: Mebibytes::from_mib(64),
            block_sizes_kib: vec![Kibibytes::from_kib(64), Kibibytes::from_kib(1024)],
            modes: vec![DiskMode::Buffered, DiskMode::Fsync, DiskMode::Direct],
            duration_ms: Millis::from_millis(200),
        }
    }
}

impl DiskParams {
    fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.disk.file_size_mib", self.file_size_mib.get(), 1, 1 << 20)?;
        within("number of probe.disk.block_sizes_kib", self.block_sizes_kib.len() as u64, 1, 8)?;
        for size in &self.block_sizes_kib {
            within("probe.disk.block_sizes_kib", size.get(), 4, 65_536.min(self.file_size_mib.get() * 1024))?;
        }
        within("number of probe.disk.modes", self.modes.len() as u64, 1, 3)?;
        within("probe.disk.duration_ms", self.duration_ms.get(), 10, HOUR_MS)
    }
}
