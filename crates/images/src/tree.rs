//! Layers, written beneath a root: whatever an archive says, nothing outside of it is touched.
//!
//! ```text
//!  a/b/name ─► folder of it: as if the root were the root (links in it lead within) ─► name in it: never followed
//!  a/.wh.name           what lower layers have there goes
//!  a/.wh..wh..opq       whatever lower layers have in a goes
//! ```
//! Files are the caller's, with plain permission bits and at least what lets their owner read them; who has them in the image, and
//! set-ID bits, are kept by [`Keep`].

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Timespec, Timestamps, fchmod, fstat,
    futimens, linkat, mkdirat, mknodat, openat, openat2, readlinkat, renameat_with, statat, symlinkat,
    syncfs, unlinkat, utimensat,
};
use rustix::io::Errno;

use crate::archive::{Entry, Kind};
use crate::{ImageError, Keep, LeftOut, shown};

/// Links that lead to what is not there yet, one behind the other.
const MOST_LINKS: usize = 40;
/// How deep folders that are taken away may lie in each other.
const MOST_LEVELS: usize = 256;
/// How long a path is asked for again.
const MOST_WAIT: Duration = Duration::from_secs(10);
const BETWEEN: Duration = Duration::from_micros(100);
/// What a name of lower layers is taken away with.
const WHITEOUT: &[u8] = b".wh.";
/// What all of them are taken away with.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Further such names mean something to nobody but those who made them.
const RESERVED: &[u8] = b".wh..wh.";
const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::CLOEXEC);

/// Who has a file, as the image says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// User.
    pub user: u32,
    /// Group.
    pub group: u32,
    /// Permission bits, set-ID bits, sticky bit.
    pub mode: u32,
}

/// Opens a path as if the folder were the root: links and `..` in it lead within, those of `/proc` nowhere.
///
/// While anything anywhere on the host is renamed or mounted, the kernel does not answer for a path with `..` in it (`EAGAIN`,
/// openat2(2)): it is asked again.
///
/// # Errors
/// Those of openat2(2); `EAGAIN` after ten seconds of it.
pub fn open_in_root(
    root: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    further: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | further;
    let begun = Instant::now();
    loop {
        match openat2(root, path, flags, Mode::empty(), within) {
            Err(Errno::AGAIN) if begun.elapsed() < MOST_WAIT => std::thread::sleep(BETWEEN),
            other => return other,
        }
    }
}

/// A root that is written.
pub struct Tree<'a> {
    root: OwnedFd,
    keep: Keep<'a>,
    /// What this layer made: number of the folder, name in it.
    made: HashSet<(u64, Vec<u8>)>,
    /// Numbers of folders in which nothing of lower layers is left: to look there again would find what this layer made, each time.
    cleared: HashSet<u64>,
    left_out: LeftOut,
}

impl<'a> Tree<'a> {
    /// An empty folder becomes the root.
    pub fn new(root: OwnedFd, keep: Keep<'a>) -> Result<Self, ImageError> {
        let tree =
            Self { root, keep, made: HashSet::new(), cleared: HashSet::new(), left_out: LeftOut::default() };
        // Layers need not say anything of it.
        tree.dress(tree.root.as_fd(), Owner { user: 0, group: 0, mode: 0o755 }, true, b"/")?;
        Ok(tree)
    }

    /// What was made so far is of lower layers from now on.
    pub fn next_layer(&mut self) {
        self.made.clear();
        self.cleared.clear();
    }

    /// All is on the disk.
    pub fn finish(self) -> Result<LeftOut, ImageError> {
        syncfs(&self.root).map_err(failed(b"/"))?;
        Ok(self.left_out)
    }

