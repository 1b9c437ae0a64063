//! The directory of a run: created, locked, resumed, and tidied up.
//!
//! ```text
//!  DIR/experiment.toml   as resolved: seed, baseline, platforms
//!      classes.toml      what platforms are held against; only when it is not what is shipped
//!      journal.jsonl     one line per finished measurement
//!      results.json      ┐ written whole or not at all: NAME.partial, fsync, rename
//!      report.html       ┘
//!      started.jsonl     what runs outside this process; gone after a clean end
//!      scratch/          files of instances; gone after a clean end
//! ```
//!
//! Made 0700, its files 0600: they tell of the host, and what instances wrote. It is held by a descriptor, through which
//! everything in it is opened, replaced and removed.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use super::journal::{self, Contents, Journal, JournalError, age};
use super::rundir_lock::{DirLock, LockError, lock};
use model::experiment::{Experiment, ExperimentError, MAX_FILE_BYTES};
use model::{READABLE_SCHEMAS, is_readable_schema};
use platforms::ledger::{FILE_NAME, sweep_open};
use platforms::own_folder::{Others, OwnFolder, file_to_read, folder_of_anybody, held_name};

/// The experiment as resolved.
pub const EXPERIMENT_FILE: &str = "experiment.toml";
/// The journal.
pub const JOURNAL_FILE: &str = "journal.jsonl";
/// Everything computed from it.
pub const RESULTS_FILE: &str = "results.json";
/// The report for people.
pub const REPORT_FILE: &str = "report.html";
/// The classes of work that platforms are held against, when they are not the shipped ones.
pub const CLASSES_FILE: &str = "classes.toml";
/// Files of instances.
pub const SCRATCH_DIR: &str = "scratch";
/// Longest results that are read.
const MAX_RESULTS_BYTES: u64 = 1 << 30;
const PARTIAL: &str = ".partial";
/// What is written whole or not at all.
const PUBLISHED: [&str; 4] = [EXPERIMENT_FILE, CLASSES_FILE, RESULTS_FILE, REPORT_FILE];
/// What is believed, so that it must be ours.
const OWN_FILES: [&str; 6] =
    [EXPERIMENT_FILE, CLASSES_FILE, RESULTS_FILE, REPORT_FILE, JOURNAL_FILE, FILE_NAME];

/// Why a run directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// There is something in it.
    #[error("{} already holds a run: use --resume {}, or choose another --out", .0.display(), .0.display())]
    HoldsRun(PathBuf),
    /// There is something else in it.
    #[error("{} is not empty (it has \"{found}\"): choose another --out", dir.display())]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
        /// A file in it.
        found: String,
    },
    /// Nothing to resume.
    #[error("{} holds no run ({EXPERIMENT_FILE} is missing): start one with --out {}", .0.display(), .0.display())]
    NoRun(PathBuf),
    /// Another program uses it now.
    #[error("{} is being used by another run{}: wait for it, or choose another --out", dir.display(), pid.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// The other process, when the system shows it.
        pid: Option<u32>,
    },
    /// Somebody else could have written what is in it.
    #[error("{0}")]
    NotOurs(String),
    /// The system refused.
    #[error("cannot {action} {}: {source}; choose another --out, or mend this one", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// `experiment.toml` cannot be used.
    #[error("{}: {source}", path.display())]
    Experiment {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: ExperimentError,
    },
    /// A file that cannot be what it is named after.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Results of another version.
    #[error("{} was written by schema {got}, this program reads {READABLE_SCHEMAS}: use the {} program", path.display(), age(*got))]
    Version {
        /// The file.
        path: PathBuf,
        /// Its schema version.
        got: u32,
    },
}

/// Wraps what the system said with what was tried.
pub(super) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RunDirError {
    let path = path.to_owned();
    move |source| RunDirError::Io { action, path, source }
}

/// A run directory in use; no other program can use it until this is dropped.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    folder: OwnFolder,
    experiment: Experiment,
    swept: Option<Vec<String>>,
    _lock: DirLock,
}

