//! The folder of a set: who works on it, what it holds.
//!
//! ```text
//!  ROOT/plant/            0700
//!    lock                 held by the `up`, `down` or undo that works on the set; says who that is
//!    set.json             the set as resolved
//!    up.json              what an `up` is about to start; gone when it has
//!    watch.json           there when supervisors are watched; locked by who watches, says who that is
//!    p/plc/               a partition: unit.json supervisor.json state.json stdout.log stderr.log started.jsonl
//!                         sessions.sock; stopped, when it was stopped by hand and nobody is to start it again;
//!                         restarting, while it is ended to be started again
//!    n/control.0/         a switch of a network: unit.json supervisor.json state.json
//!    l/control.0/         its link: the sockets of its plugs; beat, which shows that the switch works; 7.pulled for a moment, when the
//!                         cable of a plug is pulled out
//!    c/frames             a channel: its memory; c may be a link to memory elsewhere
//! ```

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{channels, process, root};
use model::partition::is_name;
use model::partition::set::{KeptState, Phase, ProcessName, SetRecord, Undertaking, UnitSpec};
use platforms::own_folder::{OwnFolder, own_file};

/// There when a set is watched.
pub const WATCH_FILE: &str = "watch.json";
/// Longest file of a set's folder that is read.
const MOST_BYTES: u64 = 4 << 20;
/// How long a holder that is about to let go (or only begins) is waited for.
const SHORT_WAIT: Duration = Duration::from_secs(2);
/// How long an undo is waited for: it may have to kill many partitions.
const UNDO_WAIT: Duration = Duration::from_secs(60);
/// How often a held lock is tried again.
const TRY_EVERY: Duration = Duration::from_millis(50);

/// What the holder of a lock does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Starts what is missing.
    Up,
    /// Ends everything.
    Down,
    /// Undoes what an `up` that died had started.
    Undo,
    /// Starts supervisors in the places of those that were killed.
    Replace,
    /// Ends or starts one partition.
    One,
}

/// What a lock says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    work: Work,
    process: ProcessName,
}

/// The folder of a set that is ours alone until this is dropped.
#[derive(Debug)]
pub struct SetFolder {
    path: PathBuf,
    own: OwnFolder,
    // Held for as long as it is open.
    lock: File,
}

/// Why a set cannot be worked on.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// There is no such set.
    #[error("there is no set \"{0}\"")]
    Absent(String),
    /// Somebody else works on it.
    #[error("set \"{name}\" is being worked on by {who}: wait for it, or end it first")]
    Busy {
        /// The set.
        name: String,
        /// Who.
        who: String,
    },
    /// The folder cannot be used.
    #[error("the folder of set \"{name}\" cannot be used: {error}")]
    Broken {
        /// The set.
        name: String,
        /// Why.
        error: io::Error,
    },
}

impl SetFolder {
    /// Takes the set of that name for `work`, making its folder if `make`. Waits for an undo, not for others.
    pub fn take(state_root: &Path, name: &str, work: Work, make: bool) -> Result<Self, LockError> {
        let broken = |error: io::Error| LockError::Broken { name: name.to_owned(), error };
        let path = state_root.join(name);
        let begun = Instant::now();
        loop {
            if !make && (!is_name(name) || !path.is_dir()) {
                return Err(LockError::Absent(name.to_owned()));
            }
            let folders = if make {
                root::make_private(state_root).and_then(|_| root::make_private(&path))
            } else {
                root::check_private(state_root).and_then(|_| root::check_private(&path))
            };
            match folders.and_then(|own| Self::try_take(own, &path, work)) {
                Ok(Some(folder)) => return Ok(folder),
                Ok(None) => {}
                // Somebody removed the folder meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound && begun.elapsed() < SHORT_WAIT => {
                    continue;
                }
                Err(error) => return Err(broken(error)),
            }
            let holder = holder(&path);
            let patience = match (work, holder.as_ref().map(|holder| holder.work)) {
                (_, Some(Work::Undo | Work::Replace)) => UNDO_WAIT,
                // An `up` that is being killed closes its files one after the other: its end is seen before its lock
                // is free.
                (Work::Undo, Some(Work::Up)) if has_begun(&path, holder.as_ref()) => UNDO_WAIT,
                // Whoever else works on the set now undoes first what an `up` that died had begun.
                _ => SHORT_WAIT,
            };
            if begun.elapsed() > patience {
                let who = holder.map_or_else(
                    || "a process that did not say its name".to_owned(),
                    |holder| holder.words(),
                );
                return Err(LockError::Busy { name: name.to_owned(), who });
            }
            std::thread::sleep(TRY_EVERY);
        }
    }

    fn try_take(own: OwnFolder, path: &Path, work: Work) -> io::Result<Option<Self>> {
        let mut lock = own.file("lock", OFlag::O_CREAT | OFlag::O_RDWR)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Whoever held it may have removed the folder before letting go.
        let (held, there) = (lock.metadata()?, fs::metadata(path.join("lock"))?);
        if (held.dev(), held.ino()) != (there.dev(), there.ino()) {
            return Ok(None);
        }
        if let Some(process) = process::own() {
            lock.set_len(0)?;
            lock.write_all(&serde_json::to_vec(&Holder { work, process })?)?;
        }
        Ok(Some(Self { path: path.to_owned(), own, lock }))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes everything; the lock last, so that nobody else makes the set meanwhile.
    ///
    /// # Errors
    /// When something cannot be removed; what remains can be removed later.
    pub fn remove(self) -> io::Result<()> {
        channels::remove(&self.path)?;
        for entry in fs::read_dir(self.own.held())? {
            let name = entry?.file_name();
            if name != "lock" {
                self.own.remove(Path::new(&name))?;
            }
        }
        self.own.remove(Path::new("lock"))?;
        fs::remove_dir(&self.path)?;
        // The folder of all sets goes with the last of them.
        let _ = self.path.parent().map(fs::remove_dir);
        Ok(())
    }
}

