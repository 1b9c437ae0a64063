//! Names: what they lead to, making and removing what they stand for.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, fstat, getxattr_query, linkat, mkdirat, mknodat,
    openat, readlinkat, renameat_with, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use crate::attributes::{Known, LONG, in_searched, with_access};
use crate::message::{Body, Fields, Result};
use crate::nodes::{ROOT, link_to};
use crate::notion::{self, Notion, PLAIN, SET_GROUP, SPECIAL};
use crate::server::{Asker, Files, Outcome};
use crate::stamp::Stamp;

/// Longest target of a link.
const LONGEST_TARGET: usize = 4095;
/// The bits of a mode that say what a file is.
const KIND: u32 = 0o170_000;

impl Files {
    pub(crate) fn lookup(&mut self, parent: u64, mut fields: Fields<'_>, thread: u32) -> Result<Outcome> {
        let name = fields.name()?;
        if parent == ROOT && self.tree_named(name).is_none() {
            return Err(Errno::NOENT);
        }
        let folder = self.nodes.folder(parent)?;
        let looked = if self.is_second() {
            self.look_and_hold(&folder, name).map(|(known, path)| (known, Some(path)))
        } else {
            self.look(&folder, name).map(|known| (known, None))
        };
        match looked {
            Ok((known, path)) => {
                let id = self.enter(parent, name, &known)?;
                if let Some(path) = path {
                    self.hold(id, path);
                }
                // What is only read is believed for long, so it must stay what it was.
                if !self.is_writable(id)? {
                    self.nodes.pin(id);
                }
                let least = self.least_validity(id, thread);
                let body = self.named_entry(id, &known, least)?;
                Ok(self.after_own_writes(id, &known, body))
            }
            // A name that is not there may be remembered where nobody makes it.
            Err(Errno::NOENT) if parent != ROOT && !self.is_writable(parent)? => {
                let validity = self.validity(self.nodes.tree_of(parent)?);
                Ok(Body::default().long(0).long(0).long(validity.as_secs()).zeros(16 + 88).done().into())
            }
            Err(error) => {
                // Natively it may be there: where this folder's name leads by now.
                if error == Errno::NOENT && parent != ROOT {
                    self.misses();
                    let names = self.check_names(parent);
                    // Of what it knew the guest's kernel is told first that it is gone: that it takes for an answer, and asks again.
                    if names.is_err() && !self.nodes.lost(parent, name) {
                        return names.and(Err(error));
                    }
                }
                Err(error)
            }
        }
    }

    fn tree_named(&self, name: &[u8]) -> Option<usize> {
        let number: usize = std::str::from_utf8(name).ok()?.parse().ok()?;
        (number < self.trees.len() && number.to_string().as_bytes() == name).then_some(number)
    }

    /// Makes a node of what was found, or finds it again.
    pub(crate) fn enter(&mut self, parent: u64, name: &[u8], known: &Known) -> Result<u64> {
        let tree = match self.nodes.tree_of(parent)? {
            Some(tree) => tree,
            None => self.tree_named(name).ok_or(Errno::NOENT)?,
        };
        let target = self.target(parent, name, &known.host);
        if let Some(target) = target {
            self.nodes.leads_to((tree, known.host.st_dev, known.host.st_ino), target);
        }
        let id = self.nodes.enter(tree, parent, name, &known.host);
        if let Ok(node) = self.nodes.get_mut(id) {
            node.told = Some(Stamp::of(&known.host));
            node.target = target;
        }
        Ok(id)
    }

    /// Where a link leads, as a number.
    fn target(&mut self, parent: u64, name: &[u8], host: &Stat) -> Option<u64> {
        if FileType::from_raw_mode(host.st_mode) != FileType::Symlink {
            return None;
        }
        let folder = self.nodes.folder(parent).ok()?;
        let target = in_searched(&folder, || readlinkat(&folder, name, Vec::new())).ok()?;
        let mut hasher = DefaultHasher::new();
        target.to_bytes().hash(&mut hasher);
        Some(hasher.finish())
    }

    /// What the guest is told of a node.
    pub(crate) fn entry(&mut self, id: u64, known: &Known) -> Result<Body> {
        self.named_entry(id, known, Duration::ZERO)
    }

