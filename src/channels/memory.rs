//! The memory of the bench's two sections: a folder of ours in memory, written down before it is made.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::party;
use crate::model::units::Mebibytes;
use crate::platforms::ledger::{Ledger, Thing, Ticket};
use crate::platforms::sweep::{OUR_PREFIX, SHARED_MEMORY};

/// The section that partition a writes.
pub const CHANNEL_A: &str = "a";
/// The section that partition b writes.
pub const CHANNEL_B: &str = "b";

/// The folder; gone when dropped.
pub struct SectionFolder {
    path: PathBuf,
    ticket: Option<Ticket>,
    ledger: Ledger,
}

impl SectionFolder {
    /// Makes it with a file for each section.
    ///
    /// # Errors
    /// When there is no room, or it cannot be written down.
    pub fn make(ledger: &Ledger) -> io::Result<Self> {
        // The ledger's folder has a name that nobody else has.
        let own = ledger.dir().file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{OUR_PREFIX}sections-{}", own.trim_start_matches(OUR_PREFIX));
        let shared = Path::new(SHARED_MEMORY);
        let path = if shared.is_dir() { shared.join(name) } else { ledger.dir().join(name) };
        let ticket = ledger.record(Thing::Directory { path: path.clone() })?;
        let folder = Self { path, ticket: Some(ticket), ledger: ledger.clone() };
        DirBuilder::new().mode(0o700).create(&folder.path)?;
        for name in [CHANNEL_A, CHANNEL_B] {
            let file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(folder.section(name))?;
            file.set_len(size().to_bytes().get())?;
        }
        Ok(folder)
    }

    /// The file of a section.
    pub fn section(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for SectionFolder {
    fn drop(&mut self) {
        if std::fs::remove_dir_all(&self.path).is_ok()
            && let Some(ticket) = self.ticket.take()
        {
            self.ledger.undone(ticket);
        }
    }
}

/// Size of a section: devices have powers of two.
pub fn size() -> Mebibytes {
    Mebibytes::from_mib(party::section_bytes().div_ceil(1 << 20).next_power_of_two())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platforms::ledger::sweep;

    #[test]
    fn the_folder_is_gone_when_dropped_and_swept_when_it_could_not_be() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(dir.path()).unwrap();
        let folder = SectionFolder::make(&ledger).unwrap();
        let path = folder.section(CHANNEL_B);
        assert_eq!(path.metadata().unwrap().len(), 2 << 20);
        drop(folder);
        assert!(!path.exists() && sweep(dir.path()).is_empty());
        let folder = SectionFolder::make(&ledger).unwrap();
        std::mem::forget(folder);
        assert!(path.exists());
        sweep(dir.path());
        assert!(!path.exists());
    }
}
