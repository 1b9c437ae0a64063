//! What a file is: as the host has it, with the guests' notion of it laid over.

use std::os::fd::OwnedFd;
use std::sync::PoisonError;
use std::time::Duration;

use rustix::fs::{
    Access, AtFlags, CWD, FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT,
    accessat, chmodat, chownat, fstat, fstatvfs, ftruncate, major, minor, openat, statat, utimensat,
};
use rustix::io::Errno;

use crate::message::{Body, Fields, Result};
use crate::nodes::{Key, ROOT, link_to, open_again};
use crate::notion::{self, Notion, PLAIN, SPECIAL};
use crate::server::{Asker, Files, Outcome};
use crate::stamp::Stamp;

/// How long the guest may believe what it was told of a tree that is written to.
pub const SHORT: Duration = Duration::from_secs(1);
/// The same of one that it only reads.
pub const LONG: Duration = Duration::from_secs(86_400);

/// The group that the kernel shows for all that a user namespace does not map, see `user_namespaces(7)`.
const UNMAPPED: u32 = 65_534;

/// Most files of which it is remembered what their mode hides.
const MOST_HIDDEN: usize = 1024;

/// Which attributes are set (`FATTR_…`).
pub mod set {
    pub const MODE: u32 = 1 << 0;
    pub const USER: u32 = 1 << 1;
    pub const GROUP: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ACCESSED: u32 = 1 << 4;
    pub const MODIFIED: u32 = 1 << 5;
    pub const HANDLE: u32 = 1 << 6;
    pub const ACCESSED_NOW: u32 = 1 << 7;
    pub const MODIFIED_NOW: u32 = 1 << 8;
    pub const KILL_SET_ID: u32 = 1 << 11;
}

/// What is known of a file.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// What the host says.
    pub host: Stat,
    /// What the guests think.
    pub notion: Notion,
}

impl Known {
    /// Its mode as the guest sees it.
    pub const fn mode(&self) -> u32 {
        (self.host.st_mode & !SPECIAL) | self.notion.bits
    }
}

impl Files {
    /// How long attributes and names of a tree may be believed.
    pub(crate) fn validity(&self, tree: Option<usize>) -> Duration {
        let is_writable = tree.and_then(|tree| self.trees.get(tree)).is_some_and(|tree| tree.is_writable);
        if is_writable { SHORT } else { LONG }
    }

    /// Looks at what `name` is in a folder.
    pub(crate) fn look(&self, folder: &OwnedFd, name: &[u8]) -> Result<Known> {
        let path = [link_to(folder).as_bytes(), b"/", name].concat();
        in_searched(folder, || {
            let host = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
            Ok(self.known(host, &path, false))
        })
    }

    /// Looks at what a descriptor stands for.
    pub(crate) fn look_at(&self, descriptor: &OwnedFd) -> Result<Known> {
        let host = fstat(descriptor)?;
        Ok(self.known(host, link_to(descriptor).as_bytes(), true))
    }

    fn known(&self, host: Stat, path: &[u8], is_link: bool) -> Known {
        if host.st_uid != self.own.user {
            let group = self.group(&host, path);
            return Known { host, notion: Notion { group, ..Notion::of_host(&host) } };
        }
        match notion::read(path, is_link, &host) {
            // Its mode hides from its owner what stands beside it.
            Err(Errno::ACCESS) => self.hidden(host, path, is_link),
            other => {
                let notion = other.ok().flatten().unwrap_or_else(|| Notion::of_host(&host));
                Known { host, notion }
            }
        }
    }

