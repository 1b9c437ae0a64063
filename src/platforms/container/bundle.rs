//! The bundle of a container: a root file system that holds one static binary, and `config.json` as the OCI runtime
//! specification 1.0.2 wants it (<https://github.com/opencontainers/runtime-spec/blob/v1.0.2/config.md>).
//!
//! ```text
//!  RUN/bulkhead-…/config.json
//!                 rootfs/bulkhead        read-only
//!                 rootfs/{proc,dev,sys,tmp,scratch}
//!                 state/                 the runtime's --root
//! ```

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use nix::unistd::{getegid, geteuid};
use serde_json::{Value, json};

use super::runtime::Cgroups;
use crate::platforms::cpu_group::CpuLimits;
use crate::platforms::native::Executable;

/// Name of the host's folder inside: where the disk probe writes.
pub const SCRATCH: &str = "/scratch";
/// What a process in a container may do by default; the same set as Docker's.
const CAPABILITIES: [&str; 14] = [
    "CAP_AUDIT_WRITE",
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_MKNOD",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_RAW",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
];

/// What a container is made of.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Name of the container.
    pub id: &'a str,
    /// Folder on the host that appears as [`SCRATCH`].
    pub scratch: &'a Path,
    /// Whether it gets a cgroup of its own.
    pub cgroups: Cgroups,
    /// CPUs it is held to, `0,1`; unset means no limit.
    pub cpus: Option<&'a str>,
    /// Weight and cap of its CPU group.
    pub limits: CpuLimits,
    /// Network namespace it runs in; unset means an empty one of its own.
    pub network: Option<&'a Path>,
    /// Block device that it may read and write, with its number: used instead of the folder.
    pub device: Option<(&'a Path, (u64, u64))>,
    /// Whether the host has cgroup version 2 only.
    pub unified_cgroups: bool,
}

/// Whether this process is root; otherwise containers get a user namespace.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// Writes the bundle into the empty folder `dir`.
pub fn write(dir: &Path, executable: &Executable, wanted: &Wanted<'_>) -> io::Result<()> {
    let root = dir.join("rootfs");
    for folder in ["proc", "dev", "sys", "tmp", "scratch"] {
        fs::create_dir_all(root.join(folder))?;
    }
    // A sweep uses it only if nobody else can have written there.
    fs::DirBuilder::new().mode(0o700).create(dir.join("state"))?;
    place_binary(executable, &root.join("bulkhead"))?;
    fs::write(dir.join("config.json"), serde_json::to_vec_pretty(&config(wanted))?)
}

/// A hard link where the file systems allow one, else a copy.
fn place_binary(executable: &Executable, target: &Path) -> io::Result<()> {
    // The real path: linking through /proc is only allowed to the privileged.
    let real = fs::read_link(executable.path()).unwrap_or_else(|_| executable.path());
    if executable.is_at(&real) && fs::hard_link(&real, target).is_ok() {
        return Ok(());
    }
    fs::copy(executable.path(), target)?;
    let executable_by_all = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    fs::set_permissions(target, executable_by_all)
}

/// The configuration.
pub fn config(wanted: &Wanted<'_>) -> Value {
    let place = wanted.device.map_or_else(|| SCRATCH.to_owned(), |(path, _)| inside(path));
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false,
            "user": { "uid": 0, "gid": 0 },
            "args": ["/bulkhead", "agent", "--link", "stdio", "--scratch", place],
            "env": ["PATH=/"],
            "cwd": "/",
            "noNewPrivileges": true,
            "capabilities": {
                "bounding": CAPABILITIES, "effective": CAPABILITIES, "permitted": CAPABILITIES
            },
        },
        "root": { "path": "rootfs", "readonly": true },
        "hostname": "bulkhead",
        "mounts": mounts(wanted.scratch),
        "linux": linux(wanted),
    })
}

/// Where a device of the host is inside, under its own name.
fn inside(device: &Path) -> String {
    format!("/dev/{}", device.file_name().unwrap_or_default().to_string_lossy())
}

