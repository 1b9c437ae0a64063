//! A container as carrier of an agent. The runtime's `run` stays in front of it as our child: its death tells how the
//! container ended.

use std::io;
use std::os::unix::fs::{DirBuilderExt, lchown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::runtime::{Cgroups, Runtime, call};
use super::walls::Users;
use crate::Carrier;
use crate::lab::plug::Plug;
use crate::ledger::{Ledger, Thing, Ticket};
use crate::process::Process;
use crate::storage::Held;

/// How long the runtime's `run` may take to clean up after its container. Some wait for ever when the container ends
/// before they have begun to listen for its end (seen with runc 1.1.5); deletion by force cleans up then.
const CLEAN_UP: Duration = Duration::from_secs(1);

/// A running container with everything that was made for it.
#[derive(Debug)]
pub struct ContainerCarrier {
    pub(super) runtime: Runtime,
    pub(super) cgroups: Cgroups,
    pub(super) process: Process,
    pub(super) made: Made,
    pub(super) plug: Option<Plug>,
    /// Its block device; given back when the container has ended.
    pub(super) disk: Option<Held>,
}

/// What was written down for a container. Dropping it removes what can be removed; what cannot stays in the ledger,
/// for the sweep.
#[derive(Debug)]
pub struct Made {
    pub(super) ledger: Ledger,
    pub(super) id: String,
    pub(super) dir: PathBuf,
    pub(super) directory: Option<Ticket>,
    pub(super) container: Option<Ticket>,
    /// A folder for its files that belongs to users of its own.
    scratch: Option<(PathBuf, Ticket)>,
}

impl Made {
    /// Makes the folder of a bundle.
    ///
    /// # Errors
    /// It cannot be written down or made.
    pub(super) fn new(ledger: &Ledger, id: &str, dir: &Path) -> io::Result<Self> {
        let directory = Some(ledger.record(Thing::Directory { path: dir.to_owned() })?);
        let (ledger, id, dir) = (ledger.clone(), id.to_owned(), dir.to_owned());
        let made = Self { ledger, id, dir, directory, container: None, scratch: None };
        std::fs::create_dir(&made.dir)?;
        Ok(made)
    }

    /// Where the container's files go: the folder itself, or one in it that its own users may write to. What others see
    /// of the folder is as before.
    ///
    /// # Errors
    /// It cannot be written down, made or given away.
    pub(super) fn scratch(&mut self, folder: &Path, users: Option<&Users>) -> io::Result<PathBuf> {
        let Some(users) = users else { return Ok(folder.to_owned()) };
        let path = folder.join(&self.id);
        let ticket = self.ledger.record(Thing::Directory { path: path.clone() })?;
        self.scratch = Some((path.clone(), ticket));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        lchown(&path, Some(users.first), Some(users.first))?;
        Ok(path)
    }

    /// Whether the runtime knows the container.
    fn is_known(&self) -> bool {
        self.dir.join("state").join(&self.id).exists()
    }

    /// Removes a folder of the run; true when it is gone.
    fn removed(&self, folder: &Path) -> bool {
        self.ledger.remove(folder).is_ok()
    }

    /// Strikes out what is gone, and removes the bundle when the container is.
    fn release(&mut self) {
        if !self.is_known()
            && let Some(ticket) = self.container.take()
        {
            self.ledger.undone(ticket);
        }
        if self.container.is_some() {
            return;
        }
        if let Some(ticket) = self.directory.take() {
            if self.removed(&self.dir) {
                self.ledger.undone(ticket);
            } else {
                self.directory = Some(ticket);
            }
        }
        if let Some((path, ticket)) = self.scratch.take() {
            if self.removed(&path) {
                self.ledger.undone(ticket);
            } else {
                self.scratch = Some((path, ticket));
            }
        }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        self.release();
    }
}

impl ContainerCarrier {
    fn command(&self) -> std::process::Command {
        self.runtime.command(&self.made.dir.join("state"), self.cgroups)
    }
}

impl Carrier for ContainerCarrier {
    fn console_tail(&self) -> Vec<String> {
        self.process.console_tail()
    }

    fn how_it_ended(&mut self) -> Option<String> {
        self.process.how_it_ended()
    }

    /// The runtime waits for the container and is no part of it.
    fn processes(&self) -> Vec<u32> {
        self.process.descendants()
    }

    fn end(&mut self) {
        if self.process.how_it_ended().is_none() && self.made.is_known() {
            // When it has ended in between, or refuses, deletion by force below does it.
            let _ = call(self.command().args(["kill", &self.made.id, "KILL"]));
            self.process.wait(CLEAN_UP);
        }
        self.process.end();
        if self.made.container.is_some() && self.made.is_known() {
            let _ = call(self.command().args(["delete", "--force", &self.made.id]));
        }
        self.made.release();
        self.plug = None;
        self.disk = None;
    }
}

impl Drop for ContainerCarrier {
    fn drop(&mut self) {
        self.end();
    }
}
