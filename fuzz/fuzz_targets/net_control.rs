//! What the other instance of a pair of the network probe says: understood or refused, never a panic.
#![no_main]

#[path = "../../tests/foreign/mod.rs"]
mod foreign;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    foreign::net_control(bytes);
});
