//! Locks: the host's own, so that host and guests agree.
//!
//! Record locks of a process in the guest become locks of an open file description of its own (`F_OFD_SETLK`, fcntl(2)), one for each
//! file and owner: closing that gives all of them back. `flock` is that of the handle's description, which is the guest's.
//! Who waits does so on a thread, until it has the lock or is taken back (`waits`).

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::fcntl::{FcntlArg, fcntl};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::message::{Body, Fields, Result};
use crate::nodes::open_again;
use crate::ranges::{NONE, READ, Range, Ranges, WRITE};
use crate::server::{Files, Outcome};
use crate::waits::Waits;

/// The end of a lock that has none.
const NO_END: u64 = i64::MAX.cast_unsigned();
/// `FUSE_LK_FLOCK`.
const IS_FLOCK: u32 = 1;

/// Descriptions that hold locks.
#[derive(Debug, Default)]
pub struct Locks {
    held: HashMap<(u64, u64), Holder>,
    ranges: Arc<Mutex<Ranges>>,
    /// Who waits.
    pub waits: Arc<Waits>,
    /// Through which the whole of a file is kept from everybody outside of the guest.
    pub claims: HashMap<u64, Arc<OwnedFd>>,
    /// The guest's processes behind owners of locks in such files.
    pub processes: HashMap<u64, u32>,
}

#[derive(Debug)]
struct Holder {
    file: Arc<OwnedFd>,
    /// Process in the guest.
    process: u32,
}

impl Locks {
    /// Gives back all that an owner has of a file.
    pub fn release(&mut self, node: u64, owner: u64) {
        if let Some(holder) = self.held.get(&(node, owner)) {
            let _ = fcntl(&holder.file, FcntlArg::F_OFD_SETLK(&whole(NONE)));
            let is_awaited = {
                let mut ranges = self.ranges();
                ranges.release(node, owner);
                ranges.is_awaited(node, owner)
            };
            // Another thread of the same owner is to have what it waits for with this description when it comes.
            if !is_awaited {
                self.held.remove(&(node, owner));
            }
        }
        if self.claims.contains_key(&node) {
            self.ranges().release(node, owner);
            self.processes.remove(&owner);
            self.settle_claim(node);
        }
    }

    /// Lets others have a claimed file when nobody in the guest has any of it.
    pub fn settle_claim(&self, node: u64) {
        // While this is held nobody begins to have some.
        let ranges = self.ranges();
        if let Some(file) = self.claims.get(&node).filter(|_| ranges.is_free(node)) {
            let _ = fcntl(file, FcntlArg::F_OFD_SETLK(&whole(NONE)));
        }
    }

    /// Who holds and awaits what.
    pub fn shared_ranges(&self) -> Arc<Mutex<Ranges>> {
        Arc::clone(&self.ranges)
    }

    pub(crate) fn ranges(&self) -> MutexGuard<'_, Ranges> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        self.waits.end();
    }
}

/// A lock as the guest asks for it.
pub struct Asked {
    /// Through which open file.
    pub handle: u64,
    /// For whom.
    pub owner: u64,
    /// First byte.
    pub start: u64,
    /// Last byte.
    pub end: u64,
    /// Of what kind.
    pub kind: u32,
    /// Which process of the guest's asks.
    pub process: u32,
    /// Which thread of the guest's waits until it has it; none where nobody does.
    pub waiter: Option<u32>,
    flags: u32,
}

impl Asked {
    fn read(fields: &mut Fields<'_>, waiter: Option<u32>) -> Result<Self> {
        let (handle, owner, start, end) = (fields.long()?, fields.long()?, fields.long()?, fields.long()?);
        let (kind, process, flags) = (fields.number()?, fields.number()?, fields.number()?);
        if start > end || start > NO_END || kind > NONE {
            return Err(Errno::INVAL);
        }
        Ok(Self { handle, owner, start, end, kind, process, waiter, flags })
    }

    /// What is to be locked.
    pub const fn range(&self) -> Range {
        let end = if self.end >= NO_END { u64::MAX } else { self.end };
        Range { start: self.start, end, kind: self.kind }
    }

    /// The range as fcntl(2) has it: a length of 0 leads to the end.
    fn for_host(&self) -> nix::libc::flock {
        let length = if self.end >= NO_END { 0 } else { self.end - self.start + 1 };
        nix::libc::flock {
            l_type: short(self.kind),
            l_whence: 0,
            l_start: self.start.cast_signed(),
            l_len: length.cast_signed(),
            l_pid: 0,
        }
    }
}

/// A lock of a whole file.
pub fn whole(kind: u32) -> nix::libc::flock {
    nix::libc::flock { l_type: short(kind), l_whence: 0, l_start: 0, l_len: 0, l_pid: 0 }
}

fn short(kind: u32) -> i16 {
    i16::try_from(kind).unwrap_or(0)
}

/// The same error, in the other crate's words.
pub fn errno(error: nix::errno::Errno) -> Errno {
    Errno::from_raw_os_error(error as i32)
}

impl Files {
    /// The description through which an owner locks a file.
    fn holder(&mut self, id: u64, asked: &Asked) -> Result<Arc<OwnedFd>> {
        let key = (id, asked.owner);
        if let Some(holder) = self.locks.held.get(&key) {
            return Ok(Arc::clone(&holder.file));
        }
        let file = self.opened_for(asked)?;
        self.locks.held.insert(key, Holder { file: Arc::clone(&file), process: asked.process });
        Ok(file)
    }

