//! How what is written to lies on the blocks of the device, as the kernel tells it in `/sys`.
//!
//! ```text
//!  file ─► file system: its block ─► partition: its start ─► disk: logical, physical, optimal block
//!                                                             │ a loop device
//!                                                             └─► its offset ─► file it lies in ─► file system ─► …
//! ```
//!
//! An instance sees its own devices only: what lies below a virtual disk is told by nobody, but shows in the times of
//! shifted writes. Sources: Documentation/ABI/stable/sysfs-block of the kernel, Martin K. Petersen, "I/O Topology".

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::stat::{major, minor};
use nix::sys::statvfs::statvfs;

use crate::detail::{Alignment, AlignmentVerdict};
use crate::scratch::Scratch;
use units::Bytes;

/// The kernel counts partitions in sectors of this size, whatever the disk's own is.
const SECTOR: u64 = 512;
/// Loop devices in files on loop devices end here.
const DEEPEST: u32 = 4;
/// Optimal sizes beyond this, or that are no multiples of a page, are a bridge chip's largest transfer instead.
const LARGEST_OPTIMAL: u64 = 16 << 20;
const PAGE: u64 = 4096;

/// Looks at what the scratch file or device lies on.
pub fn look(scratch: &Scratch) -> Alignment {
    look_in(Path::new("/sys"), scratch.device_number(), scratch.file_system_block())
}

/// A disk as `/sys` describes it.
struct Disk {
    name: String,
    /// Start of the partition that was asked for; none for the whole disk.
    start: Option<u64>,
    logical: Option<u64>,
    physical: Option<u64>,
    optimal: Option<u64>,
    /// Where its first physical block begins; none when the kernel found its parts to contradict each other.
    first: Option<u64>,
    /// Offset of a loop device, and the file it lies in.
    inside: Option<(u64, PathBuf)>,
}

impl Disk {
    fn of(sys: &Path, number: (u64, u64)) -> Option<Self> {
        let own = fs::canonicalize(sys.join(format!("dev/block/{}:{}", number.0, number.1))).ok()?;
        let start = number_in(&own.join("start")).map(|sectors| sectors.saturating_mul(SECTOR));
        let whole = if start.is_some() { own.parent()?.to_path_buf() } else { own.clone() };
        let queue = |name: &str| number_in(&whole.join("queue").join(name)).filter(|value| *value > 0);
        let physical = queue("physical_block_size");
        let usual = |optimal: &u64| {
            *optimal <= LARGEST_OPTIMAL && optimal.is_multiple_of(PAGE) && Some(*optimal) > physical
        };
        let offset = fs::read_to_string(whole.join("alignment_offset")).unwrap_or_default();
        let inside = fs::read_to_string(whole.join("loop/backing_file")).ok().map(|file| {
            (number_in(&whole.join("loop/offset")).unwrap_or(0), PathBuf::from(file.trim_end_matches('\n')))
        });
        Some(Self {
            name: own.file_name()?.to_string_lossy().chars().take(64).collect(),
            start,
            logical: queue("logical_block_size"),
            physical,
            optimal: queue("optimal_io_size").filter(usual),
            // "-1" means that no offset fits all parts of the device.
            first: if offset.trim() == "-1" { None } else { Some(offset.trim().parse().unwrap_or(0)) },
            inside,
        })
    }
}

