//! Carries what the program writes to a port. Pages go over without being copied where the kernel can do that.
//!
//! ```text
//!  program ─► pipe ══ splice ══► port          program ─► terminal ── read ─► buffer ── write ─► port
//! ```

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SpliceFFlags, fcntl, splice};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{read, write};

use super::super::pid1::in_context;
use crate::link::stream::is_ready;
use units::Reason;

/// Size of the pipes between program and PID 1.
pub const PIPE_BYTES: i32 = 1024 * 1024;
/// How long other processes may hold an output open after the program's end.
pub const AFTER_THE_END: Duration = Duration::from_secs(1);
/// Turns in a row before others get theirs.
const TURNS: u32 = 16;
/// Bytes asked for when splicing: more than a pipe can hold. Of a pipe that holds more than is asked for, a port offers the rest as
/// buffers of no length (`port_fops_splice_write` in `drivers/char/virtio_console.c` of Linux), for which QEMU gives the device up.
const ALL: usize = 1 << 30;
/// Bytes carried at once where splicing is not possible.
const BUFFER_BYTES: usize = 64 * 1024;

/// One output of the program on its way out.
pub struct Outward {
    from: Option<OwnedFd>,
    port: OwnedFd,
    sent: u64,
    splices: bool,
    port_is_full: bool,
    /// Read, but not yet written; unused when splicing.
    waiting: Vec<u8>,
    written: usize,
    /// Bytes that are still taken after the program's end, once its time is over.
    last: Option<usize>,
}

impl Outward {
    /// From a pipe, or a terminal, which cannot be spliced.
    pub fn new(from: Option<OwnedFd>, port: OwnedFd, splices: bool) -> Self {
        Self {
            from,
            port,
            sent: 0,
            splices,
            port_is_full: false,
            waiting: Vec::new(),
            written: 0,
            last: None,
        }
    }

    /// What to wait for.
    pub fn wanted(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let from = self.from.as_ref()?;
        Some(if self.port_is_full || self.written < self.waiting.len() {
            (self.port.as_fd(), PollFlags::POLLOUT)
        } else {
            (from.as_fd(), PollFlags::POLLIN)
        })
    }

    /// Bytes handed to the port so far.
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether nothing more comes.
    pub const fn has_ended(&self) -> bool {
        self.from.is_none()
    }

    /// Nobody reads it on the host any more: the program's next write fails.
    pub fn close(&mut self) {
        self.from = None;
    }

    /// Carries what there is without waiting.
    pub fn pump(&mut self, ended: Option<Instant>) -> Result<(), Reason> {
        if self.last.is_none() && ended.is_some_and(|ended| ended.elapsed() >= AFTER_THE_END) {
            let read = self.waiting.len() - self.written;
            self.last = self.from.as_ref().map(|from| read + at_most_in(from));
        }
        for _ in 0..TURNS {
            if self.from.is_none() {
                return Ok(());
            }
            let moved = if self.splices { self.splice() } else { self.copy() };
            match moved {
                // A terminal without a program answers with EIO.
                Ok(0) | Err(Errno::EIO) => self.from = None,
                Ok(count) => self.count(count),
                Err(Errno::EINVAL) if self.splices => self.splices = false,
                Err(Errno::EAGAIN) => {
                    self.port_is_full = !is_ready(&[(self.port.as_fd(), PollFlags::POLLOUT)]);
                    if self.last.is_some() && !self.has_more() {
                        self.from = None;
                    }
                    return Ok(());
                }
                Err(Errno::EINTR) => {}
                Err(error) => return Err(in_context("carrying the program's output")(error)),
            }
        }
        Ok(())
    }

    /// Whether bytes wait that the port has not taken. Why it did not is no answer: it may have room again by now.
    fn has_more(&self) -> bool {
        let wanted = |from: &OwnedFd| is_ready(&[(from.as_fd(), PollFlags::POLLIN)]);
        self.written < self.waiting.len() || self.from.as_ref().is_some_and(wanted)
    }

    fn splice(&self) -> nix::Result<usize> {
        let Some(from) = &self.from else { return Ok(0) };
        // A program can make its pipe larger than what a device takes in one go.
        if fcntl(from, FcntlArg::F_GETPIPE_SZ)? > PIPE_BYTES {
            return Err(Errno::EINVAL);
        }
        let flags = SpliceFFlags::SPLICE_F_NONBLOCK | SpliceFFlags::SPLICE_F_MOVE;
        match splice(from, None, &self.port, None, ALL, flags) {
            // A port takes nothing from an empty pipe and calls that success: it is the end only if nobody writes.
            Ok(0) if !has_ended(from) => Err(Errno::EAGAIN),
            moved => moved,
        }
    }

    fn count(&mut self, count: usize) {
        self.sent = self.sent.saturating_add(count as u64);
        if let Some(last) = &mut self.last {
            *last = last.saturating_sub(count);
            if *last == 0 {
                self.from = None;
            }
        }
    }

    /// Reads into the buffer when it is empty, then writes of it what the port takes.
    fn copy(&mut self) -> nix::Result<usize> {
        let Some(from) = &self.from else { return Ok(0) };
        if self.written == self.waiting.len() {
            self.waiting.resize(BUFFER_BYTES, 0);
            self.written = 0;
            let got = read(from, &mut self.waiting).inspect_err(|_| self.waiting.clear());
            let got = got?;
            self.waiting.truncate(got);
            if got == 0 {
                return Ok(0);
            }
        }
        let count = write(&self.port, self.waiting.get(self.written..).unwrap_or_default())?;
        self.written += count;
        Ok(count)
    }
}

/// Bytes that a program can have left in a pipe, or a terminal, which does not tell all.
pub fn at_most_in(from: &OwnedFd) -> usize {
    let told = rustix::io::ioctl_fionread(from).ok().and_then(|bytes| usize::try_from(bytes).ok());
    told.unwrap_or(0).max(PIPE_BYTES.unsigned_abs() as usize)
}

/// Whether a pipe is empty and has no writer.
fn has_ended(pipe: &OwnedFd) -> bool {
    let mut look = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
    let said = poll(&mut look, PollTimeout::ZERO).ok().and_then(|_| look[0].revents());
    said.is_some_and(|said| said.contains(PollFlags::POLLHUP) && !said.contains(PollFlags::POLLIN))
}
