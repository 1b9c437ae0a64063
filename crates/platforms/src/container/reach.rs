//! Where a runtime finds a container's files when it acts for another user, who may not pass through the folders above
//! the run's: a view of the file systems (mount namespace) that the runtime alone has.
//!
//! ```text
//!  everybody                              the runtime, and the container it makes
//!  RUN/bulkhead-…/rootfs                  /mnt            tmpfs, gone with the runtime
//!  RUN/scratch/…                            rootfs, scratch   the same folders, reached by anybody
//! ```
//! Sources: `mount_namespaces(7)`, `user_namespaces(7)`.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::Mode;
use nix::unistd::mkdir;

/// What the place may hold: two names.
const OPTIONS: &CStr = c"mode=0755,size=64k";

/// Everything that the runtime's process needs between fork and exec, where nothing may be allocated.
#[derive(Debug)]
pub struct ContainerReach {
    place: CString,
    /// What is shown, and where.
    shown: [(CString, CString); 2],
}

/// Where the root file system is for the runtime.
pub fn rootfs_at(place: &Path) -> PathBuf {
    place.join("rootfs")
}

/// Where the scratch folder is.
pub fn scratch_at(place: &Path) -> PathBuf {
    place.join("scratch")
}

impl ContainerReach {
    /// Shows `rootfs` and `scratch` at `place`.
    ///
    /// # Errors
    /// A path with a zero byte.
    pub fn new(place: &Path, rootfs: &Path, scratch: &Path) -> io::Result<Self> {
        let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from);
        let shown = [(text(rootfs)?, text(&rootfs_at(place))?), (text(scratch)?, text(&scratch_at(place))?)];
        Ok(Self { place: text(place)?, shown })
    }

    /// Enters the view; makes system calls only.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enter(&self) -> nix::Result<()> {
        let nothing: Option<&CStr> = None;
        unshare(CloneFlags::CLONE_NEWNS)?;
        mount(nothing, c"/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)?;
        mount(Some(c"tmpfs"), self.place.as_c_str(), Some(c"tmpfs"), MsFlags::empty(), Some(OPTIONS))?;
        for (from, to) in &self.shown {
            mkdir(to.as_c_str(), Mode::from_bits_truncate(0o755))?;
            mount(Some(from.as_c_str()), to.as_c_str(), nothing, MsFlags::MS_BIND, nothing)?;
        }
        Ok(())
    }
}
