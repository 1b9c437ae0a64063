//! `bulkhead errand`: does what another machine's `--on` has sent, as if it were typed here.
//!
//! ```text
//!  stdin: Errand ─► names checked anew ─► CACHE/plans/SYSTEM/ORIGIN/: plan.json, HOST.set.toml ─► `up`
//!  stdin: bytes, their end ─► not wanted any more ─► what was begun is undone           not up afterwards: removed
//! ```

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::Errand;
use crate::cli::args::UpArgs;
use crate::cli::ending::{self, OrStop, Stop, Verdict};
use crate::cli::plan::{self, Chosen};
use crate::cli::tool_args::ToolArgs;
use crate::cli::{cache, down, file, interrupt, logs, one, outlive_limits, ps, up};
use model::partition::is_name;
use model::partition::set::MAX_SET_BYTES;
use partition::set::root::state_root;
use partition::set::status;
use platforms::own_folder::OwnFolder;
use platforms::ssh::errand::{cancel_when_unwanted, read_asked};
use platforms::{Cancel, limits};

/// Where plans of others are kept while they are up, in the cache folder.
const FOLDER: &str = "plans";
/// The plan's own file.
const PLAN: &str = "plan.json";
/// Each character of a file may take six as JSON has it.
const MOST_BYTES: u64 = 6 * (plan::MAX_PLAN_BYTES + MAX_SET_BYTES) as u64 + 65_536;

/// Does the errand that comes on stdin.
pub fn serve() -> ExitCode {
    outlive_limits();
    let code = ending::exit_code(served());
    cache::leave();
    code
}

fn served() -> Verdict {
    let asked = read_asked(&mut io::stdin().lock(), MOST_BYTES).context("no errand came").or_bad_input()?;
    let errand: Errand = serde_json::from_slice(&asked).context("this is no errand").or_bad_input()?;
    match errand {
        Errand::Up { host, origin, plan, set, kernel, modules, qemu, json } => {
            let tools = ToolArgs { kernel, modules, qemu };
            bring_up(&host, &origin, [&plan, &set], tools, json)
        }
        Errand::Down { set } => {
            let verdict = down::end(&set);
            forget(&set);
            verdict
        }
        Errand::Ps { set, json, console } => ps::print(Some(&set), console.as_deref(), json),
        Errand::One { partition, request } => {
            let words = "this is not waited for any more; what was begun goes on by itself";
            one::change(&partition, request, &while_wanted(words)?)
        }
        Errand::Logs(logs) => logs::print(&logs, &while_wanted("nobody reads this any more")?),
    }
}

/// What is cancelled when the other end does not want this any more.
fn while_wanted(words: &'static str) -> Result<Cancel, Stop> {
    let cancel = interrupt::token_saying(words).or_lacking()?;
    let beats = io::stdin().as_fd().try_clone_to_owned().or_lacking()?;
    cancel_when_unwanted(beats, &cancel).or_lacking()?;
    Ok(cancel)
}

fn bring_up(host: &str, origin: &str, texts: [&str; 2], tools: ToolArgs, json: bool) -> Verdict {
    // Before anything is started.
    let inherited = limits::taken();
    lasts_beyond_this_session().or_lacking()?;
    let file = keep(host, origin, texts).or_bad_input()?;
    let chosen = Chosen::of(&file, host).or_bad_input()?;
    let set = chosen.set_beside(&file).or_bad_input()?;
    let cancel = while_wanted("this is not wanted any more; ending what was started")?;
    let args = UpArgs { file, on: Some(host.to_owned()), tools, json, split: None, emit: None, out: None };
    let verdict = up::bring_up(&args, &set, Some(&chosen), &inherited, &cancel);
    forget(&chosen.plan.system);
    verdict
}

/// Writes down what was sent. What it says is checked by whoever reads it; names that become paths are checked here.
fn keep(host: &str, origin: &str, [plan, set]: [&str; 2]) -> anyhow::Result<PathBuf> {
    let system = plan::parse(Path::new(PLAN), plan)?.system;
    if ![host, origin, &system].into_iter().all(is_name) {
        bail!("this is no plan: \"{system}\" and its host \"{host}\" must be names");
    }
    let plans = plans()?;
    let folder = plans.path().join(&system);
    OwnFolder::make_private(&folder)?;
    let folder = OwnFolder::make_private(&folder.join(origin))?;
    file::write(&folder.path().join(format!("{host}.set.toml")), set.as_bytes(), 0o600)?;
    let path = folder.path().join(PLAN);
    file::write(&path, plan.as_bytes(), 0o600)?;
    Ok(path)
}

fn plans() -> io::Result<OwnFolder> {
    OwnFolder::make_private(&cache::folder().join(FOLDER))
}

/// Removes plans of a system that is not up.
fn forget(system: &str) {
    if is_name(system) && !status::names(&state_root()).iter().any(|name| name == system) {
        // What is left takes a few kilobytes.
        let _ = plans().and_then(|plans| plans.remove(Path::new(system)));
    }
}

/// Whether the folder of all sets is there after this connection: that of a user's sessions goes with the last of them.
fn lasts_beyond_this_session() -> anyhow::Result<()> {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let (Some(session), Some(user)) = (named("XDG_RUNTIME_DIR"), named("USER")) else { return Ok(()) };
    if state_root().starts_with(&session) && goes_with_sessions(Path::new("/"), &user) {
        bail!(
            "partitions would end with this connection, because {} goes with it: loginctl enable-linger there keeps it (once), or \
             BULKHEAD_STATE names another folder",
            session.display()
        );
    }
    Ok(())
}

/// Whether systemd removes what a user has at run time when the last session ends (logind, user-runtime-dir@.service(5)).
fn goes_with_sessions(root: &Path, user: &Path) -> bool {
    let lingers =
        user.file_name().is_some_and(|user| root.join("var/lib/systemd/linger").join(user).exists());
    root.join("run/systemd/users").exists() && !lingers
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_a_user_has_stays_without_systemd_or_where_the_user_lingers() {
        let root = tempfile::tempdir().expect("a folder");
        let goes = |user: &str| goes_with_sessions(root.path(), Path::new(user));
        assert!(!goes("me"));
        fs::create_dir_all(root.path().join("run/systemd/users")).expect("made");
        assert!(goes("me") && goes("../../.."));
        fs::create_dir_all(root.path().join("var/lib/systemd/linger/me")).expect("made");
        assert!(!goes("me") && goes("you"));
    }
}
