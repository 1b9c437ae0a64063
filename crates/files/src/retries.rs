//! Second attempts: what was just looked up is what is opened, whatever the host does meanwhile.
//!
//! ESTALE makes the guest's kernel walk the whole path once more and ask for each name (`LOOKUP_REVAL`, its `fs/namei.c`). A second
//! ESTALE reaches the program. So each task of the guest hears it once: what it looks up from then on is kept, and what it
//! then asks for is done with that, also where the host has replaced it since. It was there when the program asked.
//!
//! ```text
//!  OPEN a ──► ESTALE          the name leads elsewhere, or its size is another one
//!  LOOKUP d, LOOKUP a ──►     each kept; attributes are believed for no time, so that the first `read` asks for the size
//!  OPEN a ──►                 what was kept, unless the task has asked for something else in between
//! ```

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Mode, OFlags, openat};
use rustix::io::Errno;

use crate::attributes::{Known, in_searched};
use crate::message::{Result, opcode};
use crate::server::Files;

/// Tasks that are remembered: each holds a descriptor, and hardly any is forgotten before it asks again.
const MOST: usize = 64;
/// For how long: whoever only asks how things are never comes to an end.
const LONGEST: Duration = Duration::from_secs(10);
/// Folders that are remembered of one path.
const MOST_FOLDERS: usize = 4096;
/// A walk finds the same name missing so often at most: where it had led somewhere, and once more. Then it may be made.
const MOST_MISSING: u32 = 2;

/// What a task does after it was told that something is stale.
#[derive(Debug)]
pub struct Retry {
    task: u32,
    begun: Instant,
    /// For which node it was told so: asked for again before anything is looked up, it has no name that could be (`/proc/self/fd`).
    refused: u64,
    /// The folder from which it has set out since, a tree or somebody's working folder, which its kernel does not ask for; behind it those
    /// that it has looked up.
    folders: Vec<u64>,
    /// What else it has looked up last.
    last: Option<(u64, Arc<OwnedFd>)>,
    /// How often it found a name missing.
    missing: u32,
    /// Whether what it asks for now is its kernel's own question.
    is_kernels: bool,
}

impl Retry {
    fn has_found(&self, id: u64) -> bool {
        self.last.as_ref().is_some_and(|(last, _)| *last == id) || self.folders.contains(&id)
    }
}

/// All of them, oldest first.
#[derive(Debug, Default)]
pub struct Retries(VecDeque<Retry>);

impl Retries {
    /// That of a task, which is no longer remembered here.
    pub fn take(&mut self, task: u32) -> Option<Retry> {
        let place = self.0.iter().position(|retry| retry.task == task)?;
        self.0.remove(place).filter(|retry| retry.begun.elapsed() < LONGEST)
    }

    /// Remembers one.
    pub fn put(&mut self, retry: Retry) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(retry);
    }

    /// A task was told that this node is stale.
    pub fn begin(&mut self, task: u32, refused: u64) {
        let (begun, folders, last) = (Instant::now(), Vec::new(), None);
        let (missing, is_kernels) = (0, false);
        self.put(Retry { task, begun, refused, folders, last, missing, is_kernels });
    }
}

/// Whether this belongs to walking a path, after which something else is asked for.
pub const fn is_on_the_way(asked: u32) -> bool {
    matches!(asked, opcode::LOOKUP | opcode::READLINK | opcode::GETATTR)
}

impl Files {
    /// Whether whoever asks is on its second attempt.
    pub(crate) const fn is_second(&self) -> bool {
        self.retry.is_some()
    }

    /// Whether whoever asks has just looked this node up because it was told that something is stale.
    pub(crate) fn was_found(&self, id: u64) -> bool {
        let is_found =
            |retry: &Retry| (retry.folders.is_empty() && retry.refused == id) || retry.has_found(id);
        self.retry.as_ref().is_some_and(is_found)
    }

    /// What it has found then.
    pub(crate) fn found(&self, id: u64) -> Option<Arc<OwnedFd>> {
        let (last, path) = self.retry.as_ref()?.last.as_ref()?;
        (*last == id).then(|| Arc::clone(path))
    }

    /// Looks at what `name` is in a folder, so that it can be kept.
    pub(crate) fn look_and_hold(&self, folder: &OwnedFd, name: &[u8]) -> Result<(Known, Arc<OwnedFd>)> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let path = in_searched(folder, || openat(folder, name, flags, Mode::empty()))?;
        Ok((self.look_at(&path)?, Arc::new(path)))
    }

    /// Keeps what was found until it is asked for.
    pub(crate) fn hold(&mut self, id: u64, path: Arc<OwnedFd>) {
        let is_folder = self.nodes.get(id).is_ok_and(|node| node.kind == FileType::Directory);
        if is_folder {
            self.nodes.keep(id, &path);
        }
        let Some(retry) = &mut self.retry else { return };
        if !is_folder {
            retry.last = Some((id, path));
        } else if retry.folders.len() < MOST_FOLDERS {
            retry.folders.push(id);
        }
    }

    /// The guest's kernel asks by itself, on the way to what was asked for: whether there are capabilities to be taken away.
    pub(crate) const fn is_asked_by_kernel(&mut self) {
        if let Some(retry) = &mut self.retry {
            retry.is_kernels = true;
        }
    }

    /// A name is missing: the end of most walks.
    pub(crate) fn misses(&mut self) {
        if let Some(retry) = &mut self.retry {
            retry.missing += 1;
        }
        self.retry.take_if(|retry| retry.missing > MOST_MISSING);
    }

    /// Whether the names above lead to a node still, unless whoever asks has just looked.
    ///
    /// # Errors
    /// ESTALE where they do not.
    pub(crate) fn check_names(&mut self, id: u64) -> Result<()> {
        if self.was_found(id) || !self.is_writable(id)? { Ok(()) } else { self.nodes.check_names(id) }
    }

    /// Whether a node is what is meant: by its name, or through what is open, the guest's kernel does not say. Where the host has given
    /// the name to something else within the second that it is believed, a descriptor's user hears of that, too.
    ///
    /// # Errors
    /// ESTALE where it may not be.
    pub(crate) fn check_meant(&mut self, id: u64) -> Result<()> {
        if self.was_found(id) || !self.is_writable(id)? { Ok(()) } else { self.nodes.check_believed(id) }
    }

    /// Does what a task asks, with what is remembered of it.
    pub(crate) fn retrying<T>(
        &mut self,
        task: u32,
        (asked, node): (u32, u64),
        act: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        self.retry = self.retries.take(task);
        if let Some(retry) = &mut self.retry
            && asked == opcode::LOOKUP
            && retry.folders.is_empty()
        {
            retry.folders.push(node);
        }
        let outcome = act(self);
        let retry = self.retry.take();
        if matches!(outcome, Err(Errno::STALE)) {
            self.retries.begin(task, node);
        } else if let Some(retry) = retry.filter(|retry| retry.is_kernels || is_on_the_way(asked)) {
            self.retries.put(Retry { is_kernels: false, ..retry });
        }
        outcome
    }
}
