//! Parameters of the probes of time, memory and disk that every machine can run alone.

use serde::{Deserialize, Serialize};

use super::{HOUR_MS, OutOfBounds, within};
use crate::units::{Kibibytes, Mebibytes, Millis};

/// Parameters of the gap probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.gap.duration_ms", self.duration_ms.get(), 1, HOUR_MS)?;
        within("probe.gap.reads", self.reads.unwrap_or(1000), 1000, 10_000_000_000_000)?;
        within("probe.gap.batches", self.batches.into(), 8, 256)
    }
}

/// Parameters of the fixed-work-quantum probe. The work is the same on every platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.fwq.iterations", self.iterations, 1000, 10_000_000_000)?;
        within("probe.fwq.samples", self.samples.into(), 100, 1_000_000)
    }
}

/// Parameters of the threads-versus-time probe. The work per thread is the same on every platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.cpu.iterations", self.iterations, 100_000, 1_000_000_000_000)?;
        within("probe.cpu.max_threads", self.max_threads.unwrap_or(1).into(), 1, 1024)?;
        within("probe.cpu.samples", self.samples.into(), 1, 1000)
    }
}

/// Parameters of the system-call probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.syscall.duration_ms", self.duration_ms.get(), 10, HOUR_MS)?;
        within("probe.syscall.max_threads", self.max_threads.unwrap_or(1).into(), 1, 1024)
    }
}

/// Parameters of the fork probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.fork.duration_ms", self.duration_ms.get(), 10, HOUR_MS)?;
        within("probe.fork.max_threads", self.max_threads.unwrap_or(1).into(), 1, 1024)
    }
}

/// In which order a pointer chase visits its array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ChaseOrder {
    /// One random cycle through all lines: no prefetcher can help.
    Random,
    /// From the end to the start with a fixed stride, as lmbench and the thesis do.
    Backward,
}

/// Parameters of the memory-latency probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.mem-bandwidth.min_size_kib", self.min_size_kib.get(), 1, 1 << 20)?;
        within("probe.mem-bandwidth.max_size_mib", self.max_size_mib.map_or(1, Mebibytes::get), 1, 1 << 20)?;
        within("probe.mem-bandwidth.duration_ms", self.duration_ms.get(), 1, HOUR_MS)?;
        within("probe.mem-bandwidth.threads", self.threads.into(), 1, 1024)?;
        within("probe.mem-bandwidth.steps_per_octave", self.steps_per_octave.into(), 1, 8)
    }
}

/// How the disk probe writes and reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct DiskParams {
    /// Size of the file, 1 MiB … 1 TiB.
    pub file_size_mib: Mebibytes,
    /// Block sizes, 4 KiB … 64 MiB each, 1 to 8 of them.
    pub block_sizes_kib: Vec<Kibibytes>,
    /// Ways to write and read, 1 to 3 of them.
    pub modes: Vec<DiskMode>,
    /// At most this long per direction, mode and block size, 10 ms … 1 h. Random reads and the check of the alignment
    /// take half of it each.
    pub duration_ms: Millis,
    /// Size of random reads, 1 … 65 536 KiB; 0 leaves them out.
    pub random_block_kib: Kibibytes,
}

impl Default for DiskParams {
    fn default() -> Self {
        Self {
            file_size_mib: Mebibytes::from_mib(64),
            block_sizes_kib: vec![Kibibytes::from_kib(64), Kibibytes::from_kib(1024)],
            modes: vec![DiskMode::Buffered, DiskMode::Fsync, DiskMode::Direct],
            duration_ms: Millis::from_millis(200),
            random_block_kib: Kibibytes::from_kib(4),
        }
    }
}

impl DiskParams {
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.disk.file_size_mib", self.file_size_mib.get(), 1, 1 << 20)?;
        within("number of probe.disk.block_sizes_kib", self.block_sizes_kib.len() as u64, 1, 8)?;
        for size in &self.block_sizes_kib {
            within("probe.disk.block_sizes_kib", size.get(), 4, 65_536.min(self.file_size_mib.get() * 1024))?;
        }
        within("number of probe.disk.modes", self.modes.len() as u64, 1, 3)?;
        let most_random = 65_536.min(self.file_size_mib.get() * 1024 / 2);
        within("probe.disk.random_block_kib", self.random_block_kib.get(), 0, most_random)?;
        within("probe.disk.duration_ms", self.duration_ms.get(), 10, HOUR_MS)
    }
}
