//! Finds the plugs of a link and dials them; never waits.

use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::{fs, io};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

use super::core::PlugNumber;
use super::number_of;
use units::Reason;

/// Most entries of a link's folder that are looked at.
const MOST_ENTRIES: usize = 1000;

/// The plugs whose sockets are there.
pub fn plugs(folder: &Path) -> io::Result<Vec<(PlugNumber, PathBuf)>> {
    let entries = fs::read_dir(folder)?.take(MOST_ENTRIES).filter_map(Result::ok);
    let plug = |entry: fs::DirEntry| {
        let number = number_of(entry.file_name().to_str()?)?;
        entry.file_type().ok()?.is_socket().then(|| (number, entry.path()))
    };
    Ok(entries.filter_map(plug).collect())
}

/// A connection to whoever listens at `path`.
///
/// # Errors
/// Nobody does, or has no time for it now: to be tried again.
pub fn dial(path: &Path) -> io::Result<UnixStream> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let near = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(near.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(near.into())
}

/// Listens at `path`, in place of a socket that a killed switch left there.
///
/// # Errors
/// Somebody listens there, or it cannot be made.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    if path.symlink_metadata().is_ok_and(|meta| meta.file_type().is_socket()) {
        if dial(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another switch listens there"));
        }
        fs::remove_file(path)?;
    }
    let door = UnixListener::bind(path)?;
    door.set_nonblocking(true)?;
    Ok(door)
}

/// Refuses a folder in which others than we could put sockets.
///
/// # Errors
/// It is not there, or others may enter it.
pub fn check_folder(folder: &Path) -> Result<(), Reason> {
    let shown = folder.display();
    let meta = fs::symlink_metadata(folder).map_err(|error| format!("the link's folder {shown}: {error}"))?;
    let ours = meta.uid() == nix::unistd::geteuid().as_raw();
    if !meta.is_dir() || !ours || meta.mode() & 0o077 != 0 {
        return Err(format!(
            "the link's folder {shown}: wanted a folder of our own that nobody else may enter (mode 0700), got \
             mode {:04o} of user {}; chmod 700 it",
            meta.mode() & 0o7777,
            meta.uid()
        ).into());
    }
    Ok(())
}
