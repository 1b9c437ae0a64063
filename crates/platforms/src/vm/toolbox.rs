//! Everything a guest is made of, found on this host before the first one is started.

use std::fs;
use std::io::Read;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::disk::find_program;
use super::kernel::{self, Bootable, Kernel, Places};
use super::modules::ModulesError;
use super::payload::{GuestModules, read_program};
use super::qemu::{Engine, Extras, HostCounter, Machine, command_line};
use model::experiment::PlatformSpec;
use model::platform::DiskBus;
use units::{Bytes, Hertz, Mebibytes, Reason};

/// Memory of a guest beside what its probes need.
const SYSTEM_MIB: u64 = 256;
/// Least memory of a guest that has no setting of its own.
const LEAST_MIB: u64 = 512;
/// Longest version text of QEMU that is read.
const MAX_VERSION_BYTES: u64 = 4096;

/// Why no guest can be started here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// Something is missing; says what installs it.
    #[error("{0}")]
    Missing(Reason),
    /// The user interrupted.
    #[error("interrupted")]
    Interrupted,
}

/// What guests are made of.
#[derive(Debug)]
pub struct Toolbox {
    /// QEMU.
    pub qemu: PathBuf,
    /// Its version, `7.2.15` for example; empty when it was not asked for.
    pub qemu_version: String,
    /// The guests' kernel.
    pub kernel: Kernel,
    /// The form of it that is started.
    pub bootable: Bootable,
    /// Its modules.
    pub modules: GuestModules,
    /// This program.
    pub program: Vec<u8>,
    /// A firmware that does nothing but start the kernel, where there is one.
    pub firmware: Option<PathBuf>,
    /// What makes file systems.
    pub mke2fs: Option<PathBuf>,
    /// The host's cycle counter.
    pub counter: HostCounter,
}

impl Toolbox {
    /// Finds everything, or says what is missing.
    pub fn find(
        spec: &PlatformSpec,
        exe: &Path,
        cache: &Path,
        counter_hz: Option<Hertz>,
    ) -> Result<Self, Unavailable> {
        let bus = spec.disk_bus.unwrap_or(DiskBus::Virtio);
        let modules = |folder: Option<&Path>| GuestModules::collect(folder, bus);
        let mut tools = Self::find_with(spec, exe, cache, counter_hz, &modules)?;
        tools.qemu_version = version_of(&tools.qemu).map_err(Unavailable::Missing)?;
        Ok(tools)
    }

    /// What an instance of `vm` and a partition have in common: this kernel on so many CPUs, its first file system, link, console
    /// and control channel by their descriptors.
    pub fn machine(
        &self,
        engine: Engine,
        cpus: u32,
        memory: Mebibytes,
        [initramfs, link, console, control]: [RawFd; 4],
    ) -> Machine {
        Machine {
            engine,
            cpus,
            memory,
            kernel: self.bootable.path.clone(),
            firmware: self.firmware.clone(),
            initramfs,
            command_line: command_line(engine, self.modules.device, self.counter),
            link_device: self.modules.device,
            link,
            console,
            control,
            disk: None,
            nics: Vec::new(),
            extras: Extras::default(),
        }
    }

    /// The same for guests with other modules; QEMU is not asked for its version, which takes it a while.
    pub fn find_with(
        spec: &PlatformSpec,
        exe: &Path,
        cache: &Path,
        counter_hz: Option<Hertz>,
        modules: &dyn Fn(Option<&Path>) -> Result<GuestModules, ModulesError>,
    ) -> Result<Self, Unavailable> {
        let missing = |reason: String| Unavailable::Missing(reason.into());
        if std::env::consts::ARCH != "x86_64" {
            return Err(missing(format!(
                "virtual machines need an x86_64 host, this is {}",
                std::env::consts::ARCH
            )));
        }
        let qemu = find_qemu(spec.qemu.as_deref()).map_err(Unavailable::Missing)?;
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let places = Places {
            named: spec.kernel.as_deref().map(Path::new),
            named_modules: spec.modules.as_deref().map(Path::new),
            cache,
            root: Path::new("/"),
            host_release: release.trim(),
        };
        if let Some(folder) = places.named_modules.filter(|folder| !folder.is_dir()) {
            let (folder, release) = (folder.display(), places.host_release);
            return Err(missing(format!(
                "the folder of modules that was named, {folder}, is none: wanted the one of the guest's kernel, \
                 …/lib/modules/RELEASE (this host's would be /lib/modules/{release}); without --modules it is looked for \
                 beside the kernel"
            )));
        }
        let kernel = kernel::find(&places).map_err(|error| missing(error.to_string()))?;
        let modules = modules(kernel.modules.as_deref()).map_err(|error| missing(error.to_string()))?;
        let bootable = kernel::bootable(&kernel, cache)
            .map_err(|error| missing(format!("kernel {}: {error}", kernel.image.display())))?;
        let program = read_program(exe)
            .map_err(|error| missing(format!("reading this program, {}: {error}", exe.display())))?;
        let firmware = find_firmware(&qemu);
        let mke2fs = find_program("mke2fs");
        Ok(Self {
            qemu,
            qemu_version: String::new(),
            kernel,
            bootable,
            modules,
            program,
            firmware,
            mke2fs,
            counter: host_counter(counter_hz),
        })
    }
}

