//! `journal.jsonl`: append-only, one line per finished measurement, on the disk before the next one begins.
//!
//! ```text
//!  line 1   Header          again at each resume: was the host quiet then?
//!  line 2   Platforms       again when an instance showed what it is
//!  line 3   Predicted       again at each resume; Took at the end of a session that was not killed
//!  line 4…  Measurement     one write, one fdatasync
//!  last     cut off by a crash? dropped on reading, truncated before the next append
//! ```
//!
//! A line is appended only after it was read back from its own bytes, so nothing is ever written that a later reader
//! would have to refuse. When a write fails half way (disk full), the file is cut back to its last whole line.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::model::journal::{Cell, Header, JournalLine, Measurement, PlatformState};
use crate::model::prediction::SessionTime;
use crate::model::{READABLE_SCHEMAS, SCHEMA_VERSION, is_readable_schema};

/// Longest line that is written or read. A fixed-work-quantum report of a million samples has 10 MB.
pub const MAX_LINE_BYTES: usize = 64 << 20;

/// Why a journal cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Reading or opening failed.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The journal.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Writing failed; what was there before is whole.
    #[error("cannot write to {}: {source}; every measurement written before is kept: {}", path.display(), advice(source))]
    Write {
        /// The journal.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A whole line that is no journal line.
    #[error("{} is damaged in line {line}: {reason}; restore the file or start a new run", path.display())]
    Corrupt {
        /// The journal.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// Written by a program with other formats.
    #[error("{} was written by schema {got}, this program reads {READABLE_SCHEMAS}: use the {} program", path.display(), age(*got))]
    Version {
        /// The file.
        path: PathBuf,
        /// Its schema version.
        got: u32,
    },
    /// This line would not be readable; nothing was written.
    #[error("a journal line of {bytes} bytes cannot be written: {reason}")]
    Unwritable {
        /// Its length.
        bytes: usize,
        /// What is wrong with it.
        reason: String,
    },
}

fn advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "free some space, then continue with --resume"
        }
        _ => "continue with --resume when this is mended",
    }
}

/// Which program reads a schema that this one does not.
pub(super) const fn age(got: u32) -> &'static str {
    if got > SCHEMA_VERSION { "newer" } else { "older" }
}

/// What a journal holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Contents {
    /// One per session: the first start, then each resume. Empty when the run was killed before it wrote any.
    pub headers: Vec<Header>,
    /// The latest survey; none when the run was killed before it had one.
    pub platforms: Option<Vec<PlatformState>>,
    /// How long each session was said to take, and took.
    pub sessions: Vec<SessionTime>,
    /// Every finished measurement, in the order they were made.
    pub measurements: Vec<Measurement>,
    /// Length of all whole lines.
    pub whole_bytes: u64,
    /// Length of the last line when it was cut off.
    pub cut_bytes: u64,
}

/// Reads a journal; a missing one is empty.
///
/// # Errors
/// When a whole line is damaged or of another version. A last line that was cut off is none.
pub fn read(path: &Path) -> Result<Contents, JournalError> {
    match File::open(path) {
        Ok(file) => read_from(path, file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Contents::default()),
        Err(source) => Err(JournalError::Read { path: path.to_owned(), source }),
    }
}

/// Reads a journal from anything; `path` is for messages.
///
/// # Errors
/// As [`read`].
pub fn read_from(path: &Path, source: impl Read) -> Result<Contents, JournalError> {
    let mut reader = BufReader::with_capacity(1 << 16, source);
    let mut parser = Parser { path, contents: Contents::default(), line: 0, seen: BTreeMap::new() };
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let limit = MAX_LINE_BYTES as u64 + 1;
        let got = reader
            .by_ref()
            .take(limit)
            .read_until(b'\n', &mut bytes)
            .map_err(|source| JournalError::Read { path: path.to_owned(), source })?;
        parser.line += 1;
        if bytes.last() == Some(&b'\n') {
            parser.accept(&bytes)?;
            parser.contents.whole_bytes += got as u64;
        } else if bytes.len() > MAX_LINE_BYTES {
            return Err(parser.corrupt(format!("it has more than {MAX_LINE_BYTES} bytes")));
        } else {
            parser.contents.cut_bytes = got as u64;
            return Ok(parser.contents);
        }
    }
}

struct Parser<'a> {
    path: &'a Path,
    contents: Contents,
    line: u64,
    seen: BTreeMap<(Cell, u32), u64>,
}

/// The part of a header that every version of it has.
#[derive(Deserialize)]
struct VersionOnly {
    schema_version: u32,
}