    /// Writes an entry of a layer.
    pub fn apply(&mut self, entry: &Entry, body: &mut dyn Read) -> Result<(), ImageError> {
        let path = &entry.path;
        let parts = parts(path)?;
        let owner = Owner { user: entry.user, group: entry.group, mode: entry.mode };
        let Some((name, folders)) = parts.split_last() else {
            let is_folder = entry.kind == Kind::Folder;
            let none = || ImageError::Malformed(format!("{} is the root, and no folder", shown(path)));
            return if is_folder { self.dress(self.root.as_fd(), owner, true, path) } else { Err(none()) };
        };
        let folder = self.folder(folders, path)?;
        if name.starts_with(WHITEOUT) {
            return self.white_out(folder.as_fd(), name, path);
        }
        if entry.has_capabilities {
            self.left_out.capabilities += 1;
        }
        if entry.has_attributes {
            self.left_out.attributes += 1;
        }
        self.made.insert((number_of(folder.as_fd(), path)?, name.to_vec()));
        match &entry.kind {
            Kind::Folder => self.put_folder(folder.as_fd(), name, entry, owner)?,
            Kind::File => self.put_file(folder.as_fd(), name, entry, owner, body)?,
            Kind::HardLink(target) => self.put_name(folder.as_fd(), name, target, path)?,
            other => {
                clear(folder.as_fd(), name, path)?;
                match other {
                    Kind::Link(target) => {
                        symlinkat(target.as_slice(), &folder, *name).map_err(failed(path))?;
                        utimensat(&folder, *name, &times(entry), AtFlags::SYMLINK_NOFOLLOW)
                            .map_err(failed(path))?;
                    }
                    Kind::Fifo => {
                        let mode = Mode::from_raw_mode(entry.mode & 0o777);
                        mknodat(&folder, *name, FileType::Fifo, mode, 0).map_err(failed(path))?;
                    }
                    _ => self.left_out.devices += 1,
                }
            }
        }
        Ok(())
    }

    /// Makes a folder with all above it, unless it is there.
    pub fn make_folder(&mut self, path: &[u8]) -> Result<(), ImageError> {
        self.folder(&parts(path)?, path).map(drop)
    }

    /// Opens a folder as if the root were the root; what is missing is made.
    fn folder(&self, parts: &[&[u8]], path: &[u8]) -> Result<OwnedFd, ImageError> {
        self.folder_behind(parts, path, 0)
    }

    /// The same on the way through so many links.
    fn folder_behind(&self, parts: &[&[u8]], path: &[u8], links: usize) -> Result<OwnedFd, ImageError> {
        match self.within(&parts.join(&b'/')) {
            Err(Errno::NOENT) => {}
            opened => return opened.map_err(failed(path)),
        }
        let mut at = self.within(b"").map_err(failed(path))?;
        for end in 1..=parts.len() {
            let below = parts.get(..end).unwrap_or_default();
            let whole = below.join(&b'/');
            at = match (self.within(&whole), below.last()) {
                (Err(Errno::NOENT), Some(name)) => {
                    match mkdirat(&at, *name, Mode::RWXU) {
                        // A link to what is still to come; where it leads in a circle, opening says so.
                        Err(Errno::EXIST) if links < MOST_LINKS => {
                            let target = readlinkat(&at, *name, Vec::new()).map_err(failed(path))?;
                            let above = below.get(..end - 1).unwrap_or_default();
                            let target = behind(above, target.to_bytes());
                            drop(self.folder_behind(&target, path, links + 1)?);
                            at = self.within(&whole).map_err(failed(path))?;
                            continue;
                        }
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(failed(path)(error)),
                    }
                    let made = self.within(&whole).map_err(failed(path))?;
                    self.dress(made.as_fd(), Owner { user: 0, group: 0, mode: 0o755 }, true, path)?;
                    made
                }
                (opened, _) => opened.map_err(failed(path))?,
            };
        }
        Ok(at)
    }

    fn within(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { b"." } else { path };
        open_in_root(self.root.as_fd(), path, FOLDER, ResolveFlags::NO_XDEV)
    }

