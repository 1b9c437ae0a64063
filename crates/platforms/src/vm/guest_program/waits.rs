//! Ends waits for locks of the host's files when a signal has come: over virtio-fs the kernel does not ask for it itself.
//!
//! ```text
//!  server: who waits? ── answered when somebody has for a while ─► did a signal reach the thread? ── yes ─► server: take it back ─► EINTR
//!            ▲                                                                 │ no
//!            └───────────────────── a moment later ────────────────────────────┘
//! ```
//! While a thread waits for an answer any signal wakes it, once; from then on it waits without minding any (`request_wait_answer` in
//! `fs/fuse/dev.c` of Linux). So its state tells, S before and D after. The sets of pending signals would not: one of the whole
//! process may be another thread's to take, and a stop of all threads or a debugger comes without one. Where it is D, the
//! kernel makes of EINTR what it makes of a lock of its own (`fuse_setlk` in `fs/fuse/file.c`): a handler, the wait anew, the end.
//!
//! It is a thread, so that what runs in the guest can neither see nor end it. As long as nobody waits, it sleeps in one request.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::thread::sleep;
use std::time::Duration;

use files::waits::{INTERRUPT, LONGEST_LIST, Listed, WAITS, listed};
use rustix::fs::{Mode, OFlags, fgetxattr, openat};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::super::pid1::in_context;
use super::{aside, times};
use units::Reason;

/// How often it is looked, while anybody waits.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long nobody is asked who could not answer.
const AFTER_AN_ERROR: Duration = Duration::from_secs(1);
/// Longest line of `/proc/TID/stat`.
const MOST_STAT: u64 = 4096;

/// Begins, over anything of the file system of `trees`.
pub fn begin(trees: File) -> Result<(), Reason> {
    let failed = || in_context::<io::Error>("ending waits for locks");
    let processes = own_proc().map_err(|error| failed()(error.into()))?;
    let (same_trees, same_processes) =
        (trees.try_clone().map_err(failed())?, processes.try_clone().map_err(failed())?);
    aside::start("waits", move || watch(&trees, &processes))?;
    aside::start("times", move || times::watch(&same_trees, &same_processes))
}

/// One that programs neither cover nor find in use.
fn own_proc() -> Result<OwnedFd, Errno> {
    let context = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

fn watch(trees: &File, processes: &OwnedFd) {
    let mut list = vec![0; LONGEST_LIST];
    loop {
        match look(trees, processes, &mut list) {
            Ok(true) => sleep(LOOK_EVERY),
            // The server is about to end, or knows no such question.
            Ok(false) | Err(Errno::OPNOTSUPP) => return,
            // Too many ask at once, or there is no memory.
            Err(_) => sleep(AFTER_AN_ERROR),
        }
    }
}

/// Has waits ended that a signal is to end, once anybody waits; false when nobody will.
fn look(trees: &File, processes: &OwnedFd, list: &mut [u8]) -> Result<bool, Errno> {
    let length = fgetxattr(trees, WAITS, &mut *list)?;
    let waits = listed(list.get(..length).unwrap_or_default());
    for wait in waits.iter().filter(|wait| has_a_signal(processes, wait)) {
        // Meanwhile it may have its lock.
        fgetxattr(trees, format!("{INTERRUPT}{}", wait.number), &mut [0_u8; 1])?;
    }
    Ok(!waits.is_empty())
}

/// Whether a signal has reached the thread that waits. Its number may be another thread's by now: then the wait is over.
fn has_a_signal(processes: &OwnedFd, wait: &Listed) -> bool {
    let path = format!("{}/stat", wait.thread);
    let mut text = Vec::new();
    let file = openat(processes, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map(File::from);
    file.is_ok_and(|file| file.take(MOST_STAT).read_to_end(&mut text).is_ok()) && state(&text) == Some(b'D')
}

/// The state in a line of `/proc/TID/stat`: behind the name, in which there may be anything (proc(5)).
fn state(stat: &[u8]) -> Option<u8> {
    let behind = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(behind + 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_stands_behind_the_name() {
        assert_eq!(state(b"71 (flock) D 1 71 0 0 -1 4194304"), Some(b'D'));
        assert_eq!(state(b"71 (a) D (b) S 1 71"), Some(b'S'));
        for cut in ["", "71 (flock", "71 (flock)", "71 (flock) "] {
            assert_eq!(state(cut.as_bytes()), None, "{cut}");
        }
    }

    #[test]
    fn who_sleeps_has_no_signal_and_who_is_gone_neither() {
        let processes = File::open("/proc").unwrap().into();
        let own = u64::from(std::process::id());
        for thread in [own, u64::from(u32::MAX), 0] {
            assert!(!has_a_signal(&processes, &Listed { number: 1, thread }), "{thread}");
        }
    }
}
