//! What stands between a container and its host: filter of system calls, capabilities, users and other namespaces of its
//! own. Decided from the platform's settings and what this host allows.
//!
//! Containers have what Docker and Podman give by default (`docker run`, `podman run`), because a container without it
//! is one that nobody runs: without the filter a system call costs less than it does for users. As with both, a program
//! may gain rights by set-user-ID files (`no_new_privs` is off); there are none in our containers.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::bundle::is_root;
use super::seccomp;
use model::experiment::{Capabilities, DiskBacking, PlatformSpec};
use units::Reason;

/// What a process in a container may do by default; the same set as Docker's.
pub const DEFAULT_CAPABILITIES: [&str; 14] = [
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
/// Names by number (`capability.h` of Linux 6.12).
#[rustfmt::skip]
const CAPABILITIES: [&str; 41] = [
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
    "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
    "CHECKPOINT_RESTORE",
];
/// First user outside where `/etc/subuid` gives root none: nobody hands these out (`UIDS-GIDS` of systemd).
const UNUSED: u32 = 1_879_048_192;
/// How many users a container has.
const USERS: u32 = 65_536;
/// Where a runtime that acts for another user finds the bundle, in a view of its own; the first that serves.
const REACHABLE: [&str; 5] = ["/mnt", "/media", "/srv", "/opt", "/run"];

/// What an instance is walled off with.
#[derive(Debug, Clone, PartialEq)]
pub struct Walls {
    /// The filter of system calls, or why there is none.
    pub seccomp: Result<Value, Reason>,
    /// What its root may do.
    pub capabilities: Vec<String>,
    /// Users of its own for a container that root starts, or why it has none.
    pub users: Result<Users, Reason>,
    /// Whether it has processes, network, names and shared memory of its own.
    pub namespaces: bool,
}

/// Users of a container that root starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Users {
    /// Who its root is outside.
    pub first: u32,
    /// Folder in which the runtime finds the bundle.
    pub reached_at: PathBuf,
}

impl Users {
    /// How many there are.
    pub const fn count() -> u32 {
        USERS
    }
}

impl Walls {
    /// What the settings want and the host allows. `run` is the folder that bundles lie in.
    pub fn of(spec: &PlatformSpec, run: &Path) -> Self {
        let capabilities = match spec.capabilities.unwrap_or_default() {
            Capabilities::Default => DEFAULT_CAPABILITIES.iter().map(|name| (*name).to_owned()).collect(),
            Capabilities::All => all_capabilities(),
        };
        Self {
            seccomp: wanted_filter(spec, &capabilities),
            users: users(spec, run),
            capabilities,
            namespaces: spec.namespaces.unwrap_or(true),
        }
    }

    /// Whether a container has users of its own: one of an ordinary user always has.
    pub fn has_user_namespace(&self) -> bool {
        !is_root() || self.users.is_ok()
    }

    /// The same without users of its own.
    pub fn without_users(&self, why: &str) -> Self {
        Self { users: Err(why.to_owned().into()), ..self.clone() }
    }

    /// In words, for the platform's properties.
    pub fn properties(&self) -> Vec<(&'static str, String)> {
        let capabilities = match self.capabilities.len() {
            count if self.capabilities == DEFAULT_CAPABILITIES => {
                format!("{count}, the set that Docker gives")
            }
            count => format!("{count}, all there are"),
        };
        let seccomp = match &self.seccomp {
            Ok(_) => "Docker's default filter".to_owned(),
            Err(why) => format!("none: {why}"),
        };
        let users = match &self.users {
            Ok(users) => format!(
                "its own: root is user {} outside (plugged into a network: the host's, as the network)",
                users.first
            ),
            Err(why) if is_root() => format!("the host's, root is root: {why}"),
            Err(_) => "its own, one: rootless".to_owned(),
        };
        vec![
            ("capabilities", capabilities),
            ("seccomp", seccomp),
            ("users", users),
            ("new privileges", "possible".to_owned()),
        ]
    }
}

fn wanted_filter(spec: &PlatformSpec, capabilities: &[String]) -> Result<Value, Reason> {
    if spec.seccomp == Some(false) {
        return Err("switched off in the experiment".into());
    }
    if !seccomp::kernel_filters() {
        return Err("this kernel has no seccomp".into());
    }
    let architecture = std::env::consts::ARCH;
    seccomp::filter(architecture, capabilities)
        .map_err(|error| error.to_string())?
        .ok_or_else(|| format!("no rules are known for {architecture}").into())
}

