//! Memory for sections of a run that belongs to no set: a folder of files that goes with the run, after a crash as well.
//!
//! ```text
//!  /dev/shm/bulkhead-…/   0700, named like the runtime folder, in the ledger before it is made
//!    .run                 locked while the run lives: one that nobody has locked is removed by whoever makes the next folder
//!    rank-0               all of its memory is taken: what is promised is there
//! ```
//! The reaper removes it when the run is killed; the next run when the reaper was killed with it.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, posix_fallocate};

use platforms::ledger::{Ledger, Thing, Ticket};
use platforms::own_folder::remove_ours;
use platforms::run_lock::RunLock;
use platforms::sweep::{OUR_PREFIX, SHARED_MEMORY};
use units::Mebibytes;

/// The folder; gone with its files when dropped.
#[derive(Debug)]
pub struct SectionFolder {
    path: PathBuf,
    ticket: Option<Ticket>,
    ledger: Ledger,
    /// Tells others that it is in use; given back before anything is removed.
    lock: Option<RunLock>,
}

impl SectionFolder {
    /// Makes it with a file of `size` for each name.
    ///
    /// # Errors
    /// There is no room, the folder is there already, or it cannot be written down.
    pub fn make(
        ledger: &Ledger,
        names: impl IntoIterator<Item = String>,
        size: Mebibytes,
    ) -> io::Result<Self> {
        remove_left_behind();
        // The runtime folder has a name that nobody else has.
        let name = ledger.dir().file_name().ok_or(ErrorKind::InvalidInput)?;
        let path = Path::new(SHARED_MEMORY).join(name);
        let ticket = Some(ledger.record(Thing::Directory { path: path.clone() })?);
        DirBuilder::new().mode(0o700).create(&path)?;
        let mut folder = Self { path, ticket, ledger: ledger.clone(), lock: None };
        folder.lock = Some(RunLock::take(&folder.path)?);
        names.into_iter().try_for_each(|name| make_file(&folder.file(&name), size))?;
        Ok(folder)
    }

    /// The file of a section.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for SectionFolder {
    fn drop(&mut self) {
        // What cannot be removed now stays in the ledger for the reaper, and is left to the next run.
        self.lock = None;
        let removed = self.path.file_name().map(|name| remove_ours(Path::new(SHARED_MEMORY), name));
        if removed.is_some_and(|removed| removed.is_ok())
            && let Some(ticket) = self.ticket.take()
        {
            self.ledger.undone(ticket);
        }
    }
}

/// Removes folders of runs that were killed together with their reapers. What cannot be removed is tried again by the next.
fn remove_left_behind() {
    let names = fs::read_dir(SHARED_MEMORY).into_iter().flatten().flatten().map(|entry| entry.file_name());
    for name in names.filter(|name| name.to_string_lossy().starts_with(OUR_PREFIX)) {
        if RunLock::is_free(&Path::new(SHARED_MEMORY).join(&name)) {
            let _ = remove_ours(Path::new(SHARED_MEMORY), &name);
        }
    }
}

/// Makes the file of a section. All of it is taken at once: memory that is promised is there.
///
/// # Errors
/// There is no room.
pub(super) fn make_file(path: &Path, size: Mebibytes) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let flags = OFlag::O_NOFOLLOW.bits();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(flags)
        .open(path)?;
    let bytes = i64::try_from(size.to_bytes().get()).map_err(io::Error::other)?;
    posix_fallocate(&file, 0, bytes).map_err(io::Error::from).inspect_err(|_| {
        // A file that is too short would be made anew as well.
        let _ = fs::remove_file(path);
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use platforms::ledger::sweep;

    #[test]
    fn all_memory_is_taken_and_nothing_is_left_when_dropped_or_killed() {
        let runtime = tempfile::Builder::new().prefix("bulkhead-test-").tempdir().unwrap();
        let ledger = Ledger::open(runtime.path()).unwrap();
        let make = || SectionFolder::make(&ledger, ["a".to_owned()], Mebibytes::from_mib(2)).unwrap();
        let folder = make();
        let path = folder.file("a");
        let found = path.metadata().unwrap();
        assert_eq!((found.len(), found.blocks() * 512), (2 << 20, 2 << 20));
        drop(folder);
        assert!(!path.exists() && sweep(runtime.path()).is_empty());
        // As when killed: only the ledger knows.
        std::mem::forget(make());
        assert!(path.exists());
        assert_eq!(sweep(runtime.path()).len(), 1);
        assert!(!path.exists());
    }

    #[test]
    fn the_next_one_removes_what_nobody_has_and_nothing_else() {
        let make =
            |ledger: &Ledger| SectionFolder::make(ledger, ["a".to_owned()], Mebibytes::from_mib(1)).unwrap();
        let runtime = || tempfile::Builder::new().prefix("bulkhead-test-").tempdir().unwrap();
        let [dead, alive, next] = [runtime(), runtime(), runtime()];
        let ledgers = [&dead, &alive, &next].map(|folder| Ledger::open(folder.path()).unwrap());
        let lives = make(&ledgers[1]);
        // As when killed with its reaper: the lock is gone, the folder is not.
        let mut killed = make(&ledgers[0]);
        let (left, foreign) = (killed.path.clone(), runtime());
        killed.lock = None;
        let no_run = Path::new(SHARED_MEMORY).join(foreign.path().file_name().unwrap());
        DirBuilder::new().mode(0o700).create(&no_run).unwrap();
        let newest = make(&ledgers[2]);
        assert!(!left.exists() && lives.path.exists() && newest.path.exists() && no_run.exists());
        fs::remove_dir(&no_run).unwrap();
    }
}
