//! What a partition's cgroup of version 2 is to hold: CPUs, memory nodes, weight, cap, memory and disks.
//!
//! Threads' affinity, QEMU's memory policy and its throttles hold a partition already; the group holds QEMU as a whole,
//! whatever it does. So a controller that cannot be had is a remark, except where nothing else does the same: weight and
//! cap. Source: the kernel's `Documentation/admin-guide/cgroup-v2.rst`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use nix::sys::stat::{major, minor};

use model::partition::{DiskSpec, NumberList, Priority, Resources};
use platforms::cgroup::{CpuLimits, Setting};
use units::Bytes;

/// QEMU itself: its code, its devices, the stacks of its threads, what it reads ahead.
const QEMU_BYTES: u64 = 256 << 20;
/// Most that QEMU's translator keeps of translated code; less on hosts with less than 8 GiB.
const MOST_TRANSLATED_BYTES: u64 = 1 << 30;

/// Memory that QEMU may take beside that of the guest: 256 MiB, and for translated code an eighth of the host's memory,
/// 1 GiB at most.
pub fn overhead(host_memory: Bytes) -> Bytes {
    // Whole MiB: the kernel counts in pages, and shows what it rounded.
    let translated = (host_memory.get() / 8).min(MOST_TRANSLATED_BYTES) >> 20 << 20;
    Bytes::from_bytes(QEMU_BYTES + translated)
}

/// What a partition's group is to hold. `node_cpus` are those of the node that was asked for, where no CPUs were named.
pub fn settings(
    asked: &Resources,
    node_cpus: Option<&NumberList>,
    disks: &[DiskSpec],
    host_memory: Bytes,
) -> Vec<Setting> {
    let mut all = Vec::new();
    // In real time QEMU's own threads must get at other CPUs than those that never yield.
    let is_realtime = matches!(asked.priority, Priority::Realtime(_));
    if let Some(cpus) = asked.pin.as_ref().or(node_cpus).filter(|_| !is_realtime) {
        all.push(Setting {
            shown_in: "cpuset.cpus.effective",
            ..Setting::new("cpuset", "cpuset.cpus", cpus.to_string())
        });
    }
    if let Some(node) = asked.node {
        all.push(Setting {
            shown_in: "cpuset.mems.effective",
            ..Setting::new("cpuset", "cpuset.mems", node.to_string())
        });
    }
    let limits = CpuLimits { weight: asked.cpu_weight, cap_percent: asked.cpu_cap_percent };
    all.extend(limits.settings());
    let memory = asked.memory.to_bytes().get().saturating_add(overhead(host_memory).get());
    all.push(Setting::new("memory", "memory.max", memory.to_string()));
    for (device, (bytes, operations)) in device_limits(disks) {
        let each = |limit: Option<u64>, names: [&str; 2]| {
            limit.map(|limit| names.map(|name| format!(" {name}={limit}")).concat()).unwrap_or_default()
        };
        let value =
            format!("{device}{}{}", each(bytes, ["rbps", "wbps"]), each(operations, ["riops", "wiops"]));
        all.push(Setting::new("io", "io.max", value));
    }
    all
}

/// Limits per whole block device, as `major:minor`. QEMU's throttle counts reads and writes together; the kernel's counts
/// them apart, so it is the looser wall around it. Disks that are files have QEMU's alone.
fn device_limits(disks: &[DiskSpec]) -> BTreeMap<String, (Option<u64>, Option<u64>)> {
    let mut all = BTreeMap::new();
    for disk in disks.iter().filter(|disk| disk.bytes_per_s.is_some() || disk.operations_per_s.is_some()) {
        let Some(device) = whole_device(&disk.file) else { continue };
        let entry = all.entry(device).or_insert((Some(0), Some(0)));
        let sum = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other?));
        *entry = (sum(entry.0, disk.bytes_per_s.map(Bytes::get)), sum(entry.1, disk.operations_per_s));
    }
    all
}

/// The device a partition lies on, which is the one that limits are for.
fn whole_device(file: &Path) -> Option<String> {
    let data = fs::metadata(file).ok().filter(|data| data.file_type().is_block_device())?;
    let number = format!("{}:{}", major(data.rdev()), minor(data.rdev()));
    let folder = fs::canonicalize(format!("/sys/dev/block/{number}")).ok()?;
    if !folder.join("partition").exists() {
        return Some(number);
    }
    fs::read_to_string(folder.parent()?.join("dev")).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Mebibytes;

    const HOST: Bytes = Bytes::from_bytes(4 << 30);

    fn asked() -> Resources {
        let mut asked = Resources::usual(2, Mebibytes::from_mib(64));
        (asked.node, asked.cpu_weight, asked.cpu_cap_percent) = (Some(1), Some(50), Some(150));
        asked
    }

    fn lines(asked: &Resources, disks: &[DiskSpec]) -> Vec<String> {
        let node = "4-7".parse().unwrap();
        let all = settings(asked, Some(&node), disks, HOST);
        all.into_iter().map(|one| format!("{}={}", one.file, one.value)).collect()
    }

    #[test]
    fn resources_become_files() {
        let memory = format!("memory.max={}", (64 + 256 + 512) << 20);
        let wanted = ["cpuset.cpus=4-7", "cpuset.mems=1", "cpu.weight=50", "cpu.max=150000 100000", &memory];
        assert_eq!(lines(&asked(), &[]), wanted);
        let mut hard = asked();
        hard.priority = Priority::Realtime(5);
        assert!(
            lines(&hard, &[]).iter().all(|line| !line.starts_with("cpuset.cpus")),
            "room for qemu's own threads"
        );
        let file = DiskSpec {
            file: "/etc/hostname".into(),
            read_only: true,
            bytes_per_s: Some(Bytes::from_bytes(1)),
            operations_per_s: None,
        };
        assert_eq!(lines(&asked(), &[file]).len(), 5, "a file is no device");
        assert_eq!(overhead(Bytes::from_bytes(1 << 40)).get(), (256 + 1024) << 20);
        assert_eq!(overhead(Bytes::from_bytes((4 << 30) - 512)).get(), (256 + 511) << 20, "in whole pages");
    }
}
