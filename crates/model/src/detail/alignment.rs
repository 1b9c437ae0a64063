//! How files and partitions lie on the blocks of a device.
//!
//! ```text
//!  physical blocks   |       4096        |       4096        |       4096        |
//!  aligned           |      write        |
//!  misaligned             |      write        |     two blocks are read, changed and written back
//! ```

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Nanos};

/// Whether blocks meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
