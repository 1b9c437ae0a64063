//! A verification's journal that anybody could have written: refused with its line, or judged and shown.
#![no_main]

#[path = "../../tests/foreign/mod.rs"]
mod foreign;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    foreign::verify_journal(bytes);
});
