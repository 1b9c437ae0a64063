//! What the process does on its way behind the wall, in the order that each step needs.
//!
//! ```text
//!  words ─► user namespace ─► namespaces ─► root ─► user ─► nothing allowed ─► filter ─► exec
//! ```

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{dup2_stdout, execve, fexecve, getppid};

use super::identity::Identity;
use super::order::{Network, Order};
use super::replaced::copy_of_replaced;
use super::{filter, mounts, rights};
use crate::limits;
use crate::spawn::hand_on_only;
use units::Reason;

/// What is said when the kernel gives no namespaces.
const ADVICE: &str = "a wall takes namespaces of its own: for a normal user sysctl kernel.unprivileged_userns_clone=1 (Debian), \
                      kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), user.max_user_namespaces above 0; inside a \
                      container CAP_SYS_ADMIN";

/// Builds the wall and becomes the program. Returns only when that failed; why goes to standard output.
pub fn main(words: Vec<OsString>) -> ExitCode {
    let Ok(answer) = io::stdout().as_fd().try_clone_to_owned() else { return ExitCode::FAILURE };
    let reason = match prepare(words) {
        Ok(prepared) => become_it(&prepared),
        Err(reason) => reason.into(),
    };
    // Nobody is left to tell when this fails.
    let _ = File::from(answer).write_all(reason.as_bytes());
    ExitCode::FAILURE
}

/// What is to be executed.
struct Prepared {
    program: CString,
    /// In place of what has the program's name, where that cannot be shown.
    copy: Option<OwnedFd>,
    words: Vec<CString>,
}

/// Everything up to the program's start.
fn prepare(words: Vec<OsString>) -> Result<Prepared, Reason> {
    let (mut order, parent) = Order::parse(words)?;
    limits::lift();
    hand_on_only(&order.descriptors).map_err(|error| format!("its descriptors: {error}"))?;
    let copy = copy_of_replaced(&mut order).map_err(|error| format!("a copy of this program: {error}"))?;
    let null = File::options().read(true).write(true).open("/dev/null");
    let null = OwnedFd::from(null.map_err(|error| format!("/dev/null: {error}"))?);
    let identity = Identity::take().map_err(|error| format!("{error}; {ADVICE}"))?;
    unshare(namespaces(order.network)).map_err(|error| format!("{}; {ADVICE}", error.desc()))?;
    let as_caller = order.or_as_caller && !mounts::can_map(&order, &identity);
    let identity = if as_caller { Identity::Caller } else { identity };
    mounts::build(&order, &identity)?;
    identity.assume().map_err(|error| format!("becoming a user of its own: {}", error.desc()))?;
    let longest = order.size_limits.as_ref().map(|sizes| sizes.longest);
    rights::give_up(longest).map_err(|error| format!("giving up rights: {error}"))?;
    bind_to(parent)?;
    filter::install(&order).map_err(|error| format!("the filter of system calls: {error}"))?;
    let words = order.words.into_iter().map(|word| CString::new(word.into_vec()));
    let words: Vec<CString> = words.collect::<Result<_, _>>().map_err(|_| "a word with a zero byte")?;
    let program = words.first().cloned().ok_or("no program")?;
    dup2_stdout(&null).map_err(|error| format!("its output: {}", error.desc()))?;
    Ok(Prepared { program, copy, words })
}

fn namespaces(network: Network) -> CloneFlags {
    let mut flags = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS;
    flags.set(CloneFlags::CLONE_NEWNET, network == Network::Own);
    flags
}

/// Whoever started it takes it along. Becoming another user has undone what was said before.
fn bind_to(parent: i32) -> Result<(), Reason> {
    set_pdeathsig(Signal::SIGKILL).map_err(|error| format!("an end with its parent: {}", error.desc()))?;
    // The parent may have died before the line above.
    if getppid().as_raw() == parent { Ok(()) } else { Err("whoever started it is gone".into()) }
}

/// Only comes back with the reason why it could not.
fn become_it(prepared: &Prepared) -> String {
    let pair = |(mut name, value): (OsString, OsString)| {
        name.push("=");
        name.push(value);
        CString::new(name.into_vec()).ok()
    };
    let environment: Vec<CString> = std::env::vars_os().filter_map(pair).collect();
    let Prepared { program, copy, words } = prepared;
    let failed = match copy {
        Some(copy) => fexecve(copy, words, &environment),
        None => execve(program, words, &environment),
    };
    match failed {
        Err(error) => format!("{} cannot be executed: {}", program.to_string_lossy(), error.desc()),
        Ok(never) => match never {},
    }
}
