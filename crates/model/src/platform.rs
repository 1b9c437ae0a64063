//! A platform of an experiment: its kind and its settings, checked.

use serde::{Deserialize, Serialize};

use super::experiment::{Experiment, ExperimentError, contradiction};
use super::journal::{Cell, FailureKind};
use probes::params::{ProbeSpec, Probes};
use units::Mebibytes;
use units::bounds::within;
use units::names::{LoadKind, PlatformKind};

/// A platform with its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PlatformSpec {
    /// Label, unique in the experiment: letters, digits, `-`, `_`, `#`, at most 40.
    pub label: String,
    /// Kind of platform.
    pub kind: PlatformKind,
    /// CPUs of an instance, 1 … 1024; unset means all the host grants. `native` and `container` are
    /// held to the first so many CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Memory of a VM, 128 MiB … 1 TiB; unset means what the probes need, within what the host has free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<Mebibytes>,
    /// OCI runtime: a name found in PATH, or a path. Unset means the first found of crun, runc, youki, runsc.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Whether a container's system calls are filtered as Docker and Podman filter them. Unset means they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seccomp: Option<bool>,
    /// What a container's root may do. Unset means `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
    /// Whether a container that root starts has users of its own, so that its root is nobody outside. Unset means where
    /// host and runtime allow it; `true` means that or nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_namespace: Option<bool>,
    /// Whether a container has processes, a network, names and shared memory of its own. Unset means it has; without, only
    /// its files are its own, for comparisons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<bool>,
    /// QEMU binary: a name found in PATH, or a path. Unset means `qemu-system-` with the host's architecture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qemu: Option<String>,
    /// Accelerator of a VM.
    #[serde(default)]
    pub accelerator: Accelerator,
    /// Kernel image of a VM; unset means the set-up's, then the host's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Modules folder of that kernel (`…/lib/modules/RELEASE`); unset means it is looked for beside the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modules: Option<String>,
    /// Network card of a VM; used in layouts whose probes need a network, and for
    /// loads that send packets. Unset means `virtio`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic: Option<NicModel>,
    /// How many of them, 1 … 8; the first one carries the measurement. Unset means 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nics: Option<u32>,
    /// What the disk probe and the disk load use. Unset means `file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskBacking>,
    /// Block device for `disk = "device"`, `/dev/sdb1` for example. Everything on it is lost; a device in use is only
    /// written to with `--i-know-this-destroys-data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// How a VM's disk is attached. Unset means `virtio`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bus: Option<DiskBus>,
    /// Puts each instance into a CPU group of its own with this weight, 1 … 10 000; 100 is usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_weight: Option<u32>,
    /// Weight of every instance but the first, where it differs: the measured one is number one. 1 … 10 000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_cpu_weight: Option<u32>,
    /// Puts each instance into a CPU group of its own that gets at most this many percent of one CPU, 1 … 100 000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_cap_percent: Option<u32>,
    /// Makes a native platform slower on purpose, to see whether that is found: the probes `fwq`, `cpu` and `frames` do this
    /// many percent more work there, and their figures take it for the work that was asked for; other probes and loads are
    /// as they are. 0.1 … 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more_work_percent: Option<f64>,
    /// Machines of an `ssh` platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh: Option<SshSpec>,
    /// Script of a fake platform; see `platforms::fake`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<FakeScript>,
}

impl PlatformSpec {
    /// A platform with default settings, labelled like its kind.
    pub fn of_kind(kind: PlatformKind) -> Self {
        Self {
            label: kind.as_str().to_owned(),
            kind,
            cpus: None,
            memory_mib: None,
            runtime: None,
            seccomp: None,
            capabilities: None,
            user_namespace: None,
            namespaces: None,
            qemu: None,
            accelerator: Accelerator::Auto,
            kernel: None,
            modules: None,
            nic: None,
            nics: None,
            disk: None,
            device: None,
            disk_bus: None,
            cpu_weight: None,
            other_cpu_weight: None,
            cpu_cap_percent: None,
            more_work_percent: None,
            ssh: None,
            script: None,
        }
    }
}

impl Experiment {
    /// A cell's probe as its platform is asked for it.
    pub fn probe_of(&self, cell: &Cell) -> Option<ProbeSpec> {
        let probe = self.probes.specs().into_iter().find(|spec| spec.kind() == cell.probe)?;
        let platform = self.platforms.iter().find(|platform| platform.label == cell.platform);
        let more = platform.and_then(|platform| platform.more_work_percent);
        Some(more.and_then(|percent| probe.with_more_work(percent)).unwrap_or(probe))
    }
}

