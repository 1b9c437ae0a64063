//! What a user may set of the disk probe, with defaults and bounds.

use serde::{Deserialize, Serialize};
use units::{Kibibytes, Mebibytes, Millis};

use units::bounds::{HOUR_MS, OutOfBounds, within};

/// How the disk probe writes and reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    pub(crate) fn check(&self) -> Result<(), OutOfBounds> {
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
