//! What comes to the door at which a partition waits for Open MPI's daemon: refused or understood, never a panic.
#![no_main]

#[path = "../../tests/foreign/mod.rs"]
mod foreign;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    foreign::daemon_command(bytes);
});
