//! Sections of channels: each device's memory appears under its channel's name.
//!
//! ```text
//!  /dev/bulkhead/NAME ─► /sys/bus/pci/devices/0000:00:1e.0/resource2    mode 0600 for the writer, 0400 for readers
//! ```
//! The kernel shows a device's memory as a file that can be mapped without a driver: its
//! `Documentation/PCI/sysfs-pci.rst`.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use super::super::guest::{GuestSection, SECTIONS, section_place};
use super::super::pid1::in_context;
use model::partition::UserIds;
use units::Reason;

/// Where the kernel shows PCI devices.
const DEVICES: &str = "/sys/bus/pci/devices";
/// What the device says of itself: vendor and kind (QEMU's `docs/specs/ivshmem-spec.rst`).
const WHO: [(&str, &str); 2] = [("vendor", "0x1af4"), ("device", "0x1110")];
/// The file of its memory, and the same with writes gathered, which some processors have beside it.
const MEMORY: [&str; 2] = ["resource2", "resource2_wc"];

/// Shows all sections to the program's user.
pub fn show(sections: &[GuestSection], user: &UserIds) -> Result<(), Reason> {
    if sections.is_empty() {
        return Ok(());
    }
    fs::create_dir_all(SECTIONS).map_err(in_context(SECTIONS))?;
    for (section, slot) in sections.iter().zip(0..) {
        let failed = |error: Reason| format!("channel {}: {error}", section.name);
        let device = find(Path::new(DEVICES), section, slot).map_err(failed)?;
        for file in MEMORY.map(|file| device.join(file)).iter().filter(|file| file.exists()) {
            open_to(file, section.writable, user).map_err(failed)?;
        }
        let memory = device.join(MEMORY[0]);
        let at = Path::new(SECTIONS).join(&section.name);
        symlink(&memory, &at).map_err(in_context(&at.display().to_string())).map_err(failed)?;
    }
    Ok(())
}

/// The device, which is there and whose memory is as large as it should be.
fn find(devices: &Path, section: &GuestSection, slot: u8) -> Result<PathBuf, Reason> {
    let (place, function) = section_place(slot);
    let device = devices.join(format!("0000:00:{place:02x}.{function}"));
    for (file, wanted) in WHO {
        let path = device.join(file);
        let got = fs::read_to_string(&path).map_err(in_context(&path.display().to_string()))?;
        if got.trim() != wanted {
            return Err(format!("{}: wanted {wanted}, got {}", path.display(), got.trim()).into());
        }
    }
    // Nobody drives it, so nobody has switched its memory on.
    let switch = device.join("enable");
    fs::write(&switch, "1").map_err(in_context(&switch.display().to_string()))?;
    let memory = device.join(MEMORY[0]);
    let got = fs::metadata(&memory).map_err(in_context(&memory.display().to_string()))?.len();
    if got != section.bytes.get() {
        let (shown, wanted) = (memory.display(), section.bytes.get());
        return Err(format!("{shown}: wanted {wanted} bytes, got {got}").into());
    }
    Ok(device)
}

/// Gives the file to the user. A reader's device drops what is written to it anyway; with this, the kernel refuses a
/// mapping for writing.
fn open_to(memory: &Path, writable: bool, user: &UserIds) -> Result<(), Reason> {
    let mode = if writable { 0o600 } else { 0o400 };
    chown(memory, Some(user.uid), Some(user.gid))
        .and_then(|()| fs::set_permissions(memory, Permissions::from_mode(mode)))
        .map_err(in_context(&memory.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Bytes;

    #[test]
    fn a_device_that_is_missing_another_or_too_small_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let bytes = Bytes::from_bytes(1 << 20);
        let section = GuestSection { name: "x".to_owned(), bytes, writable: true };
        let said = || find(dir.path(), &section, 9).unwrap_err();
        assert!(said().to_string().contains("0000:00:1d.1/vendor"), "{}", said());
        let device = dir.path().join("0000:00:1d.1");
        fs::create_dir(&device).unwrap();
        let write = |file: &str, text: &str| fs::write(device.join(file), text).unwrap();
        write("vendor", "0x1af4\n");
        write("device", "0x1000\n");
        assert!(said().to_string().contains("wanted 0x1110, got 0x1000"), "{}", said());
        write("device", "0x1110\n");
        write("resource2", "short");
        assert!(said().to_string().contains("wanted 1048576 bytes, got 5"), "{}", said());
        fs::File::create(device.join("resource2")).unwrap().set_len(1 << 20).unwrap();
        assert_eq!(find(dir.path(), &section, 9), Ok(device.clone()));
        assert_eq!(fs::read(device.join("enable")).unwrap(), b"1");
    }
}
