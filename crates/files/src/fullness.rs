//! A disk that is full although it is not: what would take room is refused for a while, so that it can be seen what a guest's programs
//! make of it, and nothing of the host's disk is taken for that.
//!
//! Source: which calls fail with ENOSPC: `write(2)`, `mkdir(2)`, `symlink(2)`, `link(2)`, `fallocate(2)`, `setxattr(2)`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::message::opcode;

/// Until when the disk counts as full. Copies of it are the same one.
#[derive(Debug, Clone, Default)]
pub struct Fullness(Arc<Mutex<Option<Instant>>>);

impl Fullness {
    /// It is full for so long from now on.
    pub fn begin(&self, lasts: Duration) {
        let until = Instant::now().checked_add(lasts);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    /// Whether it is full.
    pub fn is_full(&self) -> bool {
        let mut until = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = until.is_some_and(|until| Instant::now() < until);
        if !is_full {
            *until = None;
        }
        is_full
    }

    /// Whether a request is one that always takes room. What is written may have its room already.
    pub(crate) fn refuses(&self, asked: u32) -> bool {
        let takes_room = matches!(
            asked,
            opcode::CREATE
                | opcode::MKNOD
                | opcode::MKDIR
                | opcode::SYMLINK
                | opcode::LINK
                | opcode::FALLOCATE
                | opcode::COPY_FILE_RANGE
                | opcode::SETXATTR
        );
        takes_room && self.is_full()
    }
}