impl Parser<'_> {
    fn corrupt(&self, reason: String) -> JournalError {
        JournalError::Corrupt { path: self.path.to_owned(), line: self.line, reason }
    }

    fn accept(&mut self, bytes: &[u8]) -> Result<(), JournalError> {
        let parsed = serde_json::from_slice::<JournalLine>(bytes);
        // A header of another version need not parse as ours: look at its version before complaining.
        if !matches!(&parsed, Ok(line) if !matches!(line, JournalLine::Header(_)))
            && let Ok(VersionOnly { schema_version: got }) = serde_json::from_slice(bytes)
            && !is_readable_schema(got)
        {
            return Err(JournalError::Version { path: self.path.to_owned(), got });
        }
        let line = parsed.map_err(|error| self.corrupt(error.to_string()))?;
        if self.contents.headers.is_empty() && !matches!(line, JournalLine::Header(_)) {
            return Err(self.corrupt("the first line must be the header".to_owned()));
        }
        match line {
            JournalLine::Header(header) => self.contents.headers.push(*header),
            JournalLine::Platforms { platforms } => self.contents.platforms = Some(platforms),
            JournalLine::Predicted { predicted } => {
                self.contents.sessions.push(SessionTime { predicted, took_ns: None });
            }
            JournalLine::Took { took_ns } => {
                if let Some(session) = self.contents.sessions.last_mut() {
                    session.took_ns = Some(took_ns);
                }
            }
            JournalLine::Measurement(measurement) => {
                let key = (measurement.cell.clone(), measurement.round);
                if let Some(before) = self.seen.insert(key, self.line) {
                    return Err(self.corrupt(format!("it repeats the measurement of line {before}")));
                }
                self.contents.measurements.push(*measurement);
            }
        }
        Ok(())
    }
}

/// A [`JournalLine`] that borrows what it holds.
#[derive(Serialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
enum Borrowed<'a> {
    Measurement(&'a Measurement),
}

/// A journal open for appending.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    whole_bytes: u64,
}

impl Journal {
    /// Opens or creates the journal, drops a line that was cut off, and returns what it holds.
    ///
    /// # Errors
    /// As [`read`], and when it cannot be written.
    pub fn open(path: &Path) -> Result<(Self, Contents), JournalError> {
        let contents = read(path)?;
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
            .map_err(|source| JournalError::Write { path: path.to_owned(), source })?;
        let mut journal = Self { path: path.to_owned(), file, whole_bytes: contents.whole_bytes };
        journal.cut_back().map_err(|source| journal.failed(source))?;
        Ok((journal, contents))
    }

    /// Appends one line; it is on the disk when this returns.
    ///
    /// # Errors
    /// When nothing was written: the line would not read back, or the system refused (disk full).
    pub fn append(&mut self, line: &JournalLine) -> Result<(), JournalError> {
        self.append_serialized(line)
    }

    /// Appends a measurement; it is on the disk when this returns.
    ///
    /// # Errors
    /// As [`Journal::append`].
    pub fn append_measurement(&mut self, measurement: &Measurement) -> Result<(), JournalError> {
        self.append_serialized(&Borrowed::Measurement(measurement))
    }

    fn append_serialized(&mut self, line: &impl Serialize) -> Result<(), JournalError> {
        let mut bytes = serde_json::to_vec(line)
            .map_err(|error| JournalError::Unwritable { bytes: 0, reason: error.to_string() })?;
        bytes.push(b'\n');
        check_readable(&bytes)?;
        if let Err(source) = self.file.write_all(&bytes).and_then(|()| self.file.sync_data()) {
            // Best effort: the reader drops a cut line anyway.
            let _ = self.cut_back();
            return Err(self.failed(source));
        }
        self.whole_bytes += bytes.len() as u64;
        Ok(())
    }

    fn cut_back(&mut self) -> io::Result<()> {
        self.file.set_len(self.whole_bytes)?;
        self.file.seek(SeekFrom::Start(self.whole_bytes))?;
        self.file.sync_data()
    }

    fn failed(&self, source: io::Error) -> JournalError {
        JournalError::Write { path: self.path.clone(), source }
    }
}

/// Refuses what a reader would refuse: lines beyond the limit, and numbers that JSON cannot hold (infinity).
fn check_readable(bytes: &[u8]) -> Result<(), JournalError> {
    let unwritable = |reason| Err(JournalError::Unwritable { bytes: bytes.len(), reason });
    if bytes.len() > MAX_LINE_BYTES {
        return unwritable(format!("at most {MAX_LINE_BYTES} are allowed"));
    }
    match serde_json::from_slice::<JournalLine>(bytes) {
        Ok(_) => Ok(()),
        Err(error) => unwritable(format!("it would not read back: {error}")),
    }
}
