//! Is there memory and disk, and of what kind? Sources: proc(5) `/proc/meminfo`; the kernel's `mm/transhuge`,
//! `mm/hugetlbpage`.

use super::read::{check, not_visible};
use model::preflight::{Check, CheckLevel};
use units::Bytes;

/// Below this much free memory a VM beside the host's own work does not fit.
const LEAST_MEMORY: Bytes = Bytes::from_bytes(1 << 30);
/// Below this much free disk the disk probe and a VM's disk do not fit.
const LEAST_DISK: Bytes = Bytes::from_bytes(1 << 30);

/// A figure of `/proc/meminfo` in KiB (or a count).
pub(super) fn meminfo_kib(meminfo: &str, name: &str) -> Option<u64> {
    meminfo
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.split_whitespace().next()?.parse().ok())
}

/// The chosen one of `always [madvise] never`.
fn chosen(text: &str) -> Option<&str> {
    text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
}

/// Transparent and reserved huge pages.
pub(super) fn huge_pages(transparent: Option<&str>, meminfo: Option<&str>) -> Check {
    let transparent = transparent.and_then(chosen);
    let reserved = meminfo.and_then(|text| meminfo_kib(text, "HugePages_Total"));
    let said: Vec<String> = [
        transparent.map(|mode| format!("transparent huge pages: {mode}")),
        reserved.map(|pages| format!("{pages} huge pages reserved")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if said.is_empty() {
        return not_visible("huge-pages", "huge pages");
    }
    check("huge-pages", CheckLevel::Ok, said.join(", "), "")
}

/// `MemAvailable`.
pub(super) fn free_memory(meminfo: Option<&str>) -> Check {
    let Some(kib) = meminfo.and_then(|text| meminfo_kib(text, "MemAvailable")) else {
        return not_visible("memory", "free memory");
    };
    let free = Bytes::from_bytes(kib.saturating_mul(1024));
    if free < LEAST_MEMORY {
        let found = format!("only {free} of memory are free: VMs need about {LEAST_MEMORY}");
        return check("memory", CheckLevel::Missing, found, "end what takes the memory");
    }
    check("memory", CheckLevel::Ok, format!("{free} of memory are free"), "")
}

/// Free space where the run directory will be.
pub(super) fn free_disk(path: &str, free: Option<Bytes>) -> Check {
    let Some(free) = free else { return not_visible("disk", &format!("free space at {path}")) };
    if free < LEAST_DISK {
        let found = format!("only {free} are free at {path}: a run needs about {LEAST_DISK}");
        return check("disk", CheckLevel::Missing, found, "free some space, or choose another --out");
    }
    check("disk", CheckLevel::Ok, format!("{free} are free at {path}"), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_mode_and_the_reserve_are_shown() {
        let found = huge_pages(Some("always [madvise] never"), Some("HugePages_Total:     12\n")).found;
        assert_eq!(found, "transparent huge pages: madvise, 12 huge pages reserved");
        assert!(huge_pages(Some("always madvise"), None).found.contains("not visible"));
    }

    #[test]
    fn too_little_is_missing_and_unknown_is_a_note() {
        assert_eq!(free_memory(Some("MemAvailable:  1048575 kB")).level, CheckLevel::Missing);
        assert_eq!(free_memory(Some("MemAvailable:  1048576 kB")).level, CheckLevel::Ok);
        assert_eq!(free_memory(Some("MemFree: 1 kB")).level, CheckLevel::Note);
        assert_eq!(free_disk("/x", Some(Bytes::from_bytes(5))).level, CheckLevel::Missing);
        assert_eq!(free_disk("/x", Some(Bytes::from_bytes(5 << 30))).level, CheckLevel::Ok);
        assert_eq!(free_disk("/x", None).level, CheckLevel::Note);
    }
}
