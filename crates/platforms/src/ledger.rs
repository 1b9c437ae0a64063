//! What we started, we end: an append-only list of everything that must be undone, written *before* each thing is made.
//!
//! ```text
//!  record(Thing) ─► {"ticket":7,"thing":{…}}        make it … use it … undo it        undone(7) ─► {"undone":7}
//!                                  │
//!              the program is killed ─► sweep(DIR) undoes 7, by the reaper at once or at the next resume
//! ```
//! A line is one `write` to a file opened for appending: it survives the death of the program. A crash of the whole
//! machine needs no undoing but of directories, and those are found by the owner of the run directory.
//!
//! The file is believed only in a folder that is ours and that nobody else can write to, and even then nothing in it is used
//! unseen: see `sweep`. Everything that is started says in its environment for which folder: [`Ledger::mark`].
//!
//! What can only be named once it exists (a process) is made so that the kernel ends it with its parent until it is
//! written down: see `spawn`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};

use super::held_process::{boot_id, mark, start_ticks};
use super::own_folder::{Others, OwnFolder};
use super::sweep;

/// Name of the ledger in a run directory.
pub const FILE_NAME: &str = "started.jsonl";
/// Longest ledger that is read: far beyond what a run writes.
const MAX_LEDGER_BYTES: u64 = 64 * 1024 * 1024;

/// Something that must be undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Thing {
    /// A process and its process group: to be killed. Number and start time together name it, its environment says for
    /// which folder it was started.
    Process {
        /// Process number; also its group's when it leads one.
        pid: u32,
        /// Field 22 of `/proc/PID/stat`.
        start_ticks: u64,
        /// `/proc/sys/kernel/random/boot_id`: start times mean nothing after a reboot.
        boot_id: String,
    },
    /// A container: to be deleted by force.
    Container {
        /// The OCI runtime. Only the last part of it is used, to look it up again.
        runtime: PathBuf,
        /// Its `--root`.
        root: PathBuf,
        /// Name of the container.
        id: String,
    },
    /// A directory with all that is in it.
    Directory {
        /// Absolute path, in the run directory or a `bulkhead-…` folder of the temporary directory or of `/dev/shm`.
        path: PathBuf,
    },
    /// An empty cgroup directory.
    Cgroup {
        /// Absolute path below `/sys/fs/cgroup`, with `bulkhead` in its last name.
        path: PathBuf,
    },
    /// A loop device; the kernel detaches it by itself when its last user is gone.
    LoopDevice {
        /// `/dev/loopN`.
        path: PathBuf,
        /// The file it lies on, under the same rule as directories: a loop device on any other is left alone.
        image: PathBuf,
    },
    /// A mount point.
    Mount {
        /// Absolute path, under the same rule as directories.
        path: PathBuf,
    },
}

impl Thing {
    /// The process `pid` as it runs now; `None` when there is none.
    pub fn process(pid: u32) -> Option<Self> {
        let start_ticks = start_ticks(pid)?;
        Some(Self::Process { pid, start_ticks, boot_id: boot_id() })
    }
}

/// Names one record of a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "what was recorded is to be marked as undone later"]
pub struct Ticket(u64);

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Record { ticket: u64, thing: Thing },
    Undone { undone: u64 },
}

/// The open ledger of a run directory. Clones write to the same file.
#[derive(Debug, Clone)]
pub struct Ledger {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    dir: OwnFolder,
    file: Mutex<Lines>,
    next: AtomicU64,
}

/// The file, and whether it ends with a line that was cut off.
#[derive(Debug)]
struct Lines {
    file: File,
    is_cut: bool,
}

impl Lines {
    /// Adds a line, or nothing: a full disk may take the half of it. What cannot be taken back is ended by the next line.
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let before = self.file.metadata()?.len();
        let end: &[u8] = if self.is_cut { b"\n" } else { b"" };
        let written = self.file.write_all(&[end, line, b"\n"].concat());
        self.is_cut = match &written {
            Ok(()) => false,
            Err(_) => self.file.set_len(before).is_err() || self.is_cut,
        };
        written
    }
}

