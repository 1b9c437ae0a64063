//! CPU groups: cgroups that give an instance a weight against its neighbours, or a cap, on hosts with cgroups of version
//! 1, 2 or both.
//!
//! ```text
//!  ledger: record ─► mkdir bulkhead-… ─► weight, cap ─► process moved in ─► … ─► process ended ─► rmdir ─► undone
//! ```
//! Version 2 allows processes only in leaves, so the group is made beside this program's own one, where the `cpu`
//! controller is handed down; version 1 has no such rule and the group is made below it.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::cgroup_folder::CgroupFolder;
use super::ledger::Ledger;
use model::experiment::PlatformSpec;

/// Where cgroups are mounted by convention.
const MOUNT: &str = "/sys/fs/cgroup";
/// Period of caps, the kernel's own default.
const PERIOD_US: u64 = 100_000;
/// The kernel's smallest quota.
const LEAST_QUOTA_US: u64 = 1000;
/// `cpu.shares` that stands for the usual weight of 100.
const USUAL_SHARES: u64 = 1024;

/// What an instance is granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuLimits {
    /// Weight against its neighbours, 1 … 10 000; 100 is usual.
    pub weight: Option<u32>,
    /// At most this many percent of one CPU.
    pub cap_percent: Option<u32>,
}

impl CpuLimits {
    /// What the settings of a platform grant the instance of this rank.
    pub fn of(platform: &PlatformSpec, rank: u32) -> Self {
        let others = platform.other_cpu_weight.filter(|_| rank > 0);
        // A weight only says something against another one: with one of them set, both have groups.
        let usual = platform.other_cpu_weight.map(|_| 100);
        Self { weight: others.or(platform.cpu_weight).or(usual), cap_percent: platform.cpu_cap_percent }
    }

    /// Whether a group is needed at all.
    pub const fn is_some(&self) -> bool {
        self.weight.is_some() || self.cap_percent.is_some()
    }

    /// Weight as `cpu.shares` of version 1 and of OCI configurations.
    pub fn shares(&self) -> Option<u64> {
        self.weight.map(|weight| (u64::from(weight) * USUAL_SHARES / 100).clamp(2, 262_144))
    }

    /// Cap as quota and period in microseconds.
    pub fn quota_and_period_us(&self) -> Option<(u64, u64)> {
        self.cap_percent
            .map(|percent| ((u64::from(percent) * PERIOD_US / 100).max(LEAST_QUOTA_US), PERIOD_US))
    }

    /// In words, for the platform's properties.
    pub fn words(&self) -> String {
        let parts = [
            self.weight.map(|weight| format!("weight {weight}")),
            self.cap_percent.map(|percent| format!("at most {percent} % of one CPU")),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// Version of the `cpu` controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A CPU group; removed when dropped, after its processes have ended.
#[derive(Debug)]
pub struct CpuGroup {
    folder: CgroupFolder,
}

impl CpuGroup {
    /// Makes a group with these limits; none when there are none.
    ///
    /// # Errors
    /// Why no group can be made here, in words for the user.
    pub fn create(limits: CpuLimits, ledger: &Ledger) -> Result<Option<Self>, String> {
        if !limits.is_some() {
            return Ok(None);
        }
        let own = fs::read_to_string("/proc/self/cgroup")
            .map_err(|error| format!("CPU groups: cannot read /proc/self/cgroup: {error}"))?;
        let (version, parent) = parent(&own, Path::new(MOUNT))?;
        let advice = "it needs root or a delegated cgroup";
        let folder =
            CgroupFolder::make(&parent, ledger).map_err(|error| format!("CPU groups: {error}; {advice}"))?;
        for (file, value) in settings(version, limits) {
            let path = folder.path().join(file);
            fs::write(&path, value)
                .map_err(|error| format!("CPU groups: cannot write {}: {error}; {advice}", path.display()))?;
        }
        Ok(Some(Self { folder }))
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Moves a process with all its threads into the group.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn take(&self, pid: u32) -> io::Result<()> {
        fs::write(self.path().join("cgroup.procs"), pid.to_string()).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot move process {pid} into the CPU group {}: {error}", self.path().display()),
            )
        })
    }
}

/// Files to write and what to write.
fn settings(version: Version, limits: CpuLimits) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    match version {
        Version::One => {
            all.extend(limits.shares().map(|shares| ("cpu.shares", shares.to_string())));
            if let Some((quota, period)) = limits.quota_and_period_us() {
                all.push(("cpu.cfs_period_us", period.to_string()));
                all.push(("cpu.cfs_quota_us", quota.to_string()));
            }
        }
        Version::Two => {
            all.extend(limits.weight.map(|weight| ("cpu.weight", weight.to_string())));
            let cap = limits.quota_and_period_us();
            all.extend(cap.map(|(quota, period)| ("cpu.max", format!("{quota} {period}"))));
        }
    }
    all
}

