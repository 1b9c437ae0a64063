//! Who the process is: a user that owns nothing when root starts it, else the caller in a user namespace of its own.
//!
//! ```text
//!  namespace's numbers      the host's, as root               mounts with mapped owners (root only)
//!  0                   ◄──► 0x7000_0000 + process number ◄──► 0 on the disk
//!  1 … 0x6fff_ffff     ◄──► the same                     ◄──► the same
//! ```
//! So files of root's that were given belong to it, others show whose they are, and all other files of root's, which
//! show as nobody's, are open to it only as they are to everybody.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitCode, Stdio};

use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{Gid, Uid, getegid, geteuid, setgroups, setresgid, setresuid};

use super::USERS_VERB;

/// First user of a range that is given to nobody.
const FIRST_USER: u32 = 0x7000_0000;
/// Most numbers of processes (`PID_MAX_LIMIT` in Linux).
const MOST_PROCESSES: u32 = 1 << 22;

/// Who the process will be.
#[derive(Debug)]
pub enum Identity {
    /// Root called: a user of the range above, in this user namespace.
    Nobody {
        /// Its number on the host, as user and group.
        number: u32,
        /// The namespace that maps 0 to it.
        users: OwnedFd,
    },
    /// The caller.
    Caller,
}

impl Identity {
    /// Finds out, and for a normal user goes into a user namespace, where the rest can be built.
    ///
    /// # Errors
    /// The kernel gives no user namespace.
    pub fn take() -> io::Result<Self> {
        if geteuid().is_root() {
            let number = FIRST_USER + std::process::id() % MOST_PROCESSES;
            return Ok(Self::Nobody { number, users: users_of(number)? });
        }
        let (user, group) = (geteuid(), getegid());
        unshare(CloneFlags::CLONE_NEWUSER)?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
        fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
        Ok(Self::Caller)
    }

    /// Its number on the host, where that is not the caller's.
    pub const fn number(&self) -> Option<u32> {
        match self {
            Self::Nobody { number, .. } => Some(*number),
            Self::Caller => None,
        }
    }

    /// Becomes that user.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn assume(&self) -> nix::Result<()> {
        let Self::Nobody { users, .. } = self else { return Ok(()) };
        setns(users, CloneFlags::CLONE_NEWUSER)?;
        setgroups(&[])?;
        let (user, group) = (Uid::from_raw(0), Gid::from_raw(0));
        setresgid(group, group, group)?;
        setresuid(user, user, user)
    }
}

/// A user namespace that maps root to `number` and every other user to itself. A process holds it open until it was opened
/// here.
fn users_of(number: u32) -> io::Result<OwnedFd> {
    let mut holder = Command::new("/proc/self/exe")
        .arg(USERS_VERB)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let users = map_users(&mut holder, number);
    // Its standard input ends, and so does it.
    drop(holder.stdin.take());
    holder.wait()?;
    users
}

fn map_users(holder: &mut Child, number: u32) -> io::Result<OwnedFd> {
    let mut ready = [0];
    holder.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?.read_exact(&mut ready).map_err(|_| {
        let advice = "this kernel gives root no user namespace (sysctl user.max_user_namespaces)";
        io::Error::new(io::ErrorKind::PermissionDenied, advice)
    })?;
    let of = |file: &str| format!("/proc/{}/{file}", holder.id());
    let map = format!("0 {number} 1\n1 1 {}\n", FIRST_USER - 1);
    for file in ["uid_map", "gid_map"] {
        fs::write(of(file), &map)?;
    }
    File::open(of("ns/user")).map(OwnedFd::from)
}

/// What the holder of a user namespace does: goes into one, says so, waits for the end of its standard input.
pub fn hold_users() -> ExitCode {
    let held = unshare(CloneFlags::CLONE_NEWUSER).is_ok()
        && io::stdout().write_all(b"r").and_then(|()| io::stdout().flush()).is_ok()
        && io::stdin().read(&mut [0]).is_ok();
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
