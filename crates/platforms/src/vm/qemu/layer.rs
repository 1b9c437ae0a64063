//! The disk of a guest's saved layer.

use std::os::fd::RawFd;

use crate::vm::guest::LAYER_SERIAL;
use units::Bytes;

/// QEMU's name of it.
pub const LAYER_DRIVE: &str = "layer";
/// Number of its set of descriptors: beyond those of disks.
const SET: u32 = 1000;

/// A disk that is opened already. The guest finds it by its serial number, so other disks keep their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerArgument {
    /// Its length.
    pub bytes: Bytes,
    /// One that can be read, and one that can be written.
    pub descriptors: [RawFd; 2],
}

impl LayerArgument {
    /// What the guest frees is given back to the host's file system. What the host cannot write, the guest is told: by default
    /// QEMU would stop it, for somebody to make room.
    pub(super) fn arguments(&self) -> Vec<String> {
        let add = self.descriptors.iter().flat_map(|fd| ["-add-fd".to_owned(), format!("fd={fd},set={SET}")]);
        let drive = format!(
            "if=none,id={LAYER_DRIVE},format=raw,cache=writeback,aio=threads,discard=unmap,file.driver=file,\
             file.filename=/dev/fdset/{SET}"
        );
        let device = format!(
            "virtio-blk-pci,drive={LAYER_DRIVE},serial={LAYER_SERIAL},werror=report,rerror=report,disable-legacy=on"
        );
        add.chain(["-drive".to_owned(), drive, "-device".to_owned(), device]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_descriptor_with_a_serial_number_and_errors_are_the_guests() {
        let words = LayerArgument { bytes: Bytes::from_bytes(1), descriptors: [7, 9] }.arguments().join(" ");
        assert!(words.starts_with("-add-fd fd=7,set=1000 -add-fd fd=9,set=1000 -drive"), "{words}");
        for part in [
            "file.filename=/dev/fdset/1000",
            "format=raw",
            "discard=unmap",
            "werror=report",
            "serial=bulkhead-layer",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
    }
}