/// What a container's root may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Capabilities {
    /// The set that Docker gives.
    #[default]
    Default,
    /// All that the kernel knows and this program has.
    All,
}

/// How a VM's CPUs are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Accelerator {
    /// KVM when a trial guest reaches its agent in time, else TCG.
    #[default]
    Auto,
    /// KVM or nothing.
    Kvm,
    /// QEMU's translator.
    Tcg,
}

/// Network card of a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NicModel {
    /// Paravirtual.
    Virtio,
    /// Intel 82540EM, fully emulated.
    E1000,
    /// Realtek 8139, fully emulated.
    Rtl8139,
}

/// What the disk probe and the disk load use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DiskBacking {
    /// A file in the run directory (for a VM: an image there with a file system in it).
    File,
    /// A loop device over a file in the run directory; needs root.
    Loop,
    /// The block device named by `device`.
    Device,
}

/// How a VM's disk is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DiskBus {
    /// Paravirtual.
    Virtio,
    /// AHCI, fully emulated.
    Sata,
    /// `NVMe`, fully emulated.
    Nvme,
}

/// Machines that OpenSSH reaches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SshSpec {
    /// `[user@]host` each, or names from the SSH configuration; 1 … 64. In layouts each one is a host.
    pub destinations: Vec<String>,
    /// Port; unset means what the SSH configuration says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Private key file; unset means what the SSH configuration says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// File of known host keys; unset means what the SSH configuration says. A host whose key is not in it, or has
    /// changed, is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_hosts: Option<String>,
    /// SSH configuration file; unset means the user's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// For each destination the IP address at which the others reach it; needed for the probes `net` and `mpi`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<std::net::IpAddr>,
    /// Folder for the disk probe's files on those machines; unset means a fresh one in `/tmp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratch: Option<String>,
}

/// What a fake platform pretends.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct FakeScript {
    /// Times are this many percent of the fake native ones; 100 is no overhead. 1 … 100 000.
    pub slowdown_percent: Option<u32>,
    /// Random spread of times in percent, 0 … 100.
    pub noise_percent: u32,
    /// Real time each measurement takes, so that interruptions can hit it, 0 … 60 000 ms.
    pub delay_ms: u32,
    /// How much too fast its clock runs, −100 000 … 100 000 parts per million.
    pub clock_ppm: i32,
    /// How far its time of day is set during each measurement, −1 000 000 … 1 000 000 ms.
    pub clock_step_ms: i32,
    /// How far it is set between two measurements of the same instance, −1 000 000 … 1 000 000 ms.
    pub clock_step_between_ms: i32,
    /// Measurements (counted from 1 per instance) that break, and how.
    pub failures: Vec<FakeFailure>,
    /// Loads that do nothing: their dose is zero.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub powerless: Vec<LoadKind>,
}

/// A scripted failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FakeFailure {
    /// Which measurement of an instance, from 1; 0 means its start.
    pub at: u32,
    /// How it breaks.
    pub kind: FailureKind,
}

/// Checks bounds and settings that do not belong to the kind.
pub(super) fn check(platform: &PlatformSpec, probes: &Probes) -> Result<(), ExperimentError> {
    check_label(&platform.label)?;
    if platform.kind == PlatformKind::Sim {
        return Err(contradiction(format!(
            "platform \"{}\" is of kind \"sim\", which cannot be measured: use bulkhead simulate, or another kind",
            platform.label
        )));
    }
    check_bounds(platform)?;
    check_owners(platform)?;
    check_more_work(platform, probes)?;
    if platform.disk == Some(DiskBacking::Device) && platform.device.is_none() {
        return Err(contradiction(format!(
            "platform \"{}\" has disk = \"device\" but no device: add device = \"/dev/…\"",
            platform.label
        )));
    }
    if let Some(device) = platform.device.as_ref().filter(|device| !device.starts_with('/')) {
        return Err(contradiction(format!(
            "platform \"{}\": device \"{}\" is no absolute path: wanted \"/dev/…\"",
            platform.label,
            device.chars().take(60).collect::<String>()
        )));
    }
    if platform.device.is_some() && platform.disk != Some(DiskBacking::Device) {
        return Err(contradiction(format!(
            "platform \"{}\" names a device but does not use it: add disk = \"device\" or remove it",
            platform.label
        )));
    }
    check_ssh(platform)
}

