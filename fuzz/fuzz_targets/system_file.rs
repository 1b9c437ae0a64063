//! A system as a user writes it: refused with its lines, or planned, and the plan keeps every rule.
#![no_main]

#[path = "../../tests/foreign/mod.rs"]
mod foreign;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    foreign::system_file(bytes);
});
