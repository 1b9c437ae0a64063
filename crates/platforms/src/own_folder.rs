//! Folders and files that are ours: opened without following links, looked at through their descriptors, and emptied
//! through them. What a name leads to may change at any moment; what a descriptor is open on does not.
//!
//! ```text
//!  path ─► open, no link ─► fstat: ours? writable by nobody else? ─► OwnFolder ─┬─ file(NAME): the same for a file in it
//!                              └─ no: refused, with what to do                  ├─ below(A/B): each step without links
//!                                                                               └─ remove(A/B): unlinkat, all the way down
//! ```

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::{getegid, geteuid};

use super::removal;

/// Rights of the group and of everybody.
const OTHERS: u32 = 0o077;
/// Their rights to write.
const OTHERS_WRITE: u32 = 0o022;
/// Folders within folders that are open at once while they are removed.
pub(super) const MOST_LEVELS: usize = 128;
/// How folders are opened.
pub(super) const FOLDER: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// What others may do with a folder of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// Look into it, but not write.
    MayLook,
    /// Nothing.
    StayOut,
}

/// A folder that belongs to us and that nobody else can write to, held by a descriptor.
#[derive(Debug)]
pub struct OwnFolder {
    fd: OwnedFd,
    path: PathBuf,
}

impl OwnFolder {
    /// Opens it.
    ///
    /// # Errors
    /// It is not there, is a link, belongs to somebody else, or others can write to it; the message says what to do.
    pub fn open(path: &Path, others: Others) -> io::Result<Self> {
        let fd = open_folder(path)?;
        check(&File::from(fd.try_clone()?), path, others)?;
        let path = name_of(fd.as_fd())?;
        Ok(Self { fd, path })
    }

    /// Opens it, or makes it so that only we can enter; folders above it are made as they usually are.
    ///
    /// # Errors
    /// As [`Self::open`], or it cannot be made.
    pub fn make_private(path: &Path) -> io::Result<Self> {
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent).map_err(|error| told(parent, &error))?;
        }
        match fs::DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(told(path, &error)),
            _ => {}
        }
        Self::open(path, Others::StayOut)
    }

    /// Takes away what others may do in an open folder of ours beyond `others`: from now on it is ours alone. Only for
    /// folders that are empty, or that are known to be for us: `/tmp` is root's, too.
    ///
    /// # Errors
    /// It is no folder of ours.
    pub fn claim(folder: File, others: Others) -> io::Result<Self> {
        let path = name_of(folder.as_fd())?;
        let found = folder.metadata()?;
        let kept = found.mode() & 0o7777 & !others.forbidden();
        if found.uid() == geteuid().as_raw() && kept != found.mode() & 0o7777 {
            fchmod(&folder, Mode::from_bits_truncate(kept))?;
        }
        check(&folder, &path, others)?;
        Ok(Self { fd: folder.into(), path })
    }

    /// Where it was when it was opened, links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A name that leads to it wherever it has been moved, for as long as this lives and for this process.
    pub fn held(&self) -> PathBuf {
        held(self.fd.as_fd())
    }

    /// Another handle on the same folder.
    ///
    /// # Errors
    /// No more files can be open.
    pub fn file_of_itself(&self) -> io::Result<File> {
        Ok(File::from(self.fd.try_clone()?))
    }

    /// Opens a file in it that belongs to us and that nobody else can write to; made 0600 where `flags` say so.
    ///
    /// # Errors
    /// It is not there, is a link or no file, belongs to somebody else, or others can write to it.
    pub fn file(&self, name: &str, flags: OFlag) -> io::Result<File> {
        open_file(self.fd.as_fd(), OsStr::new(name), &self.path.join(name), flags)
    }

    /// A folder below it; no link is followed.
    ///
    /// # Errors
    /// One of the parts is not there, is a link or no folder.
    pub fn below(&self, relative: &Path) -> io::Result<OwnedFd> {
        step_down(self.fd.as_fd(), relative)
    }

    /// Removes what lies there, with everything in it, following no link; false when there is nothing.
    ///
    /// # Errors
    /// Part of the way is a link, or something cannot be removed.
    pub fn remove(&self, relative: &Path) -> io::Result<bool> {
        let (Some(parent), Some(name)) = (relative.parent(), relative.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        match self.below(parent) {
            Ok(parent) => remove_in(parent.as_fd(), name, Whose::Any),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes sure that names in it survive a crash of the machine.
    ///
    /// # Errors
    /// As the system says.
    pub fn sync(&self) -> io::Result<()> {
        self.file_of_itself()?.sync_all()
    }

    /// Files of these names, as far as they are there, are no links, belong to us, and are writable by nobody else.
    ///
    /// # Errors
    /// Which one is not so.
    pub fn check_files(&self, names: &[&str]) -> io::Result<()> {
        names.iter().try_for_each(|name| match self.file(name, OFlag::O_RDONLY) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        })
    }

    /// Everything in it, down to `levels` folders below, belongs to us, is writable by nobody else, and is no link. What lies under the
    /// name `except` looks after itself.
    ///
    /// # Errors
    /// Which one is not so.
    pub fn check_all(&self, levels: usize, except: &str) -> io::Result<()> {
        check_below(self.fd.as_fd(), &self.path, levels, except)
    }
}

impl Others {
    const fn forbidden(self) -> u32 {
        match self {
            Self::MayLook => OTHERS_WRITE,
            Self::StayOut => OTHERS,
        }
    }
}

/// Whether a folder may be somebody else's when it is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// Beneath a folder of ours everything is ours to remove.
    Any,
    /// In a folder where everybody can make some.
    Ours,
}

