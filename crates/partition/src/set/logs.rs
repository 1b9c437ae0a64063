//! What programs write, kept in files that do not grow without bounds.
//!
//! ```text
//!  NAME.log ── 1 MiB ─► NAME.log.7, the next number; a new NAME.log        a reader holds a shared lock on the file it reads
//!  NAME.log.1 … 6: removed from the oldest on, up to one that is being read, unless there are too many
//! ```
//! So who follows a log misses nothing, however quickly it is written, unless it is far behind; and then it is told.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use nix::fcntl::OFlag;

use platforms::own_folder::own_file;

/// A log is put aside when it has so many bytes; the last of those is kept.
const MOST_BYTES: u64 = 1 << 20;
/// So many that were put aside are kept at most for one that somebody reads, and those after it.
const MOST_ASIDE: usize = 32;
/// What is read at once.
const PIECE: usize = 64 << 10;
/// From this many bytes at the end of a log its last lines are taken.
const END_BYTES: u64 = 16 << 10;
/// So many lines at most.
const END_LINES: usize = 40;
/// A line that is longer is handed out in pieces.
const MOST_WAITING: usize = 64 << 10;
/// Most files that are gone through at once; the next look goes on.
const MOST_AT_ONCE: usize = 100;

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
                    && let Ok(fresh) = put_aside(&path)
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

/// Puts a log aside, removes what nobody needs of those before it, and begins a new one.
fn put_aside(path: &Path) -> io::Result<File> {
    let before = numbers(path);
    fs::rename(path, aside(path, before.last().map_or(1, |last| last.saturating_add(1))))?;
    let mut left = before.len();
    for number in before {
        if left < MOST_ASIDE && is_being_read(&aside(path, number)) {
            break;
        }
        // What stays is removed the next time.
        let _ = fs::remove_file(aside(path, number));
        left -= 1;
    }
    appended(path)
}

fn is_being_read(path: &Path) -> bool {
    let file = own_file(path, OFlag::O_RDONLY);
    file.is_ok_and(|file| matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock)))
}

/// Reads a log from its beginning on, also what is put aside meanwhile.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    /// What is being read, and the number that it has or will have when it is put aside.
    open: Option<(File, u64)>,
    /// The number of the last one that was read to its end.
    done: u64,
    waiting: Vec<u8>,
    has_missed: bool,
}

impl Reader {
    /// Of the log at `path`, which need not be there yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path, open: None, done: 0, waiting: Vec::new(), has_missed: false }
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
        let mut steps = 0;
        // What was put aside just when it was to be opened is looked for anew.
        while steps < MOST_AT_ONCE && self.step().unwrap_or(true) {
            steps += 1;
        }
        let end = if all || self.waiting.len() > MOST_WAITING {
            self.waiting.len()
        } else {
            self.waiting.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
        };
        self.waiting.drain(..end).collect()
    }

    /// Whether something was overwritten before it was read here, since this was asked last.
    pub fn has_missed(&mut self) -> bool {
        std::mem::take(&mut self.has_missed)
    }

    /// Reads what is open to its end and opens the one after it; whether there may be more now.
    ///
    /// # Errors
    /// What was to be opened was put aside or removed at this moment.
    fn step(&mut self) -> io::Result<bool> {
        // Before the file is read: what has a number by now is written no more.
        let there = numbers(&self.path);
        if let Some((mut file, number)) = self.open.take() {
            let is_among = |there: &[u64]| there.last().is_some_and(|last| *last >= number);
            let has_ended = is_among(&there);
            let is_current = self.is_current(&file);
            // A log is put aside long before it has so many bytes.
            let _ = Read::by_ref(&mut file).take(4 * MOST_BYTES).read_to_end(&mut self.waiting);
            if !has_ended && is_current {
                self.open = Some((file, number));
                return Ok(false);
            }
            // Neither put aside nor the log: who began it anew counts anew.
            self.done = if has_ended || is_among(&numbers(&self.path)) { number } else { 0 };
        }
        self.open = self.next(&there)?;
        Ok(self.open.is_some())
    }

    /// The file after the last one, held so that those after it stay; none where there is none yet.
    fn next(&mut self, there: &[u64]) -> io::Result<Option<(File, u64)>> {
        let highest = |there: &[u64]| there.last().copied().unwrap_or(0).max(self.done);
        let (file, number) = if let Some(number) = there.iter().copied().find(|number| *number > self.done) {
            (held(&aside(&self.path, number))?, number)
        } else {
            let file = match held(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                file => file?,
            };
            if highest(&numbers(&self.path)) != highest(there) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            (file, highest(there).saturating_add(1))
        };
        if self.done > 0 && number - 1 > self.done {
            self.has_missed = true;
            // The rest of this line is gone.
            if self.waiting.last().is_some_and(|byte| *byte != b'\n') {
                self.waiting.push(b'\n');
            }
        }
        Ok(Some((file, number)))
    }

    /// Whether a file is the log, or no log is there any more.
    fn is_current(&self, file: &File) -> bool {
        own_file(&self.path, OFlag::O_RDONLY).map_or(true, |there| is_same(file, &there))
    }
}