    fn white_out(&mut self, folder: BorrowedFd<'_>, name: &[u8], path: &[u8]) -> Result<(), ImageError> {
        if name == OPAQUE {
            return self.remove_all_lower(folder, path, 0);
        }
        if name.starts_with(RESERVED) {
            return Ok(());
        }
        match name.get(WHITEOUT.len()..) {
            Some(name) if !matches!(name, b"" | b"." | b"..") => self.remove_lower(folder, name, path, 0),
            _ => Err(ImageError::Malformed(format!("{} takes away nothing that has a name", shown(path)))),
        }
    }

    /// Removes what lower layers have in a folder, once.
    fn remove_all_lower(
        &mut self,
        folder: BorrowedFd<'_>,
        path: &[u8],
        level: usize,
    ) -> Result<(), ImageError> {
        let number = number_of(folder, path)?;
        if self.cleared.contains(&number) {
            return Ok(());
        }
        for name in names(folder).map_err(failed(path))? {
            self.remove_lower(folder, &name, path, level)?;
        }
        self.cleared.insert(number);
        Ok(())
    }

    /// Removes what lower layers have there; what this one made stays, with the folders around it.
    fn remove_lower(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
        level: usize,
    ) -> Result<(), ImageError> {
        if level > MOST_LEVELS {
            let text = format!("{}: more than {MOST_LEVELS} folders within each other", shown(path));
            return Err(ImageError::TooMuch(text));
        }
        let is_made = self.made.contains(&(number_of(folder, path)?, name.to_vec()));
        let below = match openat(folder, name, FOLDER | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(below) => below,
            Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTDIR | Errno::LOOP) if is_made => return Ok(()),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                return unlinkat(folder, name, AtFlags::empty()).map_err(failed(path));
            }
            Err(error) => return Err(failed(path)(error)),
        };
        self.remove_all_lower(below.as_fd(), path, level + 1)?;
        if is_made {
            return Ok(());
        }
        match unlinkat(folder, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOTEMPTY) => Ok(()),
            Err(error) => Err(failed(path)(error)),
        }
    }

    fn put_folder(
        &self,
        at: BorrowedFd<'_>,
        name: &[u8],
        entry: &Entry,
        owner: Owner,
    ) -> Result<(), ImageError> {
        let path = &entry.path;
        if mkdirat(at, name, Mode::RWXU) == Err(Errno::EXIST) && !is_folder(at, name) {
            clear(at, name, path)?;
            mkdirat(at, name, Mode::RWXU).map_err(failed(path))?;
        }
        let folder = openat(at, name, FOLDER | OFlags::NOFOLLOW, Mode::empty()).map_err(failed(path))?;
        self.dress(folder.as_fd(), owner, true, path)?;
        futimens(&folder, &times(entry)).map_err(failed(path))
    }

    fn put_file(
        &self,
        at: BorrowedFd<'_>,
        name: &[u8],
        entry: &Entry,
        owner: Owner,
        body: &mut dyn Read,
    ) -> Result<(), ImageError> {
        let path = &entry.path;
        clear(at, name, path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(at, name, flags, Mode::RUSR | Mode::WUSR).map_err(failed(path))?;
        let mut file = File::from(file);
        io::copy(body, &mut file).map_err(ImageError::io(shown(path)))?;
        self.dress(file.as_fd(), owner, false, path)?;
        futimens(&file, &times(entry)).map_err(failed(path))
    }

    /// A further name for what is there already, beneath the root.
    fn put_name(
        &self,
        at: BorrowedFd<'_>,
        name: &[u8],
        target: &[u8],
        path: &[u8],
    ) -> Result<(), ImageError> {
        let missing = || {
            let text = format!("{} is a further name of {}, which is not there", shown(path), shown(target));
            ImageError::Malformed(text)
        };
        let to = parts(target)?;
        let Some((last, folders)) = to.split_last() else { return Err(missing()) };
        let from = self.within(&folders.join(&b'/')).map_err(|_| missing())?;
        let found = statat(&from, *last, AtFlags::SYMLINK_NOFOLLOW).map_err(|_| missing())?;
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            return Err(ImageError::Malformed(format!("{} is a further name of a folder", shown(path))));
        }
        let is_same = statat(at, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|own| own.st_ino == found.st_ino);
        if is_same {
            return Ok(());
        }
        clear(at, name, path)?;
        match linkat(&from, *last, at, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Err(missing()),
            linked => linked.map_err(failed(path)),
        }
    }

    /// Owner and rights; the caller's own must be able to read it.
    fn dress(
        &self,
        file: BorrowedFd<'_>,
        owner: Owner,
        is_folder: bool,
        path: &[u8],
    ) -> Result<(), ImageError> {
        let (most, least) = if is_folder { (0o1777, 0o700) } else { (0o777, 0o400) };
        // Attributes can be written as long as the file can.
        (self.keep)(file, owner).map_err(ImageError::io(format!("the owner of {}", shown(path))))?;
        fchmod(file, Mode::from_raw_mode(owner.mode & most | least)).map_err(failed(path))
    }
}

