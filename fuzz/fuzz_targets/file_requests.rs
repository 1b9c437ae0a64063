//! Requests of a guest's kernel for files: done or refused, never a panic, and nothing outside of the trees.
#![no_main]

#[path = "../../tests/foreign/mod.rs"]
mod foreign;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    foreign::file_requests(bytes);
});
