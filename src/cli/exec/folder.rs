//! A folder for what one `exec` makes, gone when it is dropped; its reaper removes it when this process cannot.

use std::io;
use std::path::Path;

use tempfile::TempDir;

use crate::platforms::ledger::{Ledger, Thing};
use crate::platforms::reaper::Reaper;
use crate::platforms::sweep::new_folder;

/// The folder, its list of what must be undone, and who does it when we die.
pub struct RuntimeFolder {
    folder: TempDir,
    ledger: Ledger,
    reaper: Reaper,
}

impl RuntimeFolder {
    /// Makes one that only this user can look into.
    pub fn make(exe: &Path) -> io::Result<Self> {
        // The name is what lets the reaper remove it.
        let folder = new_folder("exec")?;
        let ledger = Ledger::open(folder.path())?;
        // Undone last: nothing is ever marked, the folder takes the list with it.
        let _ticket = ledger.record(Thing::Directory { path: ledger.dir().to_owned() })?;
        let reaper = Reaper::start(folder.path(), exe)?;
        Ok(Self { folder, ledger, reaper })
    }

    /// Its ledger.
    pub fn ledger(&self) -> Ledger {
        self.ledger.clone()
    }

    /// Removes it; everything in it was undone.
    pub fn remove(self) -> io::Result<()> {
        let closed = self.folder.close();
        self.reaper.goodbye();
        closed
    }
}
