//! The kernel's tracing files: where they are mounted, or in a mount of our own that nobody else sees.
//!
//! ```text
//!  mounted already? ──yes──► that one
//!         │no
//!         └─► a thread of its own: private mount namespace ─► mount ─► descriptor of its root ─► thread ends
//!                                                                          │
//!              the mount has no name any more, and is gone with the descriptor: also when the agent is killed
//! ```
//! So nothing of it has to be written down or undone. What an agent makes *inside* of tracefs outlives it: see
//! [`super::Tracer`].
//!
//! Our guests mount it when they start (`platforms/vm/init.rs`); where a kernel has no tracefs, nothing is traced, and the
//! measurement says why.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use units::Reason;
use units::tracing::TRACE_ROOTS;

/// A way to the kernel's tracing files.
#[derive(Debug)]
pub struct Tracefs {
    path: PathBuf,
    /// Keeps a mount of our own; none for one that was there.
    own: Option<File>,
}

impl Tracefs {
    /// Finds it, or mounts it for this process alone.
    ///
    /// # Errors
    /// The kernel has none, or this process may not mount it.
    pub fn open() -> Result<Self, Reason> {
        let mounted = TRACE_ROOTS.iter().map(Path::new).find(|root| root.join("instances").is_dir());
        mounted.map_or_else(Self::mount_privately, |root| Ok(Self::at(root)))
    }

    /// One that is mounted at this path.
    pub fn at(root: &Path) -> Self {
        Self { path: root.to_owned(), own: None }
    }

    /// In a mount of our own.
    ///
    /// # Errors
    /// The kernel has none, or this process may not mount it.
    pub fn mount_privately() -> Result<Self, Reason> {
        let [at, _] = TRACE_ROOTS;
        if !Path::new(at).is_dir() {
            return Err(format!("the kernel has no tracefs: there is no folder {at}").into());
        }
        let work = move || mounted_root(at);
        let thread = thread::Builder::new().name("tracefs".to_owned()).spawn(work);
        let thread = thread.map_err(|error| format!("cannot start a thread that mounts tracefs: {error}"))?;
        let own = thread.join().map_err(|_| "the thread that mounts tracefs panicked".to_owned())??;
        Ok(Self { path: PathBuf::from(format!("/proc/self/fd/{}", own.as_raw_fd())), own: Some(own) })
    }

    /// Its root, as long as this lives.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is mounted for us alone.
    pub const fn is_own(&self) -> bool {
        self.own.is_some()
    }
}

/// Leaves the calling thread in a mount namespace of its own, where tracefs is mounted.
fn mounted_root(at: &str) -> Result<File, Reason> {
    let refused = |errno: Errno| match errno {
        Errno::ENODEV => "the kernel has no tracefs".to_owned(),
        errno => format!(
            "tracefs is not mounted at {}, and this process may not mount it for itself: {}",
            TRACE_ROOTS.join(" or "),
            errno.desc()
        ),
    };
    unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS).map_err(refused)?;
    // Without this a mount may travel to the namespace this one was copied from.
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .map_err(refused)?;
    mount(Some("tracefs"), at, Some("tracefs"), MsFlags::empty(), None::<&str>).map_err(refused)?;
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits()).open(at);
    opened.map_err(|error| format!("cannot open tracefs, which was just mounted: {error}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_of_our_own_is_seen_by_nobody_and_goes_with_its_descriptor() {
        let seen = || std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let before = seen();
        match Tracefs::mount_privately() {
            Err(reason) => skips::skip(skips::Need::Tracefs, reason),
            Ok(own) => {
                assert!(own.is_own() && own.path().join("instances").is_dir());
                assert_eq!(seen(), before, "this namespace has the mounts it had");
                let path = own.path().to_owned();
                drop(own);
                assert!(!path.join("instances").is_dir());
            }
        }
    }
}