    /// Another description of the file that was asked about.
    fn opened_for(&self, asked: &Asked) -> Result<Arc<OwnedFd>> {
        let handle = self.handle_of(asked.handle)?;
        let modes = [OFlags::RDWR, OFlags::RDONLY, OFlags::WRONLY];
        let open = |mode: OFlags| open_again(&handle.file, mode | OFlags::NONBLOCK);
        modes.into_iter().find_map(|mode| open(mode).ok()).map(Arc::new).ok_or(Errno::NOLCK)
    }

    pub(crate) fn get_lock(&mut self, id: u64, mut fields: Fields<'_>) -> Result<Body> {
        let asked = Asked::read(&mut fields, None)?;
        if self.is_memory(id, &asked)? {
            return self.get_claimed(id, &asked);
        }
        // Who only asks holds nothing, and is not heard of again when it closes the file.
        let held = self.locks.held.get(&(id, asked.owner)).map(|holder| Arc::clone(&holder.file));
        let file = held.map_or_else(|| self.opened_for(&asked), Ok)?;
        let mut found = asked.for_host();
        fcntl(&file, FcntlArg::F_OFD_GETLK(&mut found)).map_err(errno)?;
        let kind = u32::try_from(found.l_type).unwrap_or(NONE);
        let (start, end) = if kind == NONE {
            (asked.start, asked.end)
        } else {
            let start = found.l_start.cast_unsigned();
            let length = found.l_len.cast_unsigned();
            (start, if length == 0 { NO_END } else { start + length - 1 })
        };
        // Of a process on the host the guest knows nothing.
        let holder =
            self.locks.ranges().in_the_way(id, asked.owner, asked.range()).first().map(|(owner, _)| *owner);
        let holder = holder.filter(|_| kind != NONE).and_then(|owner| self.locks.held.get(&(id, owner)));
        let process = holder.map_or(0, |holder| holder.process);
        Ok(Body::default().long(start).long(end).number(kind).number(process).done())
    }

    pub(crate) fn set_lock(
        &mut self,
        id: u64,
        mut fields: Fields<'_>,
        waiter: Option<u32>,
    ) -> Result<Outcome> {
        let asked = Asked::read(&mut fields, waiter)?;
        if self.handle_of(asked.handle)?.node != id {
            return Err(Errno::BADF);
        }
        let outcome = if asked.flags & IS_FLOCK != 0 {
            self.set_flock(&asked)
        } else {
            self.set_record_lock(id, &asked)
        }?;
        if asked.kind == NONE { Ok(outcome) } else { self.locked(id, outcome) }
    }

    fn set_record_lock(&mut self, id: u64, asked: &Asked) -> Result<Outcome> {
        let is_memory = self.is_memory(id, asked)?;
        if asked.kind == NONE && !is_memory && !self.locks.held.contains_key(&(id, asked.owner)) {
            return Ok(Body::default().into());
        }
        if let Some(handle) = self.handles.get_mut(&asked.handle)
            && !handle.lockers.contains(&asked.owner)
        {
            handle.lockers.push(asked.owner);
        }
        if is_memory {
            return self.set_claimed(id, asked);
        }
        let file = self.holder(id, asked)?;
        let (for_host, range, owner) = (asked.for_host(), asked.range(), asked.owner);
        match (fcntl(&file, FcntlArg::F_OFD_SETLK(&for_host)).map_err(errno), asked.waiter) {
            (Ok(_), _) => {
                self.locks.ranges().set(id, owner, range);
                Ok(Body::default().into())
            }
            (Err(Errno::AGAIN | Errno::ACCESS), Some(waiter)) => {
                let wait = self.locks.waits.begin(waiter)?;
                let ticket = self.locks.ranges().begin_to_wait(id, owner, range).ok_or(Errno::DEADLK)?;
                let ranges = Arc::clone(&self.locks.ranges);
                Ok(Outcome::Waits(Box::new(move || {
                    let got = wait.by(|| fcntl(&file, FcntlArg::F_OFD_SETLKW(&for_host)).map_err(errno));
                    let mut ranges = ranges.lock().unwrap_or_else(PoisonError::into_inner);
                    ranges.end_to_wait(ticket);
                    got.map(|_| {
                        ranges.set(id, owner, range);
                        Body::default()
                    })
                })))
            }
            (Err(Errno::ACCESS), None) => Err(Errno::AGAIN),
            (Err(error), _) => Err(error),
        }
    }

    fn set_flock(&mut self, asked: &Asked) -> Result<Outcome> {
        let file = Arc::clone(&self.handle_of(asked.handle)?.file);
        let (now, later) = match asked.kind {
            READ => (FlockOperation::NonBlockingLockShared, FlockOperation::LockShared),
            WRITE => (FlockOperation::NonBlockingLockExclusive, FlockOperation::LockExclusive),
            _ => (FlockOperation::NonBlockingUnlock, FlockOperation::Unlock),
        };
        match (flock(&file, now), asked.waiter) {
            (Ok(()), _) => Ok(Body::default().into()),
            (Err(Errno::AGAIN), Some(waiter)) => {
                let wait = self.locks.waits.begin(waiter)?;
                Ok(Outcome::Waits(Box::new(move || {
                    wait.by(|| flock(&file, later)).map(|()| Body::default())
                })))
            }
            (Err(error), _) => Err(error),
        }
    }
}
