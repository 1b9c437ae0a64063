//! Undoing one thing of a ledger. The ledger is a file: what it says is found and checked anew before anything is done.
//!
//! ```text
//!  process    number ─► pidfd ─► started for this folder? ─► signal through the pidfd
//!  container  name of a runtime we know ─► looked up again; its state below this folder
//!  the rest   path ─► this folder, or a bulkhead-… folder of ours in /tmp or /dev/shm ─► opened step by step, no links
//! ```

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use nix::sys::signal::Signal;
use nix::unistd::geteuid;
use tempfile::TempDir;

use super::container::runtime::known;
use super::held_process::HeldProcess;
use super::ledger::Thing;
use super::own_folder::{OwnFolder, Whose, below, remove_in};
use super::storage::detach::detach;
use super::wall::mount_points;
use units::Reason;

/// How long a killed process may take to be gone.
const DEATH_GRACE: Duration = Duration::from_secs(5);
/// How long an OCI runtime may take to delete a container.
const RUNTIME_GRACE: Duration = Duration::from_secs(20);
/// Prefix of the names of everything we make outside the run directory.
pub const OUR_PREFIX: &str = "bulkhead-";
/// Where the kernel shows its groups of processes, of either version.
const CGROUPS: &str = "/sys/fs/cgroup";
/// Memory that looks like a folder, on every Linux.
pub const SHARED_MEMORY: &str = "/dev/shm";

/// A new folder in the temporary one, `bulkhead-KIND-` and what nobody can foretell, that only we can enter; gone when dropped.
///
/// # Errors
/// It cannot be made.
pub fn new_folder(kind: &str) -> io::Result<TempDir> {
    let only_us = fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix(&format!("{OUR_PREFIX}{kind}-")).permissions(only_us).tempdir()
}

/// Undoes `thing`; says what was done, nothing when it was gone already. The error says what stays behind and why.
pub(super) fn undo(folder: &OwnFolder, thing: &Thing) -> Result<Option<String>, Reason> {
    match thing {
        Thing::Process { pid, start_ticks, boot_id } => kill_process(folder, *pid, *start_ticks, boot_id),
        Thing::Container { runtime, root, id } => delete_container(folder, runtime, root, id),
        Thing::Directory { path } => remove_directory(folder, path),
        Thing::Cgroup { path } => remove_cgroup(path),
        Thing::LoopDevice { path, image } => {
            place(folder, image)?;
            let detached =
                detach(path, image).map_err(|error| format!("cannot detach {}: {error}", path.display()))?;
            Ok(detached.then(|| format!("detached {}", path.display())))
        }
        Thing::Mount { path } => match place(folder, path)? {
            Some(place) => unmount(&place),
            None => Ok(None),
        },
    }
}

fn kill_process(folder: &OwnFolder, pid: u32, start: u64, boot: &str) -> Result<Option<String>, Reason> {
    let Some(process) = HeldProcess::find(pid, start, boot, folder.path())? else { return Ok(None) };
    process.kill_group().map_err(|error| format!("cannot kill process {pid}: {error}"))?;
    if !process.is_gone(DEATH_GRACE) {
        return Err(format!("process {pid} was killed and is still there").into());
    }
    Ok(Some(format!("killed process {pid}")))
}

fn delete_container(
    folder: &OwnFolder,
    runtime: &Path,
    root: &Path,
    id: &str,
) -> Result<Option<String>, Reason> {
    let plain = id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if !id.starts_with(OUR_PREFIX) || !plain {
        return Err(format!("refused to delete container {id:?}: not one of ours").into());
    }
    let deleted = delete_known(folder, runtime, root, id)?;
    let groups = remove_groups_of(id)?;
    Ok(deleted.or(groups))
}