    /// The same, with its name believed for so long at least.
    fn named_entry(&mut self, id: u64, known: &Known, least: Duration) -> Result<Body> {
        // It may become somebody's working folder, of which nobody is told, and then the host may move it.
        if self.nodes.get(id)?.kind == FileType::Directory {
            self.nodes.pin(id);
        }
        let (mut name, attributes) = (self.validity(self.nodes.tree_of(id)?), self.tell(id)?);
        // The guest's kernel walks on through a link without a word: whoever turns it around must be heard of. What it leads to stays
        // in its cache, so this costs one request.
        let is_second = self.is_second();
        let node = self.nodes.get_mut(id)?;
        // Nor does it say whether it was asked by name or through what is open; and what was kept for a second attempt is good for that
        // one alone. Of a file with many names no further one: all that are believed are looked at for whatever is done to it.
        let is_asked_for = node.kind == FileType::Symlink || !node.open.is_empty() || is_second;
        if name < LONG && (is_asked_for || node.believed.has_enough()) {
            name = least;
        }
        node.believed.tell(name);
        let mut body = Body::default();
        body.long(id).long(0).long(name.as_secs()).long(attributes.as_secs());
        body.number(name.subsec_nanos()).number(attributes.subsec_nanos());
        self.add_attributes(&mut body, id, known);
        Ok(body)
    }

    /// The folder in which something is made or removed.
    fn folder_to_change(&mut self, parent: u64) -> Result<Arc<OwnedFd>> {
        self.writable(parent)?;
        self.nodes.folder(parent)
    }

    /// Does something in a folder, also where its owner's own mode forbids it.
    fn in_folder<T>(folder: &OwnedFd, act: impl Fn() -> Result<T>) -> Result<T> {
        let host = fstat(folder)?;
        with_access(&link_to(folder), &host, 0o300, act)
    }

    /// Whose something new is, and its special bits.
    fn notion_of_new(&self, folder: &OwnedFd, asker: Asker, mode: u32, is_folder: bool) -> Result<Notion> {
        let above = self.look_at(folder)?;
        let inherits = above.notion.bits & SET_GROUP != 0;
        let group = if inherits { above.notion.group } else { asker.group };
        let inherited = if inherits && is_folder { SET_GROUP } else { 0 };
        Ok(Notion { user: asker.user, group, bits: (mode & SPECIAL) | inherited })
    }

    /// Gives something just made its mode and its notion; it goes again where the notion cannot be kept.
    fn finish_new(folder: &OwnedFd, name: &[u8], new: &OwnedFd, mode: u32, notion: Notion) -> Result<()> {
        let link = link_to(new);
        let host = fstat(new)?;
        let plain = notion::plain(FileType::from_raw_mode(host.st_mode) == FileType::Directory);
        // A folder's set-group-ID bit comes by itself; it must not stay.
        if host.st_mode & SPECIAL & !plain != 0 {
            let mode = Mode::from_raw_mode(host.st_mode & plain);
            rustix::fs::chmodat(rustix::fs::CWD, link.as_str(), mode, AtFlags::empty())?;
        }
        let host = fstat(new)?;
        let own = Notion { user: host.st_uid, group: host.st_gid, bits: 0 };
        let notion = notion.beside(host.st_mode);
        if notion == own {
            return Ok(());
        }
        let kept = with_access(&link, &host, 0o600, || notion::write(link.as_bytes(), &host, notion));
        if let Err(error) = kept {
            let is_folder = FileType::from_raw_mode(host.st_mode) == FileType::Directory;
            let flags = if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            unlinkat(folder, name, flags)?;
            return Err(if mode & SPECIAL == 0 { error } else { Errno::PERM });
        }
        Ok(())
    }

    fn found_new(&mut self, parent: u64, folder: &OwnedFd, name: &[u8]) -> Result<Body> {
        let known = self.look(folder, name)?;
        let id = self.enter(parent, name, &known)?;
        self.entry(id, &known)
    }

    pub(crate) fn create(&mut self, parent: u64, mut fields: Fields<'_>, asker: Asker) -> Result<Body> {
        let (flags, mode, umask) = (fields.number()?, fields.number()?, fields.number()?);
        fields.skip(4)?;
        let name = fields.name()?;
        self.check_names(parent)?;
        let folder = self.folder_to_change(parent)?;
        let mode = masked(&folder, mode, umask);
        let wanted =
            crate::handles::host_flags(flags) | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let plain = Mode::from_raw_mode(mode & PLAIN);
        let exclusive = wanted | OFlags::CREATE | OFlags::EXCL;
        let is_exclusive = OFlags::from_bits_retain(flags).contains(OFlags::EXCL);
        let mut is_made = false;
        let file = loop {
            match Self::in_folder(&folder, || openat(&folder, name, exclusive, plain)) {
                Ok(file) => {
                    let notion = self.notion_of_new(&folder, asker, mode, false)?;
                    Self::finish_new(&folder, name, &file, mode, notion)?;
                    is_made = true;
                    break file;
                }
                // Somebody else was faster: natively that is an open.
                Err(Errno::EXIST) if !is_exclusive => {}
                Err(error) => return Err(error),
            }
            match Self::open_file(&folder, name, wanted) {
                // And has removed it again.
                Err(Errno::NOENT) => {}
                other => break other?,
            }
        };
        let known = self.look_at(&file)?;
        let id = self.enter(parent, name, &known)?;
        if is_made {
            self.watch_new(id, &file)?;
        }
        if wanted.contains(OFlags::RDWR) {
            self.must_be_told_anew(id, wanted)?;
        }
        let mut body = self.entry(id, &known)?;
        let opened = self.opened(id, file, flags, &known.host)?;
        body.0.extend(opened.0);
        Ok(body)
    }