fn check_bounds(platform: &PlatformSpec) -> Result<(), ExperimentError> {
    within("platform.cpus", platform.cpus.unwrap_or(1).into(), 1, 1024)?;
    within("platform.memory_mib", platform.memory_mib.map_or(128, Mebibytes::get), 128, 1 << 20)?;
    within("platform.nics", platform.nics.unwrap_or(1).into(), 1, 8)?;
    within("platform.cpu_weight", platform.cpu_weight.unwrap_or(100).into(), 1, 10_000)?;
    within("platform.other_cpu_weight", platform.other_cpu_weight.unwrap_or(100).into(), 1, 10_000)?;
    within("platform.cpu_cap_percent", platform.cpu_cap_percent.unwrap_or(100).into(), 1, 100_000)?;
    if let Some(script) = &platform.script {
        within("script.slowdown_percent", script.slowdown_percent.unwrap_or(100).into(), 1, 100_000)?;
        within("script.noise_percent", script.noise_percent.into(), 0, 100)?;
        within("script.delay_ms", script.delay_ms.into(), 0, 60_000)?;
        within("script.clock_ppm, either sign,", script.clock_ppm.unsigned_abs().into(), 0, 100_000)?;
        for (what, step_ms) in [
            ("script.clock_step_ms, either sign,", script.clock_step_ms),
            ("script.clock_step_between_ms, either sign,", script.clock_step_between_ms),
        ] {
            within(what, step_ms.unsigned_abs().into(), 0, 1_000_000)?;
        }
        within("number of script.failures", script.failures.len() as u64, 0, 1000)?;
    }
    Ok(())
}

/// More work must be work that the probes can be asked for.
fn check_more_work(platform: &PlatformSpec, probes: &Probes) -> Result<(), ExperimentError> {
    let Some(percent) = platform.more_work_percent else { return Ok(()) };
    if !(0.1..=100.0).contains(&percent) {
        return Err(contradiction(format!(
            "platform \"{}\": more_work_percent = {percent} is out of bounds; allowed is 0.1 to 100",
            platform.label
        )));
    }
    let mut more = probes.specs().into_iter().filter_map(|probe| probe.with_more_work(percent));
    more.try_for_each(|probe| probe.check()).map_err(ExperimentError::from)
}

/// Refuses settings of another kind of platform.
fn check_owners(platform: &PlatformSpec) -> Result<(), ExperimentError> {
    use PlatformKind::{Container, Fake, Native, Ssh, Vm};
    let p = platform;
    let settings: [(&str, bool, &[PlatformKind]); 22] = [
        ("memory_mib", p.memory_mib.is_some(), &[Vm]),
        ("qemu", p.qemu.is_some(), &[Vm]),
        ("kernel", p.kernel.is_some(), &[Vm]),
        ("modules", p.modules.is_some(), &[Vm]),
        ("accelerator", p.accelerator != Accelerator::Auto, &[Vm]),
        ("nic", p.nic.is_some(), &[Vm]),
        ("nics", p.nics.is_some(), &[Vm]),
        ("disk_bus", p.disk_bus.is_some(), &[Vm]),
        ("disk", p.disk.is_some(), &[Native, Container, Vm]),
        ("device", p.device.is_some(), &[Native, Container, Vm]),
        ("cpu_weight", p.cpu_weight.is_some(), &[Native, Container, Vm]),
        ("other_cpu_weight", p.other_cpu_weight.is_some(), &[Native, Container, Vm]),
        ("cpu_cap_percent", p.cpu_cap_percent.is_some(), &[Native, Container, Vm]),
        ("cpus", p.cpus.is_some(), &[Native, Container, Vm, Fake]),
        ("runtime", p.runtime.is_some(), &[Container]),
        ("seccomp", p.seccomp.is_some(), &[Container]),
        ("capabilities", p.capabilities.is_some(), &[Container]),
        ("user_namespace", p.user_namespace.is_some(), &[Container]),
        ("namespaces", p.namespaces.is_some(), &[Container]),
        ("more_work_percent", p.more_work_percent.is_some(), &[Native]),
        ("ssh", p.ssh.is_some(), &[Ssh]),
        ("script", p.script.is_some(), &[Fake]),
    ];
    let Some((key, _, owners)) =
        settings.into_iter().find(|(_, is_set, owners)| *is_set && !owners.contains(&p.kind))
    else {
        return Ok(());
    };
    let owners: Vec<String> = owners.iter().map(|kind| format!("\"{kind}\"")).collect();
    Err(contradiction(format!(
        "platform \"{}\" is of kind \"{}\", but {key} is a setting of kind {}: remove it or change the kind",
        p.label,
        p.kind,
        owners.join(", ")
    )))
}

