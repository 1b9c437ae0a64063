//! What a QEMU that executes its guest's code says of its plugs: understood or passed over, never a panic.
#![no_main]

#[path = "../../tests/foreign/mod.rs"]
mod foreign;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    foreign::plug_events(bytes);
});