/// Removes `name` in a folder that need not be ours, `/tmp` for example; false when there is nothing.
///
/// # Errors
/// It is somebody else's, or cannot be removed.
pub fn remove_ours(parent: &Path, name: &OsStr) -> io::Result<bool> {
    // The folder that everybody can write to may be a link (/var/tmp on some hosts): it is the administrator's.
    let parent = File::open(parent)?;
    remove_in(parent.as_fd(), name, Whose::Ours)
}

/// Removes one name in an open folder; false when there is nothing.
///
/// # Errors
/// It is somebody else's, or cannot be removed.
pub fn remove_in(parent: BorrowedFd<'_>, name: &OsStr, whose: Whose) -> io::Result<bool> {
    removal::remove_whole(parent, name, whose)
}

/// Opens a file that belongs to us and that nobody else can write to; the last part of its path is no link.
///
/// # Errors
/// It is not there, is a link or no file, belongs to somebody else, or others can write to it.
pub fn own_file(path: &Path, flags: OFlag) -> io::Result<File> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(told(path, &io::Error::other("this is no path of a file")));
    };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let folder = open(parent, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty());
    open_file(folder.map_err(|error| told(path, &error.into()))?.as_fd(), name, path, flags)
}

/// Whether nobody but root and us can put another folder in the place of `path`, which need not exist.
///
/// # Errors
/// Who can.
pub fn check_way(path: &Path) -> io::Result<()> {
    let there = path.ancestors().skip(1).find_map(|parent| parent.canonicalize().ok());
    for folder in there.iter().flat_map(|parent| parent.ancestors()) {
        let found = fs::metadata(folder).map_err(|error| told(folder, &error))?;
        let (owner, mode) = (found.uid(), found.mode());
        if owner != 0 && owner != geteuid().as_raw() {
            let text =
                format!("{} belongs to user {owner}, who could replace {}", folder.display(), path.display());
            return Err(refusal(text));
        }
        // In a sticky folder nobody replaces what is somebody else's; our own group is us.
        let by_group = mode & 0o020 != 0 && found.gid() != getegid().as_raw();
        if mode & 0o1000 == 0 && (by_group || mode & 0o002 != 0) {
            let text =
                format!("{} is open to others, who could replace {}", folder.display(), path.display());
            return Err(refusal(text));
        }
    }
    Ok(())
}

/// Opens a regular file of anybody for reading only; what else has that name does not make us wait.
///
/// # Errors
/// It is not there, or no file.
pub fn file_to_read(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let file = File::from(open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("this is not a file")) }
}

