//! Carries what the host sends for the program's standard input into its pipe or terminal.
//!
//! A port hands out a page at a time; they are gathered so that the program gets them in larger pieces.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::unistd::{read, write};

use super::super::pid1::in_context;
use units::Reason;

/// Bytes gathered at most.
const BUFFER_BYTES: usize = 256 * 1024;
/// Bytes a port hands out at once.
const PAGE_BYTES: usize = 4096;
/// What ends a terminal's input when typed.
pub const END_OF_INPUT: u8 = 4;

/// The program's standard input on its way in.
pub struct Inward {
    port: OwnedFd,
    to: Option<OwnedFd>,
    is_terminal: bool,
    buffer: Vec<u8>,
    filled: usize,
    written: usize,
    taken: u64,
    ends_at: Option<u64>,
}

impl Inward {
    /// To a pipe or a terminal.
    pub fn new(port: OwnedFd, to: OwnedFd, is_terminal: bool) -> Self {
        let buffer = vec![0; BUFFER_BYTES];
        Self { port, to: Some(to), is_terminal, buffer, filled: 0, written: 0, taken: 0, ends_at: None }
    }

    /// The host says where it ends.
    pub fn end_at(&mut self, bytes: u64) {
        self.ends_at = Some(bytes);
    }

    /// What to wait for. A pipe that nobody reads any more says so unasked.
    pub fn wanted(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let Some(to) = &self.to else { return Vec::new() };
        let has_waiting = self.written < self.filled;
        let port = (!has_waiting && !self.is_all_taken()).then(|| (self.port.as_fd(), PollFlags::POLLIN));
        let out = if has_waiting { PollFlags::POLLOUT } else { PollFlags::empty() };
        port.into_iter().chain([(to.as_fd(), out)]).collect()
    }

    /// The program's end is gone; nothing more is carried.
    pub fn close(&mut self) {
        self.to = None;
    }

    fn is_all_taken(&self) -> bool {
        self.ends_at.is_some_and(|end| self.taken >= end)
    }

    /// Carries what there is without waiting; true when the program has stopped reading.
    pub fn pump(&mut self) -> Result<bool, Reason> {
        loop {
            if self.to.is_some() && self.written == self.filled {
                self.gather()?;
            }
            let Some(to) = &self.to else { return Ok(false) };
            if self.written == self.filled {
                if self.is_all_taken() {
                    return self.finish();
                }
                let gone = [(to.as_fd(), PollFlags::empty())];
                let unread = !self.is_terminal && crate::link::stream::is_ready(&gone);
                if unread {
                    self.close();
                }
                return Ok(unread);
            }
            match write(to, self.buffer.get(self.written..self.filled).unwrap_or_default()) {
                Ok(count) => self.written += count,
                Err(Errno::EAGAIN) => return Ok(false),
                Err(Errno::EINTR) => {}
                Err(Errno::EPIPE | Errno::EIO) => {
                    self.close();
                    return Ok(true);
                }
                Err(error) => return Err(in_context("carrying the program's input")(error)),
            }
        }
    }

    fn gather(&mut self) -> Result<(), Reason> {
        (self.filled, self.written) = (0, 0);
        while self.filled + PAGE_BYTES <= self.buffer.len() && !self.is_all_taken() {
            match read(&self.port, self.buffer.get_mut(self.filled..).unwrap_or_default()) {
                Ok(0) | Err(Errno::EAGAIN | Errno::EINTR) => break,
                Ok(count) => {
                    self.filled += count;
                    self.taken = self.taken.saturating_add(count as u64);
                }
                Err(error) => return Err(in_context("reading the program's input")(error)),
            }
        }
        Ok(())
    }

    /// Nothing more comes: a pipe is closed, a terminal gets what a user would type.
    fn finish(&mut self) -> Result<bool, Reason> {
        if let (true, Some(to)) = (self.is_terminal, &self.to) {
            match write(to, &[END_OF_INPUT]) {
                Ok(_) | Err(Errno::EIO) => {}
                Err(Errno::EAGAIN) => return Ok(false),
                Err(error) => return Err(in_context("ending the program's input")(error)),
            }
        }
        self.close();
        Ok(false)
    }
}
