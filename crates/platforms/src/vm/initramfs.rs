//! A guest's first file system: a cpio archive made in memory and handed to QEMU as a descriptor. Nothing is written
//! to disk, nothing is left behind.
//!
//! ```text
//!  /init                  this program
//!  /dev/console           so that the kernel can give PID 1 its standard streams
//!  /bulkhead.json         what PID 1 is to do (GuestConfig)
//!  /modules/NAME.ko       kernel modules
//! ```
//!
//! Format: "newc" of the kernel's `Documentation/driver-api/early-userspace/buffer-format.rst`.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use nix::sys::memfd::{MFdFlags, memfd_create};

const REGULAR: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;
const CHARACTER_DEVICE: u32 = 0o020_000;

/// A cpio archive being written.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    inodes: u32,
}

impl Archive {
    /// An empty archive.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a folder; folders come before what they hold.
    pub fn folder(&mut self, path: &str) -> io::Result<()> {
        self.entry(path, FOLDER | 0o755, &[], (0, 0))
    }

    /// Adds a file.
    pub fn file(&mut self, path: &str, permissions: u32, content: &[u8]) -> io::Result<()> {
        self.entry(path, REGULAR | permissions, content, (0, 0))
    }

    /// Adds a character device.
    pub fn device(&mut self, path: &str, major: u32, minor: u32) -> io::Result<()> {
        self.entry(path, CHARACTER_DEVICE | 0o600, &[], (major, minor))
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8], device: (u32, u32)) -> io::Result<()> {
        let size = u32::try_from(content.len())
            .map_err(|_| io::Error::other(format!("{path} is too large for an initramfs: 4 GiB at most")))?;
        let name_size = u32::try_from(path.len() + 1).map_err(io::Error::other)?;
        self.inodes += 1;
        self.bytes.extend_from_slice(b"070701");
        let links = if mode & FOLDER != 0 && mode & REGULAR == 0 { 2 } else { 1 };
        for field in [self.inodes, mode, 0, 0, links, 0, size, 0, 0, device.0, device.1, name_size, 0] {
            write!(self.bytes, "{field:08x}")?;
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
        Ok(())
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// Ends the archive and returns its bytes.
    pub fn finish(mut self) -> io::Result<Vec<u8>> {
        self.entry("TRAILER!!!", 0, &[], (0, 0))?;
        Ok(self.bytes)
    }
}

/// Puts bytes into a file that exists only in memory.
pub fn in_memory(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    let name = std::ffi::CString::new(name)?;
    let mut file = File::from(memfd_create(name.as_c_str(), MFdFlags::MFD_CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads an archive back, by the format's rules alone.
    fn entries(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut rest = bytes;
        let mut found = Vec::new();
        loop {
            assert_eq!(&rest[..6], b"070701");
            let field = |i: usize| {
                u32::from_str_radix(std::str::from_utf8(&rest[6 + 8 * i..14 + 8 * i]).unwrap(), 16).unwrap()
            };
            let (mode, size, name_size) = (field(1), field(6) as usize, field(11) as usize);
            let name = String::from_utf8(rest[110..110 + name_size - 1].to_vec()).unwrap();
            assert_eq!(rest[110 + name_size - 1], 0);
            let data = (110 + name_size).next_multiple_of(4);
            let content = rest[data..data + size].to_vec();
            rest = &rest[(data + size).next_multiple_of(4)..];
            if name == "TRAILER!!!" {
                return found;
            }
            found.push((name, mode, content));
        }
    }

    #[test]
    fn what_was_put_in_is_read_back() {
        let mut archive = Archive::new();
        archive.folder("dev").unwrap();
        archive.device("dev/console", 5, 1).unwrap();
        archive.file("init", 0o755, b"#!").unwrap();
        archive.file("odd", 0o644, b"12345").unwrap();
        let found = entries(&archive.finish().unwrap());
        let short: Vec<_> = found.iter().map(|(name, mode, _)| (name.as_str(), *mode)).collect();
        assert_eq!(
            short,
            [("dev", 0o40755), ("dev/console", 0o20600), ("init", 0o100_755), ("odd", 0o100_644)]
        );
        assert_eq!(found[3].2, b"12345");
    }

    #[test]
    fn the_file_in_memory_can_be_opened_by_its_number() {
        use std::os::fd::AsRawFd;
        let fd = in_memory("bulkhead-test", b"content").unwrap();
        assert_eq!(std::fs::read(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap(), b"content");
    }
}