impl Ledger {
    /// Opens, or begins, the ledger of a run directory.
    ///
    /// # Errors
    /// When the directory is missing or not ours alone, or its ledger cannot be read or written.
    pub fn open(dir: &Path) -> io::Result<Self> {
        let dir = OwnFolder::open(dir, Others::MayLook)?;
        let next = entries(&dir)?.last_ticket.map_or(0, |last| last.saturating_add(1));
        let file = dir.file(FILE_NAME, OFlag::O_CREAT | OFlag::O_WRONLY | OFlag::O_APPEND)?;
        // A line that a crash cut off must not swallow the next one. Empty lines are skipped on reading.
        let mut lines = Lines { file, is_cut: true };
        lines.append(b"")?;
        Ok(Self { shared: Arc::new(Shared { dir, file: Mutex::new(lines), next: AtomicU64::new(next) }) })
    }

    /// The run directory; what is made below it may be removed by a sweep.
    pub fn dir(&self) -> &Path {
        self.shared.dir.path()
    }

    /// Removes something below the run directory, following no link; false when there is nothing.
    ///
    /// # Errors
    /// It does not lie there, or cannot be removed.
    pub fn remove(&self, path: &Path) -> io::Result<bool> {
        self.shared.dir.remove(path.strip_prefix(self.dir()).map_err(io::Error::other)?)
    }

    /// Has the command say in its environment that it is started for this folder: a sweep ends nothing else.
    pub fn mark(&self, command: &mut Command) {
        mark(command, self.dir());
    }

    /// Records a thing. Make it only when this succeeded.
    ///
    /// # Errors
    /// When the line could not be written; then the thing must not be made.
    pub fn record(&self, thing: Thing) -> io::Result<Ticket> {
        let ticket = self.shared.next.fetch_add(1, Ordering::SeqCst);
        self.append(&Line::Record { ticket, thing })?;
        Ok(Ticket(ticket))
    }

    /// Marks a thing as undone. When this cannot be written a later sweep finds it gone, which is harmless.
    pub fn undone(&self, ticket: Ticket) {
        let _ = self.append(&Line::Undone { undone: ticket.0 });
    }

    fn append(&self, line: &Line) -> io::Result<()> {
        let text = serde_json::to_vec(line)?;
        self.shared.file.lock().unwrap_or_else(PoisonError::into_inner).append(&text)
    }
}

/// What a ledger file says.
#[derive(Debug, Default)]
struct Entries {
    outstanding: BTreeMap<u64, Thing>,
    last_ticket: Option<u64>,
}

fn entries(dir: &OwnFolder) -> io::Result<Entries> {
    match dir.file(FILE_NAME, OFlag::O_RDONLY) {
        Ok(file) => entries_of(&file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Entries::default()),
        Err(error) => Err(error),
    }
}

fn entries_of(file: &File) -> io::Result<Entries> {
    let mut entries = Entries::default();
    for line in BufReader::new(file.take(MAX_LEDGER_BYTES)).split(b'\n') {
        match serde_json::from_slice(&line?) {
            Ok(Line::Record { ticket, thing }) => {
                entries.last_ticket = entries.last_ticket.max(Some(ticket));
                entries.outstanding.insert(ticket, thing);
            }
            Ok(Line::Undone { undone }) => {
                entries.outstanding.remove(&undone);
            }
            // Empty, or cut off by a crash in the middle of writing: then the thing was not made yet.
            Err(_) => {}
        }
    }
    Ok(entries)
}

/// Undoes whatever a ledger still lists, latest first, and says what was done. Safe to call at any time and again.
/// The owner of the run directory must be dead or must be the caller.
pub fn sweep(dir: &Path) -> Vec<String> {
    match OwnFolder::open(dir, Others::MayLook) {
        Ok(dir) => sweep_open(&dir),
        Err(error) => vec![format!("cannot sweep {}: {error}", dir.display())],
    }
}

/// The same for a folder that is open.
pub fn sweep_open(dir: &OwnFolder) -> Vec<String> {
    swept(dir, list_in(dir))
}

/// The same with its ledger, opened when it was there: whoever has removed that since has not undone what it lists.
pub fn sweep_listed(dir: &OwnFolder, list: &File) -> Vec<String> {
    swept(dir, list.try_clone().map(Some))
}