fn open_file(folder: BorrowedFd<'_>, name: &OsStr, shown: &Path, flags: OFlag) -> io::Result<File> {
    // Not waiting for whoever would write to a pipe of that name.
    let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let file = match openat(folder, name, flags, Mode::S_IRUSR | Mode::S_IWUSR) {
        Ok(file) => File::from(file),
        Err(Errno::ELOOP) => return Err(is_link(shown)),
        Err(error) => return Err(error.into()),
    };
    if !file.metadata()?.is_file() {
        return Err(refusal(format!("{} is not a file", shown.display())));
    }
    check(&file, shown, Others::MayLook)?;
    Ok(file)
}

/// Opens a folder, whoever's it is; its last part is no link.
///
/// # Errors
/// It is not there, a link, or no folder.
pub fn folder_of_anybody(path: &Path) -> io::Result<File> {
    open_folder(path).map(File::from)
}

/// A name that leads to an open folder wherever it has been moved, for as long as it is open and for this process.
pub fn held_name(folder: &File) -> PathBuf {
    held(folder.as_fd())
}

fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    // A slash at the end would have a link followed.
    let plain: PathBuf = path.components().collect();
    let plain = if plain.as_os_str().is_empty() { PathBuf::from(".") } else { plain };
    match open(&plain, FOLDER | OFlag::O_RDONLY, Mode::empty()) {
        Ok(fd) => Ok(fd),
        Err(Errno::ENOTDIR | Errno::ELOOP) if plain.is_symlink() => Err(is_link(path)),
        Err(error) => Err(told(path, &error.into())),
    }
}

fn step_down(base: BorrowedFd<'_>, relative: &Path) -> io::Result<OwnedFd> {
    let mut at = base.try_clone_to_owned()?;
    for part in relative.components() {
        let Component::Normal(name) = part else { return Err(io::ErrorKind::InvalidInput.into()) };
        at = openat(&at, name, FOLDER | OFlag::O_RDONLY, Mode::empty()).map_err(|error| match error {
            Errno::ENOTDIR | Errno::ELOOP => refusal(format!("{} is a link or no folder", name.display())),
            error => error.into(),
        })?;
    }
    Ok(at)
}

/// Opens what lies below an open folder, each part without links.
///
/// # Errors
/// One of the parts is not there, is a link or no folder.
pub fn below(base: BorrowedFd<'_>, relative: &Path) -> io::Result<OwnedFd> {
    step_down(base, relative)
}

