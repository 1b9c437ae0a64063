//! Takes the times of files that the guest has written itself, so that its kernel keeps what it has of them in its cache: see
//! `files::written`, which asks for it.
//!
//! ```text
//!  server: which file? ── answered when there is one ─► opened by its number, which asks nobody ─► its mode set to what it is, its name looked up ─┐
//!            ▲                                                                                                                                    │
//!            └────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//! By its number a file is opened with `open_by_handle_at(2)`: virtio-fs has it for file servers, and finds what the kernel knows
//! already (`fuse_fh_to_dentry` in `fs/fuse/inode.c` of Linux). A path would be looked up, and with that the times told the wrong way.

#![expect(
    unsafe_code,
    reason = "no library we use opens a file by its number: open_by_handle_at(2) takes bare addresses"
)]

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread::sleep;
use std::time::Duration;

use files::written::{VALUE_BYTES, WRITTEN, Wanted, wanted};
use nix::libc;
use rustix::fs::{AtFlags, Mode, chmodat, fgetxattr, readlinkat, statat};
use rustix::io::Errno;

/// How long nobody is asked who could not answer.
const AFTER_AN_ERROR: Duration = Duration::from_secs(1);
/// The kind of number that virtio-fs has (`FILEID_INO64_GEN` in `linux/exportfs.h`).
const KIND: libc::c_int = 0x81;

/// A file's number as the kernel takes it (`struct file_handle`): the upper half, the lower half, and which file of that number.
#[repr(C)]
struct Number {
    bytes: libc::c_uint,
    kind: libc::c_int,
    words: [u32; 3],
}

/// Does it for all files of the file system of `trees`, until nobody asks any more.
pub fn watch(trees: &File, processes: &OwnedFd) {
    let mut value = [0; VALUE_BYTES];
    loop {
        match fgetxattr(trees, WRITTEN, &mut value).map(|length| value.get(..length).and_then(wanted)) {
            // Whoever waits for it is told what is so after a while.
            Ok(Some(wanted)) => drop(take(trees, processes, wanted)),
            // The server is about to end, or knows no such question.
            Ok(None) | Err(Errno::OPNOTSUPP) => return,
            Err(_) => sleep(AFTER_AN_ERROR),
        }
    }
}

fn take(trees: &File, processes: &OwnedFd, wanted: Wanted) -> Result<(), Errno> {
    let file = open(trees, wanted.node)?;
    let link = format!("self/fd/{}", file.as_raw_fd());
    chmodat(processes, &link, Mode::from_raw_mode(wanted.mode & 0o7777), AtFlags::empty())?;
    // By its number it was found without its name being asked for, and so the kernel would forget it with the last who uses it, and its
    // cache with that (`fuse_get_dentry`). It is looked up under its name, if it has one, while it is held here.
    let path = readlinkat(processes, &link, Vec::new())?;
    let within = path.to_bytes().strip_prefix(b"/").ok_or(Errno::NOENT)?;
    statat(trees, within, AtFlags::SYMLINK_NOFOLLOW).map(drop)
}

/// Opens what the kernel knows by this number, only to be named.
fn open(trees: &File, node: u64) -> Result<OwnedFd, Errno> {
    let [upper, lower] =
        [node >> 32, node & u64::from(u32::MAX)].map(|half| u32::try_from(half).unwrap_or_default());
    let mut number = Number { bytes: 12, kind: KIND, words: [upper, lower, 0] };
    // SAFETY: the structure is as long as it says, and lives until the call is over.
    let opened = unsafe {
        libc::open_by_handle_at(
            trees.as_raw_fd(),
            std::ptr::from_mut(&mut number).cast(),
            libc::O_PATH | libc::O_CLOEXEC,
        )
    };
    if opened < 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    // SAFETY: the call has just made it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(opened) })
}