/// The ledger of an open folder, for [`sweep_listed`]; none where there is none.
///
/// # Errors
/// It is not ours alone.
pub fn list_in(dir: &OwnFolder) -> io::Result<Option<File>> {
    match dir.file(FILE_NAME, OFlag::O_RDWR | OFlag::O_APPEND) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn swept(dir: &OwnFolder, list: io::Result<Option<File>>) -> Vec<String> {
    let mut said = super::tracing::remove_left_behind();
    match list.and_then(|list| list.map_or(Ok(Vec::new()), |file| undo_all(dir, file))) {
        Ok(undone) => said.extend(undone),
        Err(error) => said.push(format!("cannot sweep {}: {error}", dir.path().display())),
    }
    said
}

fn undo_all(dir: &OwnFolder, mut file: File) -> io::Result<Vec<String>> {
    // The reaper and a resume may come at the same time.
    file.lock()?;
    file.rewind()?;
    let listed = entries_of(&file)?;
    let mut said = Vec::new();
    let mut lines = Lines { file, is_cut: true };
    for (ticket, thing) in listed.outstanding.into_iter().rev() {
        match sweep::undo(dir, &thing) {
            Ok(what) => {
                said.extend(what);
                // On a full disk the rest is undone all the same; the next sweep finds this one gone.
                let _ = lines.append(&serde_json::to_vec(&Line::Undone { undone: ticket })?);
            }
            Err(why) => said.push(why.into()),
        }
    }
    lines.file.unlock()?;
    Ok(said)
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    fn sleeper(ledger: &Ledger) -> std::process::Child {
        let mut command = Command::new("sleep");
        ledger.mark(&mut command);
        command.arg("1000").stdout(Stdio::null()).spawn().expect("sleep runs")
    }

    #[test]
    fn what_is_recorded_is_undone_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let ledger = Ledger::open(dir.path()).expect("a ledger");
        let inside = ledger.dir().join("made");
        let kept = ledger.dir().join("kept");
        let ticket = ledger.record(Thing::Directory { path: kept.clone() }).expect("written");
        std::fs::create_dir_all(&kept).expect("made");
        let _ = ledger.record(Thing::Directory { path: inside.clone() }).expect("written");
        std::fs::create_dir_all(inside.join("deep")).expect("made");
        let mut child = sleeper(&ledger);
        let _ = ledger.record(Thing::process(child.id()).expect("runs")).expect("written");
        ledger.undone(ticket);

        let said = sweep(dir.path());
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(!inside.exists());
        assert!(kept.exists());
        assert!(!child.wait().expect("killed").success());
        assert_eq!(sweep(dir.path()), Vec::<String>::new(), "nothing is left to do");
    }

    #[test]
    fn a_line_cut_off_by_a_crash_is_skipped_and_swallows_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join(FILE_NAME), "{\"ticket\":3,\"thing\":{\"ki").expect("written");
        let ledger = Ledger::open(dir.path()).expect("a ledger");
        let path = ledger.dir().join("made");
        std::fs::create_dir(&path).expect("made");
        let _ = ledger.record(Thing::Directory { path: path.clone() }).expect("written");
        assert_eq!(sweep(dir.path()).len(), 1);
        assert!(!path.exists());
    }

    #[test]
    fn a_process_that_only_has_the_same_number_is_left_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let ledger = Ledger::open(dir.path()).expect("a ledger");
        let mut child = sleeper(&ledger);
        let Some(Thing::Process { pid, start_ticks, boot_id }) = Thing::process(child.id()) else {
            panic!("it runs")
        };
        let other = Thing::Process { pid, start_ticks: start_ticks + 1, boot_id };
        let _ = ledger.record(other).expect("written");
        let other = Thing::Process { pid, start_ticks, boot_id: "another boot".to_owned() };
        let _ = ledger.record(other).expect("written");
        assert_eq!(sweep(dir.path()), Vec::<String>::new());
        assert!(child.try_wait().expect("asked").is_none(), "still running");
        child.kill().expect("killed");
        child.wait().expect("reaped");
    }

    #[test]
    fn paths_outside_are_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let outside = tempfile::tempdir().expect("another directory");
        let ledger = Ledger::open(dir.path()).expect("a ledger");
        let link = ledger.dir().join("link");
        std::os::unix::fs::symlink(outside.path(), &link).expect("a link");
        let paths = [
            outside.path().to_owned(),
            ledger.dir().to_owned(),
            ledger.dir().join("../x"),
            link.join("x"),
            PathBuf::from("/"),
            PathBuf::from("relative"),
        ];
        for path in paths {
            let _ = ledger.record(Thing::Directory { path }).expect("written");
        }
        std::fs::create_dir(outside.path().join("x")).expect("made");
        let said = sweep(dir.path());
        assert_eq!(said.len(), 6, "{said:?}");
        assert!(said.iter().all(|line| line.contains("outside")), "{said:?}");
        assert!(outside.path().join("x").exists());
    }
}
