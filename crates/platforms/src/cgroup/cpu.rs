//! CPU groups: cgroups that give an instance a weight against its neighbours, or a cap, on hosts with cgroups of version
//! 1, 2 or both. Version 1 allows processes everywhere, so its group is made below this program's own one.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::of_process::Places;
use super::{CgroupFolder, MOUNT, Setting, unified};
use crate::ledger::Ledger;
use model::experiment::PlatformSpec;

/// Period of caps, the kernel's own default.
const PERIOD_US: u64 = 100_000;
/// The kernel's smallest quota.
const LEAST_QUOTA_US: u64 = 1000;
/// `cpu.shares` that stands for the usual weight of 100.
pub(super) const USUAL_SHARES: u64 = 1024;

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

    /// Files of version 2 to write.
    pub fn settings(&self) -> Vec<Setting> {
        let weight = self.weight.map(|weight| ("cpu.weight", weight.to_string()));
        let cap = self.quota_and_period_us().map(|(quota, period)| ("cpu.max", format!("{quota} {period}")));
        weight.into_iter().chain(cap).map(|(file, value)| Setting::new("cpu", file, value)).collect()
    }

    fn settings_of_version_1(&self) -> Vec<Setting> {
        let shares = self.shares().map(|shares| ("cpu.shares", shares));
        let cap = self
            .quota_and_period_us()
            .map(|(quota, period)| [("cpu.cfs_period_us", period), ("cpu.cfs_quota_us", quota)]);
        let all = shares.into_iter().chain(cap.into_iter().flatten());
        all.map(|(file, value)| Setting::new("cpu", file, value.to_string())).collect()
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

/// Makes a group with these limits; none when there are none.
///
/// # Errors
/// Why no group can be made here, in words for the user.
pub fn cpu_group(limits: CpuLimits, ledger: &Ledger) -> io::Result<Option<CgroupFolder>> {
    if !limits.is_some() {
        return Ok(None);
    }
    let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| {
        io::Error::new(error.kind(), format!("CPU groups: cannot read /proc/self/cgroup: {error}"))
    })?;
    let mount = Path::new(MOUNT);
    let (parent, settings) = match cpu_parent(&own, mount) {
        Some(parent) => (parent, limits.settings_of_version_1()),
        None => {
            (unified::unified_parent(mount, &own, &["cpu"], true).ok_or_else(nowhere)?.0, limits.settings())
        }
    };
    CgroupFolder::make(&parent, &settings, ledger).map(Some)
}

fn nowhere() -> io::Error {
    io::Error::other(
        "CPU groups: no cgroup from this program's own upwards hands a cpu controller down: run as root, or have it delegated \
         (systemd-run --user --scope -p Delegate=yes …)",
    )
}

/// The folder below which a group of version 1 can be made, from the text of `/proc/self/cgroup`; none where that version does not have
/// the controller.
pub fn cpu_parent(own: &str, mount: &Path) -> Option<PathBuf> {
    let places = Places::of(own);
    let root = places.cpu_mount(mount)?;
    // In a container the path may be the host's, which is not there.
    let own = root.join(places.cpu?.1);
    Some(if own.is_dir() { own } else { root })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_become_the_files_of_each_version() {
        let limits = CpuLimits { weight: Some(200), cap_percent: Some(50) };
        let words = |settings: Vec<Setting>| -> Vec<String> {
            settings.iter().map(|one| format!("{}={}", one.file, one.value)).collect()
        };
        let old = ["cpu.shares=2048", "cpu.cfs_period_us=100000", "cpu.cfs_quota_us=50000"];
        assert_eq!(words(limits.settings_of_version_1()), old);
        assert_eq!(words(limits.settings()), ["cpu.weight=200", "cpu.max=50000 100000"]);
        assert_eq!(limits.words(), "weight 200, at most 50 % of one CPU");
        assert!(!CpuLimits::default().is_some());
    }

    #[test]
    fn the_parent_is_found_where_the_controller_is() {
        let mount = tempfile::tempdir().unwrap();
        let at = |path: &str| mount.path().join(path);
        let parent = |own: &str| cpu_parent(own, mount.path());
        assert_eq!(parent("4:cpu:/mine\n0::/\n"), None);
        fs::create_dir_all(at("cpu/mine")).unwrap();
        fs::write(at("cpu/cpu.shares"), "1024").unwrap();
        assert_eq!(parent("5:devices:/\n4:cpu:/mine\n0::/\n"), Some(at("cpu/mine")));
        assert_eq!(parent("4:cpu:/elsewhere\n"), Some(at("cpu")));
        assert_eq!(parent("4:cpu:/../../etc\n"), None);
        assert_eq!(parent("0::/user/mine\n"), None);
    }
}