/// Groups of a container whose runtime was killed before it wrote down what it had made: they lie where the container was to
/// have them, under a name that is ours alone, with whatever was in them.
fn remove_groups_of(id: &str) -> Result<Option<String>, Reason> {
    let hierarchies = fs::read_dir(CGROUPS).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut said = None;
    for group in hierarchies.chain([PathBuf::from(CGROUPS)]).map(|folder| folder.join(id)) {
        if !group.is_dir() {
            continue;
        }
        let members = HeldProcess::all_in_group(&group);
        for member in members.map_err(|error| format!("cannot look into {}: {error}", group.display()))? {
            member
                .signal(Signal::SIGKILL)
                .map_err(|error| format!("cannot empty {}: {error}", group.display()))?;
        }
        said = remove_cgroup(&group)?.or(said);
    }
    Ok(said)
}

/// Has the runtime delete a container that it knows.
fn delete_known(folder: &OwnFolder, runtime: &Path, root: &Path, id: &str) -> Result<Option<String>, Reason> {
    let Some(place) = place(folder, root)? else { return Ok(None) };
    let Some(state) = place.open()? else { return Ok(None) };
    let state = File::from(state);
    let found = state.metadata().map_err(|error| place.failed("look at", &error))?;
    if found.uid() != geteuid().as_raw() || found.mode() & 0o022 != 0 {
        return Err(format!("refused to use {}: it is not ours alone", place.shown.display()).into());
    }
    if !PathBuf::from(format!("/proc/self/fd/{}", state.as_raw_fd())).join(id).exists() {
        return Ok(None);
    }
    // What the file names is only a name: the program is the one that is found under it today.
    let by_hand = format!("{} --root {} delete --force {id}", runtime.display(), place.shown.display());
    let found = runtime.file_name().and_then(|name| known(&name.to_string_lossy()));
    let Some(program) = found else {
        return Err(format!(
            "container {id} stays: {} is none of the runtimes that are looked for, so it is not run; if you trust it: \
             {by_hand}",
            runtime.display()
        ).into());
    };
    delete_with(&program, &place.shown, id)
}

fn delete_with(program: &Path, root: &Path, id: &str) -> Result<Option<String>, Reason> {
    let child = Command::new(program)
        .arg("--root")
        .arg(root)
        .args(["delete", "--force", id])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    let until = Instant::now() + RUNTIME_GRACE;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(Some(format!("deleted container {id}"))),
            Ok(Some(status)) => {
                return Err(format!("{} delete --force {id} ended with {status}", program.display()).into());
            }
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(10)),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{} delete --force {id} did not end in time", program.display()).into());
            }
            Err(error) => return Err(format!("cannot wait for {}: {error}", program.display()).into()),
        }
    }
}

fn remove_directory(folder: &OwnFolder, path: &Path) -> Result<Option<String>, Reason> {
    let Some(found) = place(folder, path)? else { return Ok(None) };
    // Removing through a mount would empty what is mounted there.
    for mounted in mounts_below(&found.shown).into_iter().rev() {
        if let Some(point) = place(folder, &mounted)? {
            unmount(&point)?;
        }
    }
    match remove_in(found.parent.as_fd(), &found.name, found.whose) {
        Ok(true) => Ok(Some(format!("removed {}", path.display()))),
        Ok(false) => Ok(None),
        Err(error) => Err(found.failed("remove", &error)),
    }
}

fn remove_cgroup(path: &Path) -> Result<Option<String>, Reason> {
    let ours = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.contains("bulkhead"));
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !path.starts_with(CGROUPS) || !ours || !plain {
        return Err(format!("refused to remove {}: outside our cgroups", path.display()).into());
    }
    // A process that was just killed is in it until all its threads are gone.
    let until = Instant::now() + DEATH_GRACE;
    loop {
        match fs::remove_dir(path) {
            Ok(()) => return Ok(Some(format!("removed {}", path.display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(format!("cannot remove {}: {error}", path.display()).into()),
        }
    }
}

fn unmount(place: &Place) -> Result<Option<String>, Reason> {
    match umount2(&place.held(), MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW) {
        Ok(()) => Ok(Some(format!("unmounted {}", place.shown.display()))),
        Err(Errno::EINVAL | Errno::ENOENT) => Ok(None),
        Err(error) => Err(place.failed("unmount", &error.into())),
    }
}

/// Mount points at or below `path`, in the order they were mounted.
pub(super) fn mounts_below(path: &Path) -> Vec<PathBuf> {
    mounts_listed_below(&fs::read("/proc/self/mountinfo").unwrap_or_default(), path)
}

/// The same of a table as the kernel writes it (proc(5)).
pub fn mounts_listed_below(table: &[u8], path: &Path) -> Vec<PathBuf> {
    mount_points(table).filter(|point| point.starts_with(path)).collect()
}

/// Something that a sweep may touch: a name in an open folder.
struct Place {
    parent: OwnedFd,
    name: OsString,
    whose: Whose,
    shown: PathBuf,
}

impl Place {
    /// A path to it on which no link can be put.
    fn held(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.parent.as_raw_fd())).join(&self.name)
    }

    fn open(&self) -> Result<Option<OwnedFd>, Reason> {
        match below(self.parent.as_fd(), Path::new(&self.name)) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("open", &error)),
        }
    }

    fn failed(&self, what: &str, error: &io::Error) -> Reason {
        format!("cannot {what} {}: {error}", self.shown.display()).into()
    }
}

