//! Removes the tracing instances of agents that were killed in the middle of a traced job: they could not do it
//! themselves. An agent's process is named in the instance's name, so those of living agents stay.
//!
//! Where tracefs is mounted nowhere, agents mount it for themselves; their mounts go with them, their instances do not. To
//! look for those it is mounted once more, for a thread of its own alone, with whose end the mount is gone.

use std::path::Path;
use std::{fs, io, thread};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::held_process::start_ticks;
use units::tracing::{TRACE_ROOTS, TracingInstance};

/// Removes what dead agents left and says what was done, or what stays behind and why.
pub(super) fn remove_left_behind() -> Vec<String> {
    let folders = TRACE_ROOTS.map(|root| Path::new(root).join("instances"));
    if folders.iter().any(|folder| folder.is_dir()) {
        return folders.iter().flat_map(|folder| remove_below(folder)).collect();
    }
    let thread = thread::Builder::new().name("tracefs".to_owned()).spawn(remove_where_not_mounted);
    thread.ok().and_then(|thread| thread.join().ok()).unwrap_or_default()
}

/// In a mount namespace of the calling thread. Without the right to make one, no agent could either.
fn remove_where_not_mounted() -> Vec<String> {
    let [root, _] = TRACE_ROOTS;
    let mounted = unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS)
        .and_then(|()| {
            mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        })
        .and_then(|()| mount(Some("tracefs"), root, Some("tracefs"), MsFlags::empty(), None::<&str>));
    mounted.map_or_else(|_| Vec::new(), |()| remove_below(&Path::new(root).join("instances")))
}

fn remove_below(instances: &Path) -> Vec<String> {
    // Without tracefs, or without the right to read it, there is nothing of ours.
    let entries = fs::read_dir(instances).into_iter().flatten().flatten();
    let is_left = |name: &str| {
        TracingInstance::parse(name).is_some_and(|made| start_ticks(made.pid) != Some(made.start_ticks))
    };
    entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_left))
        .filter_map(|entry| {
            let path = entry.path();
            match fs::remove_dir(&path) {
                Ok(()) => Some(format!("removed the tracing instance {}", path.display())),
                Err(error) if is_gone(&error) => None,
                Err(error) => Some(format!("the tracing instance {} stays behind: {error}", path.display())),
            }
        })
        .collect()
}

/// Somebody else has removed it meanwhile; tracefs says so by `ENODEV` while that is under way.
fn is_gone(error: &io::Error) -> bool {
    [Errno::ENOENT, Errno::ENODEV].iter().any(|gone| error.raw_os_error() == Some(*gone as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_else_is_removing_does_not_stay_behind() {
        for (number, gone) in [(Errno::ENODEV, true), (Errno::ENOENT, true), (Errno::EBUSY, false)] {
            assert_eq!(is_gone(&number.into()), gone, "{number}");
        }
    }

    #[test]
    fn only_what_dead_agents_left_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let pid = std::process::id();
        let living = TracingInstance { pid, start_ticks: start_ticks(pid).expect("we run") };
        let dead = TracingInstance { start_ticks: living.start_ticks + 1, ..living };
        for name in [living.to_string(), dead.to_string(), "somebody's".to_owned()] {
            fs::create_dir(folder.path().join(name)).expect("made");
        }
        let said = remove_below(folder.path());
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("removed") && said[0].contains(&dead.to_string()), "{said:?}");
        assert!(folder.path().join(living.to_string()).exists() && folder.path().join("somebody's").exists());
        assert_eq!(remove_below(&folder.path().join("none")), Vec::<String>::new());
    }
}
