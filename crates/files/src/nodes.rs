//! What the guest's kernel knows of the host's files: one node for each, found again by its folder and name.
//!
//! A node holds no descriptor of its own unless it must: folders that are used, files of read-only trees that were looked
//! up, and what lost its name. So the guest may know as many files as it likes. What is found under the name is compared with
//! what was there when the guest looked; something else is ESTALE, at which the guest's kernel looks anew.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::attributes::{SHORT, in_searched};
use crate::believed::{Believed, Name};
use crate::coherence::Held;
use crate::message::Result;
use crate::stamp::{Cached, Stamp};

/// Number of the folder that holds the trees.
pub const ROOT: u64 = 1;
/// Most descriptors that are kept without need.
const MOST_PINS: usize = 8192;
/// Descriptors for what one request opens, for queues and for jobs that wait.
const SPARE: usize = 512;
/// Most folders above a file that are looked at: longer than any path.
const DEEPEST: usize = 4096;

/// What a file is on the host: its tree here, device and inode.
pub type Key = (usize, u64, u64);

/// A file, folder or other thing that the guest knows.
#[derive(Debug)]
pub struct Node {
    /// What it is on the host.
    pub key: Key,
    /// Its folder.
    pub parent: u64,
    /// Its name there when it was last looked up; none once it has none.
    pub name: Option<Vec<u8>>,
    /// Which names of it the guest believes.
    pub believed: Believed,
    /// File, folder, …
    pub kind: FileType,
    /// Handles through which it is open.
    pub open: Vec<u64>,
    /// What the guest's kernel was told last.
    pub told: Option<Stamp>,
    /// What its cache holds.
    pub cached: Option<Cached>,
    /// Where it leads, as a number: of symbolic links.
    pub target: Option<u64>,
    /// What else is known of that cache.
    pub held: Held,
    lookups: u64,
    pin: Option<Arc<OwnedFd>>,
}

impl Node {
    /// Whether what was found with its number must be it. The host gives the number of a file that is gone to the next one: what is known by
    /// one name, and by another one now, may be that. It is not as long as this process has it open, and where it has several
    /// names. Folders keep theirs.
    fn must_be(&self, parent: u64, name: &[u8], found: &Stat) -> bool {
        self.kind == FileType::Directory
            || found.st_nlink > 1
            || !self.open.is_empty()
            || self.pin.is_some()
            || self.is_called(parent, name)
    }

    fn is_called(&self, parent: u64, name: &[u8]) -> bool {
        self.parent == parent && self.name.as_deref() == Some(name)
    }

    /// Whether only those ask in a folder that have it open or as their working folder: whoever comes by its name asks for that first,
    /// unless it is believed.
    fn is_used_by_no_name(&self) -> bool {
        self.kind == FileType::Directory && !self.believed.has_any()
    }

    fn last_name(&self) -> Option<Name> {
        self.name.clone().map(|name| Name { parent: self.parent, name })
    }

    /// It was looked up under this name.
    fn call(&mut self, parent: u64, name: &[u8]) {
        if !self.is_called(parent, name) {
            self.believed.replace(self.last_name(), &Name { parent, name: name.to_owned() });
            (self.parent, self.name) = (parent, Some(name.to_owned()));
        }
    }
}

/// All nodes.
#[derive(Debug)]
pub struct Nodes {
    all: HashMap<u64, Node>,
    by_key: HashMap<Key, u64>,
    next: u64,
    root: Arc<OwnedFd>,
    /// Those pinned without need, oldest first.
    pinned: VecDeque<u64>,
    most_pins: usize,
    /// Descriptors that this process may have for nodes, files and folders together.
    most_open: usize,
    /// Devices seen, in their order.
    devices: Vec<u64>,
}