/// What to do without a QEMU.
const ADVICE: &str = "install it (Debian: apt-get install qemu-system-x86; or run `make setup`), or name one with qemu = … or --qemu";

fn find_qemu(named: Option<&str>) -> Result<PathBuf, Reason> {
    let name = named.unwrap_or("qemu-system-x86_64");
    find_program(name).ok_or_else(|| format!("no {name} in PATH: {ADVICE}").into())
}

/// What a QEMU says when it is asked for its version.
///
/// # Errors
/// It does not start, or says none.
pub fn version_of(path: &Path) -> Result<String, Reason> {
    let mut child = Command::new(path)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("{} does not start: {error}; {ADVICE}", path.display()))?;
    let mut text = String::new();
    let read = child.stdout.take().map(|out| out.take(MAX_VERSION_BYTES).read_to_string(&mut text));
    let status = child.wait().map_err(|error| format!("{}: {error}", path.display()))?;
    let version = text.split_once("version ").and_then(|(_, rest)| rest.split_whitespace().next());
    match (read, status.success(), version) {
        (Some(Ok(_)), true, Some(version)) => Ok(version.to_owned()),
        _ => {
            Err(format!("{} --version ended with {status} and names no version: {ADVICE}", path.display())
                .into())
        }
    }
}

/// qboot.
fn find_firmware(qemu: &Path) -> Option<PathBuf> {
    find_data(qemu, "qboot.rom")
}

/// What a machine starts with: qboot before a kernel of ours where there is one, else `SeaBIOS`, as QEMU does by itself.
pub fn firmware_of(qemu: &Path, boots_disk: bool) -> Option<PathBuf> {
    let qboot = if boots_disk { None } else { find_firmware(qemu) };
    qboot.or_else(|| find_data(qemu, "bios-256k.bin"))
}

/// A file where QEMU's own data are, or where distributions put them.
fn find_data(qemu: &Path, name: &str) -> Option<PathBuf> {
    let own = fs::canonicalize(qemu).ok().and_then(|path| Some(path.parent()?.parent()?.join("share/qemu")));
    let usual = ["/usr/share/qemu", "/usr/share/qboot", "/usr/share/seabios"].map(PathBuf::from);
    own.into_iter().chain(usual).map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn host_counter(rate: Option<Hertz>) -> HostCounter {
    let source = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    HostCounter { trusted: source.is_ok_and(|source| source.trim() == "tsc"), rate }
}

/// CPUs this process may run on.
pub fn host_cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX))
}

/// Memory of a guest whose probes need `wanted`, within half of what the host has free.
pub fn memory_for(wanted: Bytes) -> Mebibytes {
    let available = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available_kib(&text));
    bounded_memory(wanted, available)
}

fn available_kib(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The same with so much free, or where nobody knows.
pub fn bounded_memory(wanted: Bytes, available_kib: Option<u64>) -> Mebibytes {
    let mib = wanted.get().div_ceil(1024 * 1024).saturating_add(SYSTEM_MIB).max(LEAST_MIB);
    let most = available_kib.map_or(u64::MAX, |kib| kib / 1024 / 2);
    Mebibytes::from_mib(mib.min(most).max(128))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_follows_the_probes_within_half_of_what_is_free() {
        let mib = |wanted: u64, free: Option<u64>| {
            bounded_memory(Bytes::from_bytes(wanted << 20), free.map(|mib| mib * 1024)).get()
        };
        assert_eq!(mib(10, None), 512);
        assert_eq!(mib(700, Some(100_000)), 956);
        assert_eq!(mib(700, Some(1200)), 600);
        assert_eq!(available_kib("MemTotal: 9 kB\nMemAvailable:   1234 kB\n"), Some(1234));
    }

    #[test]
    fn a_missing_qemu_says_what_installs_it() {
        let error = find_qemu(Some("qemu-system-nowhere")).unwrap_err();
        assert!(error.to_string().contains("apt-get install qemu-system-x86"), "{error}");
        let error = version_of(Path::new("/bin/false")).unwrap_err();
        assert!(error.to_string().contains("names no version"), "{error}");
    }
}
