//! Undoing one thing of a ledger: careful, because the ledger is a file that anyone with access could have written.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::ledger::Thing;
use super::storage::loop_device::detach;

/// How long a killed process may take to be gone.
const DEATH_GRACE: Duration = Duration::from_secs(5);
/// How long an OCI runtime may take to delete a container.
const RUNTIME_GRACE: Duration = Duration::from_secs(20);
/// Prefix of the names of everything we make outside the run directory.
pub const OUR_PREFIX: &str = "bulkhead-";
/// Memory that looks like a folder, on every Linux.
pub const SHARED_MEMORY: &str = "/dev/shm";

/// Undoes `thing`; says what was done, nothing when it was gone already. The error says what stays behind and why.
pub(super) fn undo(dir: &Path, thing: &Thing) -> Result<Option<String>, String> {
    match thing {
        Thing::Process { pid, start_ticks, boot_id } => kill_process(*pid, *start_ticks, boot_id),
        Thing::Container { runtime, root, id } => delete_container(dir, runtime, root, id),
        Thing::Directory { path } => remove_directory(dir, path),
        Thing::Cgroup { path } => remove_cgroup(path),
        Thing::LoopDevice { path, image } => {
            allowed(dir, image)?;
            let detached =
                detach(path, image).map_err(|error| format!("cannot detach {}: {error}", path.display()))?;
            Ok(detached.then(|| format!("detached {}", path.display())))
        }
        Thing::Mount { path } => {
            allowed(dir, path)?;
            unmount(path)
        }
    }
}

/// Number that names this boot of the machine; empty when it does not say.
pub(super) fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// When process `pid` started, in ticks since boot; `None` when there is none or it is only waiting to be reaped.
pub(super) fn start_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything; the fields after the last one cannot.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    if matches!(fields.first().copied(), Some("Z" | "X")) {
        return None;
    }
    fields.get(19)?.parse().ok()
}

fn kill_process(pid: u32, wanted_start: u64, wanted_boot: &str) -> Result<Option<String>, String> {
    let is_it = || boot_id() == wanted_boot && start_ticks(pid) == Some(wanted_start);
    let Some(target) = i32::try_from(pid).ok().filter(|pid| *pid > 1).map(Pid::from_raw) else {
        return Err(format!("refused to kill process {pid}"));
    };
    if !is_it() {
        return Ok(None);
    }
    // It may not lead a group; then only itself is meant.
    let outcome = killpg(target, Signal::SIGKILL).or_else(|_| kill(target, Signal::SIGKILL));
    if let Err(error) = outcome
        && error != Errno::ESRCH
    {
        return Err(format!("cannot kill process {pid}: {error}"));
    }
    let until = Instant::now() + DEATH_GRACE;
    while is_it() {
        if Instant::now() > until {
            return Err(format!("process {pid} was killed and is still there"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(Some(format!("killed process {pid}")))
}

fn delete_container(dir: &Path, runtime: &Path, root: &Path, id: &str) -> Result<Option<String>, String> {
    let plain = id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if !id.starts_with(OUR_PREFIX) || !plain {
        return Err(format!("refused to delete container {id:?}: not one of ours"));
    }
    allowed(dir, root)?;
    if !root.join(id).exists() {
        return Ok(None);
    }
    let child = Command::new(runtime)
        .arg("--root")
        .arg(root)
        .args(["delete", "--force", id])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.map_err(|error| format!("cannot run {}: {error}", runtime.display()))?;
    let until = Instant::now() + RUNTIME_GRACE;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(Some(format!("deleted container {id}"))),
            Ok(Some(status)) => {
                return Err(format!("{} delete --force {id} ended with {status}", runtime.display()));
            }
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(10)),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{} delete --force {id} did not end in time", runtime.display()));
            }
            Err(error) => return Err(format!("cannot wait for {}: {error}", runtime.display())),
        }
    }
}

fn remove_directory(dir: &Path, path: &Path) -> Result<Option<String>, String> {
    let real = allowed(dir, path)?;
    if !path.exists() {
        return Ok(None);
    }
    // Removing through a mount would empty what is mounted there.
    for mounted in mounts_below(&real).into_iter().rev() {
        unmount(&mounted)?;
    }
    match std::fs::remove_dir_all(path) {
        Ok(()) => Ok(Some(format!("removed {}", path.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cannot remove {}: {error}", path.display())),
    }
}

fn remove_cgroup(path: &Path) -> Result<Option<String>, String> {
    let ours = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.contains("bulkhead"));
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !path.starts_with("/sys/fs/cgroup") || !ours || !plain {
        return Err(format!("refused to remove {}: outside our cgroups", path.display()));
    }
    // A process that was just killed is in it until all its threads are gone.
    let until = Instant::now() + DEATH_GRACE;
    loop {
        match std::fs::remove_dir(path) {
            Ok(()) => return Ok(Some(format!("removed {}", path.display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(format!("cannot remove {}: {error}", path.display())),
        }
    }
}

fn unmount(path: &Path) -> Result<Option<String>, String> {
    match umount2(path, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW) {
        Ok(()) => Ok(Some(format!("unmounted {}", path.display()))),
        Err(Errno::EINVAL | Errno::ENOENT) => Ok(None),
        Err(error) => Err(format!("cannot unmount {}: {error}", path.display())),
    }
}

/// Mount points at or below `path`, in the order they were mounted.
pub(super) fn mounts_below(path: &Path) -> Vec<PathBuf> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|escaped| PathBuf::from(unescape(escaped)))
        .filter(|point| point.starts_with(path))
        .collect()
}

/// `mountinfo` writes space, tab, newline and backslash as octal numbers.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .into_iter()
        .fold(text.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

/// The real path when a sweep of `dir` may remove it: strictly below `dir`, or a `bulkhead-…` entry of the temporary
/// directory or of shared memory, or below one.
fn allowed(dir: &Path, path: &Path) -> Result<PathBuf, String> {
    let refused = || format!("refused to touch {}: outside the run directory", path.display());
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(refused()) };
    if !path.is_absolute() || !plain {
        return Err(refused());
    }
    // Links in the parents are followed before comparing; the last part is removed as it is, link or not. A parent
    // that is gone takes the thing with it.
    let Ok(parent) = parent.canonicalize() else { return Ok(path.to_owned()) };
    let real = parent.join(name);
    let temporary = std::env::temp_dir().canonicalize().unwrap_or_else(|_| PathBuf::from("/tmp"));
    let begins_so = |place: &Path| {
        let first = real.strip_prefix(place).ok().and_then(|rest| rest.components().next());
        first.is_some_and(|first| first.as_os_str().to_string_lossy().starts_with(OUR_PREFIX))
    };
    let in_ours = begins_so(&temporary) || begins_so(Path::new(SHARED_MEMORY));
    if (real.starts_with(dir) && real != dir) || in_ours { Ok(real) } else { Err(refused()) }
}