impl Nodes {
    /// None but the root, which is this folder.
    pub fn new(root: OwnedFd) -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Self {
            most_pins: MOST_PINS.min(limit / 4),
            most_open: limit.saturating_sub(SPARE),
            all: HashMap::new(),
            by_key: HashMap::new(),
            next: ROOT + 1,
            root: Arc::new(root),
            pinned: VecDeque::new(),
            devices: Vec::new(),
        }
    }

    /// The folder that holds the trees.
    pub fn root(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.root)
    }

    /// A node that the guest was told of.
    pub fn get(&self, id: u64) -> Result<&Node> {
        self.all.get(&id).ok_or(Errno::STALE)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, id: u64) -> Result<&mut Node> {
        self.all.get_mut(&id).ok_or(Errno::STALE)
    }

    /// The node of what was found as `name` in `parent`, with one more use by the guest.
    pub fn enter(&mut self, tree: usize, parent: u64, name: &[u8], found: &Stat) -> u64 {
        let key = (tree, found.st_dev, found.st_ino);
        let kind = FileType::from_raw_mode(found.st_mode);
        if let Some(id) = self.by_key.get(&key).copied()
            && let Some(node) = self.all.get_mut(&id)
            && node.kind == kind
            && node.must_be(parent, name, found)
        {
            node.lookups += 1;
            node.call(parent, name);
            return id;
        }
        let id = self.next;
        self.next += 1;
        let name = Some(name.to_owned());
        let (told, cached, target, open, held) = (None, None, None, Vec::new(), Held::default());
        let (believed, lookups, pin) = (Believed::default(), 1, None);
        let node = Node { key, parent, name, believed, kind, open, told, cached, target, held, lookups, pin };
        self.all.insert(id, node);
        self.by_key.insert(key, id);
        id
    }

    /// Where a symbolic link leads that is about to be entered: the guest's kernel keeps that for as long as it knows the node, and the
    /// host may make another link with the number of one that is gone.
    pub fn leads_to(&mut self, key: Key, target: u64) {
        let known = self.by_key.get(&key).and_then(|id| self.all.get(id));
        if known.is_some_and(|node| node.kind != FileType::Symlink || node.target != Some(target)) {
            self.by_key.remove(&key);
        }
    }

    /// Takes uses back; the node goes with the last.
    pub fn forget(&mut self, id: u64, uses: u64) {
        let Some(node) = self.all.get_mut(&id) else { return };
        node.lookups = node.lookups.saturating_sub(uses);
        if node.lookups == 0
            && let Some(node) = self.all.remove(&id)
            && self.by_key.get(&node.key) == Some(&id)
        {
            self.by_key.remove(&node.key);
        }
    }

    /// The guest has no use for any of them any more.
    pub fn forget_all(&mut self) {
        self.all.clear();
        self.by_key.clear();
        self.pinned.clear();
    }

    /// The node of what a file is on the host.
    pub fn by_key(&self, key: Key) -> Option<u64> {
        self.by_key.get(&key).copied()
    }

    /// Which tree a node lies in; none for the root.
    pub fn tree_of(&self, id: u64) -> Result<Option<usize>> {
        if id == ROOT { Ok(None) } else { Ok(Some(self.get(id)?.key.0)) }
    }

    /// A descriptor of a folder, kept for the next time.
    pub fn folder(&mut self, id: u64) -> Result<Arc<OwnedFd>> {
        // Up to where one is known, then down again: a guest's folders may be deeper than a stack.
        let (mut below, mut at) = (Vec::new(), id);
        let mut folder = loop {
            if at == ROOT {
                break self.root();
            }
            let node = self.get(at)?;
            if node.kind != FileType::Directory {
                return Err(Errno::NOTDIR);
            }
            if let Some(pin) = &node.pin {
                break Arc::clone(pin);
            }
            if below.len() == DEEPEST {
                return Err(Errno::STALE);
            }
            below.push(at);
            at = node.parent;
        };
        while let Some(next) = below.pop() {
            folder = self.open_within(next, &folder)?;
            self.keep(next, &folder);
        }
        Ok(folder)
    }

    /// A descriptor of a node, by which it can only be named.
    pub fn path(&mut self, id: u64) -> Result<Arc<OwnedFd>> {
        if id == ROOT {
            return Ok(self.root());
        }
        let node = self.get(id)?;
        if node.kind == FileType::Directory {
            return self.folder(id);
        }
        if let Some(pin) = &node.pin {
            return Ok(Arc::clone(pin));
        }
        let folder = self.folder(node.parent)?;
        self.open_within(id, &folder)
    }

    /// Opens what a node stands for, in its folder.
    fn open_within(&self, id: u64, folder: &OwnedFd) -> Result<Arc<OwnedFd>> {
        let node = self.get(id)?;
        let name = node.name.as_deref().ok_or(Errno::STALE)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let path = in_searched(folder, || openat(folder, name, flags, Mode::empty())).map_err(gone)?;
        let found = fstat(&path)?;
        if (found.st_dev, found.st_ino) == (node.key.1, node.key.2) {
            Ok(Arc::new(path))
        } else {
            Err(Errno::STALE)
        }
    }

    /// Keeps a descriptor; the oldest of those that can be had again goes when there are too many.
    pub fn keep(&mut self, id: u64, pin: &Arc<OwnedFd>) {
        let Some(node) = self.all.get_mut(&id).filter(|node| node.pin.is_none()) else { return };
        node.pin = Some(Arc::clone(pin));
        self.pinned.push_back(id);
        if self.pinned.len() > self.most_pins {
            self.let_oldest_go();
        }
    }

    fn let_oldest_go(&mut self) {
        if let Some(oldest) = self.pinned.pop_front()
            && let Some(node) = self.all.get_mut(&oldest)
            && node.name.is_some()
        {
            node.pin = None;
        }
    }

    /// Lets descriptors that can be had again go, until so many more files may be open.
    pub fn make_room(&mut self, open: usize) {
        while !self.pinned.is_empty() && self.pinned.len().saturating_add(open) > self.most_open {
            self.let_oldest_go();
        }
    }

    /// Keeps a descriptor of a node, if one can be had: it stays what it is whatever becomes of its name.
    pub fn pin(&mut self, id: u64) {
        if self.get(id).is_ok_and(|node| node.pin.is_none())
            && let Ok(pin) = self.path(id)
            && self.get(id).is_ok_and(|node| node.pin.is_none())
        {
            self.keep(id, &pin);
        }
    }

    /// It has lost this name. Whoever still uses it must have pinned it before.
    pub fn unname(&mut self, id: u64, parent: u64, name: &[u8]) {
        let Some(node) = self.all.get_mut(&id) else { return };
        if !node.is_called(parent, name) {
            return node.believed.remove(&Name { parent, name: name.to_owned() });
        }
        let other = node.believed.remove_last();
        node.parent = other.as_ref().map_or(parent, |other| other.parent);
        node.name = other.map(|other| other.name);
    }

    /// Whether the guest knew something by this name, which has lost it.
    pub fn lost(&mut self, parent: u64, name: &[u8]) -> bool {
        let mut all = self.all.values_mut();
        let known = all.find(|node| node.parent == parent && node.name.as_deref() == Some(name));
        known.is_some_and(|node| node.name.take().is_some())
    }

    /// The guest has given it another name.
    pub fn rename(&mut self, id: u64, (from, old): (u64, &[u8]), (to, new): (u64, &[u8])) {
        if let Some(node) = self.all.get_mut(&id) {
            node.call(to, new);
            node.believed.remove(&Name { parent: from, name: old.to_owned() });
            // As long as the one before at most.
            node.believed.tell(SHORT);
        }
    }

    /// Whether the names that may have led the guest to a node still lead there, with all above them.
    ///
    /// # Errors
    /// ESTALE where they do not.
    pub fn check_names(&mut self, id: u64) -> Result<()> {
        let Ok(node) = self.get(id) else { return Ok(()) };
        if node.is_used_by_no_name() {
            return Ok(());
        }
        let names: Vec<Name> = node.last_name().into_iter().chain(node.believed.others()?).collect();
        names.into_iter().try_for_each(|name| self.check_up(id, name))
    }

    fn check_up(&mut self, id: u64, name: Name) -> Result<()> {
        let (mut at, mut name) = (id, name);
        for _ in 0..DEEPEST {
            let Ok(node) = self.get(at) else { return Ok(()) };
            if name.parent == ROOT {
                return Ok(());
            }
            let key = node.key;
            if !self.leads(&name, key)? {
                return Err(Errno::STALE);
            }
            at = name.parent;
            let above = self.get(at).ok().filter(|node| !node.is_used_by_no_name());
            let Some(above) = above.and_then(Node::last_name) else { return Ok(()) };
            name = above;
        }
        Ok(())
    }

    /// The same of those of its names that the guest believes. Where it believes none, it has it open.
    ///
    /// # Errors
    /// ESTALE where they do not.
    pub fn check_believed(&mut self, id: u64) -> Result<()> {
        let Ok(node) = self.get(id) else { return Ok(()) };
        let last = node.last_name().filter(|_| node.believed.has_last());
        let names: Vec<Name> = last.into_iter().chain(node.believed.others()?).collect();
        names.into_iter().try_for_each(|name| self.check_up(id, name))
    }

    fn leads(&mut self, name: &Name, key: Key) -> Result<bool> {
        let folder = self.folder(name.parent)?;
        let look = || statat(&folder, name.name.as_slice(), AtFlags::SYMLINK_NOFOLLOW);
        Ok(in_searched(&folder, look).is_ok_and(|found| (found.st_dev, found.st_ino) == (key.1, key.2)))
    }

    /// An inode's number for the guest, which sees one file system where the host may have several.
    pub fn number(&mut self, device: u64, inode: u64) -> u64 {
        let place = self.devices.iter().position(|known| *known == device).unwrap_or_else(|| {
            self.devices.push(device);
            self.devices.len() - 1
        });
        let place = u64::try_from(place).unwrap_or(u64::MAX);
        if inode >> 48 == 0 && place < 1 << 15 {
            inode | place << 48
        } else {
            inode.rotate_left(17) ^ place | 1 << 63
        }
    }
}

