//! The kernel's table of mounts as a sweep reads it, which unmounts what it finds: nothing outside, never a panic.
#![no_main]

#[path = "../../tests/foreign/mod.rs"]
mod foreign;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    foreign::sweep_mounts(bytes);
});
