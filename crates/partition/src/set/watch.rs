//! The watcher: a process of its own for each set of which something is to be started again. It finds supervisors that were
//! killed and starts new ones in their places, which go on as their policies say. Supervisors start a new watcher when theirs
//! was killed.
//!
//! ```text
//!  up ─► watch.json, locked ─► watcher ── a supervisor gone without a last word? ─► takes the set ─► a new supervisor
//!          ▲                                                                                             │
//!          └── nobody holds the lock: who sees that takes it, and hands it to a new watcher ◄────────────┘
//!
//!  down ─► removes watch.json first: nobody is started again
//!  stop ─► first writes down that it is stopped, start removes that: it is not started again in between
//!  restart ─► writes down that it is to run again, too: a restart that was killed is finished here, or was not begun, or is over
//! ```

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::sys::signal::Signal;

use super::folder::{self, Mark, SetFolder, WATCH_FILE, Work};
use super::supervisor::GO;
use super::{down, process, root, status};
use model::partition::set::{PartitionSet, Phase, ProcessName, Restart, UnitSpec};
use platforms::held_process::mark;
use platforms::own_folder::own_file;
use platforms::spawn::{Bond, spawn};
use units::Reason;

/// How often supervisors and watcher look for each other.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a watcher that was killed may take to be gone.
const DEATH_GRACE: Duration = Duration::from_secs(10);
/// How often it is looked whether it is.
const TRY_EVERY: Duration = Duration::from_millis(20);

/// Whether a set has anything that is to be started again.
pub fn is_wanted(set: &PartitionSet) -> bool {
    let mut policies = set.partitions.values().map(|entry| entry.restart);
    !set.networks.is_empty() || policies.any(|restart| restart != Restart::Never)
}

/// Lets a set be watched, and starts its watcher where there is none.
///
/// # Errors
/// When the file cannot be made, or no process started.
pub fn begin(set: &Path, exe: &Path) -> io::Result<()> {
    own_file(&set.join(WATCH_FILE), OFlag::O_CREAT | OFlag::O_RDWR)?;
    start(set, exe).map(drop)
}

/// Nobody is started again from here on; waits until the watcher is gone. The set's folder must be taken.
///
/// # Errors
/// The watcher is none of that set's, or cannot be ended.
pub fn end(set: &Path) -> Result<(), Reason> {
    let Ok(file) = own_file(&set.join(WATCH_FILE), OFlag::O_RDWR) else { return Ok(()) };
    let told = |error: io::Error| format!("{}: {error}", set.join(WATCH_FILE).display());
    let watcher = folder::read_watcher(set);
    fs::remove_file(set.join(WATCH_FILE)).map_err(told)?;
    if let Some(watcher) = watcher {
        process::signal(&watcher, set, Signal::SIGKILL)?;
    }
    let until = Instant::now() + DEATH_GRACE;
    // One that has not yet said its name sees that the file is gone.
    while !try_lock(&file).map_err(told)? {
        if Instant::now() > until {
            return Err(format!(
                "the watcher was killed and is still there after {} s",
                DEATH_GRACE.as_secs()
            )
            .into());
        }
        std::thread::sleep(TRY_EVERY);
    }
    Ok(())
}

/// What a supervisor does beside its work until `over` is closed: starts a watcher when its set's was killed.
pub fn keep_watched(kept: &Path, exe: &Path, over: &Receiver<()>) {
    let Some(set) = kept.parent().and_then(Path::parent) else { return };
    let mut started: Vec<Child> = Vec::new();
    while over.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
        reap(&mut started);
        // What fails now is tried again soon.
        started.extend(start(set, exe).ok().flatten());
    }
}

