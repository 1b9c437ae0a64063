//! From a request to its answer.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Mutex;

use rustix::io::Errno;

use crate::directories::Listing;
use crate::fullness::Fullness;
use crate::handles::Handle;
use crate::locks::Locks;
use crate::message::{Body, Fields, HEADER_BYTES, Header, MOST_DATA, Result, answer, opcode};
use crate::nodes::Nodes;
use crate::notion::Notion;
use crate::retries::{Retries, Retry};
use crate::stamp::Stamp;
use crate::watch::Watch;
use crate::written::Written;

/// A tree, `0`, `1`, … in the folder of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tree {
    /// Whether the guest may write to it. What it may not, it caches for long.
    pub is_writable: bool,
}

/// What waits; gives back the answer.
pub type Job = Box<dyn FnOnce() -> Vec<u8> + Send>;

/// What becomes of a request.
pub enum Answer {
    /// Nobody waits for one.
    None,
    /// This.
    Now(Vec<u8>),
    /// What this gives back, on another thread.
    Later(Job),
}

/// An operation's outcome.
pub enum Outcome {
    /// Answered.
    Done(Body),
    /// Answered by what this gives back.
    Waits(Box<dyn FnOnce() -> Result<Body> + Send>),
    /// Not answered.
    Silent,
}

impl From<Body> for Outcome {
    fn from(body: Body) -> Self {
        Self::Done(body)
    }
}

/// Who asks, in the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asker {
    /// User.
    pub user: u32,
    /// Group.
    pub group: u32,
}

/// Flags of INIT that this server knows (`FUSE_…` in `fuse.h`).
mod init {
    pub const ASYNC_READ: u32 = 1 << 0;
    pub const POSIX_LOCKS: u32 = 1 << 1;
    pub const ATOMIC_O_TRUNC: u32 = 1 << 3;
    pub const BIG_WRITES: u32 = 1 << 5;
    // Whoever asks says its umask, which does not count where a folder says what those in it may.
    pub const DONT_MASK: u32 = 1 << 6;
    pub const FLOCK_LOCKS: u32 = 1 << 10;
    // Other times mean other content: see `coherence`.
    pub const AUTO_INVAL_DATA: u32 = 1 << 12;
    // Always, not only when the guest's kernel takes it for worth it: a page of its holds 24 entries then, and spares a request for each.
    pub const DO_READDIRPLUS: u32 = 1 << 13;
    pub const PARALLEL_DIROPS: u32 = 1 << 18;
    pub const MAX_PAGES: u32 = 1 << 22;
    pub const CACHE_SYMLINKS: u32 = 1 << 23;
    pub const HANDLE_KILLPRIV_V2: u32 = 1 << 28;
    pub const ALL: u32 = ASYNC_READ
        | POSIX_LOCKS
        | ATOMIC_O_TRUNC
        | BIG_WRITES
        | DONT_MASK
        | FLOCK_LOCKS
        | AUTO_INVAL_DATA
        | DO_READDIRPLUS
        | PARALLEL_DIROPS
        | MAX_PAGES
        | CACHE_SYMLINKS
        | HANDLE_KILLPRIV_V2;
}

/// The protocol's version: 7.36, of Linux 5.16 and later.
const VERSION: (u32, u32) = (7, 36);
/// Oldest minor version that is spoken: requests of older ones are shorter.
const OLDEST_MINOR: u32 = 23;
/// Requests that the guest may leave unanswered behind.
const MOST_BEHIND: u16 = 64;

/// The server's state.
pub struct Files {
    pub(crate) nodes: Nodes,
    pub(crate) handles: HashMap<u64, Handle>,
    pub(crate) listings: HashMap<u64, Listing>,
    /// Bytes of memory that they take.
    pub(crate) listed: usize,
    pub(crate) locks: Locks,
    pub(crate) trees: Vec<Tree>,
    pub(crate) next_handle: u64,
    /// What is beside files that their owner may not read, with how they were after that.
    pub(crate) hidden: Mutex<HashMap<(u64, u64), (Stamp, Notion)>>,
    /// Whom the host takes this process for, and so all that a guest makes.
    pub(crate) own: Asker,
    /// Tasks of the guest that were told that something is stale.
    pub(crate) retries: Retries,
    /// Whether the times of files on a device tell that somebody writes to them through a mapping.
    pub(crate) tells_of_mappings: HashMap<u64, bool>,
    /// Files of which the guest is to take the times.
    pub(crate) written: Written,
    /// Who else opens files that the guest has made.
    pub(crate) watch: Option<Watch>,
    /// Whether what takes room is refused.
    pub(crate) fullness: Fullness,
    /// That of whoever asks now.
    pub(crate) retry: Option<Retry>,
}