    /// Opens a file that somebody else has just made.
    fn open_file(folder: &OwnedFd, name: &[u8], wanted: OFlags) -> Result<OwnedFd> {
        let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            // The guest looks anew, and finds what it is.
            return Err(Errno::STALE);
        }
        openat(folder, name, wanted, Mode::empty())
    }

    pub(crate) fn make_folder(&mut self, parent: u64, mut fields: Fields<'_>, asker: Asker) -> Result<Body> {
        let (mode, umask) = (fields.number()?, fields.number()?);
        let name = fields.name()?;
        let folder = self.folder_to_change(parent)?;
        let mode = masked(&folder, mode, umask);
        Self::in_folder(&folder, || mkdirat(&folder, name, Mode::from_raw_mode(mode & notion::plain(true))))?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let new = openat(&folder, name, flags, Mode::empty())?;
        let notion = self.notion_of_new(&folder, asker, mode, true)?;
        Self::finish_new(&folder, name, &new, mode, notion)?;
        self.found_new(parent, &folder, name)
    }

    pub(crate) fn make_node(&mut self, parent: u64, mut fields: Fields<'_>, asker: Asker) -> Result<Body> {
        let (mode, _, umask) = (fields.number()?, fields.number()?, fields.number()?);
        fields.skip(4)?;
        let name = fields.name()?;
        let folder = self.folder_to_change(parent)?;
        let mode = masked(&folder, mode, umask);
        let kind = FileType::from_raw_mode(mode);
        // Natively a special file may have no kind, and is a file then.
        let kind = if mode & KIND == 0 { FileType::RegularFile } else { kind };
        if !matches!(kind, FileType::RegularFile | FileType::Fifo | FileType::Socket) {
            return Err(Errno::PERM);
        }
        let is_file = kind == FileType::RegularFile;
        if !is_file && mode & SPECIAL != 0 {
            return Err(Errno::PERM);
        }
        Self::in_folder(&folder, || mknodat(&folder, name, kind, Mode::from_raw_mode(mode & PLAIN), 0))?;
        if is_file {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let new = openat(&folder, name, flags, Mode::empty())?;
            let notion = self.notion_of_new(&folder, asker, mode, false)?;
            Self::finish_new(&folder, name, &new, mode, notion)?;
        }
        self.found_new(parent, &folder, name)
    }

    pub(crate) fn make_link(&mut self, parent: u64, mut fields: Fields<'_>) -> Result<Body> {
        let name = fields.name()?;
        let target = fields.text()?;
        if target.is_empty() || target.len() > LONGEST_TARGET {
            return Err(if target.is_empty() { Errno::NOENT } else { Errno::NAMETOOLONG });
        }
        let folder = self.folder_to_change(parent)?;
        Self::in_folder(&folder, || symlinkat(target, &folder, name))?;
        self.found_new(parent, &folder, name)
    }

    pub(crate) fn read_link(&mut self, id: u64) -> Result<Body> {
        let path = self.found(id).map_or_else(|| self.nodes.path(id), Ok)?;
        Ok(Body(readlinkat(&path, "", Vec::new())?.into_bytes()))
    }

    /// Another name for a file.
    pub(crate) fn link(&mut self, parent: u64, mut fields: Fields<'_>) -> Result<Body> {
        let id = fields.long()?;
        let name = fields.name()?;
        let folder = self.folder_to_change(parent)?;
        self.writable(id)?;
        if self.nodes.tree_of(id)? != self.nodes.tree_of(parent)? {
            return Err(Errno::XDEV);
        }
        self.check_meant(id)?;
        let path = self.any_path(id)?;
        let was = Stamp::of(&fstat(&path)?);
        if self.nodes.get(id)?.kind == FileType::Symlink {
            let node = self.nodes.get(id)?;
            let (above, old) = (node.parent, node.name.clone().ok_or(Errno::STALE)?);
            let from = self.nodes.folder(above)?;
            Self::in_folder(&folder, || linkat(&from, old.as_slice(), &folder, name, AtFlags::empty()))?;
        } else {
            let link = link_to(&path);
            let follow = AtFlags::SYMLINK_FOLLOW;
            Self::in_folder(&folder, || linkat(rustix::fs::CWD, link.as_str(), &folder, name, follow))?;
        }
        let known = self.look(&folder, name)?;
        self.moved_on(id, was, Stamp::of(&known.host));
        let id = self.enter(parent, name, &known)?;
        self.entry(id, &known)
    }

    /// The node of what a name leads to, if the guest knows it; it is kept as it is about to lose that name.
    fn victim(&mut self, parent: u64, folder: &OwnedFd, name: &[u8]) -> Result<Option<(u64, Stamp)>> {
        let Some(tree) = self.nodes.tree_of(parent)? else { return Ok(None) };
        let Ok(found) = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { return Ok(None) };
        let id = self.nodes.by_key((tree, found.st_dev, found.st_ino));
        if let Some(id) = id {
            self.nodes.pin(id);
        }
        Ok(id.map(|id| (id, Stamp::of(&found))))
    }

    /// What remains of it was changed by losing a name.
    fn lost(&mut self, victim: Option<(u64, Stamp)>, parent: u64, name: &[u8]) {
        let Some((id, was)) = victim else { return };
        self.nodes.unname(id, parent, name);
        if let Ok(path) = self.any_path(id)
            && let Ok(now) = fstat(&path)
        {
            self.moved_on(id, was, Stamp::of(&now));
        }
    }

    pub(crate) fn remove(&mut self, parent: u64, mut fields: Fields<'_>, is_folder: bool) -> Result<Body> {
        let name = fields.name()?;
        let folder = self.folder_to_change(parent)?;
        let victim = self.victim(parent, &folder, name)?;
        let flags = if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        Self::in_folder(&folder, || unlinkat(&folder, name, flags))?;
        self.lost(victim, parent, name);
        Ok(Body::default())
    }

    pub(crate) fn rename(&mut self, parent: u64, mut fields: Fields<'_>, has_flags: bool) -> Result<Body> {
        let to = fields.long()?;
        let mut flags = RenameFlags::empty();
        if has_flags {
            flags = RenameFlags::from_bits_retain(fields.number()?);
            fields.skip(4)?;
        }
        let (old, new) = (fields.name()?, fields.name()?);
        if !(RenameFlags::NOREPLACE | RenameFlags::EXCHANGE).contains(flags) {
            return Err(Errno::INVAL);
        }
        let (from, into) = (self.folder_to_change(parent)?, self.folder_to_change(to)?);
        if self.nodes.tree_of(parent)? != self.nodes.tree_of(to)? {
            return Err(Errno::XDEV);
        }
        let moved = self.victim(parent, &from, old)?;
        let replaced = self.victim(to, &into, new)?;
        Self::in_folder(&from, || {
            Self::in_folder(&into, || renameat_with(from.as_fd(), old, into.as_fd(), new, flags))
        })?;
        let same = moved.map(|(id, _)| id) == replaced.map(|(id, _)| id);
        if let Some((id, _)) = moved.filter(|_| !same) {
            self.nodes.rename(id, (parent, old), (to, new));
            self.refresh(moved);
        }
        if flags.contains(RenameFlags::EXCHANGE) {
            if let Some((id, _)) = replaced.filter(|_| !same) {
                self.nodes.rename(id, (to, new), (parent, old));
                self.refresh(replaced);
            }
        } else if !same {
            self.lost(replaced, to, new);
        }
        Ok(Body::default())
    }

    fn refresh(&mut self, moved: Option<(u64, Stamp)>) {
        if let Some((id, was)) = moved
            && let Ok(path) = self.any_path(id)
            && let Ok(now) = fstat(&path)
        {
            self.moved_on(id, was, Stamp::of(&now));
        }
    }
}

/// The mode of something new in a folder: what the folder says of those in it (a default list of `acl(5)`) stands in place of the umask.
fn masked(folder: &OwnedFd, mode: u32, umask: u32) -> u32 {
    let found = getxattr_query(link_to(folder).as_str(), "system.posix_acl_default");
    if found.is_ok_and(|length| length > 0) { mode } else { mode & !(umask & PLAIN) }
}
