//! What programs write, kept in files that do not grow without bounds.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use nix::fcntl::OFlag;

use platforms::own_folder::own_file;

/// A log is moved aside when it has so many bytes; two of them are kept.
const MOST_BYTES: u64 = 1 << 20;
/// What is read at once.
const PIECE: usize = 64 << 10;
/// From this many bytes at the end of a log its last lines are taken.
const END_BYTES: u64 = 16 << 10;
/// So many lines at most.
const END_LINES: usize = 40;
/// A line that is longer is handed out in pieces.
const MOST_WAITING: usize = 64 << 10;

/// A log that is written from the other end of a pipe until nobody holds that any more.
#[derive(Debug)]
pub struct Log {
    writer: Option<JoinHandle<()>>,
}

impl Log {
    /// Begins, or goes on with, the log at `path`; returns what is to be written to.
    ///
    /// # Errors
    /// When the file or the pipe cannot be made.
    pub fn open(path: PathBuf) -> io::Result<(Self, OwnedFd)> {
        let (mut from, to) = io::pipe()?;
        let mut file = appended(&path)?;
        let mut length = file.metadata()?.len();
        let follow = move || {
            let mut piece = vec![0; PIECE];
            while let Ok(count @ 1..) = from.read(&mut piece) {
                // A full disk must not stop the program: what cannot be kept is lost.
                let _ = file.write_all(piece.get(..count).unwrap_or_default());
                length += count as u64;
                if length > MOST_BYTES
                    && fs::rename(&path, aside(&path)).is_ok()
                    && let Ok(fresh) = appended(&path)
                {
                    (file, length) = (fresh, 0);
                }
            }
        };
        let writer = std::thread::Builder::new().name("log".to_owned()).spawn(follow)?;
        Ok((Self { writer: Some(writer) }, to.into()))
    }
}

impl Drop for Log {
    /// Waits until all that was written is in the file. The other end must be closed.
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// Reads a log from its beginning on, also what is put aside meanwhile.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    open: Option<File>,
    /// The one that was put aside before we came, which is read first.
    before: Option<File>,
    waiting: Vec<u8>,
}

impl Reader {
    /// Of the log at `path`, which need not be there yet.
    pub fn new(path: PathBuf) -> Self {
        let before = own_file(&aside(&path), OFlag::O_RDONLY).ok();
        Self { path, open: None, before, waiting: Vec::new() }
    }

    /// Leaves out all but the last lines of what is there now.
    pub fn skip_to_last(&mut self, lines: usize) {
        let bytes = self.read(true);
        let ends = bytes.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
        let from = ends.filter(|at| *at < bytes.len()).nth(lines.saturating_sub(1)).unwrap_or(0);
        let from = if lines == 0 { bytes.len() } else { from };
        self.waiting = bytes.get(from..).unwrap_or_default().to_vec();
    }

    /// What has come since the last time: whole lines, or all that there is.
    pub fn read(&mut self, all: bool) -> Vec<u8> {
        if let Some(before) = self.before.take() {
            self.take(before);
        }
        let there = own_file(&self.path, OFlag::O_RDONLY).ok();
        if let Some(open) = self.open.take() {
            let is_same = there.as_ref().is_none_or(|there| is_same(&open, there));
            let open = self.take(open);
            // What was put aside has been read to its end; the next one begins.
            self.open = if is_same { open } else { None };
        }
        if self.open.is_none() {
            self.open = there.and_then(|there| self.take(there));
        }
        let end = if all || self.waiting.len() > MOST_WAITING {
            self.waiting.len()
        } else {
            self.waiting.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
        };
        self.waiting.drain(..end).collect()
    }

    /// Reads a log from where it was read to.
    fn take(&mut self, mut log: File) -> Option<File> {
        // A log is put aside long before it has so many bytes.
        let read = Read::by_ref(&mut log).take(4 * MOST_BYTES).read_to_end(&mut self.waiting);
        read.ok().map(|_| log)
    }
}

fn is_same(one: &File, other: &File) -> bool {
    let number = |file: &File| file.metadata().map(|meta| (meta.dev(), meta.ino())).ok();
    number(one) == number(other)
}

/// The last lines of the log at `path`, oldest first, as they were written.
pub fn last_lines(path: &Path) -> Vec<String> {
    let mut bytes = end_of(&aside(path));
    bytes.extend(end_of(path));
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines.iter().skip(lines.len().saturating_sub(END_LINES)).map(|line| (*line).to_owned()).collect()
}

/// Nothing of a log that is not there.
fn end_of(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = own_file(path, OFlag::O_RDONLY).and_then(|mut file| {
        let start = file.metadata()?.len().saturating_sub(END_BYTES);
        file.seek(SeekFrom::Start(start))?;
        file.take(END_BYTES).read_to_end(&mut bytes)
    });
    if read.is_ok() { bytes } else { Vec::new() }
}

fn appended(path: &Path) -> io::Result<File> {
    own_file(path, OFlag::O_CREAT | OFlag::O_WRONLY | OFlag::O_APPEND)
}

fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_keeps_the_end_of_what_was_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("stdout.log");
        let (log, to) = Log::open(path.clone()).expect("a log");
        let mut to = File::from(to);
        for number in 0..500_000_u32 {
            writeln!(to, "{number}").expect("written");
        }
        drop(to);
        drop(log);
        let (new, old) = (fs::read(&path).expect("a log"), fs::read(aside(&path)).expect("the one before"));
        assert!(new.ends_with(b"499999\n") || old.ends_with(b"499999\n"));
        for kept in [&new, &old] {
            assert!(kept.len() as u64 <= MOST_BYTES + PIECE as u64, "{}", kept.len());
        }
        assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 2);
        let wanted: Vec<String> = (499_960..500_000).map(|number: u32| number.to_string()).collect();
        assert_eq!(last_lines(&path), wanted);
        // A log may be put aside in the middle of a line.
        fs::write(&path, "\nnew").expect("written");
        assert_eq!(last_lines(&path).last().map(String::as_str), Some("new"));
        assert!(last_lines(&dir.path().join("none")).is_empty());
    }

    #[test]
    fn a_reader_follows_a_log_that_is_put_aside() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("stdout.log");
        let mut reader = Reader::new(path.clone());
        assert!(reader.read(true).is_empty(), "it is not there yet");
        fs::write(&path, "a\nb\nc").expect("written");
        assert_eq!(reader.read(false), b"a\nb\n");
        let mut log = appended(&path).expect("a log");
        log.write_all(b"!\n").expect("written");
        fs::rename(&path, aside(&path)).expect("put aside");
        fs::write(&path, "d\n").expect("written");
        assert_eq!(reader.read(false), b"c!\nd\n");
        let mut late = Reader::new(path.clone());
        late.skip_to_last(2);
        assert_eq!(late.read(false), b"c!\nd\n");
        let mut none = Reader::new(path);
        none.skip_to_last(0);
        assert!(none.read(true).is_empty());
    }
}
