//! A cgroup's folder, of either version: written down before it is made, removed when its last process has ended.
//!
//! ```text
//!  ledger: record ─► mkdir bulkhead-… ─► (its owner writes settings, processes come and end) ─► rmdir ─► undone
//! ```

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use super::ledger::{Ledger, Thing, Ticket};
use super::sweep::OUR_PREFIX;

/// How long a group may take to become empty after its last process was reaped.
const EMPTY_GRACE: Duration = Duration::from_secs(1);

/// A cgroup's folder; removed when dropped.
#[derive(Debug)]
pub struct CgroupFolder {
    path: PathBuf,
    ledger: Ledger,
    ticket: Option<Ticket>,
}

impl CgroupFolder {
    /// Makes a folder with a name of its own below `parent`.
    ///
    /// # Errors
    /// It cannot be written down or made; the message names it.
    pub fn make(parent: &Path, ledger: &Ledger) -> io::Result<Self> {
        let path = parent.join(format!("{OUR_PREFIX}{:016x}", RandomState::new().hash_one(Instant::now())));
        let failed = |what: &str, error: io::Error| {
            io::Error::new(error.kind(), format!("cannot {what} {}: {error}", path.display()))
        };
        let thing = Thing::Cgroup { path: path.clone() };
        let ticket = ledger.record(thing).map_err(|error| failed("write down", error))?;
        let folder = Self { path: path.clone(), ledger: ledger.clone(), ticket: Some(ticket) };
        fs::create_dir(&path).map_err(|error| failed("make", error))?;
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for CgroupFolder {
    fn drop(&mut self) {
        let until = Instant::now() + EMPTY_GRACE;
        loop {
            match fs::remove_dir(&self.path) {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                // Left to the ledger: the next sweep tries again.
                Err(_) if Instant::now() >= until => return,
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        if let Some(ticket) = self.ticket.take() {
            self.ledger.undone(ticket);
        }
    }
}
