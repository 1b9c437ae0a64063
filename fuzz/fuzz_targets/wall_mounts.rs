//! The kernel's table of mounts as the wall around QEMU reads it: understood or passed over, never a panic.
#![no_main]

#[path = "../../tests/foreign/mod.rs"]
mod foreign;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    foreign::wall_mounts(bytes);
});