/// A file to read, which is not removed as long as it is open.
fn held(path: &Path) -> io::Result<File> {
    let file = own_file(path, OFlag::O_RDONLY)?;
    // Where no lock can be had, it is read all the same.
    let _ = file.try_lock_shared();
    Ok(file)
}

fn is_same(one: &File, other: &File) -> bool {
    let number = |file: &File| file.metadata().map(|meta| (meta.dev(), meta.ino())).ok();
    number(one) == number(other)
}

/// The numbers of those that were put aside, in their order.
fn numbers(path: &Path) -> Vec<u64> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    let number = |entry: fs::DirEntry| {
        let found = entry.file_name();
        found.to_str()?.strip_prefix(name)?.strip_prefix('.')?.parse().ok()
    };
    let mut all: Vec<u64> = fs::read_dir(folder).into_iter().flatten().flatten().filter_map(number).collect();
    all.sort_unstable();
    all
}

/// The last lines of the log at `path`, oldest first, as they were written.
pub fn last_lines(path: &Path) -> Vec<String> {
    let mut bytes = numbers(path).last().map(|number| end_of(&aside(path, *number))).unwrap_or_default();
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

fn aside(path: &Path, number: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
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
        let [number] = numbers(&path)[..] else { panic!("{:?}", numbers(&path)) };
        let (new, old) =
            (fs::read(&path).expect("a log"), fs::read(aside(&path, number)).expect("the one before"));
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
        fs::rename(&path, aside(&path, 1)).expect("put aside");
        fs::write(&path, "d\n").expect("written");
        assert_eq!(reader.read(false), b"c!\nd\n");
        let mut late = Reader::new(path.clone());
        late.skip_to_last(2);
        assert_eq!(late.read(false), b"c!\nd\n");
        let mut none = Reader::new(path);
        none.skip_to_last(0);
        assert!(none.read(true).is_empty());
    }

    /// Regression: of a log that was put aside twice between two looks a megabyte was missed, and nobody was told.
    #[test]
    fn a_reader_misses_nothing_however_quickly_it_is_written_or_hears_of_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("stdout.log");
        let (log, to) = Log::open(path.clone()).expect("a log");
        let mut to = File::from(to);
        writeln!(to, "begin").expect("written");
        let mut reader = Reader::new(path.clone());
        let mut idle = Reader::new(path.clone());
        while reader.open.is_none() || idle.open.is_none() {
            let _ = (reader.read(false), idle.read(false));
        }
        // Thirteen megabytes between two looks.
        let whole: Vec<String> = (0..1_800_000).map(|number: u32| number.to_string()).collect();
        let whole = whole.join("\n") + "\n";
        to.write_all(whole.as_bytes()).expect("written");
        let mut seen = Vec::new();
        while !seen.ends_with(b"1799999\n") {
            seen.extend(reader.read(false));
        }
        let seen = String::from_utf8(seen).expect("text");
        assert!(seen.strip_prefix("begin\n").unwrap_or(&seen) == whole && !reader.has_missed());
        // One that never looks is waited for to some extent, and told.
        for _ in 0..4 {
            to.write_all(whole.as_bytes()).expect("written");
        }
        drop(to);
        drop(log);
        assert!(numbers(&path).len() <= MOST_ASIDE + 1, "{:?}", numbers(&path));
        let late = idle.read(true);
        assert!(idle.has_missed() && !idle.has_missed() && late.ends_with(b"1799999\n"));
        let _ = reader.read(true);
        drop((idle, reader));
        // Nobody reads: one is kept.
        let (log, to) = Log::open(path.clone()).expect("a log");
        File::from(to).write_all(whole.as_bytes()).expect("written");
        drop(log);
        assert_eq!(numbers(&path).len(), 1);
        // Begun anew in a folder made anew.
        let mut follows = Reader::new(path.clone());
        let _ = follows.read(true);
        fs::remove_file(aside(&path, numbers(&path)[0])).expect("removed");
        fs::remove_file(&path).expect("removed");
        assert!(follows.read(true).is_empty());
        fs::write(&path, "anew\n").expect("written");
        assert_eq!(follows.read(true), b"anew\n");
        assert!(!follows.has_missed());
    }
}
