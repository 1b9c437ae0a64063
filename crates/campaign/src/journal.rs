//! `journal.jsonl`: append-only, one line per finished measurement, on the disk before the next one begins.
//!
//! ```text
//!  line 1   Header          again at each resume: was the host quiet then?
//!  line 2   Platforms       again when an instance showed what it is
//!  line 3   Predicted       again at each resume; Took at the end of a session that was not killed
//!  line 4…  Measurement     one write, one fdatasync
//!  last     cut off by a crash? dropped on reading, truncated before the next append
//!  any      garbled? that line is lost, and told; a resume measures anew what it held
//! ```
//!
//! A line is appended only after it was read back from its own bytes, so nothing is ever written that a later reader
//! would have to refuse. When a write fails half way (disk full), the file is cut back to its last whole line.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};

use model::journal::{Cell, Header, JournalLine, Measurement, PlatformState, VerdictLook};
use model::prediction::SessionTime;
use model::results::LostLine;
use model::{READABLE_SCHEMAS, SCHEMA_VERSION, is_readable_schema};
use platforms::own_folder::{Others, OwnFolder, file_to_read};

/// Longest line that is written or read. A fixed-work-quantum report of a million samples has 10 MB.
pub const MAX_LINE_BYTES: usize = 64 << 20;
/// Most lost lines that are told.
const MOST_LOST: usize = 1000;
/// Rounds beyond any run's: a thousand are asked for at most, and more of what decides verdicts. Planning looks at each of them.
const MOST_ROUNDS: u32 = 100_000;

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
    /// Every look at verdicts, in order.
    pub looks: Vec<VerdictLook>,
    /// Every finished measurement, in the order they were made.
    pub measurements: Vec<Measurement>,
    /// Whole lines that cannot be read.
    pub lost: Vec<LostLine>,
    /// Length of all whole lines.
    pub whole_bytes: u64,
    /// Length of the last line when it was cut off.
    pub cut_bytes: u64,
}

/// Reads a journal; a missing one is empty.
///
/// # Errors
/// When a header is of another version. Lines that cannot be read are none of the errors, but told in what is returned.
pub fn read(path: &Path) -> Result<Contents, JournalError> {
    match file_to_read(path) {
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
            continue;
        }
        let (length, is_whole) = if bytes.len() > MAX_LINE_BYTES {
            let (rest, is_whole) = skip_line(&mut reader)
                .map_err(|source| JournalError::Read { path: path.to_owned(), source })?;
            (got as u64 + rest, is_whole)
        } else {
            (got as u64, false)
        };
        if !is_whole {
            parser.contents.cut_bytes = length;
            return Ok(parser.contents);
        }
        parser.lose(format!("it has more than {MAX_LINE_BYTES} bytes"));
        parser.contents.whole_bytes += length;
    }
}

/// Reads on to the end of a line, and keeps nothing of it; how long that was, and whether it has an end.
fn skip_line(reader: &mut impl BufRead) -> io::Result<(u64, bool)> {
    let mut length = 0;
    loop {
        let piece = reader.fill_buf()?;
        let end = piece.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(piece.len(), |end| end + 1);
        let is_over = piece.is_empty();
        reader.consume(taken);
        length += taken as u64;
        if end.is_some() || is_over {
            return Ok((length, end.is_some()));
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
    fn lose(&mut self, reason: String) {
        // More are counted by nobody: such a file is no journal.
        if self.contents.lost.len() < MOST_LOST {
            self.contents.lost.push(LostLine { line: self.line, reason });
        }
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
        let line = match parsed {
            Ok(line) => line,
            Err(error) => {
                self.lose(error.to_string());
                return Ok(());
            }
        };
        match line {
            JournalLine::Header(header) => self.contents.headers.push(*header),
            JournalLine::Platforms { platforms } => self.contents.platforms = Some(platforms),
            JournalLine::Predicted { predicted } => {
                self.contents.sessions.push(SessionTime { predicted, took_ns: None, is_done: None });
            }
            JournalLine::Took { took_ns, is_done } => {
                if let Some(session) = self.contents.sessions.last_mut() {
                    (session.took_ns, session.is_done) = (Some(took_ns), is_done);
                }
            }
            JournalLine::Look(look) if look.rounds.iter().any(|rounds| rounds.until_round > MOST_ROUNDS) => {
                self.lose(format!("it asks for rounds beyond {MOST_ROUNDS}, which no run makes"));
            }
            JournalLine::Look(look) => self.contents.looks.push(look),
            JournalLine::Measurement(measurement) if measurement.round >= MOST_ROUNDS => {
                self.lose(format!("it is of round {}, and no run makes {MOST_ROUNDS}", measurement.round));
            }
            JournalLine::Measurement(measurement) => {
                let key = (measurement.cell.clone(), measurement.round);
                if let Some(before) = self.seen.get(&key) {
                    self.lose(format!("it repeats the measurement of line {before}, which counts"));
                    return Ok(());
                }
                self.seen.insert(key, self.line);
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
    is_whole: bool,
}

impl Journal {
    /// Opens or creates the journal, drops a line that was cut off, and returns what it holds.
    ///
    /// # Errors
    /// As [`read`], and when it cannot be written.
    pub fn open(path: &Path) -> Result<(Self, Contents), JournalError> {
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = OwnFolder::open(folder, Others::MayLook)
            .map_err(|source| JournalError::Read { path: path.to_owned(), source })?;
        Self::open_in(&folder, path)
    }

    /// The same in a folder that is open; `path` is for messages.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn open_in(folder: &OwnFolder, path: &Path) -> Result<(Self, Contents), JournalError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let file = folder
            .file(&name, OFlag::O_CREAT | OFlag::O_RDWR)
            .map_err(|source| JournalError::Write { path: path.to_owned(), source })?;
        let contents = read_from(path, &file)?;
        let mut journal =
            Self { path: path.to_owned(), file, whole_bytes: contents.whole_bytes, is_whole: true };
        // The name of a new file survives a crash of the machine only when its folder is on the disk, too.
        let ready = journal.cut_back().and_then(|()| folder.sync());
        ready.map_err(|source| journal.failed(source))?;
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
        // What the last attempt left could not be taken back then.
        if !self.is_whole {
            self.cut_back().map_err(|source| self.failed(source))?;
        }
        if let Err(source) = self.file.write_all(&bytes).and_then(|()| self.file.sync_data()) {
            // When this fails as well, it is done before the next line, or by the next reader.
            self.is_whole = false;
            let _ = self.cut_back();
            return Err(self.failed(source));
        }
        self.whole_bytes += bytes.len() as u64;
        Ok(())
    }

    fn cut_back(&mut self) -> io::Result<()> {
        self.file.set_len(self.whole_bytes)?;
        self.file.seek(SeekFrom::Start(self.whole_bytes))?;
        self.file.sync_data()?;
        self.is_whole = true;
        Ok(())
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