/// The folder below which a group can be made, from the text of `/proc/self/cgroup`.
fn parent(own: &str, mount: &Path) -> Result<(Version, PathBuf), String> {
    let mut unified = None;
    for line in own.lines().take(64) {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let below = path.trim_start_matches('/');
        if below.split('/').any(|part| part == "..") {
            continue;
        }
        if controllers.split(',').any(|name| name == "cpu") {
            let named = [controllers, "cpu", "cpu,cpuacct"].map(|folder| mount.join(folder));
            let folder = named.into_iter().find(|folder| folder.join("cpu.shares").exists());
            // In a container the path may be the host's, which is not there.
            let found = folder.map(|folder| (folder.join(below), folder));
            if let Some((own, root)) = found {
                return Ok((Version::One, if own.is_dir() { own } else { root }));
            }
        } else if controllers.is_empty() {
            unified = Some(below.to_owned());
        }
    }
    let below = unified.ok_or("CPU groups: this host has no cgroups with a cpu controller")?;
    unified_parent(mount, &below).map(|path| (Version::Two, path))
}

/// The nearest folder, from this program's own upwards, that hands the `cpu` controller down.
fn unified_parent(mount: &Path, below: &str) -> Result<PathBuf, String> {
    let hands_down = |folder: &Path| {
        fs::read_to_string(folder.join("cgroup.subtree_control"))
            .is_ok_and(|list| list.split_whitespace().any(|name| name == "cpu"))
    };
    let mut folder = mount.join(below);
    loop {
        if hands_down(&folder) {
            return Ok(folder);
        }
        if folder == mount || !folder.starts_with(mount) || !folder.pop() {
            break;
        }
    }
    // The root may hold processes and hand controllers down at once; service managers do the same.
    let enabled = fs::write(mount.join("cgroup.subtree_control"), "+cpu");
    if enabled.is_ok() && hands_down(mount) {
        return Ok(mount.to_owned());
    }
    Err(format!(
        "CPU groups: no cgroup from {} upwards hands the cpu controller down: run as root, or have it delegated \
         (systemd-run --user --scope -p Delegate=yes …)",
        mount.join(below).display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_become_the_files_of_each_version() {
        let limits = CpuLimits { weight: Some(200), cap_percent: Some(50) };
        assert_eq!(
            settings(Version::One, limits),
            [
                ("cpu.shares", "2048".to_owned()),
                ("cpu.cfs_period_us", "100000".to_owned()),
                ("cpu.cfs_quota_us", "50000".to_owned())
            ]
        );
        assert_eq!(
            settings(Version::Two, limits),
            [("cpu.weight", "200".to_owned()), ("cpu.max", "50000 100000".to_owned())]
        );
        assert_eq!(limits.words(), "weight 200, at most 50 % of one CPU");
        assert!(!CpuLimits::default().is_some());
    }

    #[test]
    fn the_parent_is_found_in_either_hierarchy() {
        let mount = tempfile::tempdir().unwrap();
        let at = |path: &str| mount.path().join(path);
        assert!(parent("0::/\n", mount.path()).unwrap_err().contains("hands the cpu controller down"));
        fs::create_dir_all(at("cpu/mine")).unwrap();
        fs::write(at("cpu/cpu.shares"), "1024").unwrap();
        let v1 = parent("5:devices:/\n4:cpu:/mine\n0::/\n", mount.path()).unwrap();
        assert_eq!(v1, (Version::One, at("cpu/mine")));
        assert_eq!(parent("4:cpu:/elsewhere\n", mount.path()).unwrap().1, at("cpu"));
        assert!(parent("4:cpu:/../../etc\n", mount.path()).is_err());
        fs::create_dir_all(at("user/mine")).unwrap();
        fs::write(at("user/cgroup.subtree_control"), "cpu memory\n").unwrap();
        fs::write(at("user/mine/cgroup.subtree_control"), "\n").unwrap();
        assert_eq!(parent("0::/user/mine\n", mount.path()).unwrap(), (Version::Two, at("user")));
    }
}
