//! Cgroups of both versions: what a process's own are, and groups that hold an instance or a partition.
//!
//! ```text
//!  settings ─► is there a place for them? ─► ledger ─► mkdir bulkhead-… ─► written, read back ─► entrances
//!                                                                                                   │
//!                              undone ◄─ rmdir ◄─ its processes have ended ◄─ QEMU, an agent begins its life there
//! ```

mod cpu;
mod folder;
mod instance;
mod of_process;
mod unified;

pub use cpu::{CpuLimits, cpu_group, cpu_parent};
pub use folder::{CgroupFolder, Setting};
pub use of_process::{GroupFiles, group_files, group_limits, io_limits, is_frozen};
pub use unified::unified_parent;

use std::fs::{File, OpenOptions};
use std::io;

/// Where cgroups are mounted by convention.
pub const MOUNT: &str = "/sys/fs/cgroup";

/// The groups of one instance or partition; removed when dropped, which is to be after its processes have ended.
#[derive(Debug, Default)]
pub struct Groups(Vec<CgroupFolder>);

impl Groups {
    /// So many, perhaps none.
    pub fn of(folders: impl IntoIterator<Item = CgroupFolder>) -> Self {
        Self(folders.into_iter().collect())
    }

    /// Opened for a process that is to begin its life in the groups, so that all its memory counts there: see
    /// [`enter_group`](crate::spawn::enter_group).
    ///
    /// # Errors
    /// A group's file cannot be opened.
    pub fn entrances(&self) -> io::Result<Vec<File>> {
        let paths = self.0.iter().map(|folder| folder.path().join("cgroup.procs"));
        paths.map(|path| OpenOptions::new().write(true).open(path)).collect()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In words, for the platform's properties.
    pub fn words(&self) -> String {
        match self.0.len() {
            0 => "none of its own".to_owned(),
            1 => "one of its own".to_owned(),
            count => format!("one of its own in each of {count} hierarchies"),
        }
    }
}
