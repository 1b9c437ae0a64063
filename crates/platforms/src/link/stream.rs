//! Waiting for byte streams: non-blocking descriptors and `poll`. Used by both ends of the link.
//!
//! A virtio-serial port without a connected host is peculiar (see `drivers/char/virtio_console.c` of Linux): reading
//! gives 0 bytes and `poll` reports a hang-up at once, every time. That is "not yet" and not "gone", so such devices
//! are asked again after a pause, until something was heard.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::frame::LinkError;

/// Bytes read at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// How long a character device that has no peer yet is left alone.
const UNCONNECTED_PAUSE: Duration = Duration::from_millis(20);

/// What reading found.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// So many bytes, now in the buffer.
    Bytes(usize),
    /// Nothing for now.
    Nothing,
    /// The other end is gone.
    End,
}

/// A non-blocking readable descriptor.
#[derive(Debug)]
pub struct Source {
    file: File,
    buffer: Vec<u8>,
    /// Character devices report an end that is none while nobody is connected.
    is_device: bool,
    heard_before: bool,
}

impl Source {
    /// Makes `fd` non-blocking and reads from it.
    ///
    /// # Errors
    /// When the descriptor cannot be made non-blocking.
    pub fn new(fd: OwnedFd) -> Result<Self, LinkError> {
        make_non_blocking(&fd)?;
        let file = File::from(fd);
        let is_device = file.metadata().is_ok_and(|metadata| metadata.file_type().is_char_device());
        Ok(Self { file, buffer: vec![0; CHUNK_BYTES], is_device, heard_before: false })
    }

    /// The bytes of the last [`Heard::Bytes`].
    pub fn bytes(&self, count: usize) -> &[u8] {
        self.buffer.get(..count).unwrap_or_default()
    }

    /// Reads once without waiting.
    ///
    /// # Errors
    /// When the operating system refuses to read.
    pub fn read(&mut self) -> Result<Heard, LinkError> {
        match self.file.read(&mut self.buffer) {
            Ok(0) if self.is_device && !(self.heard_before && self.is_hung_up()) => {
                std::thread::sleep(UNCONNECTED_PAUSE);
                Ok(Heard::Nothing)
            }
            Ok(0) => Ok(Heard::End),
            Ok(count) => {
                self.heard_before = true;
                Ok(Heard::Bytes(count))
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(Heard::Nothing),
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Ok(Heard::End),
                _ => Err(LinkError::Broke(error.to_string())),
            },
        }
    }

    fn is_hung_up(&self) -> bool {
        let mut fds = [PollFd::new(self.file.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).is_ok()
            && fds[0].revents().is_some_and(|events| events.contains(PollFlags::POLLHUP))
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A non-blocking writable descriptor with the bytes that wait for it.
#[derive(Debug)]
pub struct Sink {
    file: File,
    waiting: Vec<u8>,
    written: usize,
}

impl Sink {
    /// Makes `fd` non-blocking and writes to it.
    ///
    /// # Errors
    /// When the descriptor cannot be made non-blocking.
    pub fn new(fd: OwnedFd) -> Result<Self, LinkError> {
        make_non_blocking(&fd)?;
        Ok(Self { file: File::from(fd), waiting: Vec::new(), written: 0 })
    }

    /// Queues bytes; [`Self::write`] sends them.
    pub fn queue(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
    }

    /// Whether everything queued was written.
    pub fn is_drained(&self) -> bool {
        self.written == self.waiting.len()
    }

    /// Writes as much as fits without waiting. A peer that is gone is [`LinkError::Closed`]: the Rust runtime
    /// ignores SIGPIPE, so that it arrives as an error here.
    ///
    /// # Errors
    /// When the other end is gone or the operating system refuses to write.
    pub fn write(&mut self) -> Result<(), LinkError> {
        while !self.is_drained() {
            match self.file.write(self.waiting.get(self.written..).unwrap_or_default()) {
                Ok(count) => self.written += count,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(()),
                    ErrorKind::Interrupted => {}
                    ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => return Err(LinkError::Closed),
                    _ => return Err(LinkError::Broke(error.to_string())),
                },
            }
        }
        self.waiting = Vec::new();
        self.written = 0;
        Ok(())
    }
}

impl AsFd for Sink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Sleeps until one of `wanted` is ready, a signal arrives, or `at_most` is over; `None` waits for ever.
/// A device whose peer is not there hangs up at once and for ever; then this pauses a little instead of spinning.
///
/// # Errors
/// When the operating system refuses to wait.
pub fn wait(wanted: &[(BorrowedFd<'_>, PollFlags)], at_most: Option<Duration>) -> Result<(), LinkError> {
    let mut fds: Vec<PollFd<'_>> = wanted.iter().map(|(fd, flags)| PollFd::new(*fd, *flags)).collect();
    let timeout = at_most.map_or(PollTimeout::NONE, |time| {
        // Rounded up: rounding down would spin through the last millisecond.
        let millis = time.as_micros().div_ceil(1000);
        PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)
    });
    match poll(&mut fds, timeout) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(error) => Err(LinkError::Broke(error.to_string())),
    }
}

fn make_non_blocking(fd: &OwnedFd) -> Result<(), LinkError> {
    let broke = |error: nix::errno::Errno| LinkError::Broke(error.to_string());
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL).map_err(broke)?);
    fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).map_err(broke)?;
    Ok(())
}

/// Whether one of `wanted` is ready now.
pub fn is_ready(wanted: &[(BorrowedFd<'_>, PollFlags)]) -> bool {
    let mut fds: Vec<PollFd<'_>> = wanted.iter().map(|(fd, flags)| PollFd::new(*fd, *flags)).collect();
    poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}
