//! Ends what is kept: asks supervisors, in the reverse order of starting, kills what does not end, clears what they left.
//!
//! ```text
//!  all that wait for it are gone ─► SIGTERM to its supervisor ─► gone ─► sweep its ledger ─► its folder removed
//!                                            └─ grace over: SIGKILL ─┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::folder::{self, LockError, SetFolder, Work};
use super::supervisor::STOP_GRACE;
use super::{channels, process, resolve, root, watch};
use model::partition::set::{PartitionSet, ProcessName};
use platforms::ledger;
use units::Reason;

/// Beyond the grace that a supervisor itself gives its program.
const SUPERVISOR_GRACE: Duration = Duration::from_secs(5);
/// How long a killed supervisor may take to be gone.
const DEATH_GRACE: Duration = Duration::from_secs(10);
/// How long what a dead supervisor left may be busy, a cgroup for example.
const CLEAR_GRACE: Duration = Duration::from_secs(10);
/// How often it is looked.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How things are ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Programs are asked, and have a while.
    Ask,
    /// At once.
    Kill,
}

/// What is told of an ending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gone {
    /// It is asked to end.
    Asked(String),
    /// Nothing of it is left.
    Cleared(String),
}

/// Why something is still there.
#[derive(Debug, thiserror::Error)]
pub enum DownError {
    /// There is no such set, or somebody else works on it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Not everything could be removed.
    #[error("something is left: {0}")]
    Left(Reason),
}

/// Ends a set and removes all that was made for it.
///
/// # Errors
/// When it is not there, somebody works on it, or something is left.
pub fn down(state_root: &Path, name: &str, tell: &mut dyn FnMut(Gone)) -> Result<(), DownError> {
    let folder = SetFolder::take(state_root, name, Work::Down, false)?;
    watch::end(folder.path()).map_err(DownError::Left)?;
    end(folder.path(), &folder::kept(folder.path()), Manner::Ask, tell).map_err(DownError::Left)?;
    folder.remove().map_err(|error| DownError::Left(error.to_string().into()))
}

/// Undoes what an `up` had begun that did not come to its end; says what that was. The folder must be taken.
///
/// # Errors
/// What is left, and why.
pub fn undo(folder: &Path, manner: Manner) -> Result<Vec<String>, Reason> {
    let Some(undertaking) = folder::read_undertaking(folder) else { return Ok(Vec::new()) };
    if undertaking.fresh {
        watch::end(folder)?;
    }
    let begun = if undertaking.fresh { folder::kept(folder) } else { undertaking.starts };
    end(folder, &begun, manner, &mut |_| ())?;
    channels::sweep(folder).map_err(|error| format!("the memory of channels: {error}"))?;
    folder::remove_undertaking(folder);
    if undertaking.fresh {
        let _ = fs::remove_file(folder.join("set.json"));
    }
    Ok(begun)
}

/// What the process does that outlives an `up` which dies: undoes what that had begun.
pub fn undo_after_death(state_root: &Path, name: &str) {
    let Ok(folder) = SetFolder::take(state_root, name, Work::Undo, false) else { return };
    if undo(folder.path(), Manner::Kill).is_ok() && folder::read_set(folder.path()).is_none() {
        let _ = folder.remove();
    }
}

