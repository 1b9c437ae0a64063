//! The wall around a partition's process: a cgroup of version 2 with CPUs, memory nodes, weight, cap, memory and disks.
//!
//! ```text
//!  resources ─► settings ─► which controllers can be had here? ─► ledger ─► mkdir bulkhead-… ─► write ─► read back
//!                             └─ none for a weight or a cap ─► version 1 ─► neither: an error before anything is made
//! ```
//! Threads' affinity, QEMU's memory policy and its throttles hold a partition already; the group holds QEMU as a whole,
//! whatever it does. So a controller that cannot be had is a remark, except where nothing else does the same: weight and
//! cap. Source: the kernel's `Documentation/admin-guide/cgroup-v2.rst`.
//!
//! Controllers that are handed down from the root for a partition stay so: other groups may use them by then.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use nix::sys::stat::{major, minor};
use nix::unistd::{AccessFlags, access};

use model::partition::{DiskSpec, NumberList, Priority, Resources};
use platforms::cgroup_folder::CgroupFolder;
use platforms::cpu_group::CpuLimits;
use platforms::ledger::Ledger;
use units::Bytes;

/// QEMU itself: its code, its devices, the stacks of its threads, what it reads ahead.
const QEMU_BYTES: u64 = 256 << 20;
/// Most that QEMU's translator keeps of translated code; less on hosts with less than 8 GiB.
const MOST_TRANSLATED_BYTES: u64 = 1 << 30;