/// What is gone under its name is not what the guest asks for.
fn gone(error: Errno) -> Errno {
    if matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::LOOP) { Errno::STALE } else { error }
}

/// A path of this process that leads to what a descriptor stands for.
pub fn link_to(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

/// Opens anew what a descriptor stands for.
pub fn open_again(descriptor: &OwnedFd, flags: OFlags) -> Result<OwnedFd> {
    openat(CWD, link_to(descriptor).as_str(), flags | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A guest made a file that got the number of one that the host had replaced; its other name then led to the new one.
    #[test]
    fn a_number_that_comes_again_under_another_name_is_another_file() {
        let folder = tempfile::tempdir().unwrap();
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let mut nodes = Nodes::new(openat(CWD, folder.path(), flags, Mode::empty()).unwrap());
        std::fs::write(folder.path().join("state"), "1").unwrap();
        let found = || statat(CWD, folder.path().join("state"), AtFlags::empty()).unwrap();
        let state = nodes.enter(0, ROOT, b"state", &found());
        assert_eq!(nodes.enter(0, ROOT, b"state", &found()), state);
        let new = nodes.enter(0, ROOT, b"new", &found());
        assert_ne!(new, state);
        // Open, it cannot be gone; nor where it has two names.
        nodes.get_mut(new).unwrap().open.push(1);
        assert_eq!(nodes.enter(0, ROOT, b"renamed", &found()), new);
        nodes.get_mut(new).unwrap().open.clear();
        std::fs::hard_link(folder.path().join("state"), folder.path().join("second")).unwrap();
        assert_eq!(nodes.enter(0, ROOT, b"second", &found()), new);
        // What is forgotten is only what is forgotten.
        nodes.forget(state, 9);
        assert_eq!(nodes.by_key(nodes.get(new).unwrap().key), Some(new));
    }
}
