//! What the machine says of its memory and caches, as far as the probes size their arrays by it.
//!
//! Sources: `/proc/meminfo`, the limit of our own cgroup (v2), `/sys/devices/system/cpu/…/cache`. What is not said
//! is `None`.

use std::fs;
use std::path::Path;

use crate::pin::allowed_cpus;
use units::Bytes;

/// Memory that can be taken without swapping: what the kernel calls available, or what the cgroup has left.
pub fn available_memory() -> Option<Bytes> {
    let kernel = fs::read_to_string("/proc/meminfo").ok().and_then(|text| kib_line(&text, "MemAvailable:"));
    match (kernel, cgroup_left()) {
        (Some(kernel), Some(group)) => Some(Bytes::from_bytes(kernel.min(group))),
        (one, other) => one.or(other).map(Bytes::from_bytes),
    }
}

/// Value in bytes of a line such as `MemAvailable:  1024 kB`.
fn kib_line(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn cgroup_left() -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?.trim_start_matches('/').to_owned();
    let folder = Path::new("/sys/fs/cgroup").join(path);
    let number = |file: &str| fs::read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok();
    // "max" is no number: there is no limit then.
    Some(number("memory.max")?.saturating_sub(number("memory.current")?))
}

/// The last-level cache of a CPU we may use.
pub fn last_level_cache() -> Option<Bytes> {
    let cpu = allowed_cpus().last().copied().unwrap_or(0);
    let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cache");
    let mut last: Option<(u32, u64)> = None;
    for entry in fs::read_dir(folder).ok()?.filter_map(Result::ok) {
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).ok();
        let Some((level, size)) = read("level").zip(read("size")) else { continue };
        if read("type").is_some_and(|kind| kind.trim() == "Instruction") {
            continue;
        }
        if let (Ok(level), Some(size)) = (level.trim().parse(), cache_size(size.trim()))
            && last.is_none_or(|(known, _)| level > known)
        {
            last = Some((level, size));
        }
    }
    last.map(|(_, size)| Bytes::from_bytes(size))
}

/// Parses sizes as the kernel writes them: `48K`, `2M`.
fn cache_size(text: &str) -> Option<u64> {
    let (number, factor) = match text.strip_suffix(['K', 'k']) {
        Some(number) => (number, 1024),
        None => text.strip_suffix('M').map_or((text, 1), |number| (number, 1024 * 1024)),
    };
    number.parse::<u64>().ok()?.checked_mul(factor).filter(|size| *size > 0)
}

/// Bytes of this process that are backed by transparent huge pages; none when the kernel does not say.
pub fn huge_page_bytes() -> Option<u64> {
    kib_line(&fs::read_to_string("/proc/self/smaps_rollup").ok()?, "AnonHugePages:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_the_kernel_writes_them() {
        assert_eq!(cache_size("48K"), Some(48 * 1024));
        assert_eq!(cache_size("2M"), Some(2 * 1024 * 1024));
        assert_eq!(cache_size("0K"), None);
        assert_eq!(cache_size("lots"), None);
        assert_eq!(kib_line("A: 1 kB\nMemAvailable:    12 kB\n", "MemAvailable:"), Some(12 * 1024));
        assert_eq!(kib_line("A: 1 kB\n", "MemAvailable:"), None);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(available_memory().is_some_and(|bytes| bytes.get() > 1 << 20));
    }
}