/// A file of a group and what is to be written to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Controller that has the file.
    pub controller: &'static str,
    /// The file.
    pub file: &'static str,
    /// What is written.
    pub value: String,
    /// The file in which the kernel says what holds, where that is another one.
    pub shown_in: &'static str,
}

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
    let mut add = |controller, file, value: String, shown_in| {
        all.push(Setting { controller, file, value, shown_in });
    };
    // In real time QEMU's own threads must get at other CPUs than those that never yield.
    let is_realtime = matches!(asked.priority, Priority::Realtime(_));
    if let Some(cpus) = asked.pin.as_ref().or(node_cpus).filter(|_| !is_realtime) {
        add("cpuset", "cpuset.cpus", cpus.to_string(), "cpuset.cpus.effective");
    }
    if let Some(node) = asked.node {
        add("cpuset", "cpuset.mems", node.to_string(), "cpuset.mems.effective");
    }
    let limits = CpuLimits { weight: asked.cpu_weight, cap_percent: asked.cpu_cap_percent };
    if let Some(weight) = limits.weight {
        add("cpu", "cpu.weight", weight.to_string(), "cpu.weight");
    }
    if let Some((quota, period)) = limits.quota_and_period_us() {
        add("cpu", "cpu.max", format!("{quota} {period}"), "cpu.max");
    }
    let memory = asked.memory.to_bytes().get().saturating_add(overhead(host_memory).get());
    add("memory", "memory.max", memory.to_string(), "memory.max");
    for (device, (bytes, operations)) in device_limits(disks) {
        let each = |limit: Option<u64>, names: [&str; 2]| {
            limit.map(|limit| names.map(|name| format!(" {name}={limit}")).concat()).unwrap_or_default()
        };
        let value =
            format!("{device}{}{}", each(bytes, ["rbps", "wbps"]), each(operations, ["riops", "wiops"]));
        add("io", "io.max", value, "io.max");
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

/// Where version 2 is mounted: alone, or beside version 1.
pub fn mount_point(mount: &Path) -> Option<PathBuf> {
    [mount.to_owned(), mount.join("unified")]
        .into_iter()
        .find(|path| path.join("cgroup.controllers").exists())
}

/// This program's own group in version 2, from the text of `/proc/self/cgroup`.
fn own_group(own: &str) -> Option<&str> {
    let below = own.lines().take(64).find_map(|line| line.strip_prefix("0::/"))?;
    (!below.split('/').any(|part| part == "..")).then_some(below)
}

fn names(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.split_whitespace().map(ToOwned::to_owned).collect()
}

/// The folder in which the group is made, and which of the wanted controllers its groups have. From this program's own
/// group upwards the first that hands most of them down; the root hands down what it can when `enable` is set, and is
/// taken to be able to otherwise.
pub fn home(
    mount: &Path,
    own: &str,
    wanted: &[&'static str],
    enable: bool,
) -> Option<(PathBuf, Vec<&'static str>)> {
    let start = mount.join(own_group(own)?);
    let mut best: Option<(PathBuf, Vec<&'static str>)> = None;
    for folder in start.ancestors().take(64).filter(|folder| folder.starts_with(mount) && folder.is_dir()) {
        let mut usable = handed_down(folder, wanted);
        if folder == mount && usable.len() < wanted.len() {
            usable = at_the_root(mount, wanted, enable);
        }
        let may_write = access(folder, AccessFlags::W_OK | AccessFlags::X_OK).is_ok();
        if may_write && best.as_ref().is_none_or(|(_, have)| usable.len() > have.len()) {
            best = Some((folder.to_owned(), usable));
        }
    }
    best.filter(|(_, usable)| !usable.is_empty())
}

fn handed_down(folder: &Path, wanted: &[&'static str]) -> Vec<&'static str> {
    let have = names(&folder.join("cgroup.subtree_control"));
    wanted.iter().copied().filter(|name| have.iter().any(|one| one == name)).collect()
}

/// The root may hold processes and hand controllers down at once; service managers do the same.
fn at_the_root(mount: &Path, wanted: &[&'static str], enable: bool) -> Vec<&'static str> {
    let file = mount.join("cgroup.subtree_control");
    let there = names(&mount.join("cgroup.controllers"));
    let can = |name: &&'static str| there.iter().any(|one| one == name);
    if !enable {
        let may_write = access(&file, AccessFlags::W_OK).is_ok();
        let already = handed_down(mount, wanted);
        return wanted
            .iter()
            .copied()
            .filter(|name| already.contains(name) || (may_write && can(name)))
            .collect();
    }
    for name in wanted.iter().filter(|name| can(name)) {
        // Each by itself: one that cannot be had must not keep the others away. What holds is read afterwards.
        let _ = fs::write(&file, format!("+{name}"));
    }
    handed_down(mount, wanted)
}

/// A group of version 2; removed when dropped, after its processes have ended.
#[derive(Debug)]
pub struct Group2(CgroupFolder);

impl Group2 {
    /// Makes a group below `parent` and lets it hold `settings`.
    ///
    /// # Errors
    /// It cannot be made, or the kernel does not hold what was written.
    pub fn create(parent: &Path, settings: &[Setting], ledger: &Ledger) -> Result<Self, String> {
        let group = CgroupFolder::make(parent, ledger).map_err(|error| format!("cgroup: {error}"))?;
        let path = group.path();
        let failed =
            |what: &str, error: io::Error| format!("cgroup: cannot {what} {}: {error}", path.display());
        for setting in settings {
            fs::write(path.join(setting.file), &setting.value).map_err(|error| {
                failed(&format!("write \"{}\" to {} of", setting.value, setting.file), error)
            })?;
        }
        for setting in settings {
            let shown = fs::read_to_string(path.join(setting.shown_in))
                .map_err(|error| failed(&format!("read {} of", setting.shown_in), error))?;
            if !holds(setting, &shown) {
                return Err(format!(
                    "cgroup: wanted {} \"{}\" of {}, the kernel holds \"{}\": a group above it allows no more",
                    setting.file,
                    setting.value,
                    path.display(),
                    shown.trim()
                ));
            }
        }
        Ok(Self(group))
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Whether the kernel's words hold the setting. `io.max` has a line per device, with every limit in it.
fn holds(setting: &Setting, shown: &str) -> bool {
    if setting.file != "io.max" {
        return shown.trim() == setting.value;
    }
    let mut wanted = setting.value.split_whitespace();
    let device = wanted.next();
    let line = shown.lines().find(|line| line.split_whitespace().next() == device);
    line.is_some_and(|line| wanted.all(|limit| line.split_whitespace().any(|word| word == limit)))
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

    fn put(folder: &Path, subtree: &str) {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("cgroup.controllers"), "cpuset cpu io memory\n").unwrap();
        fs::write(folder.join("cgroup.subtree_control"), subtree).unwrap();
    }

    #[test]
    fn the_nearest_group_that_hands_most_down_is_the_home() {
        let folder = tempfile::tempdir().unwrap();
        let mount = folder.path();
        assert_eq!(mount_point(mount), None);
        put(mount, "memory\n");
        put(&mount.join("a"), "cpu memory\n");
        put(&mount.join("a/b"), "");
        assert_eq!(mount_point(mount).unwrap(), mount);
        let found = |own: &str, wanted: &[&'static str]| home(mount, own, wanted, false);
        assert_eq!(found("0::/a/b\n", &["cpu", "memory"]), Some((mount.join("a"), vec!["cpu", "memory"])));
        let all = ["cpuset", "cpu", "memory"];
        assert_eq!(
            found("0::/a/b\n", &all),
            Some((mount.to_owned(), all.to_vec())),
            "the root can hand all down"
        );
        assert_eq!(found("0::/\n", &["hugetlb"]), None);
        assert_eq!(found("0::/../x\n", &["cpu"]), None);
        assert_eq!(found("1:cpu:/\n", &["cpu"]), None);
    }

    #[test]
    fn what_the_kernel_holds_is_compared() {
        let setting =
            |file, value: &str| Setting { controller: "", file, value: value.to_owned(), shown_in: file };
        assert!(holds(&setting("cpu.weight", "50"), "50\n"));
        assert!(!holds(&setting("cpuset.cpus", "0-3"), "0-1\n"));
        let io = setting("io.max", "8:0 rbps=5 wbps=5");
        assert!(holds(&io, "7:0 rbps=5 wbps=5 riops=max wiops=max\n8:0 rbps=5 wbps=5 riops=max wiops=max\n"));
        assert!(!holds(&io, "8:0 rbps=5 wbps=max riops=max wiops=max\n"));
        assert!(!holds(&io, "7:0 rbps=5 wbps=5\n"));
    }

    #[test]
    fn a_group_is_written_down_before_it_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(folder.path()).unwrap();
        let nowhere = folder.path().join("none");
        let error = Group2::create(&nowhere, &[], &ledger).unwrap_err();
        assert!(error.contains("cannot make"), "{error}");
        let text = fs::read_to_string(folder.path().join(platforms::ledger::FILE_NAME)).unwrap();
        assert!(text.contains("cgroup") && text.contains("undone"), "{text}");
    }
}
