//! A journal from disk, whoever wrote it: read or refused, never a panic.
#![no_main]

use std::path::Path;

use bulkhead::campaign::journal::read_from;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = read_from(Path::new("fuzz"), bytes);
});