impl RunDir {
    /// Makes a new run directory; `path` must not exist or be empty. The experiment is kept as resolved: with a seed
    /// (`fallback_seed` when it has none) and its baseline by name.
    ///
    /// # Errors
    /// When the directory is used, not empty or not writable, or the experiment is contradictory.
    pub fn create(path: &Path, experiment: &Experiment, fallback_seed: u64) -> Result<Self, RunDirError> {
        let mut experiment = experiment.clone();
        // TOML has no integers beyond 2^63.
        experiment.seed = Some(experiment.seed.unwrap_or(fallback_seed >> 1));
        experiment.baseline = Some(experiment.baseline_label().to_owned());
        let at = path.join(EXPERIMENT_FILE);
        experiment.check().map_err(|source| RunDirError::Experiment { path: at.clone(), source })?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io_error("create", path))?;
        let file = folder_of_anybody(path).map_err(io_error("create", path))?;
        let lock = locked(path, &file)?;
        check_empty(path, &file)?;
        // One that was there is ours alone from now on: nobody puts anything into it any more.
        let folder = OwnFolder::claim(file, Others::MayLook).map_err(not_ours("use", path))?;
        let file = folder.file_of_itself().map_err(io_error("read", path))?;
        check_empty(path, &file)?;
        remove_partials(path, &folder)?;
        sync_parent(&folder).map_err(io_error("write", path))?;
        let text = experiment.to_toml().map_err(|error| RunDirError::Damaged {
            path: at.clone(),
            reason: format!("the experiment cannot be written as TOML: {error}"),
        })?;
        let dir = Self { path: path.to_owned(), folder, experiment, swept: None, _lock: lock };
        dir.publish(EXPERIMENT_FILE, text.as_bytes())?;
        Ok(dir)
    }

    /// Opens a run directory to go on where it was interrupted; what a killed run left running is ended first. Directory
    /// and files must be ours and writable by nobody else: because of what they say programs are started, and things
    /// ended and removed.
    ///
    /// # Errors
    /// When there is no run, somebody else could have written it, another program uses it, or its files are damaged or of
    /// another version.
    pub fn resume(path: &Path) -> Result<Self, RunDirError> {
        if !path.join(EXPERIMENT_FILE).is_file() {
            return Err(RunDirError::NoRun(path.to_owned()));
        }
        let folder = OwnFolder::open(path, Others::MayLook).map_err(not_ours("use", path))?;
        folder.check_files(&OWN_FILES).map_err(not_ours("use", path))?;
        let file = folder.file_of_itself().map_err(io_error("lock", path))?;
        let lock = locked(path, &file)?;
        let file = folder.file(EXPERIMENT_FILE, OFlag::O_RDONLY);
        let experiment = experiment_in(file, path)?;
        check_results_version(&folder.held().join(RESULTS_FILE))?;
        remove_partials(path, &folder)?;
        let swept = Some(sweep_open(&folder));
        Ok(Self { path: path.to_owned(), folder, experiment, swept, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The experiment as resolved.
    pub const fn experiment(&self) -> &Experiment {
        &self.experiment
    }

    /// The seed of the run.
    pub fn seed(&self) -> u64 {
        self.experiment.seed.unwrap_or_default()
    }

    /// Whether this continues a run.
    pub const fn is_resumed(&self) -> bool {
        self.swept.is_some()
    }

    /// What a killed run had left behind and the resume removed.
    pub fn swept(&self) -> &[String] {
        self.swept.as_deref().unwrap_or_default()
    }

    /// Opens the journal for appending, and returns what it holds.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn open_journal(&self) -> Result<(Journal, Contents), JournalError> {
        Journal::open_in(&self.folder, &self.path.join(JOURNAL_FILE))
    }

    /// What the journal holds; a missing one is empty.
    ///
    /// # Errors
    /// As [`journal::read`].
    pub fn read_journal(&self) -> Result<Contents, JournalError> {
        let path = self.path.join(JOURNAL_FILE);
        match self.folder.file(JOURNAL_FILE, OFlag::O_RDONLY) {
            Ok(file) => journal::read_from(&path, file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Contents::default()),
            Err(source) => Err(JournalError::Read { path, source }),
        }
    }

    /// Files of instances; absolute, because a container's bundle and QEMU resolve it elsewhere.
    pub fn scratch(&self) -> PathBuf {
        let relative = self.path.join(SCRATCH_DIR);
        std::path::absolute(&relative).unwrap_or(relative)
    }

    /// Writes a file whole or not at all.
    ///
    /// # Errors
    /// When the system refuses; what was there before under that name is kept.
    pub fn publish(&self, name: &str, bytes: &[u8]) -> Result<(), RunDirError> {
        let target = self.path.join(name);
        let partial = format!("{name}{PARTIAL}");
        write_whole(&self.folder, &partial, name, bytes).map_err(|source| {
            let _ = self.folder.remove(Path::new(&partial));
            RunDirError::Io { action: "write", path: target, source }
        })
    }

    /// Empties the folder for files of instances.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn fresh_scratch(&self) -> Result<(), RunDirError> {
        self.remove_scratch()?;
        let made = fs::DirBuilder::new().mode(0o700).create(self.folder.held().join(SCRATCH_DIR));
        made.map_err(io_error("create", &self.scratch()))
    }

    /// Removes what only a running campaign needs: the folder for files of instances, and the ledger. The ledger stays
    /// when something in it could not be undone, so that a resume tries again.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn tidy(&self) -> Result<(), RunDirError> {
        let first = sweep_open(&self.folder);
        self.remove_scratch()?;
        if !first.is_empty() && !sweep_open(&self.folder).is_empty() {
            return Ok(());
        }
        let removed = self.folder.remove(Path::new(FILE_NAME));
        removed.map(drop).map_err(io_error("remove", &self.path.join(FILE_NAME)))
    }

    fn remove_scratch(&self) -> Result<(), RunDirError> {
        let removed = self.folder.remove(Path::new(SCRATCH_DIR));
        removed.map(drop).map_err(io_error("remove", &self.scratch()))
    }
}

