//! Ends and starts one partition of a set that is up, and nothing else of it.
//!
//! ```text
//!  stop:   `stopped` ─► SIGTERM to its supervisor ─► gone ─► sweep its ledger ─► Stopped; its folder and its logs stay
//!  start:  those it waits for are up? ─► its unit spec, as `up` wrote it; no `stopped` ─► a supervisor ─► it runs and is ready
//! ```
//!
//! With `stopped` in its folder the watcher starts it no more ([`super::watch`]).

use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use super::find::{self, Meant};
use super::folder::{self, LockError, SetFolder, Work};
use super::part::{self, Begun, Readiness, ended_well};
use super::resolve::{Kept, partition_folder};
use super::up::start as start_supervisor;
use super::{down, status, watch};
use model::partition::set::Phase;
use platforms::Cancel;
use units::Reason;

/// How often it is looked how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What is wanted of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// It is to run.
    Start,
    /// It is to be ended.
    Stop,
    /// It is to be ended and to run again.
    Restart,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Became {
    /// It runs, after this time.
    Runs(Duration),
    /// Its program has ended well already.
    Done,
    /// It is ended.
    Stopped,
    /// It was so before.
    Already(Phase),
}

/// Why it is not as wanted.
#[derive(Debug, thiserror::Error)]
pub enum OneError {
    /// There is no such partition, or it cannot be started now.
    #[error("{0}")]
    Refused(Reason),
    /// Somebody else works on its set.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// It was tried, and failed.
    #[error("{0}")]
    Broke(Reason),
    /// The user interrupted; it may still come up.
    #[error("interrupted")]
    Interrupted,
}

/// Does what is wanted of the partition `name`.
///
/// # Errors
/// Why it is not so.
pub fn one(
    state_root: &Path,
    name: &str,
    request: Request,
    exe: &Path,
    cancel: &Cancel,
) -> Result<Became, OneError> {
    let meant = find::partition(state_root, name, None).map_err(OneError::Refused)?;
    let set = SetFolder::take(state_root, &meant.set, Work::One, false)?;
    if folder::read_undertaking(set.path()).is_some() {
        let file = "an up of this set died: end or repeat it first (bulkhead down, bulkhead up FILE)";
        return Err(OneError::Refused(file.to_owned().into()));
    }
    // It was found before the set was ours.
    let own = set.path().join(partition_folder(&meant.partition.name));
    let (phase, _) = status::phase(&own);
    match request {
        // One that lost its supervisor is to be started again, perhaps at once.
        Request::Stop if phase.is_final() && phase != Phase::Lost => Ok(Became::Already(phase)),
        Request::Stop => stop(&own).map(|()| Became::Stopped),
        // It may be left of a stop that died.
        Request::Start if !phase.is_final() => permit(&own).map(|()| Became::Already(phase)),
        Request::Start => start(set.path(), &meant, exe, cancel),
        Request::Restart => {
            stop(&own)?;
            start(set.path(), &meant, exe, cancel)
        }
    }
}

/// Its watcher may start it again.
fn permit(own: &Path) -> Result<(), OneError> {
    folder::forget_stopped(own).map_err(|error| OneError::Broke(format!("{}: {error}", own.display()).into()))
}

fn stop(own: &Path) -> Result<(), OneError> {
    match folder::note_stopped(own) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(OneError::Broke(format!("{}: {error}", own.display()).into()));
        }
        _ => {}
    }
    down::stop(own).map_err(|why| OneError::Broke(format!("something is left: {why}").into()))
}

fn start(set: &Path, meant: &Meant, exe: &Path, cancel: &Cancel) -> Result<Became, OneError> {
    let name = &meant.partition.name;
    let kept = partition_folder(name);
    let own = set.join(&kept);
    let Some(unit) = folder::read_unit(&own) else {
        return Err(OneError::Refused(
            format!("nothing of {name} is there: bulkhead up FILE starts it").into(),
        ));
    };
    waits_for(set, name)?;
    let broke = |error: io::Error| OneError::Broke(format!("{name} cannot be started: {error}").into());
    // What a supervisor ended wrote last is not how the next one stands.
    match fs::remove_file(own.join("state.json")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(broke(error)),
        _ => {}
    }
    permit(&own)?;
    let (begun, unit) = (Begun::new(), Kept { folder: kept.clone(), after: Vec::new(), unit });
    start_supervisor(set, &unit, exe).map_err(broke)?;
    // The watcher ends when nothing is left to be watched; what fails here the supervisor tries again.
    let _ = watch::start(set, exe);
    loop {
        match part::look(&own, &kept, &unit.unit, &begun) {
            Readiness::Runs => return Ok(Became::Runs(begun.at.elapsed())),
            Readiness::Done => return Ok(Became::Done),
            Readiness::Failed(why) => return Err(OneError::Broke(why.into())),
            Readiness::Boots | Readiness::Comes if cancel.is_cancelled() => {
                return Err(OneError::Interrupted);
            }
            Readiness::Boots | Readiness::Comes => std::thread::sleep(LOOK_EVERY),
        }
    }
}

/// Those it is started after must be up: nobody starts them for it.
fn waits_for(set: &Path, name: &str) -> Result<(), OneError> {
    let record = folder::read_set(set);
    let entry = record.as_ref().and_then(|record| record.set.partitions.get(name));
    for other in entry.iter().flat_map(|entry| &entry.after) {
        let (phase, state) = status::phase(&set.join(partition_folder(other)));
        let is_up = phase == Phase::Running || state.as_ref().is_some_and(ended_well);
        if !is_up {
            return Err(OneError::Refused(
                format!(
                    "{name} is started after {other}, which is {}: start that first (bulkhead start {other})",
                    phase.word()
                )
                .into(),
            ));
        }
    }
    Ok(())
}
