//! By what it is seen that a file was changed: its size and its times, which move as often as the clock of its file system does.

use std::time::Duration;

use rustix::fs::Stat;

use crate::clock::now;

/// Clocks of files tick so often at least: within that time a change may not show.
const TICK: Duration = Duration::from_millis(20);
/// Those of file systems without nanoseconds: FAT counts in steps of two seconds.
const COARSE: Duration = Duration::from_millis(2020);

/// Size and times of a file, by which a change is seen: bytes, then nanoseconds of mtime and ctime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Bytes.
    pub size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Stamp {
    /// That of a file.
    pub fn of(found: &Stat) -> Self {
        Self {
            size: found.st_size,
            modified: (found.st_mtime, found.st_mtime_nsec),
            changed: (found.st_ctime, found.st_ctime_nsec),
        }
    }

    /// Whether a change from now on would show. Whatever changes a file moves the time of its last change, which nobody can set.
    pub fn is_settled(self) -> bool {
        self.is_older(if self.is_coarse() { COARSE } else { TICK })
    }

    /// Whether its file system keeps whole seconds alone, for all that is seen of it: ext4 with small inodes, FAT.
    pub const fn is_coarse(self) -> bool {
        self.changed.1 == 0
    }

    /// After how long a change shows in its times, which are those of the last one.
    pub fn settles_in(self) -> Duration {
        if self.is_settled() { Duration::ZERO } else { TICK }
    }

    /// Whether its last change of anything is longer ago.
    pub fn is_older(self, age: Duration) -> bool {
        let (seconds, nanoseconds) = self.changed;
        let changed = i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
        let whole = |time: Duration| i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
        whole(now()) - changed > whole(age)
    }
}

/// State of a file that the guest's page cache was filled from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cached {
    /// How it was.
    pub stamp: Stamp,
    /// Whether the clock has moved on since, so that a later change must show.
    pub is_settled: bool,
    /// Whether nobody on the host wrote to it through a mapping then: who does changes its times once, and writes on.
    pub is_unmapped: bool,
}
