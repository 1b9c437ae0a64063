//! What the disk probe and the disk load of an instance use: a file, a loop device, or a block device of the user's.
//!
//! ```text
//!  file    the instance's scratch folder (a VM: an image there)
//!  loop    an image in the scratch folder ─► loop device, gone when its last user is
//!  device  named by the experiment ─► claimed: nobody else may use it, nothing recognisable may be on it
//!                                        └─► only then handed to an instance, and kept claimed until that has ended
//! ```
//!
//! An experiment file cannot allow data to be destroyed: only the command line can.

mod claim;
pub mod detach;
pub mod loop_device;
pub mod signature;
mod usage;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use claim::{Claim, Purpose};
use loop_device::LoopDevice;
pub use usage::mounts;

use super::InstanceSpec;
use super::ledger::Ledger;
use model::experiment::PlatformSpec;
use model::platform::DiskBacking;
use units::{Bytes, Mebibytes, Reason};

/// Smallest loop device that is made.
const LEAST_LOOP: Bytes = Bytes::from_bytes(16 << 20);
/// Loop device that is made to see whether one can be.
const TRIAL: Mebibytes = Mebibytes::from_mib(1);

/// Where instances of one platform get their disks from.
#[derive(Debug, Clone)]
pub struct Storage {
    backing: DiskBacking,
    device: Option<PathBuf>,
    may_destroy: bool,
    ledger: Ledger,
}

/// A block device that an instance may write to; nobody else does until it is dropped.
#[derive(Debug)]
pub struct Held {
    path: PathBuf,
    number: (u64, u64),
    supervisor: Supervisor,
}

#[derive(Debug)]
enum Supervisor {
    Loop(LoopDevice),
    Claim(Arc<Claim>),
}

impl Held {
    /// The device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its number, major and minor.
    pub const fn number(&self) -> (u64, u64) {
        self.number
    }

    /// Remarks that belong into reports of the disk probe.
    pub fn notes(&self) -> Vec<String> {
        match &self.supervisor {
            Supervisor::Loop(device) => device.notes(),
            Supervisor::Claim(claim) => claim.remarks().to_vec(),
        }
    }
}

impl Storage {
    /// As the platform's settings say. `may_destroy` comes from the command line.
    pub fn new(spec: &PlatformSpec, may_destroy: bool, ledger: &Ledger) -> Self {
        Self {
            backing: spec.disk.unwrap_or(DiskBacking::File),
            device: spec.device.as_ref().map(PathBuf::from),
            may_destroy,
            ledger: ledger.clone(),
        }
    }

    /// Whether instances get a block device, not a file.
    pub fn is_device(&self) -> bool {
        self.backing != DiskBacking::File
    }

    /// Looks whether instances can be given what the settings say; returns what it is, for the platform's properties.
    /// Nothing is written.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn survey(&self) -> Result<Option<(String, String)>, Reason> {
        let what = match self.backing {
            DiskBacking::File => return Ok(None),
            DiskBacking::Loop => {
                let mut words = vec!["a loop device over an image in the run directory".to_owned()];
                words.extend(self.try_loop()?);
                words.join("; ")
            }
            DiskBacking::Device => {
                let claim = self.claim(Purpose::Look)?;
                let mut words = vec![format!("{}, {}", claim.path().display(), claim.size())];
                words.extend(claim.remarks().iter().cloned());
                words.join("; ")
            }
        };
        Ok(Some(("disk".to_owned(), what)))
    }

    /// The device of an instance; none where it uses files.
    ///
    /// # Errors
    /// Why there is none, and what to do. Nothing was written then.
    pub fn provide(&self, spec: &InstanceSpec) -> Result<Option<Held>, Reason> {
        match self.backing {
            DiskBacking::File => Ok(None),
            DiskBacking::Loop => {
                let size = spec.disk_wanted.max(LEAST_LOOP);
                self.make_loop(&spec.scratch, size).map(Some)
            }
            DiskBacking::Device => {
                let claim = self.claim(Purpose::Write)?;
                let (path, number) = (claim.path().to_owned(), claim.number());
                Ok(Some(Held { path, number, supervisor: Supervisor::Claim(claim) }))
            }
        }
    }

    fn make_loop(&self, folder: &Path, size: Bytes) -> Result<Held, Reason> {
        let made = LoopDevice::make(folder, size, &self.ledger).map_err(|error| {
            format!("no loop device over an image of {size} in {}: {error}", folder.display())
        })?;
        let (path, number) = (made.path().to_owned(), made.number());
        Ok(Held { path, number, supervisor: Supervisor::Loop(made) })
    }

    /// Makes one and drops it; returns remarks.
    fn try_loop(&self) -> Result<Vec<String>, Reason> {
        if !nix::unistd::geteuid().is_root() {
            return Err("disk = \"loop\" needs root: run as root, or use disk = \"file\"".into());
        }
        let folder = tempfile::Builder::new()
            .prefix(super::sweep::OUR_PREFIX)
            .tempdir_in(self.ledger.dir())
            .map_err(|error| format!("cannot make a folder for a trial loop device: {error}"))?;
        self.make_loop(folder.path(), TRIAL.to_bytes()).map(|held| held.notes()).map_err(|why| {
            format!(
                "{why}; disk = \"loop\" needs the kernel's loop driver (modprobe loop): use disk = \"file\""
            )
            .into()
        })
    }

    fn claim(&self, purpose: Purpose) -> Result<Arc<Claim>, Reason> {
        let Some(device) = &self.device else {
            return Err("disk = \"device\" was asked for, but no device is named".into());
        };
        claim::claim(device, purpose, self.may_destroy, self.ledger.dir())
    }
}
