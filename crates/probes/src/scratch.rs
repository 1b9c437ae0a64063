//! Where the disk probe and the disk load write: a file without a name in the scratch folder, or a block device.
//!
//! ```text
//!  folder:  create ─► unlink at once ─► write, read ─► closed: the space is free again, even after kill -9
//!  device:  open ─► write, read; the probe from its begin, the loads from its end
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::fcntl::{FcntlArg, OFlag, PosixFadviseAdvice, fcntl, posix_fadvise};
use nix::sys::stat::{fstat, major, minor};
use nix::sys::statfs::fstatfs;
use nix::sys::statvfs::fstatvfs;

use crate::error::WorkError;
use units::Bytes;

static FILES_MADE: AtomicU64 = AtomicU64::new(0);

/// An open scratch file or device.
#[derive(Debug)]
pub struct Scratch {
    file: File,
    place: String,
    target: String,
    device_size: Option<u64>,
}

impl Scratch {
    /// Opens a fresh one.
    ///
    /// # Errors
    /// There is no scratch place, or it cannot be written to.
    pub fn open(place: Option<&Path>) -> Result<Self, WorkError> {
        let place = place.ok_or_else(|| {
            WorkError::Unfit("this instance has no scratch folder or disk: nothing can be written".into())
        })?;
        let kind = fs::metadata(place)
            .map_err(|error| {
                WorkError::system(format!("look at the scratch place {}", place.display()), error)
            })?
            .file_type();
        if kind.is_block_device() { Self::device(place) } else { Self::unnamed(place) }
    }

