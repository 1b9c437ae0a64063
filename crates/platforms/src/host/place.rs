//! Where are we? cgroups, hypervisor, container, KVM device. Sources: cgroups(7); Intel SDM, CPUID leaf 1 ECX bit 31
//! (shown as flag `hypervisor`); the kernel's `admin-guide/cgroup-v2`.

use super::read::{check, not_visible};
use model::preflight::{Check, CheckLevel};
use units::Reason;

/// cgroup version, from `/proc/self/mounts`.
pub(super) fn cgroups(mounts: Option<&str>) -> Check {
    let Some(mounts) = mounts else { return not_visible("cgroups", "cgroups") };
    let has = |kind: &str| mounts.lines().any(|line| line.split_whitespace().nth(2) == Some(kind));
    let found = match (has("cgroup"), has("cgroup2")) {
        (false, true) => "cgroup version 2",
        (true, false) => "cgroup version 1",
        (true, true) => "cgroup versions 1 and 2 (hybrid)",
        (false, false) => {
            return check(
                "cgroups",
                CheckLevel::Note,
                "no cgroups are mounted: containers have no limits of their own",
                "mount them: mount -t cgroup2 none /sys/fs/cgroup",
            );
        }
    };
    check("cgroups", CheckLevel::Ok, found, "")
}

/// What tells a virtual machine from a real one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Signs<'a> {
    pub(super) cpuinfo: Option<&'a str>,
    pub(super) vendor: Option<&'a str>,
    pub(super) product: Option<&'a str>,
    pub(super) hypervisor_type: Option<&'a str>,
}

/// Hypervisor below this host.
pub(super) fn hypervisor(signs: Signs<'_>) -> Check {
    let flags = signs.cpuinfo.and_then(|text| text.lines().find(|line| line.starts_with("flags")));
    let flagged = flags.map(|line| line.split_whitespace().any(|flag| flag == "hypervisor"));
    let told: Vec<&str> =
        [signs.hypervisor_type, signs.vendor, signs.product].into_iter().flatten().collect();
    let names = if told.is_empty() { String::new() } else { format!(" ({})", told.join(", ")) };
    match flagged.or_else(|| signs.hypervisor_type.map(|_| true)) {
        Some(true) => check(
            "hypervisor",
            CheckLevel::Note,
            format!("this host is itself a virtual machine{names}: \"native\" means native to this guest"),
            "VMs started here are nested; for figures of the hardware measure on the hardware",
        ),
        Some(false) => check("hypervisor", CheckLevel::Ok, format!("no hypervisor shows{names}"), ""),
        None => not_visible("hypervisor", "hypervisor"),
    }
}

/// Container around this process, from `/proc/1/cgroup` and marker files.
pub(super) fn container(cgroup_of_init: Option<&str>, marker: Option<&str>) -> Check {
    const ENGINES: [&str; 6] = ["docker", "kubepods", "containerd", "libpod", "lxc", "crio"];
    let engine = cgroup_of_init.and_then(|text| ENGINES.into_iter().find(|engine| text.contains(engine)));
    match (marker.or(engine), cgroup_of_init) {
        (Some(sign), _) => check(
            "container",
            CheckLevel::Note,
            format!("this runs inside a container (seen by {sign}): its limits hold for every platform"),
            "measure outside of it to leave its share out",
        ),
        (None, Some(_)) => check("container", CheckLevel::Ok, "no container around this shows", ""),
        (None, None) => not_visible("container", "a container around this"),
    }
}

/// Whether a KVM device is there; whether it is of use only a trial guest tells.
pub(super) fn kvm(exists: bool, openable: Result<(), Reason>) -> Check {
    match (exists, openable) {
        (true, Ok(())) => check("kvm-device", CheckLevel::Ok, "/dev/kvm is there and opens", ""),
        (true, Err(why)) => check(
            "kvm-device",
            CheckLevel::Note,
            format!("/dev/kvm is there but does not open: {why}"),
            "add yourself to its group (usually kvm), or run as root; until then VMs are translated (TCG)",
        ),
        (false, _) => check(
            "kvm-device",
            CheckLevel::Note,
            "no /dev/kvm: VMs are translated by QEMU (TCG)",
            "on hardware: enable VT-x or AMD-V in the firmware and load kvm_intel or kvm_amd; in a guest: ask for nesting",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroup_versions_are_told_apart() {
        let found = |mounts| cgroups(Some(mounts)).found;
        assert_eq!(found("none /sys/fs/cgroup cgroup2 rw 0 0"), "cgroup version 2");
        assert_eq!(found("c /sys/fs/cgroup/cpu cgroup rw 0 0"), "cgroup version 1");
        let both = "c /sys/fs/cgroup/cpu cgroup rw 0 0\nu /sys/fs/cgroup/unified cgroup2 rw 0 0";
        assert!(found(both).contains("hybrid"));
        assert_eq!(cgroups(Some("proc /proc proc rw 0 0")).level, CheckLevel::Note);
    }

    #[test]
    fn a_guest_says_that_native_is_not_the_hardware() {
        let guest =
            Signs { cpuinfo: Some("flags : fpu hypervisor"), vendor: Some("QEMU"), ..Signs::default() };
        let check = hypervisor(guest);
        assert_eq!(check.level, CheckLevel::Note);
        assert!(check.found.contains("(QEMU)"), "{}", check.found);
        let real = Signs { cpuinfo: Some("flags : fpu vmx"), ..Signs::default() };
        assert_eq!(hypervisor(real).level, CheckLevel::Ok);
        let unknown = Signs { vendor: Some("ACME"), ..Signs::default() };
        assert!(hypervisor(unknown).found.contains("not visible"));
    }

    #[test]
    fn containers_show_by_marker_or_cgroup() {
        assert_eq!(container(Some("0::/"), None).level, CheckLevel::Ok);
        assert!(container(Some("1:cpu:/docker/abc"), None).found.contains("docker"));
        assert_eq!(container(None, Some("/.dockerenv")).level, CheckLevel::Note);
        assert!(container(None, None).found.contains("not visible"));
    }

    #[test]
    fn a_kvm_device_that_does_not_open_is_explained() {
        assert_eq!(kvm(true, Ok(())).level, CheckLevel::Ok);
        assert!(kvm(true, Err("permission denied".into())).found.contains("permission denied"));
        assert!(kvm(false, Err(String::new().into())).found.contains("TCG"));
    }
}