/// Ends these, and removes their folders. The set's folder must be taken.
///
/// # Errors
/// What is left, and why.
pub fn end(
    folder: &Path,
    which: &[String],
    manner: Manner,
    tell: &mut dyn FnMut(Gone),
) -> Result<(), Reason> {
    let dependants = folder::read_set(folder).map(|record| dependants(&record.set)).unwrap_or_default();
    let mut left: BTreeSet<&String> = which.iter().collect();
    let mut told: BTreeMap<&String, Told> = BTreeMap::new();
    let mut stuck = Vec::new();
    while !left.is_empty() {
        for name in left.clone() {
            let waits = dependants.get(name).into_iter().flatten().any(|other| left.contains(other));
            if let Some(told) = told.get_mut(name) {
                match told.look() {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(why) => {
                        stuck.push(format!("the supervisor of {name}: {why}"));
                        left.remove(name);
                        continue;
                    }
                }
                if let Err(why) = clear(&folder.join(name)) {
                    stuck.push(format!("{name}: {why}"));
                }
                left.remove(name);
                tell(Gone::Cleared(name.clone()));
            } else if !waits || manner == Manner::Kill {
                tell(Gone::Asked(name.clone()));
                told.insert(name, Told::now(&folder.join(name), manner));
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
    if stuck.is_empty() { Ok(()) } else { Err(stuck.join("; ").into()) }
}

/// A supervisor that was told to end.
struct Told {
    folder: PathBuf,
    supervisor: Option<ProcessName>,
    refused: Option<Reason>,
    at: Instant,
    killed: bool,
}

impl Told {
    fn now(folder: &Path, manner: Manner) -> Self {
        let supervisor = folder::read_supervisor(folder);
        let signal = if manner == Manner::Kill { Signal::SIGKILL } else { Signal::SIGTERM };
        let refused =
            supervisor.as_ref().and_then(|supervisor| process::signal(supervisor, folder, signal).err());
        let killed = manner == Manner::Kill;
        Self { folder: folder.to_owned(), supervisor, refused, at: Instant::now(), killed }
    }

    /// Whether it is gone; why not, when it will never be.
    fn look(&mut self) -> Result<bool, Reason> {
        let Some(supervisor) = self.supervisor.as_ref().filter(|supervisor| process::is_alive(supervisor))
        else {
            return Ok(true);
        };
        if let Some(why) = &self.refused {
            return Err(why.clone());
        }
        let patience = STOP_GRACE + SUPERVISOR_GRACE;
        if !self.killed && self.at.elapsed() > patience {
            process::signal(supervisor, &self.folder, Signal::SIGKILL)?;
            self.killed = true;
        }
        if self.at.elapsed() < patience + DEATH_GRACE {
            return Ok(false);
        }
        Err("it was killed and is still there".into())
    }
}

/// Asks what is kept in `folder` to end, and undoes what it left; what it wrote stays. The set's folder must be taken.
///
/// # Errors
/// What is left, and why.
pub(super) fn stop(folder: &Path) -> Result<(), Reason> {
    let mut told = Told::now(folder, Manner::Ask);
    while !told.look()? {
        std::thread::sleep(LOOK_EVERY);
    }
    sweep(folder)
}

/// Undoes what a dead supervisor left, and removes its folder.
fn clear(folder: &Path) -> Result<(), Reason> {
    sweep(folder)?;
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else { return Ok(()) };
    match root::check_private(parent).and_then(|parent| parent.remove(Path::new(name))) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.to_string().into()),
        _ => Ok(()),
    }
}

/// Undoes what a dead supervisor left.
fn sweep(folder: &Path) -> Result<(), Reason> {
    let until = Instant::now() + CLEAR_GRACE;
    while folder.exists() {
        // What was undone is said as well as what was not: nothing said is nothing left.
        let said = ledger::sweep(folder);
        if said.is_empty() {
            break;
        }
        if Instant::now() > until {
            return Err(said.join("; ").into());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Who must be gone before: by folder, the folders of those that wait for it or are plugged into it.
fn dependants(set: &PartitionSet) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, entry) in &set.partitions {
        let mut needs: Vec<String> =
            entry.after.iter().map(|other| resolve::partition_folder(other)).collect();
        for plug in entry.plugs() {
            let count = set.networks.get(&plug.network).map_or(0, |network| network.links);
            needs.extend(resolve::links(&plug.network, count).map(|link| format!("n/{link}")));
        }
        for need in needs {
            all.entry(need).or_default().push(resolve::partition_folder(name));
        }
    }
    all
}
