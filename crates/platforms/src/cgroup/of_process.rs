//! A process's cgroup as its files say it: which one holds it, with which weight and cap; and which limits on disks hold for it.

use std::fs;
use std::path::{Path, PathBuf};

use super::cpu::USUAL_SHARES;
use super::unified::mount_point;
use model::partition::{GivenGroupLimit, GivenIoLimit, GroupLimitKind, IoLimitKind};

/// From so many bytes on a limit on memory is none: version 1 says the largest number of pages there is.
const NO_MEMORY_LIMIT: u64 = 1 << 60;

/// What a process's cgroup says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct GroupFiles {
    /// Its folder; none for the root of all.
    pub path: Option<PathBuf>,
    /// Weight against its neighbours.
    pub weight: Option<u32>,
    /// Cap in percent of one CPU.
    pub cap_percent: Option<u32>,
}

/// A process's places in the hierarchies, from the text of `/proc/PID/cgroup`: paths without their first slash, none with `..` in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Places<'a> {
    /// In version 2.
    pub unified: Option<&'a str>,
    /// In the hierarchy of version 1 that has the `cpu` controller: its controllers, and the place.
    pub cpu: Option<(&'a str, &'a str)>,
    /// In the hierarchy of version 1 that has the `blkio` controller.
    pub blkio: Option<&'a str>,
    /// In the hierarchy of version 1 that has the `memory` controller.
    pub memory: Option<&'a str>,
    /// In the hierarchy of version 1 that has the `freezer` controller.
    pub freezer: Option<&'a str>,
}

impl<'a> Places<'a> {
    /// Those of this text.
    pub fn of(own: &'a str) -> Self {
        let mut all = Self::default();
        for line in own.lines().take(64) {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
            let below = path.trim_start_matches('/');
            if below.split('/').any(|part| part == "..") {
                continue;
            }
            if controllers.is_empty() {
                all.unified = Some(below);
            } else if controllers.split(',').any(|name| name == "cpu") {
                all.cpu = Some((controllers, below));
            } else {
                match controllers {
                    "blkio" => all.blkio = Some(below),
                    "memory" => all.memory = Some(below),
                    "freezer" => all.freezer = Some(below),
                    _ => {}
                }
            }
        }
        all
    }

    /// Where the hierarchy of version 1 with the `cpu` controller is mounted below `mount`.
    pub fn cpu_mount(&self, mount: &Path) -> Option<PathBuf> {
        let folders = [self.cpu?.0, "cpu", "cpu,cpuacct"].map(|folder| mount.join(folder));
        folders.into_iter().find(|folder| folder.join("cpu.shares").exists())
    }
}

/// What the cgroup of the process with this `/proc/PID/cgroup` says, with cgroups mounted below `mount`.
pub fn group_files(own: &str, mount: &Path) -> GroupFiles {
    let places = Places::of(own);
    let unified = places
        .unified
        .filter(|below| !below.is_empty())
        .and_then(|below| mount_point(mount).map(|mount| mount.join(below)).filter(|path| path.is_dir()));
    let cpu = places.cpu.filter(|(_, below)| !below.is_empty()).and_then(|(_, below)| {
        places
            .cpu_mount(mount)
            .map(|folder| folder.join(below))
            .filter(|path| path.join("cpu.shares").exists())
    });
    let path = unified.filter(|path| cpu.is_none() || path.join("cpu.weight").exists()).or(cpu);
    let (weight, cap_percent) = path.as_deref().map_or((None, None), |path| (weight_of(path), cap_of(path)));
    GroupFiles { path, weight, cap_percent }
}

fn said(folder: &Path, file: &str) -> Option<String> {
    fs::read_to_string(folder.join(file)).ok()
}

/// A group's weight, in either version.
fn weight_of(folder: &Path) -> Option<u32> {
    let shares = || said(folder, "cpu.shares").and_then(|text| weight(text.trim().parse().ok()?));
    said(folder, "cpu.weight").map_or_else(shares, |text| text.trim().parse().ok())
}

/// A group's own cap in percent of one CPU, in either version.
fn cap_of(folder: &Path) -> Option<u32> {
    let version_1 = || {
        let quota = said(folder, "cpu.cfs_quota_us").zip(said(folder, "cpu.cfs_period_us"));
        quota.and_then(|(quota, period)| percent(&quota, &period))
    };
    said(folder, "cpu.max").map_or_else(version_1, |text| {
        let (quota, period) = text.split_once(' ')?;
        percent(quota, period)
    })
}