impl Files {
    /// Serves the trees `0`, `1`, … in this folder.
    pub fn new(folder: OwnedFd, trees: Vec<Tree>) -> Self {
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Self {
            nodes: Nodes::new(folder),
            handles: HashMap::new(),
            listings: HashMap::new(),
            listed: 0,
            locks: Locks::default(),
            trees,
            next_handle: 1,
            hidden: Mutex::default(),
            own: Asker { user, group },
            retries: Retries::default(),
            tells_of_mappings: HashMap::new(),
            written: Written::default(),
            watch: Watch::new().ok(),
            fullness: Fullness::default(),
            retry: None,
        }
    }

    /// The disk is full when this says so.
    #[must_use]
    pub fn full_when(self, fullness: Fullness) -> Self {
        Self { fullness, ..self }
    }

    /// Does what a request asks; the answer may have so many bytes.
    pub fn handle(&mut self, request: &[u8], room: usize) -> Answer {
        let Some(header) = Header::read(request) else { return Answer::None };
        let unique = header.unique;
        let room = room.saturating_sub(crate::message::ANSWER_HEADER_BYTES).min(MOST_DATA + 4096);
        let fields = Fields(request.get(HEADER_BYTES..).unwrap_or_default());
        self.nodes.make_room(self.handles.len() + self.listings.len());
        let outcome = match usize::try_from(header.length) {
            Ok(length) if length == request.len() => {
                let what = (header.opcode, header.node);
                self.retrying(header.process, what, |files| files.serve(&header, fields, room))
            }
            _ => Err(Errno::INVAL),
        };
        match outcome {
            Ok(Outcome::Silent) => Answer::None,
            Ok(Outcome::Done(body)) if body.0.len() > room => Answer::Now(answer(unique, Err(Errno::IO))),
            Ok(Outcome::Done(body)) => Answer::Now(answer(unique, Ok(body))),
            Ok(Outcome::Waits(job)) => Answer::Later(Box::new(move || answer(unique, job()))),
            Err(_) if matches!(header.opcode, opcode::FORGET | opcode::BATCH_FORGET) => Answer::None,
            Err(error) => Answer::Now(answer(unique, Err(error))),
        }
    }

