//! Ends and starts one partition of a set that is up, and nothing else of it.
//!
//! ```text
//!  stop:   `stopped` ─► SIGTERM to its supervisor ─► gone ─► sweep its ledger ─► Stopped; its folder and its logs stay
//!  start:  those it waits for are up? ─► its unit spec, as `up` wrote it; no `stopped` ─► a supervisor ─► it runs and is ready
//!  restart: may it start, and is what it is given there? ─► `restarting` ─► stop ─► start, which removes that
//! ```
//!
//! With `stopped` in its folder the watcher starts it no more, with `restarting` it does, should we be killed ([`super::watch`]).

use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::find::{self, Meant};
use super::folder::{self, LockError, Mark, SetFolder, Work};
use super::part::{self, Begun, Readiness, ended_well};
use super::resolve::{Kept, links, partition_folder, switch_folder};
use super::up::start as start_supervisor;
use super::{down, status, watch};
use crate::run;
use model::partition::set::{PartitionEntry, PartitionSet, Phase, UnitSpec};
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
        Request::Stop if phase.is_final() && phase != Phase::Lost => {
            clear(Mark::Restarting, &own).map(|()| Became::Already(phase))
        }
        Request::Stop => clear(Mark::Restarting, &own).and_then(|()| stop(&own)).map(|()| Became::Stopped),
        // It may be left of a stop that died.
        Request::Start if !phase.is_final() => clear(Mark::Stopped, &own).map(|()| Became::Already(phase)),
        Request::Start => start(set.path(), &meant, exe, cancel),
        Request::Restart => {
            // What is refused is refused while it runs.
            may_start(set.path(), &meant)?;
            is_still_there(&own, &meant.partition.name)?;
            Mark::Restarting.set(&own).map_err(|error| broke(&own.display(), &error))?;
            if let Err(why) = stop(&own) {
                clear(Mark::Restarting, &own)?;
                return Err(why);
            }
            start(set.path(), &meant, exe, cancel)
        }
    }
}

fn broke(what: &dyn std::fmt::Display, error: &io::Error) -> OneError {
    OneError::Broke(format!("{what}: {error}").into())
}

fn clear(mark: Mark, own: &Path) -> Result<(), OneError> {
    mark.clear(own).map_err(|error| broke(&own.display(), &error))
}

/// What `up` wrote of it.
fn unit_of(own: &Path, name: &str) -> Result<UnitSpec, OneError> {
    let missing =
        || OneError::Refused(format!("nothing of {name} is there: bulkhead up FILE starts it").into());
    folder::read_unit(own).ok_or_else(missing)
}

/// What it is given of the host is there. Disks and a saved layer it has itself while it runs.
fn is_still_there(own: &Path, name: &str) -> Result<(), OneError> {
    let UnitSpec::Partition(unit) = unit_of(own, name)? else { return Ok(()) };
    let its_own = |key: &String| ["disk", "save"].contains(&key.as_str());
    let missing = run::obstacles(&unit.spec).into_iter().find(|one| !one.keys.first().is_some_and(its_own));
    missing.map_or(Ok(()), |missing| {
        Err(OneError::Refused(format!("{name} is left as it is: {}", missing.failed.reason).into()))
    })
}

fn stop(own: &Path) -> Result<(), OneError> {
    match Mark::Stopped.set(own) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(broke(&own.display(), &error)),
        _ => {}
    }
    down::stop(own).map_err(|why| OneError::Broke(format!("something is left: {why}").into()))
}

fn start(set: &Path, meant: &Meant, exe: &Path, cancel: &Cancel) -> Result<Became, OneError> {
    let name = &meant.partition.name;
    let kept = partition_folder(name);
    let own = set.join(&kept);
    let unit = unit_of(&own, name)?;
    may_start(set, meant)?;
    let broke = |error: io::Error| broke(&format!("{name} cannot be started"), &error);
    folder::begin_anew(&own).map_err(broke)?;
    let (begun, unit) = (Begun::new(), Kept { folder: kept.clone(), after: Vec::new(), unit });
    start_supervisor(set, &unit, exe).map_err(broke)?;
    clear(Mark::Restarting, &own)?;
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

/// Those it is started after must be up, and the switches it is plugged into: nobody starts them for it.
fn may_start(set: &Path, meant: &Meant) -> Result<(), OneError> {
    let name = &meant.partition.name;
    let record = folder::read_set(set);
    let entry = record.as_ref().and_then(|record| record.set.partitions.get(name));
    if let Some(switch) =
        record.as_ref().zip(entry).and_then(|(record, entry)| lost_switch(set, &record.set, entry))
    {
        return Err(OneError::Refused(
            format!("{name} is plugged into switch {switch}, which is gone: bulkhead up FILE starts both")
                .into(),
        ));
    }
    for other in entry.iter().flat_map(|entry| &entry.after) {
        let (phase, state) = status::phase(&set.join(partition_folder(other)));
        let is_up = phase == Phase::Running || state.as_ref().is_some_and(ended_well);
        if !is_up {
            let then = if phase.is_final() {
                format!("start that first (bulkhead start {other})")
            } else {
                "try again when it runs".to_owned()
            };
            return Err(OneError::Refused(
                format!("{name} is started after {other}, which is {}: {then}", phase.word()).into(),
            ));
        }
    }
    Ok(())
}

/// A switch of its networks that does not run and that nobody is to start again.
fn lost_switch(set: &Path, record: &PartitionSet, entry: &PartitionEntry) -> Option<String> {
    let networks = entry.networks.iter().filter_map(|name| Some((name, record.networks.get(name)?)));
    let mut switches = networks.flat_map(|(name, network)| links(name, network.links));
    switches.find(|switch| {
        let own = set.join(switch_folder(switch));
        status::phase(&own).0.is_final() && !watch::will_replace(set, &own)
    })
}
