//! A guest's disk: a raw image in the instance's scratch folder, with an ext4 file system made on the host; or a block
//! device of the host, without one.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};

use super::guest::GuestDisk;
use super::qemu::{DiskArgument, Throttle};
use crate::storage::Held;
use model::platform::DiskBus;
use units::Bytes;

/// What the file system itself takes, its journal included, beside the room that was asked for.
const FILE_SYSTEM_BYTES: u64 = 48 * 1024 * 1024;
/// Lazy initialisation is off: it would write in the background while the probe measures.
const AT_ONCE: [&str; 4] = ["-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"];

/// A guest's disk. An image is removed when dropped, a device given back.
#[derive(Debug)]
pub struct DiskImage {
    argument: DiskArgument,
    content: GuestDisk,
    notes: Vec<String>,
    held: Option<Held>,
}

impl DiskImage {
    /// Makes an image with room for `wanted`, in `folder`.
    pub fn create(folder: &Path, wanted: Bytes, mke2fs: Option<&Path>, bus: DiskBus) -> io::Result<Self> {
        let path = folder.join("disk.img");
        let bytes = (wanted.get() + wanted.get() / 16 + FILE_SYSTEM_BYTES).next_multiple_of(1024 * 1024);
        let mut image = Self {
            argument: argument(path.clone(), false, bus, false),
            content: GuestDisk::Raw,
            notes: Vec::new(),
            held: None,
        };
        reserve(&path, bytes).map_err(|error| {
            in_context(&error, &format!("disk image {} of {bytes} bytes", path.display()))
        })?;
        if let Some(mke2fs) = mke2fs {
            make_file_system(mke2fs, &AT_ONCE, &path)?;
            image.content = GuestDisk::Ext4;
        } else {
            image.notes.push("mke2fs was not found: the guest's disk has no file system".to_owned());
        }
        image.argument.direct = takes_direct(&path);
        if !image.argument.direct {
            image.notes.push(
                "the scratch folder does not take O_DIRECT: the host's page cache is below the guest's disk"
                    .to_owned(),
            );
        }
        Ok(image)
    }

    /// A block device of the host: the guest measures it raw.
    pub fn over(held: Held, bus: DiskBus) -> Self {
        let image = held.path().to_owned();
        let direct = takes_direct(&image);
        // Instances of one run may share a device; what they write is theirs to lose.
        let argument = argument(image, direct, bus, true);
        Self { argument, content: GuestDisk::Raw, notes: held.notes(), held: Some(held) }
    }

    /// For QEMU.
    pub fn argument(&self) -> DiskArgument {
        self.argument.clone()
    }

    /// For the guest.
    pub fn content(&self) -> GuestDisk {
        self.content
    }

    /// Remarks that belong into every report of the disk probe.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

fn argument(image: PathBuf, direct: bool, bus: DiskBus, shared: bool) -> DiskArgument {
    DiskArgument { image, direct, bus, shared, read_only: false, throttle: Throttle::default(), handed: None }
}

impl Drop for DiskImage {
    fn drop(&mut self) {
        if self.held.is_some() {
            return;
        }
        // Already gone when the scratch folder was emptied first.
        let _ = fs::remove_file(&self.argument.image);
    }
}

/// Takes the blocks now, so that a full disk is said before the guest starts rather than found out by it.
fn reserve(path: &Path, bytes: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    let length = i64::try_from(bytes).map_err(io::Error::other)?;
    match fallocate(&file, FallocateFlags::empty(), 0, length) {
        Ok(()) => Ok(()),
        Err(Errno::EOPNOTSUPP) => file.set_len(bytes),
        Err(error) => Err(error.into()),
    }
}

/// Makes an ext4 file system in a file.
///
/// # Errors
/// What `mke2fs` says.
pub fn make_file_system(mke2fs: &Path, options: &[&str], image: &Path) -> io::Result<()> {
    let output = Command::new(mke2fs)
        .args(["-q", "-t", "ext4", "-F"])
        .args(options)
        .arg(image)
        .env("MKE2FS_SYNC", "0")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| in_context(&error, &format!("starting {}", mke2fs.display())))?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "{} ended with {}: {}",
        mke2fs.display(),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim().chars().take(400).collect::<String>()
    )))
}

fn takes_direct(path: &Path) -> bool {
    OpenOptions::new().read(true).custom_flags(nix::libc::O_DIRECT).open(path).map(drop::<File>).is_ok()
}

fn in_context(error: &io::Error, what: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Looks for a program in `PATH` and in the folders for administrators' programs, which ordinary users' `PATH` lacks.
pub fn find_program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_has_room_and_goes_with_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let mke2fs = find_program("mke2fs");
        let image =
            DiskImage::create(folder.path(), Bytes::from_bytes(10 << 20), mke2fs.as_deref(), DiskBus::Virtio)
                .unwrap();
        let path = image.argument().image;
        assert!(fs::metadata(&path).unwrap().len() > 10 << 20);
        if mke2fs.is_some() {
            assert_eq!(image.content(), GuestDisk::Ext4);
            let bytes = fs::read(&path).unwrap();
            assert_eq!(bytes[1024 + 0x38..1024 + 0x3a], [0x53, 0xef], "the superblock's magic");
        } else {
            assert_eq!(image.content(), GuestDisk::Raw);
            assert!(image.notes()[0].contains("mke2fs"));
        }
        drop(image);
        assert!(!path.exists());
    }

    #[test]
    fn no_room_is_said_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let error =
            DiskImage::create(folder.path(), Bytes::from_bytes(1 << 60), None, DiskBus::Virtio).unwrap_err();
        assert!(error.to_string().contains("disk.img"), "{error}");
        assert!(!folder.path().join("disk.img").exists());
    }
}
