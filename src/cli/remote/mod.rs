//! `--on HOST`, where OpenSSH reaches the host: the verb runs there, what it says is shown here.
//!
//! ```text
//!  here                                      there
//!  known: was it put there before? if not: ► settle: this program into the cache folder, named by what is in it
//!  streams     errand ─ plan, set, verb ───► serve: plan and set into the cache folder ─► `up`, `down`, `ps`, … as if typed there
//!   └ lines, then its output ◄───────────────┘   this end is gone, or Ctrl-C here: what `up` has begun is undone
//! ```

mod known;
mod serve;
mod settle;
mod streams;

use std::path::Path;

use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize};

use super::args::UpArgs;
use super::ending::{Ending, OrStop, Verdict};
use super::plan::{Asking, Chosen};
use super::{file, interrupt, plan, up};
use images::Digest;
use model::experiment::SshSpec;
use partition::set::one::Request;
use platforms::ssh::errand::ErrandError;
use report::text::printable;

pub use serve::serve;
pub use settle::settle;

/// Longest path that a machine may answer with, and its line's end.
const MOST_PATH: u64 = 1025;
/// Most characters of a line of another machine's that are shown.
const LONGEST_LINE: usize = 100_000;

/// What is done there. Both ends are the same program, so this is no format that anything else reads.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(PartialEq))]
pub enum Errand {
    /// `up` of a plan's set.
    Up {
        /// The host that the machine is in the plan.
        host: String,
        /// From where the plan comes, so that another one of its name is not taken for it.
        origin: String,
        /// `plan.json`.
        plan: String,
        /// The set's file.
        set: String,
        /// `--kernel`, as a path over there.
        kernel: Option<String>,
        /// `--modules`, likewise.
        modules: Option<String>,
        /// `--qemu`, likewise.
        qemu: Option<String>,
        /// `--json`.
        json: bool,
    },
    /// `down` of a set.
    Down {
        /// Its name.
        set: String,
    },
    /// `ps` of a set.
    Ps {
        /// Its name.
        set: String,
        /// `--json`.
        json: bool,
        /// `--console`.
        console: Option<String>,
    },
    /// `start`, `stop` or `restart`.
    One {
        /// `SET/PARTITION`.
        partition: String,
        /// Which of them.
        request: Request,
    },
    /// `logs`.
    Logs(Logs),
}

/// What of a partition's logs is asked for.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(PartialEq))]
pub struct Logs {
    /// `SET/PARTITION`, or the partition alone.
    pub partition: String,
    /// `--follow`.
    pub follow: bool,
    /// `--tail`.
    pub tail: Option<usize>,
}

/// Brings the set of a plan's host up over there.
pub fn bring_up(args: &UpArgs, chosen: &Chosen, set: &Path, destination: &str) -> Verdict {
    if args.split.is_some() || args.emit.is_some() {
        return Err(anyhow!(
            "--split and --emit work on the machine itself: copy {} to {destination}, and use it there",
            set.display()
        ))
        .or_bad_input();
    }
    let errand = Errand::Up {
        host: chosen.host.clone(),
        origin: origin(&args.file).or_bad_input()?,
        plan: file::read("", &args.file, plan::MAX_PLAN_BYTES).or_bad_input()?,
        set: up::read(set).or_bad_input()?,
        kernel: args.tools.kernel.clone(),
        modules: args.tools.modules.clone(),
        qemu: args.tools.qemu.clone(),
        json: args.json,
    };
    run(chosen, destination, &errand, &args.file)
}

/// A word for this machine and the plan's folder on it.
fn origin(plan: &Path) -> anyhow::Result<String> {
    let path = plan.canonicalize().with_context(|| format!("{} cannot be found", plan.display()))?;
    let machine = nix::unistd::gethostname().context("this machine's name cannot be read")?;
    let folder = path.parent().unwrap_or(&path);
    let told = [machine.as_encoded_bytes(), b"\0", folder.as_os_str().as_encoded_bytes()].concat();
    Ok(Digest::of(&told).short().to_owned())
}

/// Has it done over there.
pub fn run(chosen: &Chosen, destination: &str, errand: &Errand, plan: &Path) -> Verdict {
    let exe = std::env::current_exe().context("the program's own file cannot be found").or_lacking()?;
    let words = match errand {
        Errand::Up { .. } => "interrupted; ending what was started there (again: at once)",
        Errand::Down { .. } => {
            "interrupted; it goes on there until it is down (again: without being told here)"
        }
        Errand::One { .. } => {
            "interrupted; what was begun there goes on by itself (again: without being told here)"
        }
        Errand::Ps { .. } | Errand::Logs(_) => "interrupted",
    };
    let cancel = interrupt::token_saying(words).or_lacking()?;
    let ssh = SshSpec { destinations: vec![destination.to_owned()], ..Asking::usual_ssh() };
    let settled = known::program_there(&ssh, destination, &exe, &cancel);
    if cancel.is_cancelled() {
        return Ok(Ending::Interrupted);
    }
    let program = settled.map_err(anyhow::Error::msg).or_lacking()?;
    let asked = serde_json::to_vec(errand).or_bad_input()?;
    let call = streams::Call { ssh: &ssh, program: &program, asked: &asked, cancel: &cancel };
    let told = match errand {
        Errand::Logs(_) => streams::passed_on(&call).or_lacking()?,
        _ => streams::kept_and_told(&call, &chosen.host).or_lacking()?,
    };
    let code = match told {
        Ok(code) => code,
        Err(error @ ErrandError::NotBegun(_)) => return Err(error).or_lacking(),
        Err(ErrandError::Lost(why)) => {
            return Err(anyhow!("{why}; {}", what_is_left(chosen, errand, plan))).or_broke();
        }
    };
    match Ending::of_code(code) {
        Some(ending) => Ok(ending),
        // 126 and 127 are the shell's.
        None if matches!(code, 126 | 127) => Err(anyhow!(
            "{destination}: the program cannot be run from {} there (mounted noexec?): BULKHEAD_CACHE names another folder",
            printable(call.program, LONGEST_LINE)
        ))
        .or_lacking(),
        None => {
            Err(anyhow!("{destination}: the program ended there with code {code}")).or_broke()
        }
    }
}

/// What a user can do when nobody knows how it ended.
fn what_is_left(chosen: &Chosen, errand: &Errand, plan: &Path) -> String {
    let (plan, host) = (plan.display(), &chosen.host);
    let look = format!("bulkhead ps {plan} --on {host} shows what is there");
    match errand {
        Errand::Up { .. } => {
            format!(
                "what was begun there is undone within half a minute, unless all of it ran already: {look}"
            )
        }
        Errand::Down { .. } => format!("it is ended there all the same: {look}"),
        Errand::One { .. } => format!("what was begun there goes on by itself: {look}"),
        Errand::Ps { .. } | Errand::Logs(_) => "try again".to_owned(),
    }
}