/// A group's limit on memory, in either version; one that no machine has is none.
fn memory_of(folder: &Path) -> Option<u64> {
    let text = said(folder, "memory.max").or_else(|| said(folder, "memory.limit_in_bytes"))?;
    text.trim().parse().ok().filter(|limit| *limit < NO_MEMORY_LIMIT)
}

/// What groups set for a process, its threads and others that work for it, with these texts of `/proc/PID/cgroup` and
/// `/proc/PID/task/TID/cgroup`, that its own group's files ([`group_files`]) do not say: weights and caps of the groups above, those of a
/// group that a thread alone was put into, and limits on memory. Each holds for all that is below.
pub fn group_limits(own: &str, threads: &[String], mount: &Path) -> Vec<GivenGroupLimit> {
    let own_group = group_files(own, mount).path;
    let mut all: Vec<GivenGroupLimit> = Vec::new();
    let elsewhere = threads.iter().map(String::as_str).filter(|text| *text != own);
    for folder in [own].into_iter().chain(elsewhere).flat_map(|text| folders(text, mount)) {
        let is_own = own_group.as_ref() == Some(&folder);
        let time = [
            (GroupLimitKind::CpuWeight, weight_of(&folder)),
            (GroupLimitKind::CpuCapPercent, cap_of(&folder)),
        ];
        let time = time.into_iter().filter(|_| !is_own).map(|(what, value)| (what, value.map(u64::from)));
        for (what, value) in time.chain([(GroupLimitKind::MemoryBytes, memory_of(&folder))]) {
            let Some(value) = value else { continue };
            let limit = GivenGroupLimit { cgroup: folder.display().to_string(), what, value };
            if !all.contains(&limit) {
                all.push(limit);
            }
        }
    }
    all
}

/// The groups that hold a process or thread, of all hierarchies that set something of the above, from its own upwards, without the roots.
fn folders(own: &str, mount: &Path) -> Vec<PathBuf> {
    let places = Places::of(own);
    let tops = [
        mount_point(mount).zip(places.unified),
        places.cpu_mount(mount).zip(places.cpu.map(|(_, below)| below)),
        Some(mount.join("memory")).zip(places.memory),
    ];
    tops.into_iter().flatten().flat_map(|(top, below)| upwards(&top, below)).collect()
}

/// A group and all above it, without the root of the hierarchy, which limits nothing.
fn upwards(top: &Path, below: &str) -> Vec<PathBuf> {
    let group = top.join(below);
    group.ancestors().take(64).take_while(|folder| *folder != top).map(Path::to_path_buf).collect()
}

/// Whether somebody has frozen the group of the process with this `/proc/PID/cgroup`, or one above. Sources: the kernel's
/// `Documentation/admin-guide/cgroup-v2.rst` (`cgroup.events`) and `cgroup-v1/freezer-subsystem.rst`.
pub fn is_frozen(own: &str, mount: &Path) -> bool {
    let places = Places::of(own);
    let events = mount_point(mount)
        .zip(places.unified)
        .and_then(|(top, below)| said(&top.join(below), "cgroup.events"));
    let state = places.freezer.and_then(|below| said(&mount.join("freezer").join(below), "freezer.state"));
    events.is_some_and(|text| text.lines().any(|line| line == "frozen 1"))
        || state.is_some_and(|state| state.trim() != "THAWED")
}

/// Limits on disks that hold for the process with this `/proc/PID/cgroup`, and for threads and others that work for it with these, with
/// cgroups mounted below `mount`. Those of version 2 hold for all groups below, those of version 1 for what is in the group itself alone.
/// Sources: the kernel's `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1/blkio-controller.rst`.
pub fn io_limits(own: &str, others: &[String], mount: &Path) -> Vec<GivenIoLimit> {
    let mut all: Vec<GivenIoLimit> = Vec::new();
    let elsewhere = others.iter().map(String::as_str).filter(|text| *text != own);
    for limit in [own].into_iter().chain(elsewhere).flat_map(|text| io_limits_at(text, mount)) {
        if !all.contains(&limit) {
            all.push(limit);
        }
    }
    all
}

fn io_limits_at(own: &str, mount: &Path) -> Vec<GivenIoLimit> {
    let places = Places::of(own);
    let mut all = Vec::new();
    if let Some((top, below)) = mount_point(mount).zip(places.unified) {
        let of = |folder: &Path| -> Vec<GivenIoLimit> {
            lines(folder, "io.max").flat_map(|line| limits_of_line(folder, &line)).collect()
        };
        all.extend(upwards(&top, below).iter().flat_map(|folder| of(folder)));
    }
    if let Some(below) = places.blkio {
        let folder = &mount.join("blkio").join(below);
        all.extend(IoLimitKind::ALL.iter().flat_map(|what| limits_of_version_1(folder, *what)));
    }
    all
}

