//! The bundle of a container: a root file system that holds one static binary, and `config.json` as the OCI runtime
//! specification 1.0.2 wants it (<https://github.com/opencontainers/runtime-spec/blob/v1.0.2/config.md>).
//!
//! ```text
//!  RUN/bulkhead-…/config.json
//!                 rootfs/bulkhead        read-only
//!                 rootfs/{proc,dev,sys,tmp,scratch}   what is shown of /sys: see `sys_view`
//!                 state/                 the runtime's --root
//! ```

use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use nix::unistd::{getegid, geteuid};
use serde_json::{Value, json};

use super::reach::{rootfs_at, scratch_at};
use super::runtime::Cgroups;
use super::sys_view;
use super::walls::{Users, Walls};
use crate::cgroup::CpuLimits;
use crate::held_process::MARK;
use crate::native::Executable;

/// Name of the host's folder inside: where the disk probe writes.
pub const SCRATCH: &str = "/scratch";
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
    /// What it is walled off with.
    pub walls: &'a Walls,
    /// Folder of the run: its agent says for which it was started, as a native one does.
    pub run: &'a Path,
}

impl Wanted<'_> {
    /// Users of its own, where root starts it.
    fn users(&self) -> Option<&Users> {
        self.walls.users.as_ref().ok()
    }

    fn has_user_namespace(&self) -> bool {
        self.walls.has_user_namespace()
    }

    /// What it sees of `/sys`, where it has none of its own.
    fn shown_of_sys(&self) -> Option<Vec<PathBuf>> {
        self.has_user_namespace().then(|| sys_view::shown(self.scratch))
    }
}

/// Whether this process is root; otherwise containers get a user namespace.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// Writes the bundle into the empty folder `dir`.
pub fn write(dir: &Path, executable: &Executable, wanted: &Wanted<'_>) -> io::Result<()> {
    let root = rootfs(dir);
    fs::create_dir(&root)?;
    let is_for_others = wanted.users().is_some();
    let shown_of_sys = wanted.shown_of_sys().unwrap_or_default();
    let usual = ["", "proc", "dev", "sys", "tmp", "scratch"].map(Path::new);
    for folder in usual.into_iter().chain(shown_of_sys.iter().map(PathBuf::as_path)) {
        make_folder(&root, folder.strip_prefix("/").unwrap_or(folder), is_for_others)?;
    }
    // A sweep uses it only if nobody else can have written there.
    fs::DirBuilder::new().mode(0o700).create(dir.join("state"))?;
    place_binary(executable, &root.join("bulkhead"), is_for_others)?;
    fs::write(dir.join("config.json"), serde_json::to_vec_pretty(&config(wanted))?)
}

/// Makes a folder below `root` with all above it.
fn make_folder(root: &Path, folder: &Path, is_for_others: bool) -> io::Result<()> {
    let path = root.join(folder);
    fs::create_dir_all(&path)?;
    // Whatever the umask says: its root is nobody here.
    let made = path.ancestors().take_while(|path| path.starts_with(root)).filter(|_| is_for_others);
    made.into_iter().try_for_each(|path| fs::set_permissions(path, executable_by_all()))
}

/// The root file system of the bundle `dir`.
pub fn rootfs(dir: &Path) -> PathBuf {
    dir.join("rootfs")
}

fn executable_by_all() -> fs::Permissions {
    fs::Permissions::from_mode(0o755)
}

/// A hard link where the file systems allow one, so that a container runs the very file that others run; else a copy.
fn place_binary(executable: &Executable, target: &Path, is_for_others: bool) -> io::Result<()> {
    // The real path: linking through /proc is only allowed to the privileged.
    let real = fs::read_link(executable.path()).unwrap_or_else(|_| executable.path());
    let serves = |path: &Path| {
        !is_for_others || path.metadata().is_ok_and(|m| m.permissions().mode() & 0o005 == 0o005)
    };
    if executable.is_at(&real) && serves(&real) && fs::hard_link(&real, target).is_ok() {
        return Ok(());
    }
    fs::copy(executable.path(), target)?;
    fs::set_permissions(target, executable_by_all())
}

