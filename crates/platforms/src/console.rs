//! The last lines of what a child writes to its error output or console: bounded, and harmless to print.
//!
//! A child may write without end, without newlines, or write bytes that move a terminal's cursor. What is kept is at
//! most [`LINES`] lines of [`CHARS`] characters; everything else is read and dropped, so that the child never blocks.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::poll::PollFlags;

use super::link::stream::{Heard, Source, wait};

/// Lines kept.
pub const LINES: usize = 40;
/// Characters kept of each line.
pub const CHARS: usize = 400;

/// Follows one stream in a thread of its own until the stream ends or this is dropped.
#[derive(Debug)]
pub struct Console {
    shared: Arc<Shared>,
    /// Dropped to wake the thread.
    alarm: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    tail: Mutex<Tail>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Tail {
    /// Text that marks a line worth keeping whatever follows.
    mark: Option<&'static str>,
    /// The first line with the mark.
    marked: Option<String>,
    lines: VecDeque<String>,
    /// The line that is being written, cut to what may be kept of it.
    current: Vec<u8>,
    /// Gets everything as it comes.
    copy: Option<File>,
    has_ended: bool,
}

impl Console {
    /// Begins to follow `fd`.
    ///
    /// # Errors
    /// When no thread or pipe can be had.
    pub fn follow(fd: OwnedFd) -> io::Result<Self> {
        Self::follow_for(fd, None)
    }

    /// Begins to follow `fd`, and keeps the first line that contains `mark`: a kernel's panic says first what happened
    /// and then prints more lines of traces than are kept.
    pub fn follow_for(fd: OwnedFd, mark: Option<&'static str>) -> io::Result<Self> {
        let broke = |error: super::link::LinkError| io::Error::other(error.to_string());
        let source = Source::new(fd).map_err(broke)?;
        let (wake, alarm) = io::pipe()?;
        let tail = Tail { mark, ..Tail::default() };
        let shared = Arc::new(Shared { tail: Mutex::new(tail), ended: Condvar::new() });
        let supervisor = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("console".to_owned()).spawn(move || {
            read_all(source, &wake, &supervisor);
            supervisor.lock().has_ended = true;
            supervisor.ended.notify_all();
        })?;
        Ok(Self { shared, alarm: Some(alarm), thread: Some(thread) })
    }

    /// Writes everything that comes from now on to `to`, too, until that takes no more. Whoever reads there must not
    /// wait for this.
    pub fn copy_to(&self, to: OwnedFd) {
        self.shared.lock().copy = Some(to.into());
    }

    /// The last lines, oldest first. A line that has not ended yet counts. A marked line that was pushed out comes first.
    pub fn tail(&self) -> Vec<String> {
        let tail = self.shared.lock();
        let last = (!tail.current.is_empty()).then(|| harmless(&tail.current));
        let lines: Vec<String> = tail.lines.iter().cloned().chain(last).collect();
        let pushed_out = tail.marked.as_ref().filter(|marked| !tail.lines.contains(marked));
        let room = LINES - usize::from(pushed_out.is_some());
        let surplus = lines.len().saturating_sub(room);
        pushed_out.cloned().into_iter().chain(lines.into_iter().skip(surplus)).collect()
    }

    /// The first marked line, from the mark on.
    pub fn marked(&self) -> Option<String> {
        let tail = self.shared.lock();
        let line = tail.marked.as_ref()?;
        line.find(tail.mark?).and_then(|at| line.get(at..)).map(str::to_owned)
    }

    /// Waits until the stream has ended, at most `grace`, so that the tail has the last words of a dead child.
    pub fn settle(&self, grace: Duration) {
        let tail = self.shared.lock();
        let waited = self.shared.ended.wait_timeout_while(tail, grace, |tail| !tail.has_ended);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.alarm = None;
        if let Some(thread) = self.thread.take() {
            // It cannot panic; and if it did there would be no one to tell.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_all(mut source: Source, mut wake: &io::PipeReader, shared: &Shared) {
    loop {
        match source.read() {
            Ok(Heard::Bytes(count)) => shared.lock().push(source.bytes(count)),
            Ok(Heard::End) | Err(_) => return,
            Ok(Heard::Nothing) => {
                let both = [(source.as_fd(), PollFlags::POLLIN), (wake.as_fd(), PollFlags::POLLIN)];
                if wait(&both, None).is_err() {
                    return;
                }
            }
        }
        // The alarm is a pipe nobody writes to: it only ever becomes readable by its end.
        let alarm = [(wake.as_fd(), PollFlags::POLLIN)];
        if super::link::stream::is_ready(&alarm) && wake.read(&mut [0]).is_ok() {
            return;
        }
    }
}

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        if self.copy.as_mut().is_some_and(|copy| copy.write_all(bytes).is_err()) {
            self.copy = None;
        }
        let mut pieces = bytes.split(|byte| *byte == b'\n');
        if let Some(first) = pieces.next() {
            self.extend(first);
        }
        for piece in pieces {
            self.end_line();
            self.extend(piece);
        }
    }