fn number_in(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// What was found wrong: how far beyond a boundary, and why.
struct Fault {
    beyond: Option<u64>,
    why: String,
}

fn look_in(sys: &Path, number: Option<(u64, u64)>, file_system_block: Option<Bytes>) -> Alignment {
    let top = number.and_then(|number| Disk::of(sys, number));
    let Some(disk) = top else {
        let who = number.map_or_else(|| "it".to_owned(), |(major, minor)| format!("device {major}:{minor}"));
        let why = format!(
            "{who} is no block device that the kernel describes in /sys: a file system of its own kind"
        );
        return alignment(None, file_system_block, AlignmentVerdict::Unknown, None, why);
    };
    let block = file_system_block.map(Bytes::get);
    match fault(sys, &disk, block, 0, DEEPEST) {
        Some(fault) => {
            let verdict = AlignmentVerdict::Misaligned;
            alignment(Some(&disk), file_system_block, verdict, fault.beyond, fault.why)
        }
        None if disk.physical.is_none() => {
            let why = format!("{} does not say how large its blocks are", disk.name);
            alignment(Some(&disk), file_system_block, AlignmentVerdict::Unknown, None, why)
        }
        None => {
            let size = Bytes::from_bytes(disk.physical.unwrap_or(0));
            let why =
                format!("every begin that can be seen lies on the boundary of a physical block of {size}");
            alignment(Some(&disk), file_system_block, AlignmentVerdict::Aligned, Some(0), why)
        }
    }
}

fn alignment(
    disk: Option<&Disk>,
    file_system_block_bytes: Option<Bytes>,
    verdict: AlignmentVerdict,
    offset: Option<u64>,
    why: String,
) -> Alignment {
    let bytes = |of: fn(&Disk) -> Option<u64>| disk.and_then(of).map(Bytes::from_bytes);
    Alignment {
        device: disk.map(|disk| disk.name.clone()),
        partition_start_bytes: bytes(|disk| disk.start),
        logical_block_bytes: bytes(|disk| disk.logical),
        physical_block_bytes: bytes(|disk| disk.physical),
        optimal_io_bytes: bytes(|disk| disk.optimal),
        file_system_block_bytes,
        offset_bytes: offset.map(Bytes::from_bytes),
        verdict,
        why,
        shifted: None,
        not_shifted: None,
    }
}

/// The first thing that does not meet the blocks below it. `offset` is where the upper level begins on this one.
fn fault(sys: &Path, disk: &Disk, block: Option<u64>, offset: u64, deeper: u32) -> Option<Fault> {
    let offset = offset.saturating_add(disk.start.unwrap_or(0));
    own_fault(disk, block, offset).or_else(|| {
        let (begin, file) = disk.inside.as_ref().filter(|_| deeper > 0)?;
        below_loop(sys, disk, offset.saturating_add(*begin), file, deeper - 1)
    })
}

fn own_fault(disk: &Disk, block: Option<u64>, offset: u64) -> Option<Fault> {
    let name = &disk.name;
    let physical = disk.physical?;
    let size = Bytes::from_bytes(physical);
    let Some(first) = disk.first else {
        return Some(Fault {
            beyond: None,
            why: format!("the kernel says that the parts of {name} contradict each other"),
        });
    };
    // Never negative: a boundary lies wherever the first one does, modulo the block.
    let beyond = (offset % physical + physical - first % physical) % physical;
    let begins = format!("{name} begins at byte {offset} of its disk");
    if beyond != 0 {
        let why = format!("{begins}, {beyond} bytes beyond a boundary of its physical blocks of {size}");
        return Some(Fault { beyond: Some(beyond), why });
    }
    if let Some(block) = block.filter(|block| !block.is_multiple_of(physical)) {
        let block = Bytes::from_bytes(block);
        let why = format!("the file system works in blocks of {block}, {name} in physical blocks of {size}");
        return Some(Fault { beyond: Some(0), why });
    }
    let optimal = disk.optimal.filter(|optimal| disk.start.is_some() && !offset.is_multiple_of(*optimal))?;
    let liked = Bytes::from_bytes(optimal);
    let why = format!("{begins}, but the device wants accesses on boundaries of {liked}");
    Some(Fault { beyond: Some(offset % optimal), why })
}

/// A loop device lies at `offset` of a file, which lies on the blocks of its file system, or of a device itself.
fn below_loop(sys: &Path, disk: &Disk, offset: u64, file: &Path, deeper: u32) -> Option<Fault> {
    let name = &disk.name;
    // Another instance's file, or one that was removed, tells nothing more.
    let found = fs::metadata(file).ok()?;
    if found.file_type().is_file() {
        let block = statvfs(file).ok().map(|known| known.fragment_size()).filter(|block| *block > 0)?;
        let beyond = offset % block;
        if beyond != 0 {
            let size = Bytes::from_bytes(block);
            let why = format!(
                "{name} begins at byte {offset} of a file, {beyond} bytes beyond a boundary of the file system's blocks of {size}"
            );
            return Some(Fault { beyond: Some(beyond), why });
        }
        let below = Disk::of(sys, (major(found.dev()), minor(found.dev())))?;
        return fault(sys, &below, Some(block), 0, deeper);
    }
    let below = Disk::of(sys, (major(found.rdev()), minor(found.rdev())))?;
    fault(sys, &below, None, offset, deeper)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A `/sys` with a disk 8:0 and its partition 8:1.
    fn sys(start: u64, files: &[(&str, &str)]) -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        let disk = sys.path().join("block/sda");
        fs::create_dir_all(disk.join("queue")).unwrap();
        fs::create_dir_all(disk.join("sda1")).unwrap();
        fs::create_dir_all(disk.join("loop")).unwrap();
        fs::create_dir_all(sys.path().join("dev/block")).unwrap();
        fs::write(disk.join("sda1/start"), format!("{start}\n")).unwrap();
        for (name, value) in [("queue/physical_block_size", "4096"), ("queue/logical_block_size", "512")] {
            fs::write(disk.join(name), value).unwrap();
        }
        for (name, value) in files {
            fs::write(disk.join(name), value).unwrap();
        }
        symlink(&disk, sys.path().join("dev/block/8:0")).unwrap();
        symlink(disk.join("sda1"), sys.path().join("dev/block/8:1")).unwrap();
        sys
    }

    fn seen(sys: &tempfile::TempDir, minor: u64, block: u64) -> (AlignmentVerdict, Option<u64>, String) {
        let found = look_in(sys.path(), Some((8, minor)), Some(Bytes::from_bytes(block)));
        (found.verdict, found.offset_bytes.map(Bytes::get), found.why)
    }

    #[test]
    fn the_old_start_at_sector_63_is_misaligned_and_one_mebibyte_is_not() {
        let (verdict, offset, why) = seen(&sys(63, &[]), 1, 4096);
        assert_eq!((verdict, offset), (AlignmentVerdict::Misaligned, Some(63 * 512 % 4096)));
        assert!(why.contains("sda1 begins at byte 32256"), "{why}");
        let (verdict, offset, _) = seen(&sys(2048, &[]), 1, 4096);
        assert_eq!((verdict, offset), (AlignmentVerdict::Aligned, Some(0)));
        let found = look_in(sys(63, &[]).path(), Some((8, 0)), None);
        assert_eq!((found.verdict, found.partition_start_bytes), (AlignmentVerdict::Aligned, None));
    }

    #[test]
    fn a_disk_that_begins_inside_a_block_makes_sector_63_right() {
        // Disks made for old partition tables: their block boundaries lie at sectors 7, 15, … 63.
        let sys = sys(63, &[("alignment_offset", "3584\n")]);
        assert_eq!(seen(&sys, 1, 4096).0, AlignmentVerdict::Aligned);
        assert_eq!(seen(&sys, 0, 4096).1, Some(512));
        let broken = self::sys(2048, &[("alignment_offset", "-1\n")]);
        assert!(seen(&broken, 1, 4096).2.contains("contradict"));
    }

    #[test]
    fn small_file_system_blocks_and_optimal_sizes_count() {
        let (verdict, _, why) = seen(&sys(2048, &[]), 1, 1024);
        assert!(verdict == AlignmentVerdict::Misaligned && why.contains("blocks of 1 KiB"), "{why}");
        let raid = sys(2048, &[("queue/optimal_io_size", "3145728")]);
        let (verdict, offset, why) = seen(&raid, 1, 4096);
        assert_eq!((verdict, offset), (AlignmentVerdict::Misaligned, Some(1 << 20)), "{why}");
        let bridge = sys(2048, &[("queue/optimal_io_size", "33553920")]);
        assert_eq!(seen(&bridge, 1, 4096).0, AlignmentVerdict::Aligned, "no real size");
    }

    #[test]
    fn what_has_no_device_is_not_known() {
        let found = look_in(sys(63, &[]).path(), Some((0, 45)), None);
        assert_eq!((found.verdict, found.device), (AlignmentVerdict::Unknown, None));
        assert!(found.why.contains("0:45"), "{}", found.why);
    }

    #[test]
    fn a_loop_device_inside_a_file_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("image");
        fs::write(&file, b"x").unwrap();
        let path = file.to_string_lossy().into_owned() + "\n";
        let shifted = sys(2048, &[("loop/backing_file", &path), ("loop/offset", "512")]);
        let (verdict, offset, why) = seen(&shifted, 0, 4096);
        assert_eq!((verdict, offset), (AlignmentVerdict::Misaligned, Some(512)), "{why}");
        assert!(why.contains("of a file"), "{why}");
        let straight = sys(2048, &[("loop/backing_file", &path), ("loop/offset", "0")]);
        assert_eq!(seen(&straight, 0, 4096).0, AlignmentVerdict::Aligned);
    }
}