/// The configuration.
pub fn config(wanted: &Wanted<'_>) -> Value {
    let place = wanted.device.map_or_else(|| SCRATCH.to_owned(), |(path, _)| inside(path));
    let reached_at = wanted.users().map(|users| users.reached_at.as_path());
    let root = reached_at.map_or_else(|| PathBuf::from("rootfs"), rootfs_at);
    let scratch = reached_at.map_or_else(|| wanted.scratch.to_owned(), scratch_at);
    let may = &wanted.walls.capabilities;
    let mut config = json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false,
            "user": { "uid": 0, "gid": 0 },
            "args": ["/bulkhead", "agent", "--link", "stdio", "--scratch", place],
            "env": [format!("{MARK}={}", wanted.run.display()), "HOME=/".to_owned(), "PATH=/".to_owned()],
            "cwd": "/",
            "noNewPrivileges": false,
            "capabilities": { "bounding": may, "effective": may, "permitted": may },
        },
        "root": { "path": root.to_string_lossy(), "readonly": true },
        "mounts": mounts(&scratch, wanted.shown_of_sys().as_deref()),
        "linux": linux(wanted),
    });
    if let (true, Some(fields)) = (wanted.walls.namespaces, config.as_object_mut()) {
        fields.insert("hostname".to_owned(), json!("bulkhead"));
    }
    config
}

/// Where a device of the host is inside, under its own name.
fn inside(device: &Path) -> String {
    format!("/dev/{}", device.file_name().unwrap_or_default().to_string_lossy())
}

fn mounts(scratch: &Path, shown_of_sys: Option<&[PathBuf]>) -> Vec<Value> {
    let mut mounts = vec![
        json!({ "destination": "/proc", "type": "proc", "source": "proc",
                "options": ["nosuid", "noexec", "nodev"] }),
        json!({ "destination": "/dev", "type": "tmpfs", "source": "tmpfs",
                "options": ["nosuid", "strictatime", "mode=755", "size=65536k"] }),
        json!({ "destination": "/dev/shm", "type": "tmpfs", "source": "shm",
                "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"] }),
        json!({ "destination": "/tmp", "type": "tmpfs", "source": "tmpfs",
                "options": ["nosuid", "nodev", "mode=1777", "size=65536k"] }),
        json!({ "destination": SCRATCH, "type": "bind", "source": scratch.to_string_lossy(),
                "options": ["bind", "rw", "nosuid", "nodev"] }),
    ];
    mounts.extend(shown_of_sys.map_or_else(|| vec![sys_view::whole()], sys_view::mounts));
    mounts
}

