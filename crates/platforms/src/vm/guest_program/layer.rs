//! The layer in which a program's changes of its file tree lie: memory, which goes with the guest, or a disk of the host's, which stays.
//!
//! ```text
//!  disk with our serial number ─► noted as damaged? ─► mounted ─► its journal noted damage? ─► upper, work
//!                                     └──── refused ─────────────────┘
//!  at the end: synced, and what could not be written is a failure of the guest
//! ```
//! A file system that turns out to be damaged later ends the guest: the kernel notes it on the disk and panics. It never goes on
//! read-only, or as if nothing were there. Sources: `Documentation/admin-guide/ext4.rst` (`errors`), `filesystems/ext4/super.rst`.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};

use super::super::guest::LAYER_SERIAL;
use super::super::guest_agent::wait_for;
use super::super::pid1::in_context;
use units::Reason;

/// Where it is mounted while the tree is put together.
pub const AT: &str = "/layer";
/// How a saved one is mounted: damage ends the guest, what is freed is given back, and no thread writes zeros over what is zero.
const MOUNT: &str = "errors=panic,discard,noinit_itable";
/// How overlayfs lies on a saved one. Only without these does it allow the tree below to have changed since (overlayfs.rst, "Changes
/// to underlying filesystems"), and it must not believe numbers of that tree's files that are other ones now.
pub const OVERLAY: &str = ",index=off,metacopy=off,redirect_dir=off,xino=off";
/// The superblock on the disk, and in it: its mark, its state, how many errors were seen.
const SUPERBLOCK: (u64, usize) = (1024, 1024);
const MARK: (usize, u16) = (0x38, 0xef53);
const STATE: usize = 0x3a;
const ERRORS: usize = 0x194;
/// Bit of the state: errors were seen.
const HAS_ERRORS: u16 = 2;

/// A layer in memory.
pub fn in_memory() -> Result<(), Reason> {
    mount(Some("tmpfs"), AT, Some("tmpfs"), MsFlags::empty(), Some("mode=0755"))
        .map_err(in_context("mounting the throw-away layer"))
}

/// The saved layer; what comes of it syncs it.
pub fn saved() -> Result<File, Reason> {
    let device = wait_for("the disk of the saved layer", find)?;
    sound(&device)?;
    mount(Some(&device), AT, Some("ext4"), MsFlags::empty(), Some(MOUNT))
        .map_err(in_context("the saved layer cannot be mounted"))?;
    // The journal may have held what was noted last.
    sound(&device)?;
    File::open(AT).map_err(in_context("the saved layer"))
}

/// All that was written is on the host's disk.
pub fn sync(layer: &File) -> Result<(), Reason> {
    rustix::fs::syncfs(layer)
        .map_err(in_context("the saved layer: not all that the program changed could be written"))
}

/// By its serial number: where it comes among other disks is of no account.
fn find() -> Option<PathBuf> {
    let is_ours =
        |disk: &Path| fs::read_to_string(disk.join("serial")).is_ok_and(|text| text.trim() == LAYER_SERIAL);
    let disks = fs::read_dir("/sys/block").ok()?.flatten();
    let found = disks.map(|disk| disk.path()).find(|disk| is_ours(disk))?;
    Some(Path::new("/dev").join(found.file_name()?)).filter(|device| device.exists())
}

fn sound(device: &Path) -> Result<(), Reason> {
    let mut block = vec![0; SUPERBLOCK.1];
    File::open(device)
        .and_then(|disk| disk.read_exact_at(&mut block, SUPERBLOCK.0))
        .map_err(in_context("the saved layer cannot be read"))?;
    judge(&block).map_err(|how| format!("the saved layer is damaged: {how}").into())
}

fn judge(superblock: &[u8]) -> Result<(), Reason> {
    let bytes = |at: usize, count: usize| superblock.get(at..at + count).unwrap_or_default();
    let short = |at: usize| bytes(at, 2).try_into().map_or(0, u16::from_le_bytes);
    let errors = bytes(ERRORS, 4).try_into().map_or(0, u32::from_le_bytes);
    if short(MARK.0) != MARK.1 {
        return Err("there is no ext4 file system".into());
    }
    if short(STATE) & HAS_ERRORS != 0 || errors != 0 {
        return Err(format!("a guest has found {} errors in its file system before", errors.max(1)).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_on_the_disk_is_seen() {
        let sound = || {
            let mut block = vec![0; SUPERBLOCK.1];
            block[MARK.0..MARK.0 + 2].copy_from_slice(&MARK.1.to_le_bytes());
            block
        };
        assert_eq!(judge(&sound()), Ok(()));
        // Not cleanly unmounted is how a partition's end leaves it: its journal says what is true.
        let mut mounted = sound();
        mounted[STATE] = 0;
        assert_eq!(judge(&mounted), Ok(()));
        for (at, part) in [(STATE, "1 errors"), (ERRORS, "2 errors"), (MARK.0, "no ext4")] {
            let mut block = sound();
            block[at] = 2;
            let told = judge(&block).unwrap_err();
            assert!(told.to_string().contains(part), "{told}");
        }
        assert!(judge(&[]).is_err());
    }
}