/// What the watcher does, `held` being its set's file with the lock on it: until nothing is left to be watched.
///
/// # Errors
/// When the set's folder is not ours, or the file cannot be written.
pub fn watch(set: &Path, held: &File, exe: &Path) -> Result<(), Reason> {
    root::check_private(set).map_err(|error| error.to_string())?;
    let own = process::own().ok_or("this process cannot be found in /proc")?;
    write_name(held, &own).map_err(|error| format!("{}: {error}", set.join(WATCH_FILE).display()))?;
    let mut started: Vec<Child> = Vec::new();
    while is_in_place(set, held) {
        // One that was not waited for would look alive.
        reap(&mut started);
        let kept = folder::kept(set);
        let unsound: Vec<&String> = kept.iter().filter(|name| is_to_be_mended(&set.join(name))).collect();
        if unsound.is_empty() && kept.iter().all(|name| status::phase(&set.join(name)).0.is_final()) {
            break;
        }
        started.extend(replace(set, held, &unsound, exe));
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Settles restarts that were killed, and starts supervisors in the places of those that are lost, if nobody else works on the set.
fn replace(set: &Path, held: &File, unsound: &[&String], exe: &Path) -> Vec<Child> {
    let (Some(root), Some(name)) = (set.parent(), set.file_name().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    if unsound.is_empty() {
        return Vec::new();
    }
    let Ok(_taken) = SetFolder::take(root, name, Work::Replace, false) else { return Vec::new() };
    // Whoever had the set before may have ended or started it; an `up` that died is undone, not mended.
    if !is_in_place(set, held) || folder::read_undertaking(set).is_some() {
        return Vec::new();
    }
    let folders: Vec<PathBuf> = unsound.iter().map(|name| set.join(name)).collect();
    for folder in folders.iter().filter(|folder| is_being_restarted(folder)) {
        // What fails now is tried again soon.
        let _ = settle(folder);
    }
    let folders = folders.iter().filter(|folder| is_lost(folder));
    folders.filter_map(|folder| started_again(folder, exe).ok()).collect()
}

/// Whoever restarted it was killed while it ran: before it was told to end, while it ended, or when it had been started again.
fn settle(kept: &Path) -> Result<(), Reason> {
    if Mark::Stopped.is_set(kept) {
        return down::stop(kept);
    }
    Mark::Restarting.clear(kept).map_err(|error| error.to_string().into())
}

fn started_again(kept: &Path, exe: &Path) -> io::Result<Child> {
    if !Mark::Restarting.is_set(kept) {
        return start_supervisor(kept, exe);
    }
    // Whoever restarted it was killed between its end and its start.
    folder::begin_anew(kept)?;
    let child = start_supervisor(kept, exe)?;
    Mark::Restarting.clear(kept)?;
    Ok(child)
}

fn is_to_be_mended(kept: &Path) -> bool {
    is_lost(kept) || is_being_restarted(kept)
}

/// Whether it runs, and somebody is or was about to start it anew.
fn is_being_restarted(kept: &Path) -> bool {
    Mark::Restarting.is_set(kept) && !status::phase(kept).0.is_final()
}

/// Whether its supervisor is gone without a last word, or for a restart that was not finished, and it is to be started again.
fn is_lost(kept: &Path) -> bool {
    let (phase, state) = status::phase(kept);
    if phase.is_final() && Mark::Restarting.is_set(kept) {
        return true;
    }
    let was_told_to_end = state.is_some_and(|state| state.phase == Phase::Stopping);
    let is_started_again = match folder::read_unit(kept) {
        Some(UnitSpec::Partition(unit)) => unit.restart != Restart::Never,
        Some(UnitSpec::Switch(_)) => true,
        None => false,
    };
    phase == Phase::Lost && is_started_again && !was_told_to_end
}

/// Whether what is kept there is lost, and somebody watches who will start it again.
pub(super) fn will_replace(set: &Path, kept: &Path) -> bool {
    folder::read_watcher(set).is_some_and(|watcher| process::is_alive(&watcher)) && is_lost(kept)
}

/// Starts the watcher of a set that is to be watched and is not.
///
/// # Errors
/// When no process can be started.
pub fn start(set: &Path, exe: &Path) -> io::Result<Option<Child>> {
    let file = match own_file(&set.join(WATCH_FILE), OFlag::O_RDWR) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !try_lock(&file)? || !is_in_place(set, &file) {
        return Ok(None);
    }
    let own = root::check_private(set)?;
    let log = own.file("watch.log", OFlag::O_CREAT | OFlag::O_WRONLY | OFlag::O_APPEND)?;
    let mut command = Command::new(exe);
    let handed = file.try_clone()?;
    // The lock goes with the open file, and ends with who has it.
    command.arg("watch").arg(own.path()).current_dir("/").stdin(handed).stdout(Stdio::null()).stderr(log);
    mark(&mut command, own.path());
    let child = spawn(command, Bond::OutlivesUs, None)?;
    // Who asks next must find it. It says the same itself, should this process die here.
    let name = process::named(child.id()).ok_or_else(|| io::Error::other("the watcher ended at once"))?;
    write_name(&file, &name)?;
    Ok(Some(child))
}

/// Starts a supervisor for what lies in `kept`. It begins only when it has been written down who it is; when this process dies
/// before, it ends.
///
/// # Errors
/// When it cannot be started or written down.
pub fn start_supervisor(kept: &Path, exe: &Path) -> io::Result<Child> {
    let own = root::check_private(kept)?;
    let (read, mut go) = io::pipe()?;
    let log = own.file("supervisor.log", OFlag::O_CREAT | OFlag::O_WRONLY | OFlag::O_APPEND)?;
    let mut command = Command::new(exe);
    command.arg("supervisor").arg(kept).current_dir("/").stdin(read).stdout(Stdio::null()).stderr(log);
    mark(&mut command, own.path());
    let child = spawn(command, Bond::OutlivesUs, None)?;
    let name = process::named(child.id()).ok_or_else(|| io::Error::other("its supervisor ended at once"))?;
    folder::write_supervisor(kept, &name)?;
    go.write_all(&[GO])?;
    Ok(child)
}

/// Two may do this at once, for the same process: the file is never empty between.
fn write_name(held: &File, name: &ProcessName) -> io::Result<()> {
    let text = serde_json::to_vec(name)?;
    held.write_all_at(&text, 0)?;
    held.set_len(text.len() as u64)
}

fn reap(started: &mut Vec<Child>) {
    started.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
}

/// Whether this is still the file that lets the set be watched.
fn is_in_place(set: &Path, held: &File) -> bool {
    let same =
        |held: fs::Metadata, there: fs::Metadata| (held.dev(), held.ino()) == (there.dev(), there.ino());
    match (held.metadata(), fs::metadata(set.join(WATCH_FILE))) {
        (Ok(held), Ok(there)) => same(held, there),
        _ => false,
    }
}

fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
