//! A folder for what one `exec` makes, gone when it is dropped; its reaper removes it when this process cannot, and the next
//! `exec` when the reaper cannot either.

use std::path::Path;
use std::{env, fs, io};

use tempfile::TempDir;

use platforms::ledger::{Ledger, Thing, sweep};
use platforms::reaper::Reaper;
use platforms::run_lock::RunLock;
use platforms::sweep::{OUR_PREFIX, new_folder};

/// What its name has between our prefix and what nobody can foretell.
const KIND: &str = "exec";

/// The folder, its list of what must be undone, and who does it when we die.
pub struct RuntimeFolder {
    folder: TempDir,
    ledger: Ledger,
    reaper: Reaper,
    _lock: RunLock,
}

impl RuntimeFolder {
    /// Makes one that only this user can look into.
    pub fn make(exe: &Path) -> io::Result<Self> {
        undo_left_behind();
        // The name is what lets the reaper remove it.
        let folder = new_folder(KIND)?;
        let ledger = Ledger::open(folder.path())?;
        // Undone last: nothing is ever marked, the folder takes the list with it.
        let _ticket = ledger.record(Thing::Directory { path: ledger.dir().to_owned() })?;
        let reaper = Reaper::start(folder.path(), exe)?;
        let lock = RunLock::take(folder.path())?;
        Ok(Self { folder, ledger, reaper, _lock: lock })
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

/// Undoes what those have left that were killed together with their reapers. What cannot be undone is tried again by the next.
fn undo_left_behind() {
    let entries = fs::read_dir(env::temp_dir()).into_iter().flatten().flatten();
    let prefix = format!("{OUR_PREFIX}{KIND}-");
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
    for folder in ours.map(|entry| entry.path()).filter(|path| RunLock::is_free(path)) {
        let _ = sweep(&folder);
    }
}
