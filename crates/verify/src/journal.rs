//! The journal of a folder of evidence: a line for each thing seen, on disk before the next is looked at. Every run appends.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;

use model::verification::{LONGEST_LINE, VERIFICATION_VERSION, VerifyLine};
use units::Reason;

use crate::conclude::VerifyRun;

/// Longest journal.
pub const MOST_BYTES: u64 = 512 << 20;
/// Name of the file.
pub const JOURNAL_FILE: &str = "journal.jsonl";

/// An open journal.
#[derive(Debug)]
pub struct VerifyJournal(File);

impl VerifyJournal {
    /// Opens it at its end, for us alone as long as we have it; a line that was cut off by a crash is ended.
    ///
    /// # Errors
    /// It cannot be written, or another verification does so.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let path = folder.join(JOURNAL_FILE);
        let mut options = OpenOptions::new();
        // A link would lead to a file that is no journal of ours.
        options.read(true).append(true).create(true).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
        let mut file = options.open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => io::Error::other(
                "another verification writes to it: wait for its end, or name another folder",
            ),
            TryLockError::Error(error) => error,
        })?;
        let length = file.metadata()?.len();
        let mut last = [b'\n'];
        if length > 0 {
            file.read_exact_at(&mut last, length - 1)?;
        }
        if last != *b"\n" {
            file.write_all(b"\n")?;
        }
        Ok(Self(file))
    }

    /// Writes a line down; it is on disk when this returns.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn append(&mut self, line: &VerifyLine) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        let length = self.0.metadata()?.len().saturating_add(bytes.len() as u64);
        if length > MOST_BYTES {
            return Err(io::Error::other(format!(
                "it would be longer than {} MiB, which nobody reads: begin another folder (--out)",
                MOST_BYTES >> 20
            )));
        }
        self.0.write_all(&bytes)?;
        self.0.sync_data()
    }
}

/// Opens a file that is one, of so many bytes at most: nothing waits for a pipe's other end, and no device is opened, which may do
/// something.
///
/// # Errors
/// It is none, it is longer than that, or it cannot be read.
pub fn open_plain(path: &Path, most_bytes: u64) -> io::Result<File> {
    let is_plain = |about: fs::Metadata| about.is_file() && about.len() <= most_bytes;
    let refused = || {
        let why = format!("it is no file, or longer than {} MiB", most_bytes >> 20);
        io::Error::new(io::ErrorKind::InvalidData, why)
    };
    if !is_plain(fs::metadata(path)?) {
        return Err(refused());
    }
    // It may be another one by now.
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    if is_plain(file.metadata()?) { Ok(file) } else { Err(refused()) }
}

/// The set of which a folder is evidence, as its first line says.
pub fn first_set(folder: &Path) -> Option<String> {
    let file = open_plain(&folder.join(JOURNAL_FILE), MOST_BYTES).ok()?;
    let mut line = Vec::new();
    let most = u64::try_from(LONGEST_LINE).unwrap_or(u64::MAX);
    BufReader::new(file).take(most).read_until(b'\n', &mut line).ok()?;
    match serde_json::from_slice(&line) {
        Ok(VerifyLine::Header(header)) => Some(header.set),
        _ => None,
    }
}

/// All runs of a folder, the last one last; none where there is no journal.
///
/// # Errors
/// It cannot be read, or a line in it means nothing. Lines that a crash cut off are left out.
pub fn read(folder: &Path) -> Result<Vec<VerifyRun>, Reason> {
    let path = folder.join(JOURNAL_FILE);
    let file = match open_plain(&path, MOST_BYTES) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("{}: {error}", path.display()).into()),
    };
    read_from(BufReader::new(file), &path)
}

/// All runs of a journal, which messages call `path`.
///
/// # Errors
/// As [`read`].
pub fn read_from(mut reader: impl BufRead, path: &Path) -> Result<Vec<VerifyRun>, Reason> {
    let (mut runs, mut number) = (Vec::<VerifyRun>::new(), 0);
    let mut line = Vec::new();
    loop {
        line.clear();
        number += 1;
        let at = |why: String| Reason::from(format!("{}, line {number}: {why}", path.display()));
        let most = u64::try_from(LONGEST_LINE).unwrap_or(u64::MAX);
        let read =
            (&mut reader).take(most).read_until(b'\n', &mut line).map_err(|error| at(error.to_string()))?;
        if read == 0 {
            return Ok(runs);
        }
        if line.last() != Some(&b'\n') && read == LONGEST_LINE {
            return Err(at(format!("it is longer than {LONGEST_LINE} bytes")));
        }
        match serde_json::from_slice(&line) {
            Ok(VerifyLine::Header(header)) if header.schema_version == VERIFICATION_VERSION => {
                runs.push(VerifyRun { header, rounds: Vec::new(), is_ended: false });
            }
            Ok(VerifyLine::Header(header)) => {
                return Err(at(format!(
                    "it is of version {}, this program reads {VERIFICATION_VERSION}",
                    header.schema_version
                )));
            }
            Ok(VerifyLine::Round(round)) => {
                let run = runs.last_mut().ok_or_else(|| at("a round before any header".to_owned()))?;
                run.rounds.push(*round);
            }
            Ok(VerifyLine::End) => {
                let run = runs.last_mut().ok_or_else(|| at("an end before any header".to_owned()))?;
                run.is_ended = true;
            }
            // Cut off: whoever opened the journal next ended the line.
            Err(error) if error.is_eof() => {}
            Err(error) => return Err(at(error.to_string())),
        }
    }
}
