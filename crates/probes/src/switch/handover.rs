//! A turn that two sides hand to each other. What waits asks the kernel alone: no memory is taken, so that a forked process may.
//!
//! ```text
//!   pipe     lead ══ byte ══► answer, and back through another pipe; another byte says that it is over
//!   futex    one word: whose turn it is, or that it is over; who waits sleeps on it
//! ```
//! Sources: pipe(7), futex(2).

#![expect(
    unsafe_code,
    reason = "a word that two processes share, and the system call futex, have no safe form"
)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use super::detail::SwitchThrough;
use crate::error::WorkError;

/// The word when nobody is to wait any more.
const OVER: u32 = 2;
/// The byte that hands the turn over, and the one that ends it.
const GO: u8 = 0;
const END: u8 = 1;

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Who begins, and measures.
    Lead,
    /// Who answers.
    Answer,
}

impl Side {
    const fn other(self) -> Self {
        match self {
            Self::Lead => Self::Answer,
            Self::Answer => Self::Lead,
        }
    }

    /// The word when it is its turn.
    const fn word(self) -> u32 {
        match self {
            Self::Lead => 0,
            Self::Answer => 1,
        }
    }
}

/// What the turn is handed over through.
#[derive(Debug)]
pub enum Handover {
    /// Two pipes: reading end, writing end.
    Pipe {
        /// From who leads.
        there: (OwnedFd, OwnedFd),
        /// To who leads.
        back: (OwnedFd, OwnedFd),
    },
    /// A word in memory that is shared with processes that are forked later.
    Futex(SharedWord),
}

impl Handover {
    /// It is the turn of who leads.
    ///
    /// # Errors
    /// The system has no pipe, or no memory, to give.
    pub fn new(through: SwitchThrough) -> Result<Self, WorkError> {
        Ok(match through {
            SwitchThrough::Pipe => Self::Pipe { there: pipe()?, back: pipe()? },
            SwitchThrough::Futex => Self::Futex(SharedWord::new()?),
        })
    }

    /// Hands the turn to the other side; whether that worked.
    pub fn give(&self, side: Side) -> bool {
        match (self, side) {
            (Self::Pipe { there: pipe, .. }, Side::Lead) | (Self::Pipe { back: pipe, .. }, Side::Answer) => {
                write(pipe.1.as_raw_fd(), GO)
            }
            (Self::Futex(word), side) => word.pass(side.word(), side.other().word()),
        }
    }

    /// Waits for the turn; whether it came, or all is over.
    pub fn take(&self, side: Side) -> bool {
        match (self, side) {
            (Self::Pipe { back: pipe, .. }, Side::Lead) | (Self::Pipe { there: pipe, .. }, Side::Answer) => {
                read(pipe.0.as_raw_fd()) == Some(GO)
            }
            (Self::Futex(word), side) => word.wait(side.word()),
        }
    }

    /// Nobody is to wait any more.
    pub fn over(&self) {
        match self {
            Self::Pipe { there, back } => {
                write(there.1.as_raw_fd(), END);
                write(back.1.as_raw_fd(), END);
            }
            Self::Futex(word) => {
                word.set(OVER);
            }
        }
    }

    /// Gives and takes where nobody waits: the calls alone.
    pub fn alone(&self) -> bool {
        match self {
            Self::Pipe { there, .. } => {
                write(there.1.as_raw_fd(), GO) && read(there.0.as_raw_fd()) == Some(GO)
            }
            Self::Futex(word) => {
                word.set(Side::Lead.word());
                // Another value than is there: it does not sleep.
                word.sleep(Side::Answer.word());
                true
            }
        }
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd), WorkError> {
    nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(|errno| WorkError::system("make a pipe", errno))
}

fn write(end: RawFd, byte: u8) -> bool {
    loop {
        // SAFETY: one byte that lives until the call returns.
        let written = unsafe { libc::write(end, ptr::from_ref(&byte).cast(), 1) };
        if written == 1 {
            return true;
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return false;
        }
    }
}

fn read(end: RawFd) -> Option<u8> {
    let mut byte = END;
    loop {
        // SAFETY: room for one byte that lives until the call returns.
        let got = unsafe { libc::read(end, ptr::from_mut(&mut byte).cast(), 1) };
        if got == 1 {
            return Some(byte);
        }
        if got == 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return None;
        }
    }
}

/// A word of memory that stays shared over a fork.
#[derive(Debug)]
pub struct SharedWord(NonNull<AtomicU32>);

// SAFETY: an atomic word; the mapping ends with its owner.
unsafe impl Send for SharedWord {}
// SAFETY: the same.
unsafe impl Sync for SharedWord {}

impl SharedWord {
    fn new() -> Result<Self, WorkError> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping that nobody else knows.
        let at = unsafe { libc::mmap(ptr::null_mut(), size_of::<AtomicU32>(), protection, flags, -1, 0) };
        match NonNull::new(at.cast::<AtomicU32>()) {
            Some(word) if at != libc::MAP_FAILED => Ok(Self(word)),
            _ => Err(WorkError::system("map a shared word", io::Error::last_os_error())),
        }
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: the mapping is zeroed, aligned to a page, and lives as long as `self`.
        unsafe { self.0.as_ref() }
    }

    /// From one value to another, which wakes who sleeps on it; not when all is over meanwhile.
    fn pass(&self, from: u32, to: u32) -> bool {
        self.word().compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok() && self.wake()
    }

    /// Sets it and wakes who sleeps on it.
    fn set(&self, value: u32) -> bool {
        self.word().store(value, Ordering::Release);
        self.wake()
    }

    fn wake(&self) -> bool {
        // SAFETY: futex(2), FUTEX_WAKE on a word of ours; it touches nothing else.
        unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), libc::FUTEX_WAKE, 1) >= 0 }
    }

    /// Sleeps until it has the value, or all is over.
    fn wait(&self, value: u32) -> bool {
        loop {
            match self.word().load(Ordering::Acquire) {
                now if now == value => return true,
                OVER => return false,
                now => self.sleep(now),
            }
        }
    }

    /// Sleeps, if it has this value, until it is woken.
    fn sleep(&self, value: u32) {
        let forever = ptr::null::<libc::timespec>();
        // SAFETY: futex(2), FUTEX_WAIT on a word of ours; it touches nothing else.
        unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), libc::FUTEX_WAIT, value, forever) };
    }
}

impl Drop for SharedWord {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nobody holds a reference to it any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<AtomicU32>()) };
    }
}