fn mounts(scratch: &Path) -> Value {
    // A user namespace may only mount a fresh sysfs under conditions that nested hosts do not meet; the host's own,
    // read-only, shows the same CPUs and caches.
    let sys = if is_root() {
        json!({ "destination": "/sys", "type": "sysfs", "source": "sysfs",
                "options": ["nosuid", "noexec", "nodev", "ro"] })
    } else {
        json!({ "destination": "/sys", "type": "none", "source": "/sys",
                "options": ["rbind", "nosuid", "noexec", "nodev", "ro"] })
    };
    json!([
        { "destination": "/proc", "type": "proc", "source": "proc" },
        { "destination": "/dev", "type": "tmpfs", "source": "tmpfs",
          "options": ["nosuid", "strictatime", "mode=755", "size=65536k"] },
        { "destination": "/dev/shm", "type": "tmpfs", "source": "shm",
          "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"] },
        sys,
        { "destination": "/tmp", "type": "tmpfs", "source": "tmpfs",
          "options": ["nosuid", "nodev", "mode=1777", "size=65536k"] },
        { "destination": SCRATCH, "type": "bind", "source": scratch.to_string_lossy(),
          "options": ["bind", "rw", "nosuid", "nodev"] },
    ])
}

fn linux(wanted: &Wanted<'_>) -> Value {
    let mut namespaces = vec!["pid", "ipc", "uts", "mount", "network"];
    if wanted.unified_cgroups {
        namespaces.push("cgroup");
    }
    if !is_root() {
        namespaces.push("user");
    }
    let namespaces: Vec<Value> = namespaces
        .into_iter()
        .map(|kind| match (kind, wanted.network) {
            ("network", Some(path)) => json!({ "type": kind, "path": path.to_string_lossy() }),
            _ => json!({ "type": kind }),
        })
        .collect();
    let mut linux = json!({
        "namespaces": namespaces,
        "maskedPaths": ["/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
                        "/proc/sched_debug", "/proc/scsi", "/sys/firmware"],
        "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
    });
    if let Some(fields) = linux.as_object_mut() {
        if let Some((path, (major, minor))) = wanted.device {
            let node = json!([{ "path": inside(path), "type": "b", "major": major, "minor": minor,
                                "fileMode": 0o600, "uid": 0, "gid": 0 }]);
            fields.insert("devices".to_owned(), node);
        }
        if !is_root() {
            let map = |host: u32| json!([{ "containerID": 0, "hostID": host, "size": 1 }]);
            fields.insert("uidMappings".to_owned(), map(geteuid().as_raw()));
            fields.insert("gidMappings".to_owned(), map(getegid().as_raw()));
        }
        if wanted.cgroups == Cgroups::Own {
            fields.insert("cgroupsPath".to_owned(), json!(format!("/{}", wanted.id)));
            let mut rules = vec![json!({ "allow": false, "access": "rwm" })];
            rules.extend(wanted.device.map(|(_, (major, minor))| {
                json!({ "allow": true, "type": "b", "major": major, "minor": minor, "access": "rw" })
            }));
            let mut resources = json!({ "devices": rules });
            if let (Some(cpu), Some(resources)) = (cpu_resources(wanted), resources.as_object_mut()) {
                resources.insert("cpu".to_owned(), cpu);
            }
            fields.insert("resources".to_owned(), resources);
        }
    }
    linux
}

/// CPUs, weight and cap as the specification wants them; none when nothing is set.
fn cpu_resources(wanted: &Wanted<'_>) -> Option<Value> {
    let mut cpu = serde_json::Map::new();
    if let Some(cpus) = wanted.cpus {
        cpu.insert("cpus".to_owned(), json!(cpus));
    }
    if let Some(shares) = wanted.limits.shares() {
        cpu.insert("shares".to_owned(), json!(shares));
    }
    if let Some((quota, period)) = wanted.limits.quota_and_period_us() {
        cpu.insert("quota".to_owned(), json!(quota));
        cpu.insert("period".to_owned(), json!(period));
    }
    (!cpu.is_empty()).then_some(Value::Object(cpu))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(network: Option<&Path>) -> Value {
        let scratch = Path::new("/s");
        let wanted = Wanted {
            device: None,
            id: "c",
            scratch,
            cgroups: Cgroups::Ours,
            cpus: None,
            limits: CpuLimits::default(),
            network,
            unified_cgroups: false,
        };
        let config = config(&wanted);
        let all = config["linux"]["namespaces"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|namespace| namespace["type"] == "network").unwrap_or_default()
    }

    #[test]
    fn a_container_has_an_empty_network_unless_one_is_named() {
        assert_eq!(namespace(None), json!({ "type": "network" }));
        let named = namespace(Some(Path::new("/proc/7/fd/9")));
        assert_eq!(named, json!({ "type": "network", "path": "/proc/7/fd/9" }));
    }
}