impl Drop for SetFolder {
    /// Nobody works on it any more, also for those who only read.
    fn drop(&mut self) {
        let _ = self.lock.set_len(0);
    }
}

impl Holder {
    fn words(&self) -> String {
        let work = match self.work {
            Work::Up => "up",
            Work::Down => "down",
            Work::Undo => "the undoing of an up that died",
            Work::Replace => "the replacing of a supervisor that was killed",
            Work::One => "start, stop or restart",
        };
        format!("{work}, process {}", self.process.pid)
    }
}

/// Whether it is the holder who wrote down what is to be undone.
fn has_begun(path: &Path, holder: Option<&Holder>) -> bool {
    let undertaking = read_undertaking(path);
    undertaking.is_some_and(|undertaking| holder.is_some_and(|holder| holder.process == undertaking.by))
}

/// Who holds the lock of a set's folder, if it lives.
fn holder(path: &Path) -> Option<Holder> {
    read::<Holder>(&path.join("lock")).filter(|holder| process::is_alive(&holder.process))
}

/// Who works on a set just now, in words.
pub fn busy(path: &Path) -> Option<String> {
    holder(path).map(|holder| holder.words())
}

/// Whether somebody works on a set just now who may start what is kept there, although it has come to `phase`.
pub fn may_start(path: &Path, phase: Phase) -> bool {
    match holder(path).map(|holder| holder.work) {
        Some(Work::One | Work::Replace) => true,
        // What has ended an `up` starts again only where it is another one in the file.
        Some(Work::Up) => phase != Phase::Ended,
        Some(Work::Down | Work::Undo) | None => false,
    }
}

/// The folder of a link, `control.0`, in a set's folder.
pub fn of_link(path: &Path, link: &str) -> PathBuf {
    path.join("l").join(link)
}

/// Folders of what is kept in a set's folder, partitions and switches, by name: `p/plc`, `n/control.0`.
pub fn kept(path: &Path) -> Vec<String> {
    let mut found: Vec<String> = ["p", "n"]
        .into_iter()
        .flat_map(|kind| {
            let entries = fs::read_dir(path.join(kind)).into_iter().flatten().flatten();
            entries.filter_map(move |entry| entry.file_name().to_str().map(|name| format!("{kind}/{name}")))
        })
        .collect();
    found.sort();
    found
}

/// Reads a JSON file of ours; none when it is missing, somebody else's, too long, or not what it should be.
fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let mut text = Vec::new();
    own_file(path, OFlag::O_RDONLY).ok()?.take(MOST_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Writes a JSON file whole or not at all.
fn write<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let half = path.with_extension("half");
    // UnitSpecs hold environments.
    let mut file = own_file(&half, OFlag::O_CREAT | OFlag::O_WRONLY | OFlag::O_TRUNC)?;
    file.write_all(&serde_json::to_vec(value)?)?;
    fs::rename(&half, path)
}

