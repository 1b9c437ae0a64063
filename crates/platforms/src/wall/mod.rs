//! The wall around a process that is not trusted: QEMU, which a guest may have taken over, and switches. It sees what it was
//! given and nothing else, as a user that owns nothing, without any right.
//!
//! ```text
//!  this program ── fork, exec ──► `bulkhead wall …` ───────────────────────────────► exec: QEMU
//!    ▲                              │ namespaces: files, network, IPC, names, users
//!    │ why not, or nothing          │ a root of its own (tmpfs, read-only): what was given, bound there
//!    └──────────────────────────────┤ user: nobody's number (root) or who called; no groups, no capabilities
//!                                   └ no new privileges, limits, system calls that are refused (`filter`)
//! ```
//! The process keeps its number all the way, so whoever started it finds, places and ends it as any child.
//!
//! As root the process runs as user `2^30 · 1.75 + its process number`, a range that no system gives away
//! (systemd's `UIDS-GIDS.md`), so no two of them are the same user. Files that it is to have as their owner are shown to it
//! through mounts with mapped owners: what belongs to root there belongs to it, and what it makes there is root's.
//! A normal user's process stays who it is, in a user namespace of its own.
//!
//! Sources: `mount_setattr(2)` (mapped owners), `pivot_root(2)`, `user_namespaces(7)`, `capabilities(7)`, `seccomp(2)`.

mod below;
mod filter;
mod identity;
mod mounts;
mod order;
mod replaced;
mod rights;
mod stage;

pub use below::{Below, mount_points};
pub use identity::hold_users;
pub use order::{Network, Order, Rights, Shown, SizeLimits};
pub use stage::main;

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::spawn::{Bond, spawn};

/// First word of the command line behind which the wall is built.
pub const VERB: &str = "wall";
/// First word of the command line of whoever holds a user namespace open.
pub const USERS_VERB: &str = "wall-users";
/// How long building it may take; usual are 10 ms, in a guest under the translator beside others half a minute.
const DEADLINE: Duration = Duration::from_secs(120);
/// Longest reason that is read.
const MOST_REASON_BYTES: u64 = 4096;

/// A command that builds the wall and becomes what `order` says. Streams other than standard output, descriptors and
/// groups are the caller's to add; then [`start`] it.
pub fn command(exe: &Path, order: &Order) -> Command {
    let mut command = Command::new(exe);
    command.arg(VERB).args(order.words(std::process::id())).env_clear().stdout(Stdio::piped());
    // Numbers in words, weights in files: nothing that reads them cares for a language. The folder is not there behind the
    // wall; it tells whoever looks (`ps e`) to which call a process belongs.
    command.env("LC_ALL", "C").envs(std::env::var_os("TMPDIR").map(|folder| ("TMPDIR", folder)));
    command
}

/// Starts such a command; its standard output ends in `/dev/null` when it is behind the wall.
///
/// # Errors
/// It cannot be started, or the wall cannot be built: with what the kernel refused and what to do. Nothing runs then.
pub fn start(command: Command) -> io::Result<Child> {
    let mut child = spawn(command, Bond::DiesWithUs, None)?;
    let said = child.stdout.take().map_or_else(|| Ok(String::new()), verdict);
    match said {
        Ok(reason) if reason.is_empty() => Ok(child),
        other => {
            // It is ours and not reaped: its number is nobody else's.
            let _ = child.kill();
            let _ = child.wait();
            Err(other.map_or_else(|error| error, io::Error::other))
        }
    }
}

/// What it says until it is behind the wall: nothing when all went well.
fn verdict(mut from: ChildStdout) -> io::Result<String> {
    let until = Instant::now() + DEADLINE;
    let mut reason = String::new();
    loop {
        let left = PollTimeout::try_from(until.saturating_duration_since(Instant::now()));
        let mut polled = [PollFd::new(from.as_fd(), PollFlags::POLLIN)];
        if poll(&mut polled, left.unwrap_or(PollTimeout::ZERO))? == 0 {
            let seconds = DEADLINE.as_secs();
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!(
                    "its wall was not built within {seconds} s: a file system that was to be shown may hang"
                ),
            ));
        }
        let read = (&mut from).take(MOST_REASON_BYTES).read_to_string(&mut reason);
        match read {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other.map(|_| reason),
        }
    }
}
