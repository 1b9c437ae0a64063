//! What an image lies under, and taking it away from there: by whoever made the device, and by whoever cleans up after it.

#![expect(unsafe_code, reason = "a loop device is detached with an ioctl")]

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;

/// The system call, as the macro makes it: public, so in a module of its own.
mod call {
    nix::ioctl_none_bad!(
        /// `LOOP_CLR_FD` on a loop device: detaches it.
        clear_fd,
        0x4C01
    );
}

pub(super) fn attribute(device: &Path, name: &str) -> PathBuf {
    let device = device.file_name().unwrap_or_default();
    Path::new("/sys/block").join(device).join("loop").join(name)
}

/// Whether the device lies on this image; a removed one is marked by the kernel.
pub(super) fn is_attached(device: &Path, image: &Path) -> bool {
    let text = fs::read_to_string(attribute(device, "backing_file")).unwrap_or_default();
    let text = text.trim_end_matches('\n');
    Path::new(text.strip_suffix(" (deleted)").unwrap_or(text)) == image
}

/// Detaches the device if it lies on this image; false when it did not. Somebody who still has it open keeps it until
/// they close it.
///
/// # Errors
/// As the kernel says.
pub fn detach(device: &Path, image: &Path) -> io::Result<bool> {
    let name =
        device.strip_prefix("/dev").ok().and_then(Path::to_str).and_then(|name| name.strip_prefix("loop"));
    let is_loop =
        name.is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()));
    if !is_loop || !is_attached(device, image) {
        return Ok(false);
    }
    // While it is open here nobody can put another image under it, so it is looked at again then.
    let file = OpenOptions::new().read(true).custom_flags(nix::libc::O_NOFOLLOW).open(device)?;
    if !file.metadata()?.file_type().is_block_device() || !is_attached(device, image) {
        return Ok(false);
    }
    // SAFETY: takes no argument; the descriptor is open.
    match unsafe { call::clear_fd(file.as_raw_fd()) } {
        Ok(_) => Ok(true),
        // The kernel did it itself in between.
        Err(Errno::ENXIO) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loop_devices_are_detached() {
        for path in ["/dev/sda", "/dev/loop", "/dev/loop0/../sda", "/dev/loopback", "loop0", "/tmp/loop0"] {
            assert!(!detach(Path::new(path), Path::new("/nonexistent/image")).unwrap(), "{path}");
        }
    }
}