    /// The group of a file of somebody else as the guest is to have it. An ordinary user's wall maps one of its groups, and the kernel shows
    /// all others as one. Where the host lets this process in by such a group, the guest has to as well: it is told the mapped one.
    fn group(&self, host: &Stat, path: &[u8]) -> u32 {
        let (of_group, of_others) = ((host.st_mode >> 3) & 0o7, host.st_mode & 0o7);
        let is_link = FileType::from_raw_mode(host.st_mode) == FileType::Symlink;
        if host.st_gid != UNMAPPED || self.own.user == 0 || is_link {
            return host.st_gid;
        }
        // The first right that tells members from others, the one that a mount may take away last.
        let rights = [(0o4, Access::READ_OK), (0o1, Access::EXEC_OK), (0o2, Access::WRITE_OK)];
        let telling = rights.into_iter().find(|(right, _)| (of_group ^ of_others) & right != 0);
        let is_member = telling.is_some_and(|(right, access)| {
            accessat(CWD, path, access, AtFlags::empty()).is_ok() == (of_group & right != 0)
        });
        if is_member { self.own.group } else { host.st_gid }
    }

    /// What is beside a file that its owner may not read. Reading it changes the file's mode for a moment, and so the time of its last
    /// change: it is done once for each that somebody else has made.
    fn hidden(&self, host: Stat, path: &[u8], is_link: bool) -> Known {
        let key = (host.st_dev, host.st_ino);
        if let Some((stamp, notion)) = self.hidden.lock().unwrap_or_else(PoisonError::into_inner).get(&key)
            && *stamp == Stamp::of(&host)
        {
            return Known { host, notion: *notion };
        }
        let Some((now, notion)) = hidden_notion(path, is_link) else {
            return Known { host, notion: Notion::of_host(&host) };
        };
        let mut hidden = self.hidden.lock().unwrap_or_else(PoisonError::into_inner);
        if hidden.len() >= MOST_HIDDEN {
            hidden.clear();
        }
        hidden.insert(key, (Stamp::of(&now), notion));
        Known { host: now, notion }
    }

