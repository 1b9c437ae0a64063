//! What a container sees of `/sys`, and what of `/proc` and `/sys` is hidden from it or read-only.
//!
//! ```text
//!  without users of its own   a sysfs of its own, read-only, as Docker and Podman give: nothing is mounted in it
//!  with users of its own      its root is read-only and holds empty folders; in them, each read-only, what probes read:
//!                               /sys/devices/system        CPUs, caches, nodes, clocks
//!                               /sys/class/dmi/id          whose machine it is, if it says so
//!                               /sys/hypervisor
//!                               /sys/dev/block, and below /sys/devices the disk that its files lie on
//! ```
//! A user namespace may mount a sysfs only where the host's is covered nowhere, which nested hosts are not; and where it may
//! not, crun shows the host's own instead, with all that is mounted there, without a word. So none is asked for.
//!
//! Hidden is what Docker and Podman hide (moby's `oci/defaults.go`; for Podman what its containers show), but for
//! `/proc/interrupts`: probes read there which interrupts hit them, and its figures are those of the whole host, natively and in
//! every container alike.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::stat::{major, minor};
use serde_json::{Value, json};

use crate::wall::mount_points;

/// What nobody in a container has to know.
const HIDDEN: [&str; 12] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/fs/selinux",
];
/// What nobody in a container has to change.
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];
/// What probes read of `/sys`.
const READ_BY_PROBES: [&str; 3] = ["/sys/devices/system", "/sys/class/dmi/id", "/sys/hypervisor"];
/// By number, links to the disks below `/sys/devices`.
const DISKS_BY_NUMBER: &str = "/sys/dev/block";
const CPUS: &str = "/sys/devices/system/cpu";

/// Paths to hide.
pub fn hidden() -> Vec<String> {
    // When a CPU was throttled tells its neighbours what runs there.
    let cpus = fs::read_dir(CPUS).into_iter().flatten().flatten();
    let throttles = cpus.map(|entry| entry.path().join("thermal_throttle")).filter(|path| path.is_dir());
    let mut throttles: Vec<String> = throttles.map(|path| path.to_string_lossy().into_owned()).collect();
    throttles.sort();
    HIDDEN.iter().map(|path| (*path).to_owned()).chain(throttles).collect()
}

/// Paths that are read-only.
pub const fn read_only() -> [&'static str; 5] {
    READ_ONLY
}

/// What is shown to a container with users of its own, whose files lie in the folder `scratch` of this host.
pub fn shown(scratch: &Path) -> Vec<PathBuf> {
    let usual = READ_BY_PROBES.iter().map(PathBuf::from).filter(|path| path.is_dir());
    let disk = disk_of(scratch).map(|disk| [PathBuf::from(DISKS_BY_NUMBER), disk]);
    usual.chain(disk.into_iter().flatten()).collect()
}

/// The whole disk that a folder lies on, as `/sys` describes it; none where its file system is on no single one.
fn disk_of(folder: &Path) -> Option<PathBuf> {
    let number = fs::metadata(folder).ok()?.dev();
    let link = Path::new(DISKS_BY_NUMBER).join(format!("{}:{}", major(number), minor(number)));
    let own = fs::canonicalize(link).ok()?;
    if own.join("partition").exists() { own.parent().map(Path::to_path_buf) } else { Some(own) }
}

/// The mounts that show these.
pub fn mounts(shown: &[PathBuf]) -> Vec<Value> {
    let table = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let points: Vec<PathBuf> = mount_points(&table).collect();
    let is_below = |path: &Path| points.iter().any(|point| point != path && point.starts_with(path));
    shown.iter().map(|path| mount(path, is_below(path))).collect()
}

/// A place below `/sys` at which something is mounted in a container though nothing was asked for there, in its mounts as
/// `/proc/PID/mountinfo` tells them.
pub fn unasked(table: &[u8], has_user_namespace: bool) -> Option<PathBuf> {
    let hidden = hidden();
    let is_asked = |point: &Path| {
        let is_shown = READ_BY_PROBES.iter().any(|known| point.starts_with(known))
            || point == Path::new(DISKS_BY_NUMBER)
            || (point.starts_with("/sys/devices") && is_of_disks(point));
        let is_hidden = hidden.iter().any(|known| point == Path::new(known));
        is_hidden || if has_user_namespace { is_shown } else { point == Path::new("/sys") }
    };
    mount_points(table).find(|point| point.starts_with("/sys") && !is_asked(point))
}

fn is_of_disks(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "block")
}

/// Where something is mounted below, which a user namespace may not look under, that comes along and is read-only, too.
fn mount(path: &Path, with_all_below: bool) -> Value {
    let manner: &[&str] = if with_all_below { &["rbind", "rro"] } else { &["bind"] };
    let options: Vec<&str> = manner.iter().copied().chain(["nosuid", "noexec", "nodev", "ro"]).collect();
    let path = path.to_string_lossy();
    json!({ "destination": path, "type": "none", "source": path, "options": options })
}

/// The sysfs of a container without users of its own.
pub fn whole() -> Value {
    json!({ "destination": "/sys", "type": "sysfs", "source": "sysfs",
            "options": ["nosuid", "noexec", "nodev", "ro"] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_only_with_all_below() {
        let options = |mount: &Value| mount["options"].as_array().cloned().unwrap_or_default();
        let alone = mount(Path::new("/sys/devices/system"), false);
        assert_eq!(alone["source"], alone["destination"]);
        assert!(options(&alone).contains(&json!("ro")) && options(&alone).contains(&json!("bind")));
        let with_mounts = options(&mount(Path::new("/sys/devices/system"), true));
        assert!(with_mounts.contains(&json!("rbind")) && with_mounts.contains(&json!("rro")));
    }

    #[test]
    fn nothing_is_shown_but_what_probes_read() {
        let shown = shown(Path::new("/"));
        assert!(shown.contains(&PathBuf::from("/sys/devices/system")), "{shown:?}");
        for path in &shown {
            let line = format!("7 6 0:22 /x {} ro - sysfs sysfs rw", path.display());
            assert_eq!(unasked(line.as_bytes(), true), None, "{line}");
        }
    }

    /// What crun makes of a sysfs that it may not mount.
    #[test]
    fn the_hosts_own_sys_is_told_from_one_that_was_asked_for() {
        let own = b"5 1 0:50 / /sys ro - sysfs sysfs rw\n6 5 0:51 / /sys/firmware ro - tmpfs tmpfs ro\n\
                    7 1 0:52 / /system rw - tmpfs x rw\n";
        assert_eq!((unasked(own, false), unasked(own, true)), (None, Some("/sys".into())));
        let hosts = b"5 1 0:22 / /sys ro - sysfs sysfs rw\n6 5 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n";
        assert_eq!(unasked(hosts, false), Some("/sys/fs/cgroup".into()));
    }
}
