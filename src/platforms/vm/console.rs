//! Keeps the last lines of a guest's console, whatever the guest does with it: an endless line, a flood, binary data.
//!
//! A kernel's panic prints what happened first and then more lines of traces than are kept. So the line that tells of
//! the panic is kept apart, and comes first when it would have been pushed out.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Lines that are kept.
const MAX_LINES: usize = 40;
/// Characters of a line that are kept.
const MAX_CHARS: usize = 400;
/// What the kernel begins its last words with.
const PANIC_MARK: &str = "Kernel panic";
/// How long the last words of an ended guest may take to arrive.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Follows a console to its end in a thread of its own, which ends with the console.
#[derive(Debug)]
pub struct Tail {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    kept: Mutex<Kept>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<String>,
    current: Vec<u8>,
    panic: Option<String>,
    ended: bool,
}

impl Kept {
    fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' => self.end_line(),
                // A character has up to four bytes.
                _ if self.current.len() < 4 * MAX_CHARS => self.current.push(*byte),
                _ => {}
            }
        }
    }

    fn end_line(&mut self) {
        let line = printable(&self.current);
        self.current.clear();
        if line.is_empty() {
            return;
        }
        if self.panic.is_none() && line.contains(PANIC_MARK) {
            self.panic = Some(line.clone());
        }
        if self.lines.len() >= MAX_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }
}

/// Text without control characters: it is shown on terminals and in reports.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_end().chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_CHARS).collect()
}

impl Tail {
    /// Begins to follow.
    pub fn follow(fd: OwnedFd) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let writers = Arc::clone(&shared);
        std::thread::Builder::new().name("console".to_owned()).spawn(move || {
            let mut file = File::from(fd);
            let mut chunk = [0; 4096];
            loop {
                match file.read(&mut chunk) {
                    Ok(0) => break,
                    Ok(read) => writers.lock().push(chunk.get(..read).unwrap_or_default()),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            writers.lock().ended = true;
            writers.changed.notify_all();
        })?;
        Ok(Self { shared })
    }

    /// The last lines, oldest first. When the console is about to end, waits a little for its last words.
    pub fn lines(&self) -> Vec<String> {
        let (kept, _) = self
            .shared
            .changed
            .wait_timeout_while(self.shared.lock(), LAST_WORDS, |kept| !kept.ended)
            .unwrap_or_else(PoisonError::into_inner);
        let last = printable(&kept.current);
        let mut all: VecDeque<String> =
            kept.lines.iter().cloned().chain(Some(last).filter(|line| !line.is_empty())).collect();
        let pushed_out = kept.panic.as_ref().filter(|panic| !kept.lines.contains(panic));
        let room = MAX_LINES - usize::from(pushed_out.is_some());
        all.drain(..all.len().saturating_sub(room));
        pushed_out.into_iter().cloned().chain(all).collect()
    }

    /// What the guest's kernel said of its panic, without the time stamp before it.
    pub fn panic(&self) -> Option<String> {
        let kept = self.shared.lock();
        let line = kept.panic.as_ref()?;
        line.find(PANIC_MARK).and_then(|at| line.get(at..)).map(str::to_owned)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn floods_keep_their_end_and_nothing_that_commands_a_terminal() {
        let (read, mut write) = io::pipe().unwrap();
        let tail = Tail::follow(read.into()).unwrap();
        for i in 0..100 {
            write!(write, "line {i}\r\n").unwrap();
        }
        write.write_all(&vec![b'x'; 100_000]).unwrap();
        write.write_all(b"\n\x1b[31mred\xff\nlast").unwrap();
        drop(write);
        let lines = tail.lines();
        assert_eq!(lines.len(), MAX_LINES);
        assert_eq!(lines[0], "line 63");
        assert_eq!(lines[37].chars().count(), MAX_CHARS);
        assert_eq!(lines[38], " [31mred\u{fffd}");
        assert_eq!(lines[39], "last");
        assert_eq!(tail.panic(), None);
    }

    #[test]
    fn the_line_that_tells_of_a_panic_is_never_pushed_out() {
        for after in [3, 100] {
            let (read, mut write) = io::pipe().unwrap();
            let tail = Tail::follow(read.into()).unwrap();
            writeln!(write, "[ 1.5] Kernel panic - not syncing: test").unwrap();
            for i in 0..after {
                writeln!(write, "[ 1.6] trace {i}").unwrap();
            }
            drop(write);
            let lines = tail.lines();
            assert_eq!(lines.len(), MAX_LINES.min(after + 1));
            assert_eq!(lines[0], "[ 1.5] Kernel panic - not syncing: test");
            assert_eq!(lines.last().unwrap(), &format!("[ 1.6] trace {}", after - 1));
            assert_eq!(tail.panic().unwrap(), "Kernel panic - not syncing: test");
        }
    }
}
