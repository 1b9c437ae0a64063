//! A native or virtual instance in cgroups of its own, where an OCI runtime would put a container: one folder at the top
//! of each hierarchy.
//!
//! Kernels share CPUs out between groups first. A container has one of its own, and so competes with all other work on
//! the host as one; without the same, a native agent would be one of many in whatever group this program was started
//! in, and everything would look faster in a container as soon as the host is not quiet.

use std::path::{Path, PathBuf};
use std::{fs, io};

use nix::unistd::geteuid;

use super::{CgroupFolder, CpuLimits, Groups, cpu_group};
use crate::ledger::Ledger;

/// Share of the real-time budget that an instance may take where budgets are per group (`CONFIG_RT_GROUP_SCHED`): the
/// wake-up probe needs a few hundredths, and several instances must fit.
const BUDGET_SHARE: u64 = 8;

impl Groups {
    /// Groups of an instance with these limits. Without root there are only those that limits need: rootless
    /// containers have none either.
    ///
    /// # Errors
    /// Why its limits cannot be set here, in words for the user.
    pub fn of_instance(limits: CpuLimits, needs_real_time: bool, ledger: &Ledger) -> io::Result<Self> {
        let limits = cpu_group(limits, ledger)?;
        let mut folders = Vec::new();
        if geteuid().is_root() {
            // Others' mounts may have any name.
            let table = fs::read("/proc/self/mountinfo").unwrap_or_default();
            for hierarchy in hierarchies(&String::from_utf8_lossy(&table)) {
                if limits.as_ref().is_some_and(|group| group.path().starts_with(&hierarchy)) {
                    continue;
                }
                // One that cannot be had is one that a container here does not get either, or does without.
                if let Ok(folder) = CgroupFolder::make(&hierarchy, &[], ledger)
                    && is_usable(&hierarchy, folder.path(), needs_real_time)
                {
                    folders.push(folder);
                }
            }
        }
        Ok(Self::of(folders.into_iter().chain(limits)))
    }
}

/// Mount points of all hierarchies, from the text of `/proc/self/mountinfo`.
fn hierarchies(table: &str) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = Vec::new();
    for line in table.lines().take(4096) {
        let Some((mount, kind)) = line.split_once(" - ") else { continue };
        let mut fields = mount.split(' ').skip(3);
        let (Some(root), Some(point)) = (fields.next(), fields.next()) else { continue };
        let is_cgroup = matches!(kind.split(' ').next(), Some("cgroup" | "cgroup2"));
        // A part of a hierarchy that is shown elsewhere is not its top.
        let point = PathBuf::from(point);
        if is_cgroup && root == "/" && point.starts_with("/sys/fs/cgroup") && !all.contains(&point) {
            all.push(point);
        }
    }
    all
}

/// Fills in what a fresh group lacks; false where processes cannot live in it.
fn is_usable(parent: &Path, group: &Path, needs_real_time: bool) -> bool {
    // Version 1: a fresh group may use no CPU and no memory node.
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let Ok(granted) = fs::read_to_string(parent.join(file)) else { continue };
        if !granted.trim().is_empty() && fs::write(group.join(file), granted.trim()).is_err() {
            return false;
        }
    }
    // Version 1 where real-time threads have budgets: a fresh group has none.
    let budget = fs::read_to_string(parent.join("cpu.rt_runtime_us"));
    match budget.ok().and_then(|text| text.trim().parse::<u64>().ok()) {
        Some(all) if needs_real_time => {
            fs::write(group.join("cpu.rt_runtime_us"), (all / BUDGET_SHARE).to_string()).is_ok()
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_of_both_versions_are_found_at_their_tops() {
        let table = "30 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw\n\
                     31 30 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu\n\
                     32 30 0:29 /part /sys/fs/cgroup/part rw - cgroup cgroup rw,cpu\n\
                     33 30 0:29 / /mnt/elsewhere rw - cgroup cgroup rw,cpu\n\
                     40 30 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\nnonsense\n";
        let found = hierarchies(table);
        assert_eq!(found, [Path::new("/sys/fs/cgroup/cpu"), Path::new("/sys/fs/cgroup/unified")]);
    }

    #[test]
    fn an_instance_begins_its_life_in_groups_of_its_own_and_leaves_none() {
        if !geteuid().is_root() {
            return skips::skip(skips::Need::Root, "groups for native instances are root's");
        }
        let dir = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(dir.path()).unwrap();
        let group = Groups::of_instance(CpuLimits::default(), true, &ledger).unwrap();
        let folders: Vec<PathBuf> = group.0.iter().map(|folder| folder.path().to_owned()).collect();
        if folders.is_empty() {
            return skips::skip(skips::Need::Cgroup, "no cgroup can be made here");
        }
        let mut command = std::process::Command::new("cat");
        command.arg("/proc/self/cgroup").stdout(std::process::Stdio::piped());
        for procs in group.entrances().unwrap() {
            crate::spawn::enter_group(&mut command, procs);
        }
        let said = command.output().unwrap();
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        for folder in &folders {
            let name = folder.file_name().unwrap().to_string_lossy().into_owned();
            assert!(said.contains(&format!(":/{name}\n")), "{name} is not in {said}");
        }
        drop(group);
        assert!(folders.iter().all(|folder| !folder.exists()), "{folders:?}");
    }
}