/// Kinds of namespaces it gets. Without a mount namespace runtimes make no container.
pub fn namespaces(wanted: &Wanted<'_>) -> Vec<&'static str> {
    let mut kinds = vec!["mount"];
    if wanted.walls.namespaces {
        kinds.extend(["pid", "ipc", "uts"]);
        if wanted.unified_cgroups {
            kinds.push("cgroup");
        }
    }
    if wanted.walls.namespaces || wanted.network.is_some() {
        kinds.push("network");
    }
    if wanted.has_user_namespace() {
        kinds.push("user");
    }
    kinds
}

/// Who is who in a container's user namespace: (users, groups), as `linux.uidMappings` wants them.
fn mappings(users: Option<&Users>) -> (Value, Value) {
    let map = |host: u32, size: u32| json!([{ "containerID": 0, "hostID": host, "size": size }]);
    match users {
        Some(users) => (map(users.first, Users::count()), map(users.first, Users::count())),
        None => (map(geteuid().as_raw(), 1), map(getegid().as_raw(), 1)),
    }
}

fn linux(wanted: &Wanted<'_>) -> Value {
    let namespaces: Vec<Value> = namespaces(wanted)
        .into_iter()
        .map(|kind| match (kind, wanted.network) {
            ("network", Some(path)) => json!({ "type": kind, "path": path.to_string_lossy() }),
            _ => json!({ "type": kind }),
        })
        .collect();
    let mut linux = json!({
        "namespaces": namespaces,
        "maskedPaths": sys_view::hidden(),
        "readonlyPaths": sys_view::read_only(),
    });
    if let Some(fields) = linux.as_object_mut() {
        if let Some((path, (major, minor))) = wanted.device {
            let node = json!([{ "path": inside(path), "type": "b", "major": major, "minor": minor,
                                "fileMode": 0o600, "uid": 0, "gid": 0 }]);
            fields.insert("devices".to_owned(), node);
        }
        if wanted.has_user_namespace() {
            let (users, groups) = mappings(wanted.users());
            fields.insert("uidMappings".to_owned(), users);
            fields.insert("gidMappings".to_owned(), groups);
        }
        if let Ok(filter) = &wanted.walls.seccomp {
            fields.insert("seccomp".to_owned(), filter.clone());
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
    use model::experiment::PlatformSpec;
    use units::names::PlatformKind;

    fn configured(network: Option<&Path>, walls: &Walls) -> Value {
        config(&Wanted {
            device: None,
            id: "c",
            scratch: Path::new("/s"),
            cgroups: Cgroups::Ours,
            cpus: None,
            limits: CpuLimits::default(),
            network,
            unified_cgroups: false,
            walls,
            run: Path::new("/run"),
        })
    }

    fn walls() -> Walls {
        Walls::of(&PlatformSpec::of_kind(PlatformKind::Container), Path::new("/tmp")).without_users("a test")
    }

    fn namespace(network: Option<&Path>) -> Value {
        let config = configured(network, &walls());
        let all = config["linux"]["namespaces"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|namespace| namespace["type"] == "network").unwrap_or_default()
    }

    #[test]
    fn a_container_has_an_empty_network_unless_one_is_named() {
        assert_eq!(namespace(None), json!({ "type": "network" }));
        let named = namespace(Some(Path::new("/proc/7/fd/9")));
        assert_eq!(named, json!({ "type": "network", "path": "/proc/7/fd/9" }));
    }

    #[test]
    fn a_container_of_root_with_users_of_its_own_is_reached_by_them() {
        let users = Users { first: 70_000, reached_at: PathBuf::from("/mnt") };
        let config = configured(None, &Walls { users: Ok(users), ..walls() });
        let map = json!([{ "containerID": 0, "hostID": 70_000, "size": 65_536 }]);
        assert_eq!((&config["linux"]["uidMappings"], &config["linux"]["gidMappings"]), (&map, &map));
        assert_eq!(config["root"]["path"], "/mnt/rootfs");
        let mounts = config["mounts"].as_array().cloned().unwrap_or_default();
        let at = |place: &str| mounts.iter().find(|mount| mount["destination"] == place);
        assert_eq!(at(SCRATCH).map(|mount| &mount["source"]), Some(&json!("/mnt/scratch")));
        assert_eq!(at("/sys"), None, "none of its own, and not the host's");
        assert!(at("/sys/devices/system").is_some());
        assert_eq!(config["linux"]["seccomp"]["defaultAction"], "SCMP_ACT_ERRNO");
    }

    #[test]
    fn without_namespaces_only_its_files_are_its_own() {
        let config = configured(None, &Walls { namespaces: false, ..walls() });
        let kinds: Vec<&Value> =
            config["linux"]["namespaces"].as_array().unwrap().iter().map(|n| &n["type"]).collect();
        assert!(kinds.iter().all(|kind| *kind == "mount" || (*kind == "user" && !is_root())), "{kinds:?}");
        assert_eq!(config.get("hostname"), None, "it would be the host's");
    }
}