/// Whether this is an OpenSSH destination, `[user@]host`, and nothing else to anybody.
pub fn is_ssh_destination(text: &str) -> bool {
    // A leading dash would be an option for ssh; the rest keeps remote shells and configurations out of it.
    let allowed =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@' | ':' | '%' | '[' | ']');
    !text.is_empty() && !text.starts_with('-') && text.chars().all(allowed)
}

fn check_ssh(platform: &PlatformSpec) -> Result<(), ExperimentError> {
    let Some(ssh) = &platform.ssh else {
        return if platform.kind == PlatformKind::Ssh {
            Err(contradiction(format!(
                "platform \"{0}\" is of kind \"ssh\" but says not where: add ssh = {{ destinations = [\"user@host\"] }}",
                platform.label
            )))
        } else {
            Ok(())
        };
    };
    within("number of platform.ssh.destinations", ssh.destinations.len() as u64, 1, 64)?;
    for destination in &ssh.destinations {
        if !is_ssh_destination(destination) {
            return Err(contradiction(format!(
                "platform \"{}\": \"{}\" is no SSH destination: wanted [user@]host",
                platform.label,
                destination.chars().take(60).collect::<String>()
            )));
        }
    }
    // The client's options are split at blanks and quotes.
    let quoted = ssh.known_hosts.iter().find(|path| path.contains(['"', '\n', '%']) || path.starts_with('-'));
    if let Some(path) = quoted {
        return Err(contradiction(format!(
            "platform \"{}\": known_hosts = {path:?} may not contain quotes, percent signs or line breaks",
            platform.label
        )));
    }
    if !ssh.addresses.is_empty() && ssh.addresses.len() != ssh.destinations.len() {
        return Err(contradiction(format!(
            "platform \"{}\" has {} destinations but {} addresses: give one each, in the same order",
            platform.label,
            ssh.destinations.len(),
            ssh.addresses.len()
        )));
    }
    Ok(())
}

fn check_label(label: &str) -> Result<(), ExperimentError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '#');
    if label.is_empty() || label.len() > 40 || !label.chars().all(allowed) {
        return Err(contradiction(format!(
            "platform label \"{}\" may only have letters, digits, '-', '_', '#', and 1 to 40 of them",
            label.chars().take(60).collect::<String>()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(platform: &str, probe: &str) -> Result<Experiment, ExperimentError> {
        let text = format!("[[platform]]\nlabel = \"a\"\n{platform}\n[probe.{probe}\n[probe.gap]");
        Experiment::from_toml(&text)
    }

    #[test]
    fn more_work_is_asked_of_a_native_platform_alone_and_of_probes_that_can_do_it() {
        let slower = "kind = \"native\"\nmore_work_percent = 5";
        let experiment = read(slower, "fwq]\niterations = 10_000").unwrap();
        let asked: Vec<ProbeSpec> =
            experiment.cells().iter().filter_map(|cell| experiment.probe_of(cell)).collect();
        let [gap, ProbeSpec::Fwq(fwq)] = &asked[..] else { panic!("{asked:?}") };
        assert_eq!((fwq.iterations, gap), (10_500, &ProbeSpec::default_of(gap.kind())));
        let plain = read("kind = \"native\"", "fwq]\niterations = 10_000").unwrap();
        assert_eq!(plain.probe_of(&plain.cells()[1]), plain.probes.specs().into_iter().nth(1));
        for (platform, probe, part) in [
            ("kind = \"vm\"\nmore_work_percent = 5.0", "fwq]", "setting of kind \"native\""),
            ("kind = \"native\"\nmore_work_percent = 0.0", "fwq]", "allowed is 0.1 to 100"),
            ("kind = \"native\"\nmore_work_percent = nan", "fwq]", "allowed is 0.1 to 100"),
            ("kind = \"native\"\nmore_work_percent = 101", "fwq]", "allowed is 0.1 to 100"),
            (slower, "fwq]\niterations = 10_000_000_000", "probe.fwq.iterations"),
        ] {
            let refused = read(platform, probe).unwrap_err().to_string();
            assert!(refused.contains(part), "{refused}");
        }
    }
}
