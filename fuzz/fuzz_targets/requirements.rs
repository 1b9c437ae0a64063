//! Requirements as a user writes them: refused with their lines, or read, written and read back.
#![no_main]

#[path = "../../tests/foreign/mod.rs"]
mod foreign;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    foreign::requirements(bytes);
});