/// The files of a set, and of what is kept, as their types.
macro_rules! files {
    ($($(#[$meta:meta])* $read:ident $write:ident $file:literal $type:ty;)+) => {
        $(
            $(#[$meta])*
            pub fn $read(folder: &Path) -> Option<$type> {
                read(&folder.join($file))
            }

            /// Writes it down, whole or not at all.
            pub fn $write(folder: &Path, value: &$type) -> io::Result<()> {
                write(&folder.join($file), value)
            }
        )+
    };
}

files! {
    /// The set that a folder holds.
    read_set write_set "set.json" SetRecord;
    /// What an `up` that has not come to its end was about to start.
    read_undertaking write_undertaking "up.json" Undertaking;
    /// What is kept in a folder below.
    read_unit write_unit "unit.json" UnitSpec;
    /// By whom.
    read_supervisor write_supervisor "supervisor.json" ProcessName;
    /// How that stands.
    read_state write_state "state.json" KeptState;
}

/// What somebody wants of what is kept in a folder: an empty file there, so that it holds when that process is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It was stopped by hand: its watcher starts it no more.
    Stopped,
    /// It is ended to be started again: its watcher does so when nobody is at it any more.
    Restarting,
}

impl Mark {
    fn in_folder(self, folder: &Path) -> PathBuf {
        folder.join(match self {
            Self::Stopped => "stopped",
            Self::Restarting => "restarting",
        })
    }

    /// From now on.
    pub fn set(self, folder: &Path) -> io::Result<()> {
        own_file(&self.in_folder(folder), OFlag::O_CREAT | OFlag::O_WRONLY).map(drop)
    }

    /// No more.
    pub fn clear(self, folder: &Path) -> io::Result<()> {
        gone(fs::remove_file(self.in_folder(folder)))
    }

    /// Whether it is wanted.
    pub fn is_set(self, folder: &Path) -> bool {
        own_file(&self.in_folder(folder), OFlag::O_RDONLY).is_ok()
    }
}

/// What its last supervisor wrote is not how the next one stands, and that it was stopped is over.
pub fn begin_anew(folder: &Path) -> io::Result<()> {
    gone(fs::remove_file(folder.join("state.json")))?;
    Mark::Stopped.clear(folder)
}

fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Who watches a set, or did last.
pub fn read_watcher(folder: &Path) -> Option<ProcessName> {
    read(&folder.join(WATCH_FILE))
}

/// The `up` has come to its end.
pub fn remove_undertaking(folder: &Path) {
    // When this cannot be written, the set is undone at the next chance, which is safe.
    let _ = fs::remove_file(folder.join("up.json"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_worked_on_by_one_at_a_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let state = dir.path().join("state");
        assert!(matches!(SetFolder::take(&state, "plant", Work::Down, false), Err(LockError::Absent(_))));
        let folder = SetFolder::take(&state, "plant", Work::Up, true).expect("taken");
        let error = SetFolder::take(&state, "plant", Work::Down, false).expect_err("held");
        assert!(error.to_string().contains(&format!("by up, process {}", std::process::id())), "{error}");
        SetFolder::take(&state, "other", Work::Up, true).expect("another set").remove().expect("removed");
        folder.remove().expect("removed");
        assert!(!state.exists());
    }

    #[test]
    fn an_undo_waits_until_the_dying_up_has_let_go() {
        let dir = tempfile::tempdir().expect("a directory");
        let state = dir.path().join("state");
        let folder = SetFolder::take(&state, "plant", Work::Up, true).expect("taken");
        let undo = {
            let state = state.clone();
            std::thread::spawn(move || SetFolder::take(&state, "plant", Work::Undo, false))
        };
        std::thread::sleep(Duration::from_millis(120));
        drop(folder);
        undo.join().expect("no panic").expect("taken");
    }

    #[test]
    fn who_waits_for_a_folder_that_goes_gets_a_new_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let state = dir.path().join("state");
        let folder = SetFolder::take(&state, "plant", Work::Undo, true).expect("taken");
        let waiting = {
            let state = state.clone();
            std::thread::spawn(move || SetFolder::take(&state, "plant", Work::Up, true))
        };
        std::thread::sleep(Duration::from_millis(120));
        folder.remove().expect("removed");
        let second = waiting.join().expect("no panic").expect("taken");
        assert!(second.path().join("lock").exists());
        assert!(matches!(SetFolder::take(&state, "plant", Work::Up, true), Err(LockError::Busy { .. })));
    }
}
