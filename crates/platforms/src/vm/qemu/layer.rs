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
    /// Over which QEMU tells that it has stopped the guest.
    pub events: RawFd,
}

impl LayerArgument {
    /// What the guest frees is given back to the host's file system. When the host cannot write, QEMU stops the guest: told of it,
    /// that would take its file system for a damaged one.
    pub(super) fn arguments(&self) -> Vec<String> {
        let add = self.descriptors.iter().flat_map(|fd| ["-add-fd".to_owned(), format!("fd={fd},set={SET}")]);
        let drive = format!(
            "if=none,id={LAYER_DRIVE},format=raw,cache=writeback,aio=threads,discard=unmap,file.driver=file,\
             file.filename=/dev/fdset/{SET}"
        );
        let device = format!(
            "virtio-blk-pci,drive={LAYER_DRIVE},serial={LAYER_SERIAL},werror=stop,rerror=report,disable-legacy=on"
        );
        let chardev = format!("socket,id=layer-events,fd={}", self.events);
        let events = ["-chardev", &chardev, "-mon", "chardev=layer-events,mode=control"].map(str::to_owned);
        let rest = ["-drive".to_owned(), drive, "-device".to_owned(), device];
        add.chain(rest).chain(events).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_descriptor_with_a_serial_number_and_what_cannot_be_written_stops_the_guest() {
        let layer = LayerArgument { bytes: Bytes::from_bytes(1), descriptors: [7, 9], events: 11 };
        let words = layer.arguments().join(" ");
        assert!(words.starts_with("-add-fd fd=7,set=1000 -add-fd fd=9,set=1000 -drive"), "{words}");
        for part in [
            "file.filename=/dev/fdset/1000",
            "format=raw",
            "discard=unmap",
            "werror=stop",
            "-chardev socket,id=layer-events,fd=11 -mon chardev=layer-events,mode=control",
            "serial=bulkhead-layer",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
    }
}
