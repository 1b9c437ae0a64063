//! The last-level cache of this machine: arrays that fit into it measure it and not the memory.

use std::fs;
use std::path::Path;

/// STREAM's rule: an array is larger than the cache by so much.
pub const BEYOND: u64 = 4;
/// Where the kernel says it.
const FOLDER: &str = "/sys/devices/system/cpu/cpu0/cache";

/// Bytes of the largest cache that holds data.
pub fn last_level_bytes() -> Result<u64, String> {
    let unknown = || format!("the kernel does not say in {FOLDER} how large the caches are");
    let entries = fs::read_dir(FOLDER).map_err(|_| unknown())?;
    entries.flatten().filter_map(|entry| bytes_of(&entry.path())).max().ok_or_else(unknown)
}

fn bytes_of(index: &Path) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(index.join(name)).ok();
    let is_for_data = read("type")?.trim() != "Instruction";
    let kib: u64 = read("size")?.trim().strip_suffix('K')?.parse().ok()?;
    is_for_data.then_some(kib * 1024)
}

/// Whether an array is larger than the caches by STREAM's rule; the reason if it is not.
pub fn is_beyond(array_bytes: u64) -> Result<(), String> {
    let cache = last_level_bytes()?;
    if array_bytes >= BEYOND * cache {
        return Ok(());
    }
    Err(format!(
        "arrays of {BEYOND} times the last-level cache ({} MiB) were wanted, got {} MiB",
        cache >> 20,
        array_bytes >> 20
    ))
}
