//! Carries a program's streams between this process's descriptors and QEMU's sockets, one thread for each.
//!
//! ```text
//!  our stdin ──► port ══► guest          guest ══► port ──► our stdout
//!                                                   └─ nobody reads there: told once, the rest is dropped
//! ```
//! A stream's end is told over the link as a number of bytes: neither sockets nor ports have an end of their own while
//! the guest runs.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, PoisonError};
use std::{io, thread};

use nix::poll::PollFlags;

use super::main_session::Happened;
use model::partition::Stream;
use platforms::link::stream::wait;

/// Bytes carried at once.
const CHUNK_BYTES: usize = 256 * 1024;
/// No end was told yet.
const UNKNOWN: u64 = u64::MAX;

/// An output on its way. Dropping it ends its thread, unless that waits for a reader of ours.
pub struct Output {
    shared: Arc<Shared>,
    socket: UnixStream,
}

#[derive(Debug)]
struct Shared {
    count: AtomicU64,
    ends_at: AtomicU64,
    is_writing: AtomicBool,
}

impl Output {
    /// Begins to carry `socket`'s bytes to `to`.
    pub fn start(
        stream: Stream,
        socket: &UnixStream,
        to: OwnedFd,
        happened: Sender<Happened>,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            count: AtomicU64::new(0),
            ends_at: AtomicU64::new(UNKNOWN),
            is_writing: AtomicBool::new(false),
        });
        let (theirs, from) = (Arc::clone(&shared), socket.try_clone()?);
        thread::Builder::new().name(format!("{stream:?}").to_lowercase()).spawn(move || {
            carry(stream, from, to, &theirs, &happened);
            let _ = happened.send(Happened::Done(stream));
        })?;
        Ok(Self { shared, socket: socket.try_clone()? })
    }

    /// The guest says where it ends.
    pub fn end_at(&self, bytes: u64) {
        self.shared.ends_at.store(bytes, Ordering::SeqCst);
        if self.shared.count.load(Ordering::SeqCst) >= bytes {
            self.stop();
        }
    }

    /// Bytes that have come so far.
    pub fn count(&self) -> u64 {
        self.shared.count.load(Ordering::SeqCst)
    }

    /// Whether it waits for our reader just now, so that nothing can be expected of the guest.
    pub fn is_writing(&self) -> bool {
        self.shared.is_writing.load(Ordering::SeqCst)
    }

    fn stop(&self) {
        // Already closed is as good.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.stop();
    }
}

fn carry(stream: Stream, mut from: UnixStream, to: OwnedFd, shared: &Shared, happened: &Sender<Happened>) {
    let mut to = Some(File::from(to));
    let mut buffer = vec![0; CHUNK_BYTES];
    while shared.count.load(Ordering::SeqCst) < shared.ends_at.load(Ordering::SeqCst) {
        let count = match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        if let Some(file) = &mut to {
            shared.is_writing.store(true, Ordering::SeqCst);
            let written = file.write_all(buffer.get(..count).unwrap_or_default());
            shared.is_writing.store(false, Ordering::SeqCst);
            if let Err(error) = written {
                to = None;
                let _ = happened.send(Happened::NobodyReads(stream, error));
            }
        }
        shared.count.fetch_add(count as u64, Ordering::SeqCst);
    }
}

/// The input on its way. Dropping it ends its thread.
pub struct Input {
    socket: UnixStream,
    alarm: std::sync::Mutex<Option<io::PipeWriter>>,
}

impl Input {
    /// Begins to carry `from`'s bytes to `socket`.
    pub fn start(from: OwnedFd, socket: &UnixStream, happened: Sender<Happened>) -> io::Result<Self> {
        let (wake, alarm) = io::pipe()?;
        let mut to = socket.try_clone()?;
        thread::Builder::new().name("input".to_owned()).spawn(move || {
            if let Some(bytes) = feed(from, &mut to, &wake) {
                let _ = happened.send(Happened::InputEnded(bytes));
            }
        })?;
        Ok(Self { socket: socket.try_clone()?, alarm: std::sync::Mutex::new(Some(alarm)) })
    }

    /// Nothing more is wanted; what feeds us is to notice.
    pub fn stop(&self) {
        self.alarm.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Until the end of `from`: how many bytes there were. None when nobody wants more.
fn feed(from: OwnedFd, to: &mut UnixStream, wake: &io::PipeReader) -> Option<u64> {
    let mut from = File::from(from);
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut total = 0_u64;
    loop {
        // A terminal is read only when something was typed: reading it from the background would stop us.
        wait(&[(from.as_fd(), PollFlags::POLLIN), (wake.as_fd(), PollFlags::POLLIN)], None).ok()?;
        if is_alarmed(wake) {
            return None;
        }
        let count = match from.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => continue,
            // A folder, or a terminal that is gone: for the program it is the end.
            Err(_) => 0,
        };
        if count == 0 {
            return Some(total);
        }
        to.write_all(buffer.get(..count).unwrap_or_default()).ok()?;
        total += count as u64;
    }
}

fn is_alarmed(wake: &io::PipeReader) -> bool {
    let alarm = [(wake.as_fd(), PollFlags::POLLIN)];
    platforms::link::stream::is_ready(&alarm)
}
