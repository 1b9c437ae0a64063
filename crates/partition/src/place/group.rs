//! Which groups hold a partition on this host, and what stands in where one cannot be had.
//!
//! ```text
//!              version 2 has the controller    version 1 has `cpu`    neither
//!  weight,cap  group                           CPU group              error, before anything is made
//!  CPUs        group, around the threads' own affinity                remark
//!  node        group, around QEMU's memory policy                     remark
//!  memory      group: the guest's and QEMU's overhead                 remark
//!  disk limit  group for devices, around QEMU's throttle              remark
//! ```

use std::path::Path;

use super::topology::{HostTopology, text};
use super::{settings, threads};
use model::partition::{DiskSpec, Priority, Resources};
use platforms::cgroup::{self, CgroupFolder, CpuLimits, Groups, MOUNT, Setting, cpu_group};
use platforms::ledger::Ledger;
use units::Reason;

/// Makes the groups for a partition; none where nothing that was asked for needs one and none can be had.
///
/// # Errors
/// Which setting needs what that is not there.
pub fn group(asked: &Resources, disks: &[DiskSpec], ledger: &Ledger) -> Result<Groups, Reason> {
    let wanted = wanted(asked, disks)?;
    let limits = CpuLimits { weight: asked.cpu_weight, cap_percent: asked.cpu_cap_percent };
    let own = text("/proc/self/cgroup".as_ref())?;
    let home = cgroup::unified_parent(Path::new(MOUNT), &own, &controllers(&wanted), true);
    let usable = home.as_ref().map(|(_, usable)| usable.clone()).unwrap_or_default();
    let held: Vec<Setting> =
        wanted.iter().filter(|setting| usable.contains(&setting.controller)).cloned().collect();
    let unified = match home.map(|(parent, _)| CgroupFolder::make(&parent, &held, ledger)) {
        Some(Ok(group)) => Some(group),
        Some(Err(error)) if held.iter().any(|setting| setting.controller != "memory") => {
            return Err(error.to_string().into());
        }
        // Nobody asked for it.
        Some(Err(_)) | None => None,
    };
    let cpu = if usable.contains(&"cpu") {
        None
    } else {
        cpu_group(limits, ledger).map_err(|error| error.to_string())?
    };
    Ok(Groups::of(unified.into_iter().chain(cpu)))
}

/// What of that which was asked for has no group on this host, and what holds it instead; known before anything is made.
///
/// # Errors
/// The host cannot be read.
pub fn without_group(asked: &Resources, disks: &[DiskSpec]) -> Result<Vec<String>, Reason> {
    let wanted = wanted(asked, disks)?;
    let own = text("/proc/self/cgroup".as_ref())?;
    let home = cgroup::unified_parent(Path::new(MOUNT), &own, &controllers(&wanted), false);
    let usable = home.map(|(_, usable)| usable).unwrap_or_default();
    // Nobody asks for a bound on what QEMU takes beside the guest's memory.
    let asked: Vec<Setting> = wanted.into_iter().filter(|setting| setting.controller != "memory").collect();
    Ok(missing(&asked, &usable))
}

fn wanted(asked: &Resources, disks: &[DiskSpec]) -> Result<Vec<Setting>, Reason> {
    let host = HostTopology::of_this_host()?;
    let node_cpus = threads::node_cpus(asked)?;
    Ok(settings::settings(asked, node_cpus.as_ref(), disks, host.memory))
}

/// Refuses, before anything is made, what neither version of cgroups can hold here.
///
/// # Errors
/// Which setting needs what that is not there.
pub fn possible(asked: &Resources) -> Result<(), Reason> {
    let limits = CpuLimits { weight: asked.cpu_weight, cap_percent: asked.cpu_cap_percent };
    if !limits.is_some() {
        return Ok(());
    }
    let own = text("/proc/self/cgroup".as_ref())?;
    possible_below(limits, asked.priority, &own, Path::new(MOUNT))
}