fn check_below(folder: BorrowedFd<'_>, shown: &Path, levels: usize, except: &str) -> io::Result<()> {
    for name in names_in(folder)?.into_iter().filter(|name| name != except) {
        let shown = shown.join(&name);
        let found = match fs::symlink_metadata(held(folder).join(&name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            found => found.map_err(|error| told(&shown, &error))?,
        };
        if found.is_symlink() {
            return Err(is_link(&shown));
        }
        judge(&found, &shown, Others::MayLook)?;
        if found.is_dir() && levels > 0 {
            let below = step_down(folder, Path::new(&name)).map_err(|error| told(&shown, &error))?;
            check(&File::from(below.try_clone()?), &shown, Others::MayLook)?;
            check_below(below.as_fd(), &shown, levels - 1, except)?;
        }
    }
    Ok(())
}

pub(super) fn names_in(folder: BorrowedFd<'_>) -> io::Result<Vec<OsString>> {
    fs::read_dir(held(folder))?.map(|entry| entry.map(|entry| entry.file_name())).collect()
}

pub(super) fn held(fd: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

pub(super) fn name_of(fd: BorrowedFd<'_>) -> io::Result<PathBuf> {
    fs::read_link(held(fd))
}

fn check(file: &File, shown: &Path, others: Others) -> io::Result<()> {
    judge(&file.metadata()?, shown, others)
}

fn judge(found: &fs::Metadata, shown: &Path, others: Others) -> io::Result<()> {
    ours(found.uid(), shown)?;
    // Everybody's rights to a socket are those to its folder.
    let open = found.mode() & others.forbidden();
    if open == 0 || found.file_type().is_socket() {
        return Ok(());
    }
    let (can, remedy) = match others {
        Others::MayLook => ("can be written to", "chmod -R go-w"),
        Others::StayOut => ("can be entered", "chmod 700"),
    };
    let whom = if open.is_multiple_of(0o10) { "its group" } else { "everybody" };
    let text = format!(
        "{} {can} by {whom}, so what is in it may be anybody's: if you trust it, {remedy} it",
        shown.display()
    );
    Err(refusal(text))
}

pub(super) fn ours(uid: u32, shown: &Path) -> io::Result<()> {
    let own = geteuid().as_raw();
    if uid == own {
        return Ok(());
    }
    let text = format!(
        "{} belongs to user {uid} and you are user {own}: nothing is started, changed or removed because of what somebody \
         else has written; copy it (cp -r) if you trust it, and use the copy",
        shown.display()
    );
    Err(refusal(text))
}

fn is_link(shown: &Path) -> io::Error {
    refusal(format!("{} is a symbolic link: name what it leads to instead", shown.display()))
}

fn refusal(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

pub(super) fn told(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("changed");
    }

    #[test]
    fn what_others_can_write_to_or_own_is_refused_with_what_to_do() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().join("run");
        fs::create_dir(&folder).expect("made");
        fs::write(folder.join("file"), "x").expect("written");
        let file = |folder: &Path| OwnFolder::open(folder, Others::MayLook)?.file("file", OFlag::O_RDONLY);
        mode(&folder, 0o755);
        assert!(file(&folder).is_ok());
        mode(&folder, 0o775);
        assert!(file(&folder).expect_err("the group's").to_string().contains("chmod -R go-w"));
        mode(&folder, 0o755);
        mode(&folder.join("file"), 0o666);
        assert!(file(&folder).expect_err("everybody's").to_string().contains("by everybody"));
        mode(&folder.join("file"), 0o600);
        symlink(folder.join("file"), folder.join("link")).expect("a link");
        let open = OwnFolder::open(&folder, Others::MayLook).expect("ours");
        assert!(
            open.file("link", OFlag::O_RDONLY).expect_err("a link").to_string().contains("symbolic link")
        );
        assert!(open.check_all(0, "other").expect_err("a link").to_string().contains("symbolic link"));
        let link = dir.path().join("link");
        symlink(&folder, &link).expect("a link");
        for path in [link.clone(), link.join("")] {
            let error = OwnFolder::open(&path, Others::MayLook).expect_err("a link").to_string();
            assert!(error.contains("symbolic link"), "{error}");
        }
        if geteuid().is_root() {
            chown(&folder, Some(12345), None).expect("given away");
            let error = file(&folder).expect_err("not ours").to_string();
            assert!(error.contains("user 12345") && error.contains("copy it"), "{error}");
        } else {
            skips::skip(skips::Need::Root, "only root can give a folder away");
        }
    }

    #[test]
    fn removing_follows_no_link_at_any_level() {
        let (dir, outside) = (tempfile::tempdir().expect("ours"), tempfile::tempdir().expect("others"));
        fs::write(outside.path().join("precious"), "x").expect("written");
        let folder = OwnFolder::open(dir.path(), Others::MayLook).expect("ours");
        fs::create_dir_all(dir.path().join("a/b/c")).expect("made");
        symlink(outside.path(), dir.path().join("a/b/out")).expect("a link");
        symlink(outside.path(), dir.path().join("way")).expect("a link");
        assert!(folder.remove(Path::new("way/precious")).is_err(), "a link on the way");
        assert!(folder.remove(Path::new("../x")).is_err(), "no way up");
        assert!(folder.remove(Path::new("a")).expect("removed"));
        assert!(!folder.remove(Path::new("a")).expect("nothing is there"));
        assert!(folder.remove(Path::new("way")).expect("the link itself"));
        assert!(outside.path().join("precious").exists());
        assert_eq!(fs::read_dir(dir.path()).expect("read").count(), 0);
    }

    #[test]
    fn a_pipe_of_that_name_makes_nobody_wait() {
        let dir = tempfile::tempdir().expect("a folder");
        nix::unistd::mkfifo(&dir.path().join("pipe"), Mode::S_IRUSR).expect("made");
        let folder = OwnFolder::open(dir.path(), Others::MayLook).expect("ours");
        assert!(folder.file("pipe", OFlag::O_RDONLY).is_err());
        assert!(file_to_read(&dir.path().join("pipe")).is_err());
    }
}