/// Where a link in the folder `above` leads; nothing leads above the root.
fn behind<'a>(above: &[&'a [u8]], target: &'a [u8]) -> Vec<&'a [u8]> {
    let mut parts = if target.starts_with(b"/") { Vec::new() } else { above.to_vec() };
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts
}

/// The names on the way to something; none of them leads up.
fn parts(path: &[u8]) -> Result<Vec<&[u8]>, ImageError> {
    let parts: Vec<&[u8]> =
        path.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b".")).collect();
    if parts.contains(&&b".."[..]) {
        return Err(ImageError::Malformed(format!("{} leads out of the image", shown(path))));
    }
    Ok(parts)
}

/// Removes whatever has this name, with all in it. However deep it is, two folders are open at once: what lies deeper is
/// moved up before.
fn clear(folder: BorrowedFd<'_>, name: &[u8], path: &[u8]) -> Result<(), ImageError> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR) => {}
        Err(error) => return Err(failed(path)(error)),
    }
    let top = openat(folder, name, FOLDER | OFlags::NOFOLLOW, Mode::empty()).map_err(failed(path))?;
    let mut moved = 0_u64;
    empty(top.as_fd(), &mut moved).map_err(failed(path))?;
    unlinkat(folder, name, AtFlags::REMOVEDIR).map_err(failed(path))
}

fn empty(top: BorrowedFd<'_>, moved: &mut u64) -> Result<(), Errno> {
    loop {
        let all = names(top)?;
        if all.is_empty() {
            return Ok(());
        }
        for name in all {
            if unlinkat(top, name.as_slice(), AtFlags::empty()) != Err(Errno::ISDIR) {
                continue;
            }
            let below = openat(top, name.as_slice(), FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
            for inner in names(below.as_fd())? {
                if unlinkat(&below, inner.as_slice(), AtFlags::empty()) == Err(Errno::ISDIR) {
                    move_up(below.as_fd(), &inner, top, moved)?;
                }
            }
            unlinkat(top, name.as_slice(), AtFlags::REMOVEDIR)?;
        }
    }
}

fn move_up(from: BorrowedFd<'_>, name: &[u8], top: BorrowedFd<'_>, moved: &mut u64) -> Result<(), Errno> {
    loop {
        *moved += 1;
        match renameat_with(from, name, top, format!("{moved}"), RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            other => return other,
        }
    }
}

fn is_folder(at: BorrowedFd<'_>, name: &[u8]) -> bool {
    let found = statat(at, name, AtFlags::SYMLINK_NOFOLLOW);
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory)
}

fn number_of(folder: BorrowedFd<'_>, path: &[u8]) -> Result<u64, ImageError> {
    fstat(folder).map(|found| found.st_ino).map_err(failed(path))
}

fn names(folder: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>, Errno> {
    let mut all = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            all.push(name);
        }
    }
    Ok(all)
}

fn times(entry: &Entry) -> Timestamps {
    let at = Timespec { tv_sec: entry.modified_s, tv_nsec: 0 };
    Timestamps { last_access: at, last_modification: at }
}

fn failed(path: &[u8]) -> impl FnOnce(Errno) -> ImageError {
    let what = shown(path);
    move |error| ImageError::Io { what, error: error.into() }
}
