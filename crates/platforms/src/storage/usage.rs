//! Who uses a block device, as far as this process can see: mounts, swap, other devices on top of it, programs that have it
//! open. What it cannot see (another mount namespace, a program of somebody else) the kernel's exclusive opening refuses if
//! it was claimed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::sys::stat::{major, minor};

use crate::console::harmless;

/// Major and minor.
pub type Number = (u64, u64);

/// The number behind a device's path; none when it is no block device.
pub fn number_of(path: &Path) -> Option<Number> {
    let found = fs::metadata(path).ok().filter(|found| found.file_type().is_block_device())?;
    Some((major(found.rdev()), minor(found.rdev())))
}

/// The number of the device a file lies on.
pub fn number_below(path: &Path) -> Option<Number> {
    let found = fs::metadata(path).ok()?;
    Some((major(found.dev()), minor(found.dev())))
}

/// What is touched by writing to a device: itself, the partitions of a disk, or the disk of a partition (somebody may
/// use all of it); not the other partitions.
pub fn family(number: Number) -> Vec<(String, Number)> {
    let Some(folder) = folder_of(number) else { return Vec::new() };
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut all = vec![(name(&folder), number)];
    if folder.join("partition").exists()
        && let Some(disk) = folder.parent()
    {
        let text = fs::read_to_string(disk.join("dev")).unwrap_or_default();
        all.extend(parse_number(text.trim()).map(|number| (name(disk), number)));
    }
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let is_partition = entry.path().join("partition").exists();
        let text = fs::read_to_string(entry.path().join("dev")).unwrap_or_default();
        if let (true, Some(number)) = (is_partition, parse_number(text.trim())) {
            all.push((name(&entry.path()), number));
        }
    }
    all
}

fn folder_of((major, minor): Number) -> Option<PathBuf> {
    fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()
}

fn parse_number(text: &str) -> Option<Number> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Whether the kernel takes no writes to it.
pub fn is_read_only(number: Number) -> bool {
    let text = folder_of(number).and_then(|folder| fs::read_to_string(folder.join("ro")).ok());
    text.is_some_and(|text| text.trim() == "1")
}

/// Every use of the device and its partitions that can be seen, in words.
pub fn users(number: Number) -> Vec<String> {
    let family = family(number);
    let numbers: BTreeSet<Number> = family.iter().map(|(_, number)| *number).chain([number]).collect();
    // Others' files may have any name.
    let text = |path: &str| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let mut found = mounts(&text("/proc/self/mountinfo"), &numbers, number_of);
    found.extend(swaps(&text("/proc/swaps"), &numbers, number_of));
    for (name, number) in &family {
        found.extend(holders(name, *number));
    }
    found.extend(loops(&numbers));
    found.extend(openers(&numbers));
    found
}

/// Programs that have it open, besides this one and what it has started: not everybody claims a device, QEMU does not.
fn openers(numbers: &BTreeSet<Number>) -> Vec<String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let others = pids.filter(|pid| has_open(*pid, numbers) && !is_ours(*pid));
    let mut found: Vec<String> = others
        .map(|pid| {
            let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
            format!("open in {} (process {pid})", harmless(&name).trim())
        })
        .collect();
    found.truncate(8);
    found
}

/// Only links into `/dev` are followed: a look at a file on a network that is gone would never end.
fn has_open(pid: u32, numbers: &BTreeSet<Number>) -> bool {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let devices = links.filter(|link| fs::read_link(link.path()).is_ok_and(|to| to.starts_with("/dev")));
    devices.filter_map(|link| number_of(&link.path())).any(|number| numbers.contains(&number))
}

/// Whether it is this process or one below it.
fn is_ours(pid: u32) -> bool {
    let parent = |pid: u32| {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()
    };
    std::iter::successors(Some(pid), |pid| parent(*pid)).take(64).any(|pid| pid == std::process::id())
}

/// Mounts by number, or, for file systems with numbers of their own, by the path of their source.
pub fn mounts(
    mountinfo: &str,
    numbers: &BTreeSet<Number>,
    number_of: impl Fn(&Path) -> Option<Number>,
) -> Vec<String> {
    let mut found = Vec::new();
    for line in mountinfo.lines() {
        let (front, back) = line.split_once(" - ").unwrap_or((line, ""));
        let mut fields = front.split(' ').skip(2);
        let own = fields.next().and_then(parse_number);
        let point = fields.nth(1).unwrap_or_default();
        let source = back.split(' ').nth(1).filter(|source| source.starts_with('/'));
        let below = source.and_then(|source| number_of(Path::new(source)));
        if [own, below].into_iter().flatten().any(|number| numbers.contains(&number)) {
            // Whoever mounted it has named it: nothing in it may move a terminal's cursor.
            let point: String = point.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
            found.push(format!("mounted at {point}"));
        }
    }
    found.truncate(8);
    found
}

fn swaps(
    swaps: &str,
    numbers: &BTreeSet<Number>,
    number_of: impl Fn(&Path) -> Option<Number>,
) -> Vec<String> {
    let paths = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let ours =
        paths.filter(|path| number_of(Path::new(path)).is_some_and(|number| numbers.contains(&number)));
    ours.map(|path| format!("swapped to as {path}")).collect()
}

/// Device mapper, LVM, RAID, bcache: devices made of this one.
fn holders(name: &str, number: Number) -> Vec<String> {
    let folder = folder_of(number).map(|folder| folder.join("holders"));
    let entries = folder.and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    entries.map(|entry| format!("{name} is part of {}", entry.file_name().to_string_lossy())).collect()
}

/// A loop device does not claim the device it lies on.
fn loops(numbers: &BTreeSet<Number>) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let backing = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        let below = number_of(Path::new(backing.trim_end_matches('\n')));
        if below.is_some_and(|number| numbers.contains(&number)) {
            found.push(format!("below {}", entry.file_name().to_string_lossy()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_path(path: &Path) -> Option<Number> {
        (path == Path::new("/dev/sdb2")).then_some((8, 18))
    }

    #[test]
    fn mounts_are_found_by_number_and_by_source() {
        let mountinfo = "29 1 8:17 / /data rw,noatime shared:1 - ext4 /dev/sdb1 rw\n\
                         30 1 0:45 /sub /pool rw - btrfs /dev/sdb2 rw\n\
                         31 1 8:33 / /other rw - ext4 /dev/sdc1 rw\n\
                         32 1 0:5 / /proc rw - proc proc rw\nbroken\n";
        let numbers = BTreeSet::from([(8, 16), (8, 17), (8, 18)]);
        assert_eq!(mounts(mountinfo, &numbers, by_path), ["mounted at /data", "mounted at /pool"]);
        assert!(mounts(mountinfo, &BTreeSet::from([(9, 0)]), by_path).is_empty());
    }

    #[test]
    fn swap_is_found() {
        let text = "Filename Type Size Used Priority\n/dev/sdb2 partition 1 0 -2\n/swapfile file 1 0 -3\n";
        assert_eq!(swaps(text, &BTreeSet::from([(8, 18)]), by_path), ["swapped to as /dev/sdb2"]);
    }

    #[test]
    fn this_process_and_its_children_are_ours_and_others_are_not() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(is_ours(std::process::id()) && is_ours(child.id()) && !is_ours(1));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn what_is_no_block_device_has_no_number() {
        assert_eq!(number_of(Path::new("/dev/null")), None);
        assert_eq!(number_of(Path::new("/etc/hostname")), None);
        assert_eq!(number_of(Path::new("/nonexistent")), None);
    }
}