/// What is not ours is told as it is; everything else with what was tried.
fn not_ours(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RunDirError {
    let path = path.to_owned();
    move |source| match source.kind() {
        io::ErrorKind::PermissionDenied => RunDirError::NotOurs(source.to_string()),
        _ => RunDirError::Io { action, path, source },
    }
}

fn write_whole(folder: &OwnFolder, partial: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    folder.remove(Path::new(partial))?;
    let mut file = folder.file(partial, OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(folder.held().join(partial), folder.held().join(name))?;
    folder.sync()
}

/// The directory's own name survives a crash of the machine. A parent that cannot be opened is left to the system.
fn sync_parent(folder: &OwnFolder) -> io::Result<()> {
    folder
        .path()
        .parent()
        .and_then(|parent| File::open(parent).ok())
        .map_or(Ok(()), |parent| parent.sync_all())
}

fn locked(path: &Path, folder: &File) -> Result<DirLock, RunDirError> {
    let file = folder.try_clone().map_err(io_error("lock", path))?;
    lock(file).map_err(|error| match error {
        LockError::Taken(pid) => RunDirError::InUse { dir: path.to_owned(), pid },
        LockError::Io(source) => RunDirError::Io { action: "lock", path: path.to_owned(), source },
    })
}

/// A directory is empty, too, when all it has is a file that a killed program never finished.
fn check_empty(path: &Path, folder: &File) -> Result<(), RunDirError> {
    let mut names: Vec<String> = names_in(path, folder)?;
    names.retain(|name| !PUBLISHED.iter().any(|whole| *name == format!("{whole}{PARTIAL}")));
    names.sort();
    if names.iter().any(|name| name == EXPERIMENT_FILE || name == JOURNAL_FILE || name == RESULTS_FILE) {
        return Err(RunDirError::HoldsRun(path.to_owned()));
    }
    match names.into_iter().next() {
        Some(found) => Err(RunDirError::NotEmpty { dir: path.to_owned(), found }),
        None => Ok(()),
    }
}

fn names_in(path: &Path, folder: &File) -> Result<Vec<String>, RunDirError> {
    let entries = fs::read_dir(held_name(folder)).map_err(io_error("read", path))?;
    entries
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<_>>()
        .map_err(io_error("read", path))
}

fn remove_partials(path: &Path, folder: &OwnFolder) -> Result<(), RunDirError> {
    for name in PUBLISHED {
        let partial = format!("{name}{PARTIAL}");
        folder.remove(Path::new(&partial)).map_err(io_error("remove", &path.join(&partial)))?;
    }
    Ok(())
}

/// Reads `experiment.toml` of a run directory, whoever's it is: for those who only look.
///
/// # Errors
/// When it is missing or cannot be used.
pub fn read_experiment(dir: &Path) -> Result<Experiment, RunDirError> {
    experiment_in(file_to_read(&dir.join(EXPERIMENT_FILE)), dir)
}

fn experiment_in(file: io::Result<File>, dir: &Path) -> Result<Experiment, RunDirError> {
    let path = dir.join(EXPERIMENT_FILE);
    let mut text = String::new();
    match file {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(RunDirError::NoRun(dir.to_owned()));
        }
        file => file
            .and_then(|file| file.take(MAX_FILE_BYTES as u64 + 1).read_to_string(&mut text))
            .map_err(io_error("read", &path))?,
    };
    Experiment::from_toml(&text).map_err(|source| RunDirError::Experiment { path, source })
}

/// The bytes of results, whose parser then is the journal's: one that reads from a file would be there twice.
///
/// # Errors
/// When the system refuses, or there are more than [`MAX_RESULTS_BYTES`].
pub(super) fn results_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file_to_read(path)?.take(MAX_RESULTS_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_RESULTS_BYTES {
        let words = format!("it is longer than the {MAX_RESULTS_BYTES} bytes that results may have");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, words));
    }
    Ok(bytes)
}

/// Refuses results of a version this program does not know; none at all are fine.
pub(super) fn check_results_version(path: &Path) -> Result<(), RunDirError> {
    #[derive(serde::Deserialize)]
    struct VersionOnly {
        schema_version: u32,
    }
    let bytes = match results_bytes(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        bytes => bytes.map_err(io_error("read", path))?,
    };
    let path = path.to_owned();
    let found: Result<VersionOnly, _> = serde_json::from_slice(&bytes);
    match found {
        Ok(VersionOnly { schema_version }) if is_readable_schema(schema_version) => Ok(()),
        Ok(VersionOnly { schema_version: got }) => Err(RunDirError::Version { path, got }),
        Err(error) => Err(RunDirError::Damaged { path, reason: error.to_string() }),
    }
}