    fn serve(&mut self, header: &Header, fields: Fields<'_>, room: usize) -> Result<Outcome> {
        let (node, asker) = (header.node, Asker { user: header.user, group: header.group });
        if self.fullness.refuses(header.opcode) && self.is_writable(node)? {
            return Err(Errno::NOSPC);
        }
        match header.opcode {
            opcode::INIT => init(fields).map(Outcome::from),
            opcode::DESTROY => {
                self.forget_all();
                Ok(Body::default().into())
            }
            opcode::LOOKUP => self.lookup(node, fields, header.process),
            opcode::FORGET => self.forget(node, fields),
            opcode::BATCH_FORGET => self.forget_batch(fields),
            opcode::GETATTR => self.get_attributes(node, fields),
            opcode::SETATTR => match self.take_times(node, fields, header.process)? {
                Some(taken) => Ok(taken.into()),
                None => self.set_attributes(node, fields, asker).map(Outcome::from),
            },
            opcode::STATFS => self.file_system(node).map(Outcome::from),
            opcode::READLINK => self.read_link(node).map(Outcome::from),
            opcode::SYMLINK => self.make_link(node, fields).map(Outcome::from),
            opcode::MKNOD => self.make_node(node, fields, asker).map(Outcome::from),
            opcode::MKDIR => self.make_folder(node, fields, asker).map(Outcome::from),
            opcode::UNLINK => self.remove(node, fields, false).map(Outcome::from),
            opcode::RMDIR => self.remove(node, fields, true).map(Outcome::from),
            opcode::RENAME => self.rename(node, fields, false).map(Outcome::from),
            opcode::RENAME2 => self.rename(node, fields, true).map(Outcome::from),
            opcode::LINK => self.link(node, fields).map(Outcome::from),
            opcode::CREATE => self.create(node, fields, asker).map(Outcome::from),
            opcode::OPEN => self.open(node, fields, asker).map(Outcome::from),
            opcode::READ => self.read(fields, room).map(Outcome::from),
            opcode::WRITE => self.write(node, fields, asker),
            opcode::FLUSH => self.flush(node, fields).map(Outcome::from),
            opcode::FSYNC => self.sync(node, fields),
            opcode::RELEASE => self.release(fields).map(Outcome::from),
            opcode::FALLOCATE => self.allocate(node, fields, asker).map(Outcome::from),
            opcode::LSEEK => self.seek(fields).map(Outcome::from),
            opcode::COPY_FILE_RANGE => self.copy_range(fields, asker).map(Outcome::from),
            opcode::SYNCFS => self.sync_all(header.process),
            opcode::OPENDIR => self.open_folder(node).map(Outcome::from),
            opcode::READDIR => self.list(node, fields, room, false).map(Outcome::from),
            opcode::READDIRPLUS => self.list(node, fields, room, true).map(Outcome::from),
            opcode::RELEASEDIR => self.close_folder(fields).map(Outcome::from),
            opcode::FSYNCDIR => self.sync_folder(fields),
            opcode::SETXATTR => self.set_xattr(node, fields).map(Outcome::from),
            opcode::GETXATTR => self.get_xattr(node, fields, header.process),
            opcode::LISTXATTR => self.list_xattrs(node, fields).map(Outcome::from),
            opcode::REMOVEXATTR => self.remove_xattr(node, fields).map(Outcome::from),
            opcode::GETLK => self.get_lock(node, fields).map(Outcome::from),
            opcode::SETLK => self.set_lock(node, fields, None),
            opcode::SETLKW => self.set_lock(node, fields, Some(header.process)),
            // Never sent over virtio-fs: see `waits`.
            opcode::INTERRUPT => Ok(Outcome::Silent),
            // The guest's kernel remembers it, and does without.
            _ => Err(Errno::NOSYS),
        }
    }

    /// Number of a new handle.
    pub(crate) fn handle_number(&mut self) -> u64 {
        let number = self.next_handle;
        self.next_handle += 1;
        number
    }

    /// Whether a node lies in a tree that may be written to.
    ///
    /// # Errors
    /// EROFS where not.
    pub(crate) fn writable(&self, node: u64) -> Result<()> {
        if self.is_writable(node)? { Ok(()) } else { Err(Errno::ROFS) }
    }

    /// The same as a question.
    pub(crate) fn is_writable(&self, node: u64) -> Result<bool> {
        let tree = self.nodes.tree_of(node)?;
        Ok(tree.and_then(|tree| self.trees.get(tree)).is_some_and(|tree| tree.is_writable))
    }

    fn forget_all(&mut self) {
        self.handles.clear();
        self.listings.clear();
        self.listed = 0;
        self.locks = Locks::default();
        self.nodes.forget_all();
    }

    fn forget(&mut self, node: u64, mut fields: Fields<'_>) -> Result<Outcome> {
        self.nodes.forget(node, fields.long()?);
        Ok(Outcome::Silent)
    }

    fn forget_batch(&mut self, mut fields: Fields<'_>) -> Result<Outcome> {
        let count = fields.number()?;
        fields.skip(4)?;
        for _ in 0..count {
            let (node, uses) = (fields.long()?, fields.long()?);
            self.nodes.forget(node, uses);
        }
        Ok(Outcome::Silent)
    }
}

fn init(mut fields: Fields<'_>) -> Result<Body> {
    let (major, minor) = (fields.number()?, fields.number()?);
    let mut body = Body::default();
    if major > VERSION.0 {
        // It asks again with this one.
        return Ok(body.number(VERSION.0).number(VERSION.1).zeros(56).done());
    }
    if major < VERSION.0 || minor < OLDEST_MINOR {
        return Err(Errno::PROTO);
    }
    let (ahead, offered) = (fields.number()?, fields.number()?);
    let most = u32::try_from(MOST_DATA).unwrap_or(u32::MAX);
    let pages = u16::try_from(MOST_DATA / 4096).unwrap_or(u16::MAX);
    body.number(VERSION.0).number(VERSION.1).number(ahead).number(offered & init::ALL);
    body.short(MOST_BEHIND).short(MOST_BEHIND / 4 * 3).number(most);
    // Times are nanoseconds; DAX is not spoken.
    Ok(body.number(1).short(pages).short(0).zeros(32).done())
}
