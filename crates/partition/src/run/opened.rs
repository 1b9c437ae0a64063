//! What may be opened for writing: nothing that carries rights, nothing of this program's own, nothing that others own.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::statfs::{FsType, PROC_SUPER_MAGIC, SYSFS_MAGIC, statfs};
use nix::unistd::{AccessFlags, access, geteuid};

use super::Failed;
use super::check::wanted_folder;
use super::own_places::{around, is_ours};

const WHAT: &str = "what is to be opened for writing";
/// File systems whose files nobody has written.
const MADE_UP: [FsType; 2] = [PROC_SUPER_MAGIC, SYSFS_MAGIC];
/// Most files of a tree: some ten seconds of looking.
const MOST_FILES: u64 = 5_000_000;

/// A folder, or a file that may be written to.
pub fn check_opened(path: &Path) -> Result<(), Failed> {
    let Ok(meta) = fs::metadata(path) else { return wanted_folder(path, WHAT) };
    if let Some(own) = around(path) {
        return Err(is_our_own(path, &own));
    }
    if meta.is_dir() || !path.is_absolute() {
        return wanted_folder(path, WHAT)
            .and_then(|()| check_owner(path, &meta))
            .and_then(|()| check_within(path));
    }
    let is_made_up = statfs(path).is_ok_and(|found| MADE_UP.contains(&found.filesystem_type()));
    let found = if is_made_up {
        "this is a file of the running kernel, which means something else, or nothing, to a guest".to_owned()
    } else if meta.is_file() {
        check_owner(path, &meta)?;
        match access(path, AccessFlags::R_OK | AccessFlags::W_OK) {
            Ok(()) => return no_rights_within(path, path, &meta),
            Err(error) => format!("it cannot be read and written: {error}"),
        }
    } else {
        "this is neither a file nor a folder; a disk is given as a disk".to_owned()
    };
    Err(Failed::own(format!("{WHAT}, {}: {found}", path.display())))
}

/// Looks at all that lies in a tree: whatever is not looked at could be what a guest is after, and a guest can make it lie
/// behind many others.
fn check_within(top: &Path) -> Result<(), Failed> {
    let mut folders = vec![top.to_owned()];
    let mut looked = 0_u64;
    while let Some(folder) = folders.pop() {
        // What we cannot read the guest cannot either.
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            looked += 1;
            if looked > MOST_FILES {
                return Err(Failed::own(format!(
                    "{WHAT}, {}: it holds more than {MOST_FILES} files, which all would have to be looked at: what carries \
                     rights is not opened; open a folder with fewer",
                    top.display()
                )));
            }
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() {
                if is_ours(&entry.path(), &meta) {
                    return Err(is_our_own(top, &entry.path()));
                }
                folders.push(entry.path());
            } else if meta.is_file() {
                no_rights_within(top, &entry.path(), &meta)?;
            }
        }
    }
    Ok(())
}

/// Refuses a file that carries its owner's rights, or capabilities: its content could be exchanged without the kernel noticing
/// (through a shared mapping, by a QEMU that was taken over), and keep them.
pub fn no_rights_within(top: &Path, file: &Path, meta: &Metadata) -> Result<(), Failed> {
    const SET_ID: u32 = 0o6000;
    const CAPABILITIES: &str = "security.capability";
    let shown = file.display();
    let (carries, mend) = if meta.mode() & SET_ID != 0 {
        (format!("its owner's or group's rights (mode {:o})", meta.mode() & 0o7777), "chmod ug-s it")
    } else if rustix::fs::lgetxattr(file, CAPABILITIES, &mut [0_u8; 256]).is_ok() {
        ("capabilities".to_owned(), "setcap -r it")
    } else {
        return Ok(());
    };
    Err(Failed::own(format!(
        "{WHAT}, {}: {shown} carries {carries}, and a guest could write another program into it; {mend}, or open what does \
         not hold it",
        top.display()
    )))
}

fn is_our_own(path: &Path, folder: &Path) -> Failed {
    Failed::own(format!(
        "{WHAT}, {}: {} is a folder of bulkhead's own, whose memory and lists other partitions depend \
         on; open a folder without it, and outside of it",
        path.display(),
        folder.display()
    ))
}

/// As root a partition writes as root, but without its power over what others own: said before the program finds out.
fn check_owner(path: &Path, meta: &Metadata) -> Result<(), Failed> {
    const FOR_ALL: u32 = 0o002;
    if !geteuid().is_root() || meta.uid() == 0 || meta.mode() & FOR_ALL != 0 {
        return Ok(());
    }
    let (shown, owner) = (path.display(), meta.uid());
    Err(Failed::own(format!(
        "{WHAT}, {shown}: it belongs to user {owner}, and what a partition writes belongs to whoever \
         called bulkhead, which is root; call it as that user: setpriv --reuid {owner} --regid {} --init-groups bulkhead …",
        meta.gid()
    )))
}
