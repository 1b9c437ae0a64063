//! A kernel image a user names, and a module beside it: unpacked or refused, in bounded memory, never a panic.
#![no_main]

use bulkhead::platforms::vm::bzimage::{has_pvh_entry, vmlinux};
use bulkhead::platforms::vm::modules::ModInfo;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(kernel) = vmlinux(bytes) {
        has_pvh_entry(&kernel);
    }
    has_pvh_entry(bytes);
    let _ = ModInfo::parse(bytes);
});
