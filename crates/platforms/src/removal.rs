//! Removing step by step through open folders: no link is followed, and no mount is entered. Folders may be as deep as a guest
//! likes: what lies deeper than so many descriptors are to be open is moved up, and goes from there.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::{FchmodatFlags, Mode, fchmod, fchmodat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};
use rustix::fs::{AtFlags, RenameFlags, StatxFlags, renameat_with, statx};

use super::own_folder::{FOLDER, MOST_LEVELS, Whose, held, name_of, names_in, ours, told};

/// Removes a name in an open folder, with everything in it; false when there is nothing.
///
/// # Errors
/// It is somebody else's, something is mounted there or below, or it cannot be removed.
pub(super) fn remove_whole(parent: BorrowedFd<'_>, name: &OsStr, whose: Whose) -> io::Result<bool> {
    let Some(top) = enter(parent, name, whose)? else { return leave_file(parent, name, whose) };
    let mut moved = 0;
    loop {
        let all = names_in(top.as_fd())?;
        if all.is_empty() {
            break;
        }
        for entry in all {
            remove_level(top.as_fd(), top.as_fd(), &entry, &mut moved, 1)?;
        }
    }
    leave(parent, name)
}

/// One level of it; `top` is the folder that all of it lies in.
fn remove_level(
    top: BorrowedFd<'_>,
    parent: BorrowedFd<'_>,
    name: &OsStr,
    moved: &mut u64,
    level: usize,
) -> io::Result<()> {
    let Some(folder) = enter(parent, name, Whose::Any)? else {
        return leave_file(parent, name, Whose::Any).map(drop);
    };
    if level >= MOST_LEVELS {
        return move_up(parent, name, top, moved);
    }
    for entry in names_in(folder.as_fd())? {
        remove_level(top, folder.as_fd(), &entry, moved, level + 1)?;
    }
    leave(parent, name).map(drop)
}

fn move_up(parent: BorrowedFd<'_>, name: &OsStr, top: BorrowedFd<'_>, moved: &mut u64) -> io::Result<()> {
    loop {
        *moved += 1;
        match renameat_with(parent, name, top, moved.to_string(), RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Opens a folder that is to be emptied; none when that is no folder, or nothing.
fn enter(parent: BorrowedFd<'_>, name: &OsStr, whose: Whose) -> io::Result<Option<File>> {
    let shown = || io::Result::Ok(name_of(parent)?.join(name));
    let open = |flags| openat(parent, name, FOLDER | flags, Mode::empty());
    let opened = match open(OFlag::O_RDONLY) {
        // Its mode forbids it to us: what a guest may do to a folder of ours.
        Err(Errno::EACCES) => open(OFlag::O_PATH).and_then(|closed| {
            fchmodat(AT_FDCWD, &held(closed.as_fd()), Mode::S_IRWXU, FchmodatFlags::FollowSymlink)?;
            open(OFlag::O_RDONLY)
        }),
        other => other,
    };
    let file = match opened {
        Ok(folder) => File::from(folder),
        // A link or a file: it goes itself, wherever it leads.
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => return Ok(None),
        Err(error) => return Err(told(&shown()?, &error.into())),
    };
    if mount_of(file.as_fd()) != mount_of(parent) {
        let text = "something is mounted there, and what lies in it is not to be removed: umount it first";
        return Err(told(&shown()?, &io::Error::new(io::ErrorKind::ResourceBusy, text)));
    }
    let found = file.metadata()?;
    if whose == Whose::Ours {
        ours(found.uid(), &shown()?)?;
    }
    // Whether what is in it can be removed.
    if found.mode() & 0o700 != 0o700 && found.uid() == geteuid().as_raw() {
        fchmod(&file, Mode::S_IRWXU)?;
    }
    Ok(Some(file))
}

/// Removes what is no folder; false when it is not there.
fn leave_file(parent: BorrowedFd<'_>, name: &OsStr, whose: Whose) -> io::Result<bool> {
    if whose == Whose::Ours {
        let found = match fs::symlink_metadata(held(parent).join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            found => found?,
        };
        ours(found.uid(), &name_of(parent)?.join(name))?;
    }
    gone(unlinkat(parent, name, UnlinkatFlags::NoRemoveDir))
}

/// Removes a folder that was emptied.
fn leave(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<bool> {
    gone(unlinkat(parent, name, UnlinkatFlags::RemoveDir))
        .map_err(|error| told(&name_of(parent).unwrap_or_default().join(name), &error))
}

fn gone(removed: nix::Result<()>) -> io::Result<bool> {
    match removed {
        Ok(()) => Ok(true),
        Err(Errno::ENOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Which mount a folder lies on: a number of its own where the kernel tells it (Linux 5.8), else its file system's.
fn mount_of(folder: BorrowedFd<'_>) -> Option<(u64, u64)> {
    let found = statx(folder, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID | StatxFlags::BASIC_STATS).ok()?;
    let tells = found.stx_mask & StatxFlags::MNT_ID.bits() != 0;
    let device = u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor);
    Some((if tells { found.stx_mnt_id } else { 0 }, device))
}