    fn device(path: &Path) -> Result<Self, WorkError> {
        let wanted = || format!("open the scratch device {}", path.display());
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|error| WorkError::system(wanted(), error))?;
        let size = file.seek(SeekFrom::End(0)).map_err(|error| WorkError::system(wanted(), error))?;
        Ok(Self {
            file,
            place: path.display().to_string(),
            target: format!("block device {}", path.display()),
            device_size: Some(size),
        })
    }

    fn unnamed(folder: &Path) -> Result<Self, WorkError> {
        let number = FILES_MADE.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("bulkhead-scratch-{}-{number}", process::id()));
        let wanted = || format!("make the scratch file {}", path.display());
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| WorkError::system(wanted(), error))?;
        fs::remove_file(&path).map_err(|error| {
            WorkError::system(format!("unlink the scratch file {}", path.display()), error)
        })?;
        let kind = fstatfs(&file).map_or_else(
            |_| "an unknown file system".to_owned(),
            |stat| {
                #[expect(clippy::unnecessary_cast, reason = "the type differs between C libraries")]
                file_system(stat.filesystem_type().0 as i64)
            },
        );
        Ok(Self {
            file,
            place: folder.display().to_string(),
            target: format!("file on {kind}"),
            device_size: None,
        })
    }

    /// What it is, for example `file on ext4`.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Whether what is written stays in memory anyway.
    pub fn is_in_memory(&self) -> bool {
        self.target.ends_with("tmpfs") || self.target.ends_with("ramfs")
    }

    /// Refuses a file that does not fit, before anything is written: a full disk would hurt others.
    ///
    /// # Errors
    /// Less is free than `wanted`.
    pub fn check_room(&self, wanted: Bytes) -> Result<(), WorkError> {
        let free = match self.device_size {
            Some(size) => size,
            None => {
                fstatvfs(&self.file).map_or(u64::MAX, |stat| stat.blocks_available() * stat.fragment_size())
            }
        };
        if wanted.get() <= free {
            return Ok(());
        }
        Err(WorkError::DiskFull {
            doing: format!(
                "looking for {wanted} on the {} in {}, where {} are free",
                self.target,
                self.place,
                Bytes::from_bytes(free)
            ),
        })
    }

    /// Number of the block device it is, or lies on. File systems without one device below have a made-up number.
    pub fn device_number(&self) -> Option<(u64, u64)> {
        let found = fstat(&self.file).ok()?;
        let number = if self.device_size.is_some() { found.st_rdev } else { found.st_dev };
        Some((major(number), minor(number)))
    }

    /// Block of the file system; none for a device.
    pub fn file_system_block(&self) -> Option<Bytes> {
        let known = self.device_size.is_none().then(|| fstatvfs(&self.file).ok()).flatten()?;
        Some(Bytes::from_bytes(known.fragment_size())).filter(|bytes| bytes.get() > 0)
    }

    /// Size of the device; none for a file, which may grow.
    pub fn device_size(&self) -> Option<u64> {
        self.device_size
    }

    /// Turns `O_DIRECT` on or off.
    ///
    /// # Errors
    /// As the kernel says; `EINVAL` where the file system has no `O_DIRECT`.
    pub fn set_direct(&self, direct: bool) -> io::Result<()> {
        let mut flags = OFlag::from_bits_retain(fcntl(&self.file, FcntlArg::F_GETFL)?);
        flags.set(OFlag::O_DIRECT, direct);
        fcntl(&self.file, FcntlArg::F_SETFL(flags))?;
        Ok(())
    }

    /// Asks the kernel to forget what it has cached of it, so that reads come from the disk.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn forget_cache(&self) -> Result<(), WorkError> {
        posix_fadvise(&self.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
            .map_err(|errno| WorkError::system(format!("drop the page cache of the {}", self.target), errno))
    }

    /// Tells the kernel that reads are anywhere, so that it reads nothing ahead. It may ignore that.
    pub fn expect_random_reads(&self) {
        let _ = posix_fadvise(&self.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_RANDOM);
    }

    /// Asks the kernel to forget what it has cached of one stretch.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn forget(&self, offset: u64, length: u64) -> io::Result<()> {
        let signed = |value: u64| i64::try_from(value).map_err(io::Error::other);
        let advice = PosixFadviseAdvice::POSIX_FADV_DONTNEED;
        Ok(posix_fadvise(&self.file, signed(offset)?, signed(length)?, advice)?)
    }

    /// Writes a whole block.
    ///
    /// # Errors
    /// As the system says.
    pub fn write(&self, block: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(block, offset)
    }

    /// Reads a whole block.
    ///
    /// # Errors
    /// As the system says; the block must have been written before.
    pub fn read(&self, block: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(block, offset)
    }

    /// Waits until everything is on the disk.
    ///
    /// # Errors
    /// As the system says.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Explains an error of one of the above.
    pub fn explain(&self, doing: &str, error: io::Error) -> WorkError {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                WorkError::DiskFull { doing: format!("{doing} the {} in {}", self.target, self.place) }
            }
            _ => WorkError::system(format!("go on {doing} the {} in {}", self.target, self.place), error),
        }
    }
}

/// Names of file systems by their magic number (linux/magic.h and the file systems' own headers).
fn file_system(magic: i64) -> String {
    let name = match magic & 0xffff_ffff {
        0xef53 => "ext2/3/4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0xf2f5_2010 => "f2fs",
        0x2fc1_2fc1 => "zfs",
        0x794c_7630 => "overlayfs",
        0x0102_1994 => "tmpfs",
        0x8584_58f6 => "ramfs",
        0x0102_1997 => "9p",
        0x6573_5546 => "fuse",
        0x6969 => "nfs",
        0xff53_4d42 | 0xfe53_4d42 => "cifs",
        other => return format!("a file system of type {other:#x}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_file_has_no_name_and_keeps_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::open(Some(folder.path())).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        scratch.write(&[7; 4096], 8192).unwrap();
        scratch.sync().unwrap();
        scratch.forget_cache().unwrap();
        let mut back = [0; 4096];
        scratch.read(&mut back, 8192).unwrap();
        assert_eq!(back, [7; 4096]);
        assert!(scratch.target().starts_with("file on "), "{}", scratch.target());
    }

    #[test]
    fn a_missing_place_is_named() {
        assert!(Scratch::open(None).unwrap_err().to_string().contains("no scratch folder"));
        let error = Scratch::open(Some(Path::new("/nonexistent/place"))).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/place"), "{error}");
    }
}