/// The place that a path names when a sweep of `folder` may touch it: strictly below `folder`, or a `bulkhead-…` entry of
/// ours in the temporary directory or in shared memory, or below one. None when the way there is gone.
fn place(folder: &OwnFolder, path: &Path) -> Result<Option<Place>, Reason> {
    let refused = |why: &str| Reason::from(format!("refused to touch {}: {why}", path.display()));
    let outside = || refused("outside the run directory");
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !path.is_absolute() || !plain || path.file_name().is_none() {
        return Err(outside());
    }
    let temporary = std::env::temp_dir().canonicalize().unwrap_or_else(|_| PathBuf::from("/tmp"));
    let shared = [temporary.as_path(), Path::new(SHARED_MEMORY)];
    // A path may have been written down with links above the run directory; which place that is today is only a hint: it
    // is opened without links below.
    let hint = path.parent().and_then(|parent| Some(parent.canonicalize().ok()?.join(path.file_name()?)));
    for path in [Some(path), hint.as_deref()].into_iter().flatten() {
        if let Ok(relative) = path.strip_prefix(folder.path())
            && let (Some(parent), Some(name)) = (relative.parent(), relative.file_name())
        {
            return opened(folder.below(parent), name.to_owned(), Whose::Any, path)
                .map_err(|why| refused(&why.to_string()));
        }
        for base in shared {
            let Ok(relative) = path.strip_prefix(base) else { continue };
            let mut parts = relative.components();
            let Some(Component::Normal(first)) = parts.next() else { continue };
            if !first.to_string_lossy().starts_with(OUR_PREFIX) {
                continue;
            }
            let base = File::open(base).map_err(|error| refused(&error.to_string()))?;
            let rest = parts.as_path();
            let (Some(parent), Some(name)) = (rest.parent(), rest.file_name()) else {
                return opened(Ok(base.into()), first.to_owned(), Whose::Ours, path)
                    .map_err(|why| refused(&why.to_string()));
            };
            let parent = below(base.as_fd(), Path::new(first)).and_then(|top| {
                let owner = File::from(top.try_clone()?).metadata()?.uid();
                if owner != geteuid().as_raw() {
                    return Err(io::Error::other(format!("it belongs to user {owner}")));
                }
                below(top.as_fd(), parent)
            });
            return opened(parent, name.to_owned(), Whose::Any, path)
                .map_err(|why| refused(&why.to_string()));
        }
    }
    Err(outside())
}

fn opened(
    parent: io::Result<OwnedFd>,
    name: OsString,
    whose: Whose,
    shown: &Path,
) -> Result<Option<Place>, Reason> {
    match parent {
        Ok(parent) => Ok(Some(Place { parent, name, whose, shown: shown.to_owned() })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("outside what is ours: {error}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_folder_is_for_us_alone() {
        let folder = new_folder("test").unwrap();
        assert_eq!(fs::metadata(folder.path()).unwrap().mode() & 0o7777, 0o700);
        assert!(folder.path().file_name().unwrap().to_string_lossy().starts_with("bulkhead-test-"));
    }
}