    fn extend(&mut self, bytes: &[u8]) {
        // Four bytes are the most a character takes.
        let room = (CHARS * 4).saturating_sub(self.current.len());
        self.current.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.current);
        if self.lines.len() == LINES {
            self.lines.pop_front();
        }
        let line = harmless(&line);
        if self.marked.is_none() && self.mark.is_some_and(|mark| line.contains(mark)) {
            self.marked = Some(line.clone());
        }
        self.lines.push_back(line);
    }
}

/// Bytes as at most [`CHARS`] characters that do nothing to a terminal: control characters become their pictures.
pub fn harmless(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let picture = |c: char| match u32::from(c) {
        9 => ' ',
        code @ 0..=0x1f => char::from_u32(0x2400 + code).unwrap_or('\u{fffd}'),
        0x7f => '\u{2421}',
        // C1 controls, and marks that turn the direction of a line round.
        0x80..=0x9f | 0x200e..=0x200f | 0x202a..=0x202e | 0x2066..=0x2069 => '\u{fffd}',
        _ => c,
    };
    text.trim_end_matches(['\r', '\n']).chars().take(CHARS).map(picture).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn console_of(bytes: &[u8]) -> Vec<String> {
        let (read, mut write) = io::pipe().expect("a pipe");
        let console = Console::follow(read.into()).expect("a thread");
        write.write_all(bytes).expect("someone reads");
        drop(write);
        console.settle(Duration::from_secs(20));
        console.tail()
    }

    #[test]
    fn the_last_lines_are_kept_and_cut() {
        let text = (0..1000).map(|number| format!("line {number}\r\n")).collect::<Vec<_>>().concat();
        let tail = console_of(text.as_bytes());
        assert_eq!(tail.len(), LINES);
        assert_eq!(tail.first().map(String::as_str), Some("line 960"));
        assert_eq!(tail.last().map(String::as_str), Some("line 999"));

        let flood = console_of(&vec![b'x'; 3_000_000]);
        assert_eq!(flood, vec!["x".repeat(CHARS)]);
        assert_eq!(console_of("ä".repeat(1000).as_bytes()), vec!["ä".repeat(CHARS)]);
    }

    #[test]
    fn a_marked_line_is_never_pushed_out() {
        for after in [3, 100] {
            let (read, mut write) = io::pipe().expect("a pipe");
            let console = Console::follow_for(read.into(), Some("Kernel panic")).expect("a thread");
            writeln!(write, "[ 1.5] Kernel panic - not syncing: test").expect("someone reads");
            for number in 0..after {
                writeln!(write, "[ 1.6] trace {number}").expect("someone reads");
            }
            drop(write);
            console.settle(Duration::from_secs(20));
            let tail = console.tail();
            assert_eq!(tail.len(), LINES.min(after + 1));
            assert_eq!(tail[0], "[ 1.5] Kernel panic - not syncing: test");
            assert_eq!(tail[tail.len() - 1], format!("[ 1.6] trace {}", after - 1));
            assert_eq!(console.marked().as_deref(), Some("Kernel panic - not syncing: test"));
        }
    }

    #[test]
    fn nothing_reaches_the_terminal_but_text() {
        let tail = console_of(b"\x1b[2J\x07bell\x00 \xff\xfe \xc2\x9b31m\n\xe2\x80\xaeright to left");
        let all = tail.concat();
        assert!(all.contains("␛[2J␇bell␀"), "{all}");
        assert!(!all.chars().any(|c| c.is_control() || c == '\u{202e}'), "{all:?}");
    }

    #[test]
    fn dropping_ends_the_thread_while_the_stream_is_open() {
        let (read, write) = io::pipe().expect("a pipe");
        let console = Console::follow(read.into()).expect("a thread");
        console.settle(Duration::from_millis(1));
        drop(console);
        drop(write);
    }
}