/// Of a file that the kernel keeps.
fn lines(folder: &Path, file: &str) -> impl Iterator<Item = String> {
    let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
    text.lines().map(ToOwned::to_owned).collect::<Vec<_>>().into_iter()
}

fn io_limit(folder: &Path, device: &str, what: IoLimitKind, most: &str) -> Option<GivenIoLimit> {
    let cgroup = folder.display().to_string();
    Some(GivenIoLimit { cgroup, device: device.to_owned(), what, most_per_s: most.parse().ok()? })
}

/// `8:0 rbps=1000 wbps=max`: what is `max` is no limit.
fn limits_of_line(folder: &Path, line: &str) -> Vec<GivenIoLimit> {
    let mut words = line.split_ascii_whitespace();
    let device = words.next().unwrap_or_default();
    let limit = |word: &str| {
        let (name, most) = word.split_once('=')?;
        let what = IoLimitKind::ALL.into_iter().find(|kind| kind.as_str() == name)?;
        io_limit(folder, device, what, most)
    };
    words.filter_map(limit).collect()
}

fn limits_of_version_1(folder: &Path, what: IoLimitKind) -> Vec<GivenIoLimit> {
    let file = match what {
        IoLimitKind::Rbps => "blkio.throttle.read_bps_device",
        IoLimitKind::Wbps => "blkio.throttle.write_bps_device",
        IoLimitKind::Riops => "blkio.throttle.read_iops_device",
        IoLimitKind::Wiops => "blkio.throttle.write_iops_device",
    };
    let limit = |line: String| {
        let (device, most) = line.split_once(' ')?;
        io_limit(folder, device, what, most)
    };
    lines(folder, file).filter_map(limit).collect()
}

/// The weight that was written as these shares: a weight times 10.24, rounded down.
fn weight(shares: u64) -> Option<u32> {
    u32::try_from(shares.saturating_mul(100).div_ceil(USUAL_SHARES)).ok()
}

