//! One run directory, one program: an exclusive `flock` on the directory itself, so that no lock file is left behind
//! and a killed program's lock is gone with it. Who holds it is read off `/proc/locks` (proc(5)).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::stat::{major, minor};

/// Held as long as a run uses its directory.
#[derive(Debug)]
pub(super) struct DirLock(#[expect(dead_code, reason = "held for its drop")] Flock<File>);

/// Why the lock was not got.
#[derive(Debug)]
pub(super) enum LockError {
    /// Another program has it; its process id when the system shows it.
    Taken(Option<u32>),
    /// The directory could not be locked.
    Io(io::Error),
}

/// Takes the lock on an open directory or says who has it.
pub(super) fn lock(file: File) -> Result<DirLock, LockError> {
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(DirLock(lock)),
        Err((file, Errno::EWOULDBLOCK)) => Err(LockError::Taken(holder_of(&file))),
        Err((_, errno)) => Err(LockError::Io(errno.into())),
    }
}

fn holder_of(file: &File) -> Option<u32> {
    let metadata = file.metadata().ok()?;
    let text = fs::read_to_string("/proc/locks").ok()?;
    holder(&text, (major(metadata.dev()), minor(metadata.dev())), metadata.ino())
}

/// The process that holds a lock on this inode: `1: FLOCK  ADVISORY  WRITE 708 00:13:5 0 EOF`.
fn holder(locks: &str, device: (u64, u64), inode: u64) -> Option<u32> {
    let wanted = format!("{:02x}:{:02x}:{inode}", device.0, device.1);
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields.as_slice() {
            [_, "FLOCK", _, "WRITE", pid, place, ..] if *place == wanted => pid.parse().ok(),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_read_off_the_locks_table() {
        let text = "1: POSIX  ADVISORY  WRITE 12 fe:00:99 0 EOF\n2: FLOCK  ADVISORY  WRITE 708 fe:00:99 0 EOF\n\
                    2: -> FLOCK  ADVISORY  WRITE 709 fe:00:98 0 EOF\n";
        assert_eq!(holder(text, (254, 0), 99), Some(708));
        assert_eq!(holder(text, (254, 0), 98), None);
        assert_eq!(holder(text, (0, 19), 99), None);
    }

    #[test]
    fn a_second_lock_names_this_process() {
        let dir = tempfile::tempdir().unwrap();
        let lock = || lock(File::open(dir.path()).unwrap());
        let first = lock().unwrap();
        match lock() {
            Err(LockError::Taken(holder)) => assert_eq!(holder, Some(std::process::id())),
            other => panic!("wanted a refusal, got {other:?}"),
        }
        drop(first);
        lock().unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "a lock leaves no file");
    }
}
