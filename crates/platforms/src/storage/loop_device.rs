//! A loop device over an image of our own: attached so that the kernel detaches it when its last user has closed it,
//! even after `kill -9`.
//!
//! ```text
//!  image ─► LOOP_CTL_GET_FREE: N ─► ledger ─► LOOP_CONFIGURE on /dev/loopN (LO_FLAGS_AUTOCLEAR), descriptor kept
//!                                     ▲           │ taken by another program meanwhile: next N
//!                                     └───────────┘
//! ```
//!
//! Source: linux/loop.h, drivers/block/loop.c; `LOOP_CONFIGURE` is there since Linux 5.8.

#![expect(unsafe_code, reason = "loop devices are made with ioctls that take raw pointers")]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};

use super::detach::{attribute, is_attached};
use super::usage::{self, Number};
use crate::ledger::{Ledger, Thing, Ticket};
use units::Bytes;

/// How often another free one is asked for when somebody was faster.
const TRIES: u32 = 32;
/// How long the kernel may take to detach after the last user.
const GRACE: Duration = Duration::from_secs(2);
/// From linux/loop.h.
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_info64`.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// The system calls, as the macros make them: public, so in a module of their own.
mod call {
    use super::LoopConfig;

    nix::ioctl_none_bad!(
        /// `LOOP_CTL_GET_FREE` on `/dev/loop-control`: number of a free device, made if need be.
        get_free,
        0x4C82
    );
    nix::ioctl_write_ptr_bad!(
        /// `LOOP_CONFIGURE` on a loop device: attaches it.
        configure,
        0x4C0A,
        LoopConfig
    );
}

/// A loop device with its image; both are gone when it was dropped and nobody else has it open.
#[derive(Debug)]
pub struct LoopDevice {
    /// Keeps it attached.
    file: Option<File>,
    path: PathBuf,
    number: Number,
    image: PathBuf,
    ledger: Ledger,
    ticket: Option<Ticket>,
}

impl LoopDevice {
    /// Makes an image of `size` in `folder` and attaches it.
    ///
    /// # Errors
    /// No room, no right, or no loop driver; nothing is left then.
    pub fn make(folder: &Path, size: Bytes, ledger: &Ledger) -> io::Result<Self> {
        // The kernel tells the real path later.
        let image = folder.canonicalize()?.join("loop.img");
        let backing = reserve(&image, size)?;
        let made = attach(&backing, &image, ledger);
        if made.is_err() {
            let _ = fs::remove_file(&image);
        }
        made
    }

    /// `/dev/loopN`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Major and minor.
    pub const fn number(&self) -> Number {
        self.number
    }

    /// Remarks for reports of the disk probe.
    pub fn notes(&self) -> Vec<String> {
        let direct = fs::read_to_string(attribute(&self.path, "dio")).is_ok_and(|text| text.trim() == "1");
        let cached = "the loop device goes through the host's page cache: its file system takes no O_DIRECT";
        if direct { Vec::new() } else { vec![cached.to_owned()] }
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // The kernel detaches it when the last descriptor is closed; ours usually is the last one.
        self.file = None;
        let until = Instant::now() + GRACE;
        while is_attached(&self.path, &self.image) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        // Already gone when the scratch folder was emptied first.
        let _ = fs::remove_file(&self.image);
        if !is_attached(&self.path, &self.image)
            && let Some(ticket) = self.ticket.take()
        {
            self.ledger.undone(ticket);
        }
    }
}

/// Takes the blocks now: a full disk is said before, and the probe does not measure how they are found.
fn reserve(image: &Path, size: Bytes) -> io::Result<File> {
    let bytes = size.get().next_multiple_of(1 << 20);
    let options = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).clone();
    let file = options.open(image)?;
    let length = i64::try_from(bytes).map_err(io::Error::other)?;
    let reserved = match fallocate(&file, FallocateFlags::empty(), 0, length) {
        Ok(()) => Ok(()),
        Err(Errno::EOPNOTSUPP) => file.set_len(bytes),
        Err(error) => Err(error.into()),
    };
    reserved.inspect_err(|_| drop(fs::remove_file(image)))?;
    Ok(file)
}

fn attach(backing: &File, image: &Path, ledger: &Ledger) -> io::Result<LoopDevice> {
    let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
    for _ in 0..TRIES {
        // SAFETY: takes no argument; the descriptor is open.
        let free = unsafe { call::get_free(control.as_raw_fd()) }?;
        let path = PathBuf::from(format!("/dev/loop{free}"));
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        let ticket = ledger.record(Thing::LoopDevice { path: path.clone(), image: image.to_owned() })?;
        let config = config(backing)?;
        // SAFETY: the structure is the kernel's `struct loop_config` and lives through the call.
        match unsafe { call::configure(file.as_raw_fd(), &raw const config) } {
            Ok(_) => {
                let number = usage::number_of(&path).ok_or_else(|| io::Error::other("it has no number"))?;
                let image = image.to_owned();
                let (file, ledger, ticket) = (Some(file), ledger.clone(), Some(ticket));
                return Ok(LoopDevice { file, path, number, image, ledger, ticket });
            }
            Err(Errno::EBUSY) => ledger.undone(ticket),
            Err(error) => {
                ledger.undone(ticket);
                return Err(error.into());
            }
        }
    }
    Err(io::Error::other(format!("{TRIES} free loop devices were taken by others first")))
}

fn config(backing: &File) -> io::Result<LoopConfig> {
    let info = LoopInfo {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        size_limit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO,
        file_name: [0; 64],
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
    let fd = u32::try_from(backing.as_raw_fd()).map_err(io::Error::other)?;
    // Size 0 leaves the choice to the kernel.
    Ok(LoopConfig { fd, block_size: 0, info, reserved: [0; 8] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_are_as_large_as_the_kernels() {
        assert_eq!(size_of::<LoopInfo>(), 232);
        assert_eq!(size_of::<LoopConfig>(), 304);
    }
}
