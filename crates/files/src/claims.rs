//! Files through which processes share memory: one kernel at a time.
//!
//! A database with a write-ahead log maps a file beside it into all processes that use it, and locks parts of it. The guest's mapping
//! and the host's are not the same memory, so that locks alone would let both sides believe different things, and the database
//! would break. So the first lock that a guest takes of such a file is the host's for the whole of it, against everybody
//! outside of the guest; who has what among the guest's own is kept here. Both sides then hear what they hear of any
//! database that is in use: it is locked.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use nix::fcntl::{FcntlArg, fcntl};
use rustix::fs::OFlags;
use rustix::io::{Errno, pread};

use crate::locks::{Asked, errno, whole};
use crate::message::{Body, Result};
use crate::nodes::open_again;
use crate::ranges::{NONE, Range, Ranges, WRITE};
use crate::server::{Files, Outcome};
use crate::waits::Wait;

/// How long one that waits for a lock sleeps before it tries again.
const AGAIN_AFTER: Duration = Duration::from_millis(10);
/// How such files are called: the index of `SQLite`'s log (sqlite.org/walformat.html), the readers of LMDB (`lmdb.h`).
const ENDINGS: [&[u8]; 2] = [b"-shm", b"lock.mdb"];
/// The readers of an LMDB that is a file and no folder (`MDB_NOSUBDIR`) end so, and others do, too.
const MAYBE: &[u8] = b"-lock";
/// With what LMDB's begins (`MDB_MAGIC` of its `mdb.c`).
const MAGIC: u32 = 0xbeef_c0de;

/// An attempt to lock a range of such a file.
#[derive(Clone)]
struct Attempt {
    file: Arc<OwnedFd>,
    ranges: Arc<Mutex<Ranges>>,
    node: u64,
    owner: u64,
    range: Range,
}

impl Attempt {
    fn make(&self) -> Result<()> {
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        if !ranges.in_the_way(self.node, self.owner, self.range).is_empty() {
            return Err(Errno::AGAIN);
        }
        // Once more is as good as once.
        match fcntl(&self.file, FcntlArg::F_OFD_SETLK(&whole(WRITE))).map_err(errno) {
            Ok(_) => {
                ranges.set(self.node, self.owner, self.range);
                Ok(())
            }
            Err(Errno::ACCESS) => Err(Errno::AGAIN),
            Err(error) => Err(error),
        }
    }

    fn wait(&self, wait: &Wait) -> Result<()> {
        loop {
            match self.make() {
                Err(Errno::AGAIN) => sleep(AGAIN_AFTER),
                other => return other,
            }
            wait.go_on()?;
        }
    }
}

impl Files {
    /// Whether a file is memory between processes.
    pub(crate) fn is_memory(&self, id: u64, asked: &Asked) -> Result<bool> {
        if !self.is_writable(id)? {
            return Ok(false);
        }
        let name = self.nodes.get(id)?.name.as_deref().unwrap_or_default();
        Ok(self.locks.claims.contains_key(&id)
            || ENDINGS.iter().any(|ending| name.ends_with(ending))
            || name.ends_with(MAYBE) && self.has_readers(asked))
    }

    /// Whether a file holds the readers of an LMDB, or is about to: whoever makes one locks its first byte while it is empty.
    fn has_readers(&self, asked: &Asked) -> bool {
        let Ok(handle) = self.handle_of(asked.handle) else { return false };
        let mut begin = [0; 4];
        match pread(&handle.file, &mut begin, 0) {
            Ok(0) => (asked.start, asked.end) == (0, 0),
            Ok(count) => count == begin.len() && u32::from_ne_bytes(begin) == MAGIC,
            Err(_) => false,
        }
    }

    fn claim(&mut self, id: u64, asked: &Asked) -> Result<Arc<OwnedFd>> {
        if let Some(file) = self.locks.claims.get(&id) {
            return Ok(Arc::clone(file));
        }
        let handle = self.handle_of(asked.handle)?;
        let file = open_again(&handle.file, OFlags::RDWR | OFlags::NONBLOCK).map_err(|_| Errno::NOLCK)?;
        let file = Arc::new(file);
        self.locks.claims.insert(id, Arc::clone(&file));
        Ok(file)
    }

    /// Who has a lock in the way of this one: its kind and its process, if it is one of the guest's.
    pub(crate) fn get_claimed(&mut self, id: u64, asked: &Asked) -> Result<Body> {
        let file = self.claim(id, asked)?;
        let within = self.locks.ranges().in_the_way(id, asked.owner, asked.range()).first().copied();
        let mut body = Body::default();
        if let Some((owner, range)) = within {
            let process = self.locks.processes.get(&owner).copied().unwrap_or(0);
            return Ok(body.long(range.start).long(range.end).number(range.kind).number(process).done());
        }
        let mut found = whole(WRITE);
        fcntl(&file, FcntlArg::F_OFD_GETLK(&mut found)).map_err(errno)?;
        let is_free = u32::try_from(found.l_type).unwrap_or(NONE) == NONE;
        let kind = if is_free { NONE } else { WRITE };
        Ok(body.long(asked.start).long(asked.end).number(kind).number(0).done())
    }

    /// Takes a lock, or gives it back.
    pub(crate) fn set_claimed(&mut self, id: u64, asked: &Asked) -> Result<Outcome> {
        let (owner, range) = (asked.owner, asked.range());
        if asked.kind == NONE {
            self.locks.ranges().set(id, owner, range);
            self.locks.settle_claim(id);
            return Ok(Body::default().into());
        }
        let file = self.claim(id, asked)?;
        self.locks.processes.insert(owner, asked.process);
        let attempt = Attempt { file, ranges: self.locks.shared_ranges(), node: id, owner, range };
        match (attempt.make(), asked.waiter) {
            (Ok(()), _) => Ok(Body::default().into()),
            (Err(Errno::AGAIN), Some(waiter)) => {
                let wait = self.locks.waits.begin(waiter)?;
                let ticket = self.locks.ranges().begin_to_wait(id, owner, range).ok_or(Errno::DEADLK)?;
                Ok(Outcome::Waits(Box::new(move || {
                    let got = attempt.wait(&wait);
                    attempt.ranges.lock().unwrap_or_else(PoisonError::into_inner).end_to_wait(ticket);
                    got.map(|()| Body::default())
                })))
            }
            (Err(error), _) => Err(error),
        }
    }
}