/// All capabilities that this process may hand on.
fn all_capabilities() -> Vec<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bounding = status
        .lines()
        .find_map(|line| line.strip_prefix("CapBnd:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    let there = CAPABILITIES.iter().enumerate().filter(|(number, _)| (bounding >> number) & 1 == 1);
    there.map(|(_, name)| format!("CAP_{name}")).collect()
}

/// The bits that `/proc/PID/status` shows for these.
pub fn mask(capabilities: &[String]) -> u64 {
    let number =
        |name: &String| CAPABILITIES.iter().position(|known| name.strip_prefix("CAP_") == Some(known));
    capabilities.iter().filter_map(number).fold(0, |mask, number| mask | (1 << number))
}

/// Which users a container of root's can have, or why none.
fn users(spec: &PlatformSpec, run: &Path) -> Result<Users, Reason> {
    if !is_root() {
        return Err("not root".into());
    }
    if spec.user_namespace == Some(false) {
        return Err("switched off in the experiment".into());
    }
    if matches!(spec.disk, Some(DiskBacking::Loop | DiskBacking::Device)) {
        return Err("its block device is the host's".into());
    }
    if spec.namespaces == Some(false) {
        return Err("namespaces are switched off in the experiment".into());
    }
    let most = fs::read_to_string("/proc/sys/user/max_user_namespaces").unwrap_or_default();
    if most.trim().parse::<u64>().unwrap_or(0) == 0 {
        return Err("this kernel allows no user namespaces (user.max_user_namespaces)".into());
    }
    let subordinate = fs::read_to_string("/etc/subuid").unwrap_or_default();
    let first = subordinate_users(&subordinate).unwrap_or(UNUSED);
    let own = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    if !holds(&own, first) {
        return Err(format!("users {first} and up are not there for us (/proc/self/uid_map)").into());
    }
    let reached_at = REACHABLE.iter().map(Path::new).find(|path| serves(path, run));
    let reached_at = reached_at.ok_or_else(|| {
        format!("none of {} can be where the runtime finds its files", REACHABLE.join(", "))
    })?;
    Ok(Users { first, reached_at: reached_at.to_owned() })
}

/// First of root's subordinate users, when there are enough.
fn subordinate_users(text: &str) -> Option<u32> {
    text.lines().take(4096).find_map(|line| {
        let mut fields = line.trim().split(':');
        let is_root = matches!(fields.next(), Some("root" | "0"));
        let (first, count) = (fields.next()?.parse().ok()?, fields.next()?.parse::<u32>().ok()?);
        (is_root && count >= USERS).then_some(first)
    })
}

/// Whether a `uid_map` maps all users from `first`.
fn holds(map: &str, first: u32) -> bool {
    map.lines().any(|line| {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [inside, _, count] = numbers.as_slice() else { return false };
        u64::from(first) >= *inside && u64::from(first) + u64::from(USERS) <= inside.saturating_add(*count)
    })
}

/// Whether others may pass through `path`, and nothing we need lies below it.
fn serves(path: &Path, run: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let is_open = path.symlink_metadata().is_ok_and(|m| m.is_dir() && m.permissions().mode() & 0o001 != 0);
    is_open && !run.starts_with(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_come_from_roots_own_lines() {
        let text = "alice:100000:65536\nroot:231072:65536\n";
        assert_eq!(subordinate_users(text), Some(231_072));
        assert_eq!(subordinate_users("root:1:10\nalice:100000:65536\nnonsense\n"), None);
        assert!(holds("         0          0 4294967295\n", UNUSED));
        assert!(!holds("0 1000 1\n1 100000 65536\n", UNUSED));
        assert!(!holds("", 0) && !holds("x y z", 0));
    }

    #[test]
    fn capabilities_are_bits() {
        let default: Vec<String> = DEFAULT_CAPABILITIES.iter().map(|name| (*name).to_owned()).collect();
        // What `grep Cap /proc/1/status` shows in Docker's containers.
        assert_eq!(mask(&default), 0xa804_25fb);
        assert!(mask(&all_capabilities()) & !0x1ff_ffff_ffff == 0);
    }

    #[test]
    fn each_wall_can_be_switched_off_by_name_and_says_so() {
        let mut spec = PlatformSpec::of_kind(units::names::PlatformKind::Container);
        let walls = Walls::of(&spec, Path::new("/tmp"));
        assert_eq!(walls.capabilities, DEFAULT_CAPABILITIES);
        assert!(walls.seccomp.is_ok() || !seccomp::kernel_filters());
        spec.seccomp = Some(false);
        spec.user_namespace = Some(false);
        spec.capabilities = Some(Capabilities::All);
        let walls = Walls::of(&spec, Path::new("/tmp"));
        let off = "none: switched off in the experiment";
        let said = walls.properties();
        assert!(said.contains(&("seccomp", off.to_owned())), "{said:?}");
        assert!(said.iter().any(|(_, words)| words.ends_with("all there are")), "{said:?}");
        assert!(walls.users.is_err());
    }
}
