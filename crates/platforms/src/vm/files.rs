//! The process that serves a machine's file trees over virtio-fs, behind a wall of its own: it sees the trees and nothing else, and
//! QEMU sees none of them.
//!
//! ```text
//!  this program ─┬─ wall ─► bulkhead files TREES            /trees/0, /trees/1, …
//!                │                 ▲ socket: where the guest's memory and queues are
//!                └─ wall ─► QEMU ──┘
//! ```
//! It ends when QEMU does, and with whoever started it; and when it ends otherwise, so does QEMU: nobody would answer its guest any more.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use files::{Fullness, Tree};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::signal::{SigSet, Signal as Sent};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, getrlimit, pidfd_open, pidfd_send_signal, setrlimit,
};

use super::enclosure::{TREES, show_trees};
use super::qemu::{Extras, FileDevice};
use crate::ledger::Ledger;
use crate::spawn::enter_group;
use crate::wall::{self, Order, Rights};
use units::Reason;

/// First word of its command line.
pub const VERB: &str = "files";
/// This program behind the wall.
const PROGRAM: &str = "/bulkhead";
/// How long QEMU may take to end after it has hung up, in milliseconds.
const QEMUS_END: u16 = 5000;
/// Most memory of its own, in bytes: what is known of the files that a guest knows, and answers. The guest's is not counted.
const MOST_MEMORY: u64 = 1 << 30;
/// Tells the process that its disk is to be full for [`FULL_FOR`] from now on: who makes it fail says so again and again, and when nobody
/// does, there is room again.
pub const FULL_SIGNAL: Sent = Sent::SIGUSR1;
/// How long that is.
pub const FULL_FOR: Duration = Duration::from_secs(2);
/// A tree that may be written to, and one that may not.
const TREE_LETTERS: [char; 2] = ['w', 'r'];

/// With what the process is started.
pub struct Around<'a> {
    /// This program.
    pub exe: &'a Path,
    /// Where the process says that it belongs to, and in whose folder the socket is for a moment.
    pub ledger: &'a Ledger,
    /// Opened `cgroup.procs` of the machine's groups: what the server has in memory for its guest is the guest's.
    pub entrances: &'a [File],
    /// Where complaints go.
    pub complaints: OwnedFd,
}

/// Starts it for a machine whose trees come over virtio-fs, and has QEMU inherit its end of the socket; none where there is nothing to
/// be served.
///
/// # Errors
/// The wall cannot be built, or something cannot be shown.
pub fn start(
    extras: &mut Extras,
    around: Around<'_>,
    inherited: &mut Vec<OwnedFd>,
) -> io::Result<Option<Child>> {
    if extras.file_device == FileDevice::Plan9 || extras.shares.is_empty() {
        return Ok(None);
    }
    let letters: String =
        extras.shares.iter().map(|share| TREE_LETTERS[usize::from(!share.writable)]).collect();
    let (listener, dialled) = connection(around.ledger.dir())?;
    let mut order = Order { watches_files: true, ..Order::default() };
    order.show(around.exe, PROGRAM, Rights::Execute);
    order.folders.push(TREES.into());
    show_trees(&mut order, &mut extras.shares);
    order.words = [PROGRAM, VERB, &letters].map(OsString::from).to_vec();
    let mut command = wall::command(around.exe, &order);
    command.stdin(OwnedFd::from(listener)).stderr(around.complaints);
    around.ledger.mark(&mut command);
    for procs in around.entrances {
        enter_group(&mut command, procs.try_clone()?);
    }
    let child = wall::start(command)?;
    let dialled = OwnedFd::from(dialled);
    extras.files = Some(dialled.as_raw_fd());
    inherited.push(dialled);
    Ok(Some(child))
}

/// A listening socket, and one that has dialled it. Nobody else does: its name is in a folder of ours, and goes at once.
fn connection(folder: &Path) -> io::Result<(UnixListener, UnixStream)> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("files-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let opened = File::open(folder)?;
    // A socket's path may have 107 bytes; the folder's own may be longer.
    let path = format!("/proc/self/fd/{}/{name}", opened.as_raw_fd());
    let listener = UnixListener::bind(&path)?;
    let dialled = UnixStream::connect(&path);
    fs::remove_file(folder.join(name))?;
    Ok((listener, dialled?))
}

/// Ends QEMU when the process that serves its files has ended before it.
///
/// # Errors
/// No descriptor or thread can be had for it.
pub fn end_together(server: &Child, qemu: &Child) -> io::Result<()> {
    let held = |child: &Child| {
        let pid =
            i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
        io::Result::Ok(pidfd_open(pid, PidfdFlags::empty())?)
    };
    let (server, qemu) = (held(server)?, held(qemu)?);
    let watch = move || {
        let ended = loop {
            match waitid(Id::PIDFd(server.as_fd()), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
                Err(Errno::EINTR) => {}
                ended => break ended,
            }
        };
        let hung_up = match ended {
            Ok(WaitStatus::Exited(_, code)) => code == 0,
            Ok(_) => false,
            // Whoever ends the machine has waited for it already.
            Err(_) => return,
        };
        if hung_up {
            // QEMU is about to end by itself.
            let mut ends = [PollFd::new(qemu.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut ends, QEMUS_END);
        }
        // It is gone already when all is well.
        let _ = pidfd_send_signal(&qemu, Signal::KILL);
    };
    std::thread::Builder::new().name("files".to_owned()).spawn(watch).map(drop)
}

/// What the process does: serves, until QEMU hangs up, who dials the socket on its standard input.
///
/// # Errors
/// What was wanted and got, or why it cannot serve.
pub fn serve(words: &[OsString]) -> Result<(), Reason> {
    const USAGE: &str = "files: wanted a letter for each tree, w or r";
    let letters = words.first().and_then(|word| word.to_str()).filter(|_| words.len() == 1).ok_or(USAGE)?;
    let tree =
        |letter| TREE_LETTERS.contains(&letter).then_some(Tree { is_writable: letter == TREE_LETTERS[0] });
    let trees: Vec<Tree> = letters.chars().map(tree).collect::<Option<_>>().ok_or(USAGE)?;
    let hard = getrlimit(Resource::Data).maximum;
    let most = hard.map_or(MOST_MEMORY, |hard| hard.min(MOST_MEMORY));
    setrlimit(Resource::Data, Rlimit { current: Some(most), maximum: Some(most) })
        .map_err(|error| format!("files: no limit of memory: {error}"))?;
    let folder = File::open(TREES).map_err(|error| format!("files: {TREES}: {error}"))?;
    let listener = io::stdin().as_fd().try_clone_to_owned().map(UnixListener::from);
    let listener = listener.map_err(|error| format!("files: no socket on stdin: {error}"))?;
    let fullness = Fullness::default();
    become_full_when_told(fullness.clone()).map_err(|error| format!("files: {error}"))?;
    files::serve(listener, folder.into(), trees, fullness).map_err(|error| format!("files: {error}").into())
}

/// Waits for the signal on a thread of its own: all others, those to come as well, are not interrupted by it.
fn become_full_when_told(fullness: Fullness) -> io::Result<()> {
    let mut told = SigSet::empty();
    told.add(FULL_SIGNAL);
    told.thread_block()?;
    let wait = move || {
        while told.wait().is_ok() {
            fullness.begin(FULL_FOR);
        }
    };
    std::thread::Builder::new().name("fullness".to_owned()).spawn(wait).map(drop)
}
