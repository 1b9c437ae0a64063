//! Removing step by step through open folders: no link is followed, and no mount is entered.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};
use rustix::fs::{AtFlags, StatxFlags, statx};

use super::own_folder::{FOLDER, MOST_LEVELS, Whose, held, name_of, names_in, ours, told};

/// Removes a name in an open folder, with everything in it; false when there is nothing.
///
/// # Errors
/// It is somebody else's, something is mounted there or below, or it cannot be removed.
pub(super) fn remove_level(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    whose: Whose,
    level: usize,
) -> io::Result<bool> {
    if level > MOST_LEVELS {
        return Err(io::Error::other(format!("more than {MOST_LEVELS} folders within each other")));
    }
    let folder = match openat(parent, name, FOLDER | OFlag::O_RDONLY, Mode::empty()) {
        Ok(folder) => folder,
        Err(Errno::ENOENT) => return Ok(false),
        // A link or a file: it goes itself, wherever it leads.
        Err(Errno::ENOTDIR | Errno::ELOOP) => {
            if whose == Whose::Ours {
                let found = fs::symlink_metadata(held(parent).join(name))?;
                ours(found.uid(), &name_of(parent)?.join(name))?;
            }
            return gone(unlinkat(parent, name, UnlinkatFlags::NoRemoveDir));
        }
        Err(error) => return Err(told(&name_of(parent)?.join(name), &error.into())),
    };
    let file = File::from(folder);
    if mount_of(file.as_fd()) != mount_of(parent) {
        let shown = name_of(parent)?.join(name);
        let text = "something is mounted there, and what lies in it is not to be removed: umount it first";
        return Err(told(&shown, &io::Error::new(io::ErrorKind::ResourceBusy, text)));
    }
    if whose == Whose::Ours {
        ours(file.metadata()?.uid(), &name_of(parent)?.join(name))?;
    }
    for entry in names_in(file.as_fd())? {
        remove_level(file.as_fd(), &entry, Whose::Any, level + 1)?;
    }
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
