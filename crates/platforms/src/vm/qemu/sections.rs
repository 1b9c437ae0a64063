//! Sections of channels: memory of the host that several guests have, of which one may write.
//!
//! ```text
//!  file in memory ─► memory-backend-file, share=on ─► ivshmem-plain ─► the guest's resource2
//!                    readers: readonly=on, so that QEMU itself cannot write
//! ```
//! Each device is a function of the places at the end of the bus, so that the guest finds it by its number alone and the
//! many of them take few places. Source: QEMU's `docs/system/devices/ivshmem.rst`.

use std::ffi::OsString;
use std::path::PathBuf;

use super::commas_doubled;
use crate::vm::guest::section_place;
use units::Bytes;

/// A section that a guest has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionArgument {
    /// File on the host.
    pub path: PathBuf,
    /// Its size, a power of two.
    pub bytes: Bytes,
    /// Whether the guest may write.
    pub writable: bool,
    /// Number of the device, below [`crate::vm::guest::MOST_SECTIONS`]; counted from 0 without gaps.
    pub slot: u8,
}

impl SectionArgument {
    /// Arguments for QEMU.
    pub fn arguments(&self) -> [OsString; 4] {
        let Self { slot, bytes, .. } = self;
        let mut back =
            OsString::from(format!("memory-backend-file,id={},size={},share=on,", self.id(), bytes.get()));
        back.push(if self.writable { "mem-path=" } else { "readonly=on,mem-path=" });
        back.push(commas_doubled(&self.path));
        let (place, function) = section_place(*slot);
        // Only where the first function says so are the others looked for.
        let several = if function == 0 { ",multifunction=on" } else { "" };
        let front = format!("ivshmem-plain,memdev={},addr={place:02x}.{function}{several}", self.id());
        ["-object".into(), back, "-device".into(), front.into()]
    }

    /// QEMU's name of the memory.
    pub fn id(&self) -> String {
        format!("section{}", self.slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::guest::MOST_SECTIONS;

    fn line(slot: u8, writable: bool) -> String {
        let section = SectionArgument {
            path: "/run/a,b/c/x".into(),
            bytes: Bytes::from_bytes(1 << 20),
            writable,
            slot,
        };
        section.arguments().map(|word| word.to_string_lossy().into_owned()).join(" ")
    }

    #[test]
    fn a_reader_has_no_way_to_write() {
        assert_eq!(
            line(0, true),
            "-object memory-backend-file,id=section0,size=1048576,share=on,mem-path=/run/a,,b/c/x \
             -device ivshmem-plain,memdev=section0,addr=1e.0,multifunction=on"
        );
        assert_eq!(
            line(9, false),
            "-object memory-backend-file,id=section9,size=1048576,share=on,readonly=on,mem-path=/run/a,,b/c/x \
             -device ivshmem-plain,memdev=section9,addr=1d.1"
        );
    }

    #[test]
    fn each_has_a_place_of_its_own() {
        let places: std::collections::BTreeSet<(u8, u8)> = (0..MOST_SECTIONS).map(section_place).collect();
        assert_eq!(places.len(), usize::from(MOST_SECTIONS));
        assert_eq!(places.first(), Some(&(0x17, 0)));
    }
}
