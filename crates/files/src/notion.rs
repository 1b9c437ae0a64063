//! What a guest thinks a file is, where that is more than the host lets it be: another owner, set-ID bits, the sticky bit.
//!
//! On the host every file that a guest makes belongs to the caller and has plain permission bits. What the guest made of it
//! stands beside it, in one extended attribute that only this server reads, and that the guest does not see. It gives
//! nobody on the host anything.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::{FileType, Stat, XattrFlags};
use rustix::io::Errno;

use crate::message::Result;

/// The attribute: `USER GROUP BITS`, the bits octal.
pub const ATTRIBUTE: &[u8] = b"user.bulkhead";
/// Longest value that is read.
const LONGEST: usize = 64;
/// Set-user-ID, set-group-ID, sticky.
pub const SPECIAL: u32 = 0o7000;
/// Set-user-ID.
pub const SET_USER: u32 = 0o4000;
/// Set-group-ID.
pub const SET_GROUP: u32 = 0o2000;
/// Sticky: on a folder nobody's right, but what keeps others from removing what lies there.
const STICKY: u32 = 0o1000;
/// What a host's file may have.
pub const PLAIN: u32 = 0o777;

/// What something on the host may have.
pub const fn plain(is_folder: bool) -> u32 {
    if is_folder { PLAIN | STICKY } else { PLAIN }
}

/// Who has a file, and with which special bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notion {
    /// Owner.
    pub user: u32,
    /// Group.
    pub group: u32,
    /// Of [`SPECIAL`].
    pub bits: u32,
}

impl Notion {
    /// That of the attribute's value; none where it says nothing.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?;
        let mut words = text.split(' ');
        let (user, group) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let bits = u32::from_str_radix(words.next()?, 8).ok()?;
        (words.next().is_none() && bits & !SPECIAL == 0).then_some(Self { user, group, bits })
    }

    /// The attribute's value.
    pub fn value(self) -> String {
        format!("{} {} {:o}", self.user, self.group, self.bits)
    }

    /// What the host itself says of a file.
    pub fn of_host(found: &Stat) -> Self {
        Self { user: found.st_uid, group: found.st_gid, bits: found.st_mode & SPECIAL }
    }

    /// What of it the host does not say by itself, with this mode.
    pub const fn beside(self, mode: u32) -> Self {
        Self { bits: self.bits & !mode, ..self }
    }

    /// After somebody else has changed the file: as Linux does it since 6.2 (`setattr_should_drop_sgid`). Where its group may not
    /// execute it, the bit of its group stays for whoever is in that group, or may set such bits.
    pub const fn without_set_id(self, mode: u32, may_keep: bool) -> Self {
        let group = if may_keep && mode & 0o010 == 0 { 0 } else { SET_GROUP };
        Self { bits: self.bits & !(SET_USER | group), ..self }
    }
}

/// Whether there can be one: only files and folders carry such attributes.
pub fn is_possible(found: &Stat) -> bool {
    matches!(FileType::from_raw_mode(found.st_mode), FileType::RegularFile | FileType::Directory)
}

/// Reads that of the file at `path`, or where a link in `/proc/self/fd` leads. The file must be this server's own: what others
/// wrote beside theirs is not believed.
///
/// # Errors
/// EACCES where the file's mode forbids it its owner.
pub fn read(path: &[u8], is_link: bool, found: &Stat) -> Result<Option<Notion>> {
    if !is_possible(found) || found.st_uid != rustix::process::geteuid().as_raw() {
        return Ok(None);
    }
    let mut value = [0; LONGEST];
    let length = if is_link {
        rustix::fs::getxattr(path, ATTRIBUTE, &mut value)
    } else {
        rustix::fs::lgetxattr(path, ATTRIBUTE, &mut value)
    };
    let length = match length {
        Ok(length) => length,
        Err(Errno::ACCESS) => return Err(Errno::ACCESS),
        Err(_) => return Ok(None),
    };
    let notion = value.get(..length).and_then(Notion::parse);
    // Bits that the host's file has by itself stay.
    Ok(notion.map(|notion| Notion { bits: notion.bits | (found.st_mode & SPECIAL), ..notion }))
}

/// Whether a file has one, at a link in `/proc/self/fd`; that needs no right to read it.
pub fn is_there(path: &[u8]) -> bool {
    const LONGEST_LIST: usize = 64 << 10;
    let mut names = vec![0; LONGEST_LIST];
    let length = rustix::fs::listxattr(path, &mut names).unwrap_or(0);
    names.get(..length).is_some_and(|names| names.split(|byte| *byte == 0).any(|name| name == ATTRIBUTE))
}

/// Writes it at `path`, a link in `/proc/self/fd`. What the host's file says by itself needs none.
///
/// # Errors
/// EPERM where it cannot be kept.
pub fn write(path: &[u8], found: &Stat, notion: Notion) -> Result<()> {
    let own = Notion { user: found.st_uid, group: found.st_gid, bits: 0 };
    if notion == own {
        return match rustix::fs::removexattr(path, ATTRIBUTE) {
            Ok(()) | Err(Errno::NODATA | Errno::NOTSUP) => Ok(()),
            Err(error) => Err(error),
        };
    }
    if !is_possible(found) || found.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Errno::PERM);
    }
    match rustix::fs::setxattr(path, ATTRIBUTE, notion.value().as_bytes(), XattrFlags::empty()) {
        Err(Errno::NOTSUP) => Err(Errno::PERM),
        other => other,
    }
}

/// Keeps who is to have an open file of the caller's in guests, and with which set-ID bits, as guests themselves do.
///
/// # Errors
/// The file system keeps no such attributes.
pub fn keep(file: BorrowedFd<'_>, user: u32, group: u32, mode: u32) -> io::Result<()> {
    let found = rustix::fs::fstat(file)?;
    let is_folder = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
    let notion = Notion { user, group, bits: mode & SPECIAL & !plain(is_folder) };
    Ok(write(format!("/proc/self/fd/{}", file.as_raw_fd()).as_bytes(), &found, notion)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let notion = Notion { user: 12, group: 4_000_000_000, bits: 0o6000 };
        assert_eq!(Notion::parse(notion.value().as_bytes()), Some(notion));
        for bad in ["", "1", "1 2", "1 2 8", "1 2 777", "1 2 4000 5", "x 2 0", "-1 2 0"] {
            assert_eq!(Notion::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn a_write_takes_set_id_bits_away() {
        let notion = Notion { user: 1, group: 1, bits: 0o7000 };
        assert_eq!(notion.without_set_id(0o755, true).bits, 0o1000);
        assert_eq!(notion.without_set_id(0o744, true).bits, 0o3000);
        assert_eq!(notion.without_set_id(0o744, false).bits, 0o1000);
    }
}
