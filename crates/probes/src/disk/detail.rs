//! What the disk probe brings home: raw enough that every figure can be computed again.

use serde::{Deserialize, Serialize};
use units::histogram::Histogram;
use units::{Bytes, Millis, Nanos};

use crate::params::DiskMode;
use crate::witnessed::{Stretch, Witnessed};

/// Direction of a disk phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DiskDirection {
    /// Sequential write.
    Write,
    /// Sequential read.
    Read,
    /// Reads of single blocks anywhere, one after the other (queue depth 1).
    RandomRead,
}

/// Bytes moved per window of time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiskWindows {
    /// Length of a window: 50 ms, 200 ms, 1 s.
    pub window_ms: Millis,
    /// Bytes finished in each window, in order; the last one is cut off by the end of the phase and left out.
    pub bytes: Vec<u64>,
}

/// One direction, mode and block size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiskPhase {
    /// Write or read.
    pub direction: DiskDirection,
    /// How.
    pub mode: DiskMode,
    /// Size of each operation.
    pub block_bytes: Bytes,
    /// Why this phase could not run, for example a file system without `O_DIRECT`; all below is empty then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsupported: Option<String>,
    /// Bytes moved.
    pub bytes: Bytes,
    /// How long it took, the final fsync included.
    pub elapsed_ns: Nanos,
    /// Latency of single operations in nanoseconds.
    pub latency_ns: Histogram,
    /// Throughput over time.
    pub windows: Vec<DiskWindows>,
    /// The longest operations, longest first, at most [`crate::witnessed::WORST_KEPT`]: each a stall as long as it lasts.
    pub stalls: Vec<Stretch>,
    /// What the scheduler counted around each of those, as far as it tells; none in journals of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub witnessed: Vec<Witnessed>,
}

/// Outcome of the disk probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiskDetail {
    /// What was written to, for example `file on ext4`.
    pub target: String,
    /// One entry per direction, mode and block size.
    pub phases: Vec<DiskPhase>,
    /// How what was written to lies on the device; none in journals of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alignment: Option<Alignment>,
}

/// Whether blocks meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AlignmentVerdict {
    /// Every begin lies on the boundary of a physical block, as far as the instance can see.
    Aligned,
    /// Something begins inside a physical block, or works in smaller blocks than the device does.
    Misaligned,
    /// The instance is not told.
    Unknown,
}

/// How what the disk probe writes to lies on the device below. What is not known is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Alignment {
    /// Device as the instance's kernel names it, `vda1` for example.
    pub device: Option<String>,
    /// Where the partition begins on its disk; none for a whole disk.
    pub partition_start_bytes: Option<Bytes>,
    /// Smallest block the device takes.
    pub logical_block_bytes: Option<Bytes>,
    /// Block the device works in.
    pub physical_block_bytes: Option<Bytes>,
    /// Size of accesses the device likes best.
    pub optimal_io_bytes: Option<Bytes>,
    /// Block of the file system; none on a device without one.
    pub file_system_block_bytes: Option<Bytes>,
    /// How far beyond the boundary of a physical block the whole begins; 0 is aligned.
    pub offset_bytes: Option<Bytes>,
    /// Whether blocks meet.
    pub verdict: AlignmentVerdict,
    /// The reason in words.
    pub why: String,
    /// What shifted writes cost; none where they could not be made.
    pub shifted: Option<ShiftedWrites>,
    /// Why they could not be made.
    pub not_shifted: Option<String>,
}

/// Sequential writes with `O_DIRECT` in turns: on block boundaries, and shifted off them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShiftedWrites {
    /// Size of each write.
    pub block_bytes: Bytes,
    /// How far the shifted ones lie beyond a boundary.
    pub shift_bytes: Bytes,
    /// Bytes written on boundaries.
    pub aligned_bytes: Bytes,
    /// Time that took.
    pub aligned_ns: Nanos,
    /// Bytes written off boundaries.
    pub shifted_bytes: Bytes,
    /// Time that took.
    pub shifted_ns: Nanos,
}

impl ShiftedWrites {
    /// Throughput off boundaries over throughput on them; none when one of them took no time or moved nothing.
    pub fn ratio(&self) -> Option<f64> {
        let rate = |bytes: Bytes, time: Nanos| {
            (bytes.get() > 0 && time.get() > 0).then(|| bytes.as_f64() / time.as_f64())
        };
        Some(rate(self.shifted_bytes, self.shifted_ns)? / rate(self.aligned_bytes, self.aligned_ns)?)
    }
}