    /// Looks at a node: through a handle if it is open, else under its name.
    pub(crate) fn look_at_node(&mut self, id: u64) -> Result<Known> {
        if id == ROOT {
            return self.look_at(&self.nodes.root());
        }
        if let Some(path) = self.found(id) {
            return self.look_at(&path);
        }
        let node = self.nodes.get(id)?;
        if let Some(handle) = node.open.first().and_then(|handle| self.handles.get(handle)) {
            return self.look_at(&handle.file);
        }
        let (key, parent) = (node.key, node.parent);
        if let Some(name) = node.name.clone() {
            let folder = self.nodes.folder(parent)?;
            match self.look(&folder, &name) {
                Ok(known) if is(&known.host, key) => return Ok(known),
                Ok(_) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
        }
        let path = self.nodes.path(id)?;
        self.look_at(&path)
    }

    /// Adds attributes as the guest is to see them.
    pub(crate) fn add_attributes(&mut self, body: &mut Body, id: u64, known: &Known) {
        let host = &known.host;
        let nudge = self.nudge(id, host);
        let device = {
            let (major, minor) = (major(host.st_rdev), minor(host.st_rdev));
            (minor & 0xff) | major << 8 | (minor & !0xff) << 12
        };
        body.long(self.nodes.number(host.st_dev, host.st_ino));
        body.long(host.st_size.cast_unsigned()).long(host.st_blocks.cast_unsigned());
        for seconds in [host.st_atime, host.st_mtime, host.st_ctime] {
            body.long(seconds.cast_unsigned());
        }
        let modified = u32::try_from(host.st_mtime_nsec).unwrap_or_default();
        let modified = if modified + nudge < 1_000_000_000 { modified + nudge } else { modified - nudge };
        body.number(u32::try_from(host.st_atime_nsec).unwrap_or_default()).number(modified);
        body.number(u32::try_from(host.st_ctime_nsec).unwrap_or_default());
        body.number(known.mode()).number(u32::try_from(host.st_nlink).unwrap_or(u32::MAX));
        body.number(known.notion.user).number(known.notion.group).number(device);
        body.number(u32::try_from(host.st_blksize).unwrap_or(4096)).number(0);
    }

    pub(crate) fn attributes_of(&mut self, id: u64, known: &Known) -> Result<Body> {
        let validity = self.tell(id)?;
        if let Ok(node) = self.nodes.get_mut(id) {
            node.told = Some(Stamp::of(&known.host));
        }
        let mut body = Body::default();
        body.long(validity.as_secs()).number(validity.subsec_nanos()).number(0);
        self.add_attributes(&mut body, id, known);
        Ok(body)
    }

    pub(crate) fn get_attributes(&mut self, id: u64, mut fields: Fields<'_>) -> Result<Outcome> {
        let flags = fields.number()?;
        fields.skip(4)?;
        let handle = fields.long()?;
        let known = match self.handles.get(&handle).filter(|handle| flags & 1 != 0 && handle.node == id) {
            Some(handle) => self.look_at(&handle.file)?,
            None => self.look_at_node(id)?,
        };
        let body = self.attributes_of(id, &known)?;
        Ok(self.after_own_writes(id, &known, body))
    }

    pub(crate) fn set_attributes(&mut self, id: u64, mut fields: Fields<'_>, asker: Asker) -> Result<Body> {
        self.writable(id)?;
        let valid = fields.number()?;
        fields.skip(4)?;
        let (handle, size) = (fields.long()?, fields.long()?);
        fields.skip(8)?;
        let (accessed, modified, _) = (fields.long()?, fields.long()?, fields.long()?);
        let (accessed_nsec, modified_nsec, _) = (fields.number()?, fields.number()?, fields.number()?);
        let mode = fields.number()?;
        fields.skip(4)?;
        let (user, group) = (fields.number()?, fields.number()?);
        let has = |what: u32| valid & what != 0;
        if !has(set::HANDLE) {
            self.check_meant(id)?;
        }
        let before = self.look_at_node(id)?;
        let was = Stamp::of(&before.host);
        let mut now = before.notion;
        let is_given = has(set::USER) || has(set::GROUP);
        let may_keep = asker.group == now.group || (is_given && asker.user == 0);
        if is_given {
            now.user = if has(set::USER) { user } else { now.user };
            now.group = if has(set::GROUP) { group } else { now.group };
        }
        let is_file = FileType::from_raw_mode(before.host.st_mode) == FileType::RegularFile;
        if (is_given && is_file) || has(set::KILL_SET_ID) {
            now = now.without_set_id(before.host.st_mode, may_keep);
        }
        let mut plain = before.host.st_mode & PLAIN;
        if has(set::MODE) {
            plain = mode & PLAIN;
            now.bits = mode & SPECIAL;
        }
        self.set_notion(id, &before, plain, now)?;
        if has(set::SIZE) {
            let file = self.handles.get(&handle).filter(|open| has(set::HANDLE) && open.node == id);
            self.truncate(id, file.map(|open| std::sync::Arc::clone(&open.file)), size)?;
        }
        let time = |which: u32, to_now: u32, seconds: u64, nanoseconds: u32| -> Timespec {
            let (whole, rest) = if valid & to_now != 0 {
                (0, UTIME_NOW)
            } else if valid & which != 0 {
                (seconds.cast_signed(), i64::from(nanoseconds.min(999_999_999)))
            } else {
                (0, UTIME_OMIT)
            };
            Timespec { tv_sec: whole, tv_nsec: rest }
        };
        if has(set::ACCESSED | set::MODIFIED | set::ACCESSED_NOW | set::MODIFIED_NOW) {
            let times = Timestamps {
                last_access: time(set::ACCESSED, set::ACCESSED_NOW, accessed, accessed_nsec),
                last_modification: time(set::MODIFIED, set::MODIFIED_NOW, modified, modified_nsec),
            };
            self.set_times(id, &times)?;
        }
        let mut known = self.look_at_node(id)?;
        if Stamp::of(&known.host) == was && known.host.st_uid == self.own.user {
            // What is set to what it was moves the time of the last change, too. chown(2) would take set-ID bits and capabilities away.
            let path = self.any_path(id)?;
            let is_file = FileType::from_raw_mode(known.host.st_mode) == FileType::RegularFile;
            if is_file && has(set::MODE) && !has(set::USER | set::GROUP) {
                let same = Mode::from_raw_mode(known.host.st_mode & (PLAIN | SPECIAL));
                chmodat(rustix::fs::CWD, link_to(&path).as_str(), same, AtFlags::empty())?;
            } else {
                chownat(&path, "", None, None, AtFlags::EMPTY_PATH)?;
            }
            known = self.look_at_node(id)?;
        }
        self.attributes_as_set(id, was, known)
    }

    /// Attributes that the guest has just set. At this answer its kernel drops nothing of its cache: where the host had changed the
    /// file before, it gets another time of the last change than it will hear as soon as it needs one.
    fn attributes_as_set(&mut self, id: u64, was: Stamp, mut known: Known) -> Result<Body> {
        let is = Stamp::of(&known.host);
        let is_news = self.nodes.get(id)?.told != Some(was);
        self.moved_on(id, was, is);
        if !is_news {
            return self.attributes_of(id, &known);
        }
        let node = self.nodes.get_mut(id)?;
        node.told = Some(is);
        node.held.is_not_believed();
        known.host.st_mtime_nsec ^= 1;
        let mut body = Body::default();
        body.zeros(16);
        self.add_attributes(&mut body, id, &known);
        Ok(body)
    }

    /// Changes mode and notion of a node, as far as they change.
    pub(crate) fn set_notion(&mut self, id: u64, before: &Known, plain: u32, now: Notion) -> Result<()> {
        let (host, was) = (&before.host, before.host.st_mode & (PLAIN | SPECIAL));
        let is_folder = FileType::from_raw_mode(host.st_mode) == FileType::Directory;
        // What the host's file has by itself stays, unless the guest's mode has it not.
        let wanted = plain | now.bits & (notion::plain(is_folder) | was);
        if wanted == was && now == before.notion {
            return Ok(());
        }
        if wanted != was && wanted & !notion::plain(is_folder) != 0 {
            // It can be left as it is, and taken away; not given anew.
            return Err(Errno::PERM);
        }
        let path = self.any_path(id)?;
        let link = link_to(&path);
        if now != before.notion && (notion::is_possible(host) || now != Notion::of_host(host)) {
            let beside = now.beside(wanted);
            with_access(&link, host, 0o600, || notion::write(link.as_bytes(), host, beside))?;
        }
        if wanted == was {
            return Ok(());
        }
        chmodat(rustix::fs::CWD, link.as_str(), Mode::from_raw_mode(wanted), AtFlags::empty())
    }

    /// A descriptor of a node that has no name any more, through one of its handles.
    fn open_path_of(&self, id: u64) -> Option<std::sync::Arc<OwnedFd>> {
        let node = self.nodes.get(id).ok()?;
        node.open
            .iter()
            .find_map(|handle| self.handles.get(handle))
            .map(|handle| std::sync::Arc::clone(&handle.file))
    }

    /// The same, or one by its name.
    pub(crate) fn any_path(&mut self, id: u64) -> Result<std::sync::Arc<OwnedFd>> {
        self.found(id).or_else(|| self.open_path_of(id)).map_or_else(|| self.nodes.path(id), Ok)
    }

    fn truncate(&mut self, id: u64, file: Option<std::sync::Arc<OwnedFd>>, size: u64) -> Result<()> {
        if let Some(file) = file {
            return ftruncate(&file, size);
        }
        let path = self.any_path(id)?;
        let host = fstat(&path)?;
        if FileType::from_raw_mode(host.st_mode) != FileType::RegularFile {
            return Err(Errno::INVAL);
        }
        let link = link_to(&path);
        let file = with_access(&link, &host, 0o200, || open_again(&path, OFlags::WRONLY | OFlags::NONBLOCK))?;
        ftruncate(&file, size)
    }

    fn set_times(&mut self, id: u64, times: &Timestamps) -> Result<()> {
        let path = self.any_path(id)?;
        if self.nodes.get(id)?.kind == FileType::Symlink {
            // Links cannot be reached through /proc without being followed.
            let node = self.nodes.get(id)?;
            let (parent, name) = (node.parent, node.name.clone().ok_or(Errno::STALE)?);
            let folder = self.nodes.folder(parent)?;
            return utimensat(&folder, name.as_slice(), times, AtFlags::SYMLINK_NOFOLLOW);
        }
        utimensat(rustix::fs::CWD, link_to(&path).as_str(), times, AtFlags::empty())
    }

    /// After a change of the guest's own: what it was told and what it has cached are as good as before.
    pub(crate) fn moved_on(&mut self, id: u64, was: Stamp, is: Stamp) {
        let Ok(node) = self.nodes.get_mut(id) else { return };
        if node.told == Some(was) {
            node.told = Some(is);
        }
        if let Some(cached) = &mut node.cached
            && cached.stamp == was
        {
            if was != is {
                cached.is_settled = false;
            }
            cached.stamp = is;
        }
    }

    pub(crate) fn file_system(&mut self, id: u64) -> Result<Body> {
        let path = self.any_path(id)?;
        let mut found = fstatvfs(&path)?;
        if self.fullness.is_full() && self.is_writable(id)? {
            (found.f_bfree, found.f_bavail) = (0, 0);
        }
        let mut body = Body::default();
        for count in [found.f_blocks, found.f_bfree, found.f_bavail, found.f_files, found.f_ffree] {
            body.long(count);
        }
        for size in [found.f_bsize, found.f_namemax, found.f_frsize] {
            body.number(u32::try_from(size).unwrap_or(u32::MAX));
        }
        Ok(body.zeros(28).done())
    }
}

/// The notion of a file that its owner may not read, and the file after that.
fn hidden_notion(path: &[u8], is_link: bool) -> Option<(Stat, Notion)> {
    let follow = if is_link { OFlags::empty() } else { OFlags::NOFOLLOW };
    let file = openat(rustix::fs::CWD, path, OFlags::PATH | OFlags::CLOEXEC | follow, Mode::empty()).ok()?;
    let (link, host) = (link_to(&file), fstat(&file).ok()?);
    // Whether there is one is told without the right to read: most have none, and are left as they are.
    if !notion::is_there(link.as_bytes()) {
        return None;
    }
    let notion =
        with_access(&link, &host, 0o400, || notion::read(link.as_bytes(), true, &host)).ok().flatten()?;
    Some((fstat(&file).ok()?, notion))
}

/// Does something with a name in a folder, also where the owner's own mode forbids to look for it there.
pub fn in_searched<T>(folder: &OwnedFd, act: impl Fn() -> Result<T>) -> Result<T> {
    match act() {
        Err(Errno::ACCESS) => with_access(&link_to(folder), &fstat(folder)?, 0o100, act),
        other => other,
    }
}

/// Whether this is what the node stands for.
fn is(found: &Stat, key: Key) -> bool {
    (found.st_dev, found.st_ino) == (key.1, key.2)
}

/// Does something that the owner's own mode forbids, which the guest's kernel has allowed: its root may do everything. Rights
/// of the owner alone are added meanwhile, and only where the file is this server's own.
pub fn with_access<T>(link: &str, host: &Stat, rights: u32, act: impl Fn() -> Result<T>) -> Result<T> {
    let first = act();
    let is_own = host.st_uid == rustix::process::geteuid().as_raw();
    let was = host.st_mode & (PLAIN | SPECIAL);
    let is_folder = FileType::from_raw_mode(host.st_mode) == FileType::Directory;
    // What could not be put back is left alone.
    let is_plain = was & !notion::plain(is_folder) == 0;
    if !matches!(first, Err(Errno::ACCESS)) || !is_own || !is_plain || was & rights == rights {
        return first;
    }
    let change = |mode: u32| chmodat(rustix::fs::CWD, link, Mode::from_raw_mode(mode), AtFlags::empty());
    if change(was | rights).is_err() {
        return first;
    }
    let second = act();
    change(was)?;
    second
}