fn possible_below(limits: CpuLimits, priority: Priority, own: &str, mount: &Path) -> Result<(), Reason> {
    if cgroup::unified_parent(mount, own, &["cpu"], false).is_some() {
        return Ok(());
    }
    if let Some(folder) = cgroup::cpu_parent(own, mount) {
        // New groups have no share of real time there, and whoever grants one takes it from the others.
        if matches!(priority, Priority::Realtime(_)) && folder.join("cpu.rt_runtime_us").exists() {
            return Err(format!(
                "wanted {} and real-time priority: on this host, whose cgroups of version 1 share out real time, a group \
                 has none; leave one of the two out, or boot with cgroup_no_v1=cpu",
                limits.words()
            ).into());
        }
        return Ok(());
    }
    Err(format!(
        "wanted {}, which needs the cpu controller of cgroups: none can be used from this program's own group ({}); run \
         as root, or have it delegated (systemd-run --user --scope -p Delegate=yes …)",
        limits.words(),
        own.lines().last().unwrap_or("none")
    ).into())
}

fn controllers(settings: &[Setting]) -> Vec<&'static str> {
    let mut all: Vec<_> = settings.iter().map(|setting| setting.controller).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Per setting that has no group here: what needs what, and what holds it instead.
fn missing(wanted: &[Setting], usable: &[&str]) -> Vec<String> {
    let without = wanted.iter().filter(|setting| !usable.contains(&setting.controller));
    without
        .map(|setting| {
            let instead = match setting.file {
                "cpuset.cpus" => "the affinity of qemu's threads holds it",
                "cpuset.mems" => "qemu's memory policy holds the guest's memory there",
                "io.max" => "qemu's throttle holds it",
                _ => "a CPU group of version 1 holds it",
            };
            format!(
                "{} needs the {} controller of cgroups version 2, which cannot be used here: {instead}",
                setting.file, setting.controller
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_weight_without_any_cpu_controller_is_refused_before_starting() {
        let mount = tempfile::tempdir().unwrap();
        let limits = CpuLimits { weight: Some(5), cap_percent: None };
        let below = |own: &str| possible_below(limits, Priority::Usual, own, mount.path());
        let error = below("0::/\n").unwrap_err();
        assert!(
            error.to_string().contains("weight 5") && error.to_string().contains("cpu controller"),
            "{error}"
        );
        fs::write(mount.path().join("cgroup.controllers"), "cpuset memory\n").unwrap();
        fs::write(mount.path().join("cgroup.subtree_control"), "").unwrap();
        assert!(below("0::/\n").is_err());
        fs::create_dir(mount.path().join("cpu")).unwrap();
        fs::write(mount.path().join("cpu/cpu.shares"), "1024").unwrap();
        assert_eq!(below("3:cpu:/\n0::/\n"), Ok(()));
        let hard = || possible_below(limits, Priority::Realtime(1), "3:cpu:/\n", mount.path());
        assert_eq!(hard(), Ok(()));
        fs::write(mount.path().join("cpu/cpu.rt_runtime_us"), "0").unwrap();
        assert!(hard().unwrap_err().to_string().contains("weight 5 and real-time"));
        fs::remove_dir_all(mount.path().join("cpu")).unwrap();
        fs::write(mount.path().join("cgroup.controllers"), "cpu memory\n").unwrap();
        assert_eq!(below("0::/\n"), Ok(()));
    }

    #[test]
    fn each_missing_controller_is_said_with_what_stands_in() {
        let setting = |controller, file| Setting::new(controller, file, String::new());
        let wanted =
            [setting("cpuset", "cpuset.cpus"), setting("io", "io.max"), setting("cpu", "cpu.weight")];
        let said = missing(&wanted, &["cpu"]);
        assert_eq!(said.len(), 2);
        assert!(said[0].contains("cpuset.cpus needs the cpuset controller") && said[1].contains("throttle"));
        assert_eq!(controllers(&wanted), ["cpu", "cpuset", "io"]);
    }
}