/// `max` and `-1` are no cap.
fn percent(quota: &str, period: &str) -> Option<u32> {
    let (quota, period) = (quota.trim().parse::<u64>().ok()?, period.trim().parse::<u64>().ok()?);
    u32::try_from(quota.saturating_mul(100).checked_div(period)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::CpuLimits;

    fn put(folder: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
    }

    #[test]
    fn both_versions_are_read() {
        let mount = tempfile::tempdir().unwrap();
        let (one, two) = (mount.path().join("cpu/a"), mount.path().join("unified/b"));
        put(&mount.path().join("cpu"), &[("cpu.shares", "1024\n")]);
        put(
            &one,
            &[("cpu.shares", "2048\n"), ("cpu.cfs_quota_us", "150000\n"), ("cpu.cfs_period_us", "100000\n")],
        );
        put(&mount.path().join("unified"), &[("cgroup.controllers", "")]);
        put(&two, &[("cgroup.procs", "")]);
        let own = "4:memory:/z\n1:cpu:/a\n0::/b\n";
        let wanted = GroupFiles { path: Some(one), weight: Some(200), cap_percent: Some(150) };
        assert_eq!(group_files(own, mount.path()), wanted);
        put(&two, &[("cpu.weight", "77\n"), ("cpu.max", "max 100000\n")]);
        let wanted = GroupFiles { path: Some(two), weight: Some(77), cap_percent: None };
        assert_eq!(group_files(own, mount.path()), wanted);
        assert_eq!(group_files("1:cpu:/\n0::/\n", mount.path()), GroupFiles::default());
        assert_eq!(group_files("0::/../b\n", mount.path()), GroupFiles::default());
    }

    #[test]
    fn limits_on_disks_are_those_of_all_groups_above_or_of_the_own_one() {
        let mount = tempfile::tempdir().unwrap();
        let unified = mount.path().join("unified");
        put(&unified, &[("cgroup.controllers", "io")]);
        put(&unified.join("a"), &[("io.max", "8:0 rbps=max wbps=5 riops=max wiops=max\n")]);
        put(&unified.join("a/b"), &[("io.max", "7:0 rbps=1 wbps=max riops=2 wiops=max\nrubbish\n")]);
        put(&mount.path().join("blkio/c"), &[("blkio.throttle.read_bps_device", "8:0 9\n8:16 x\n")]);
        put(&mount.path().join("blkio"), &[("blkio.throttle.write_iops_device", "8:0 3\n")]);
        let said = |own: &str| {
            let words =
                |one: GivenIoLimit| format!("{} {} {}", one.device, one.what.as_str(), one.most_per_s);
            let others = ["7:blkio:/c\n".to_owned(), own.to_owned()];
            let of = |others: &[String]| -> Vec<String> {
                io_limits(own, others, mount.path()).into_iter().map(words).collect()
            };
            let alone = of(&[]);
            assert_eq!(of(&others[1..]), alone, "what is where it is adds nothing");
            let with_others = of(&others);
            let is_there = alone.iter().any(|limit| limit == "8:0 rbps 9");
            assert_eq!(with_others.len(), alone.len() + usize::from(!is_there), "{with_others:?}");
            assert!(with_others.iter().any(|limit| limit == "8:0 rbps 9"), "{with_others:?}");
            alone
        };
        assert_eq!(said("7:blkio:/c\n0::/a/b\n"), ["7:0 rbps 1", "7:0 riops 2", "8:0 wbps 5", "8:0 rbps 9"]);
        assert_eq!(said("7:blkio:/\n0::/\n"), ["8:0 wiops 3"]);
        assert_eq!(said("0::/../a\n"), Vec::<String>::new());
    }

    #[test]
    fn groups_above_and_those_of_threads_limit_as_well() {
        let mount = tempfile::tempdir().unwrap();
        let (cpu, memory) = (mount.path().join("cpu"), mount.path().join("memory"));
        let cap =
            |quota| [("cpu.shares", "1024"), ("cpu.cfs_quota_us", quota), ("cpu.cfs_period_us", "100000")];
        put(&cpu, &cap("-1"));
        put(&cpu.join("slice"), &cap("10000"));
        put(&cpu.join("slice/own"), &cap("50000"));
        put(&cpu.join("slice/thread"), &cap("20000"));
        put(&memory.join("m"), &[("memory.limit_in_bytes", "9223372036854771712\n")]);
        put(&memory.join("m/n"), &[("memory.limit_in_bytes", "4096\n")]);
        let unified = mount.path().join("unified");
        put(&unified, &[("cgroup.controllers", "cpu")]);
        put(
            &unified.join("a"),
            &[("cpu.weight", "7\n"), ("cpu.max", "max 100000\n"), ("memory.max", "max\n")],
        );
        put(&unified.join("a/b"), &[("memory.max", "8192\n"), ("cgroup.events", "populated 1\nfrozen 0\n")]);
        let told = |own: &str, threads: &[&str]| -> Vec<String> {
            let threads: Vec<String> = threads.iter().map(|text| (*text).to_owned()).collect();
            let all = group_limits(own, &threads, mount.path()).into_iter();
            let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
            all.map(|one| format!("{} {} {}", name(&one.cgroup), one.what.as_str(), one.value)).collect()
        };
        let own = "4:memory:/m/n\n1:cpu:/slice/own\n";
        let above = ["slice cpu_weight 100", "slice cpu_cap_percent 10", "n memory_bytes 4096"];
        assert_eq!(told(own, &[own]), above, "what its own group says is told elsewhere");
        let put_elsewhere = told(own, &["4:memory:/m/n\n1:cpu:/slice/thread\n"]);
        assert_eq!(
            put_elsewhere,
            [&above[..], &["thread cpu_weight 100", "thread cpu_cap_percent 20"]].concat()
        );
        assert_eq!(told("0::/a/b\n", &[]), ["b memory_bytes 8192", "a cpu_weight 7"]);
        assert_eq!(told("1:cpu:/\n0::/\n", &[]), Vec::<String>::new());
    }

    #[test]
    fn a_group_that_somebody_froze_is_told_in_both_versions() {
        let mount = tempfile::tempdir().unwrap();
        let (unified, freezer) = (mount.path().join("unified"), mount.path().join("freezer"));
        put(&unified, &[("cgroup.controllers", "cpu")]);
        put(&unified.join("a"), &[("cgroup.events", "populated 1\nfrozen 1\n")]);
        put(&unified.join("b"), &[("cgroup.events", "populated 1\nfrozen 0\n")]);
        put(&freezer.join("c"), &[("freezer.state", "FROZEN\n")]);
        put(&freezer.join("d"), &[("freezer.state", "THAWED\n")]);
        let told =
            ["0::/a\n", "0::/b\n", "9:freezer:/c\n0::/b\n", "9:freezer:/d\n0::/b\n", "9:freezer:/\n0::/\n"];
        assert_eq!(told.map(|own| is_frozen(own, mount.path())), [true, false, true, false, false]);
    }

    #[test]
    fn every_weight_comes_back_from_its_shares() {
        for wanted in 1..=10_000 {
            let limits = CpuLimits { weight: Some(wanted), cap_percent: None };
            assert_eq!(limits.shares().and_then(weight), Some(wanted));
        }
    }
}
