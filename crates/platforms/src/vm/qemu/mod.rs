//! The virtual machine as a command line: lean, nothing that listens, no configuration of the user's read in.
//!
//! Only what the guest needs is there: a PCI host bridge, one serial port for the console, a virtio port for the link,
//! a virtio disk, and in layouts that need a network, cards at tap devices. The firmware is qboot where there is one: it only passes control to the kernel. Pure: builds words,
//! runs nothing, and no shell ever sees them.

mod extras;
mod layer;
mod sections;

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

pub use extras::{
    Extras, FILES_CHARDEV, FILES_QUEUE, FileDevice, LATE_PORT, LONGEST_SOCKET_PATH, MemoryArgument,
    ParkArgument, PlugArgument, PortArgument, ShareArgument, SharedTree,
};
pub use layer::{LAYER_DRIVE, LayerArgument};
pub use sections::SectionArgument;

use super::guest::{LINK_PORT, LinkDevice};
use model::platform::DiskBus;
use units::{Bytes, Hertz, Mebibytes};

/// What runs the guest's CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// The processor's virtualization.
    Kvm,
    /// QEMU's translator, one thread per CPU.
    Tcg,
}

impl Engine {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }
}

/// The disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskArgument {
    /// Raw image.
    pub image: PathBuf,
    /// Whether the folder it lies in takes `O_DIRECT`; else the host's page cache is between.
    pub direct: bool,
    /// How it is attached.
    pub bus: DiskBus,
    /// Whether other guests of the run may have it, too.
    pub shared: bool,
    /// Whether the guest may only read it.
    pub read_only: bool,
    /// What it may take at most.
    pub throttle: Throttle,
    /// Opened already, for a QEMU that does not see the image's path.
    pub handed: Option<HandedDisk>,
}

/// A disk whose descriptors QEMU is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandedDisk {
    /// Number of the set of descriptors, another one for each disk.
    pub set: u32,
    /// Whether it is a block device; else it is a file.
    pub is_device: bool,
    /// One that can be read, and one that can be written where that is allowed.
    pub descriptors: Vec<RawFd>,
}

/// What a disk may take at most; nothing set is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Throttle {
    /// Bytes per second, reads and writes together.
    pub bytes_per_s: Option<Bytes>,
    /// Operations per second.
    pub operations_per_s: Option<u64>,
}

/// Name that a guest's driver gives to the first disk on a bus.
pub const fn guest_device(bus: DiskBus) -> &'static str {
    match bus {
        DiskBus::Virtio => "/dev/vda",
        DiskBus::Sata => "/dev/sda",
        DiskBus::Nvme => "/dev/nvme0n1",
    }
}

/// A network card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NicArgument {
    /// QEMU's name of the device.
    pub device: &'static str,
    /// Descriptor of its tap device.
    pub tap: RawFd,
    /// Descriptor of the host kernel's part, where there is one.
    pub vhost: Option<RawFd>,
    /// Hardware address.
    pub mac: String,
}

/// A virtual machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// What runs its CPUs.
    pub engine: Engine,
    /// Its CPUs.
    pub cpus: u32,
    /// Its memory.
    pub memory: Mebibytes,
    /// Kernel file.
    pub kernel: PathBuf,
    /// Firmware instead of QEMU's own.
    pub firmware: Option<PathBuf>,
    /// Descriptor of the first file system.
    pub initramfs: RawFd,
    /// Kernel command line.
    pub command_line: String,
    /// What carries the link.
    pub link_device: LinkDevice,
    /// Descriptors of connected sockets: link, console, control channel.
    pub link: RawFd,
    /// See `link`.
    pub console: RawFd,
    /// See `link`.
    pub control: RawFd,
    /// The disk, if it has one.
    pub disk: Option<DiskArgument>,
    /// Network cards.
    pub nics: Vec<NicArgument>,
    /// What a partition has beyond that.
    pub extras: Extras,
}

/// The machine type with what is not needed switched off.
pub const MACHINE: &str = "q35,sata=off,smbus=off,usb=off,vmport=off,graphics=off";

/// The processor of a translated guest: all that the translator knows, but not that copying byte by byte were quick (ERMS, FSRM). QEMU
/// carries out each step of `rep movsb` by itself, so a kernel that believes it copies at a third of its speed.
pub const TRANSLATED_CPU: &str = "max,-erms,-fsrm";

/// QEMU's own filter of system calls, as far as it goes: it starts nothing, and is placed from outside.
pub const SANDBOX: &str = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";

impl Machine {
    /// Arguments for QEMU.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        let mut add = |words_: &[&str]| words.extend(words_.iter().map(OsString::from));
        add(&["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        add(&["-sandbox", SANDBOX]);
        add(&["-machine", MACHINE]);
        match self.engine {
            Engine::Kvm => add(&["-accel", "kvm", "-cpu", "host"]),
            Engine::Tcg => add(&["-accel", "tcg,thread=multi", "-cpu", TRANSLATED_CPU]),
        }
        let cpus = self.cpus;
        add(&["-smp", &format!("cpus={cpus},sockets=1,cores={cpus},threads=1")]);
        add(&["-m", &format!("{}M", self.memory.get())]);
        for (id, fd) in [("console", self.console), ("link", self.link), ("control", self.control)] {
            add(&["-chardev", &format!("socket,id={id},fd={fd}")]);
        }
        add(&["-mon", "chardev=control,mode=control", "-serial", "chardev:console"]);
        match self.link_device {
            LinkDevice::VirtioPort => {
                // The first one is kept for a console that nobody has.
                let most = 2 + self.extras.ports.len();
                add(&["-device", &format!("virtio-serial-pci,id=ports,max_ports={most},disable-legacy=on")]);
                add(&["-device", &format!("virtserialport,bus=ports.0,chardev=link,name={LINK_PORT}")]);
            }
            LinkDevice::Serial => add(&["-serial", "chardev:link"]),
        }
        if !self.extras.boots_disk {
            add(&["-initrd", &format!("/proc/self/fd/{}", self.initramfs), "-append", &self.command_line]);
            if let Some(firmware) = &self.firmware {
                words.extend(["-bios".into(), firmware.clone().into_os_string()]);
            }
            words.extend(["-kernel".into(), self.kernel.clone().into_os_string()]);
        }
        if let Some(disk) = &self.disk {
            words.extend(disk_arguments(disk, "disk"));
        }
        for (number, nic) in self.nics.iter().enumerate() {
            words.extend(nic_arguments(number, nic).map(OsString::from));
        }
        words.extend(self.extras.arguments(self.cpus, self.memory));
        words
    }
}

fn disk_arguments(disk: &DiskArgument, id: &str) -> Vec<OsString> {
    let mut drive = OsString::from(format!("if=none,id={id},format=raw,"));
    if disk.read_only {
        drive.push("readonly=on,");
    }
    if let Some(limit) = disk.throttle.bytes_per_s {
        drive.push(format!("throttling.bps-total={},", limit.get()));
    }
    if let Some(limit) = disk.throttle.operations_per_s {
        drive.push(format!("throttling.iops-total={limit},"));
    }
    drive.push(if disk.direct { "cache=none,aio=native" } else { "cache=writeback,aio=threads" });
    if let Some(HandedDisk { set, is_device, .. }) = &disk.handed {
        let driver = if *is_device { "host_device" } else { "file" };
        drive.push(format!(",file.driver={driver},file.filename=/dev/fdset/{set}"));
    } else {
        drive.push(",file=");
        drive.push(commas_doubled(&disk.image));
    }
    // What the host has no room for, the guest is told, as an NVMe's always is: by default QEMU stops it, and nobody lets it go on.
    let devices: Vec<String> = match disk.bus {
        DiskBus::Virtio => vec![format!("virtio-blk-pci,drive={id},werror=report,disable-legacy=on")],
        DiskBus::Sata => {
            vec![
                format!("ich9-ahci,id=ahci-{id}"),
                format!("ide-hd,drive={id},bus=ahci-{id}.0,werror=report"),
            ]
        }
        DiskBus::Nvme => vec![format!("nvme,drive={id},serial=bulkhead-{id}")],
    };
    let mut words: Vec<OsString> = Vec::new();
    if let Some(HandedDisk { set, descriptors, .. }) = &disk.handed {
        let add = descriptors.iter().map(|fd| format!("fd={fd},set={set}"));
        words.extend(add.flat_map(|pair| ["-add-fd".into(), pair.into()]));
    }
    words.extend(["-drive".into(), drive]);
    for (index, device) in devices.iter().enumerate() {
        let share = if disk.shared && index + 1 == devices.len() { ",share-rw=on" } else { "" };
        words.extend(["-device".into(), format!("{device}{share}").into()]);
    }
    words
}

/// A card at a tap device that is there already: QEMU makes none, runs no script, and sees no other network.
fn nic_arguments(number: usize, nic: &NicArgument) -> [String; 4] {
    let vhost = nic.vhost.map(|fd| format!(",vhost=on,vhostfd={fd}")).unwrap_or_default();
    let modern = if nic.device.starts_with("virtio") { ",disable-legacy=on" } else { "" };
    // Without a ROM: nobody boots from these cards.
    [
        "-netdev".to_owned(),
        format!("tap,id=net{number},fd={}{vhost}", nic.tap),
        "-device".to_owned(),
        format!("{},netdev=net{number},mac={},romfile={modern}", nic.device, nic.mac),
    ]
}

/// QEMU separates by commas; a doubled one stands for itself.
fn commas_doubled(path: &Path) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let bytes = path.as_os_str().as_bytes();
    OsString::from_vec(
        bytes.iter().flat_map(|byte| std::iter::repeat_n(*byte, 1 + usize::from(*byte == b','))).collect(),
    )
}

/// What is known of the host's cycle counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostCounter {
    /// Whether the host's own kernel keeps time by it, so has found it steady and equal on all CPUs.
    pub trusted: bool,
    /// Its rate.
    pub rate: Option<Hertz>,
}

/// The guest's kernel command line. Nothing in it weakens the guest's protections; what it leaves out is waiting:
///
/// * `quiet`: a serial line is slow; errors, OOM kills and panics are still printed.
/// * `panic=-1`: restart at once on a panic, which ends QEMU (`-no-reboot`).
/// * `cryptomgr.notests`: no self-tests of ciphers nobody uses here.
/// * `no_timer_check`: the timer's wiring is known to work in a virtual machine.
/// * `random.trust_cpu=on`: no wait for entropy.
/// * `8250.nr_uarts`: probe only the serial ports that are there.
/// * `tsc=reliable tsc_early_khz=`: the translator hands the host's counter through, the same for all CPUs. Said only
///   when the host's own kernel trusts that counter; spares the guest measuring it against slower clocks.
pub fn command_line(engine: Engine, link_device: LinkDevice, counter: HostCounter) -> String {
    let ports = match link_device {
        LinkDevice::VirtioPort => 1,
        LinkDevice::Serial => 2,
    };
    let mut words = vec![
        "console=ttyS0 quiet panic=-1 cryptomgr.notests no_timer_check random.trust_cpu=on".to_owned(),
        format!("8250.nr_uarts={ports}"),
    ];
    if engine == Engine::Tcg && counter.trusted {
        words.push("tsc=reliable".to_owned());
        words.extend(counter.rate.map(|rate| format!("tsc_early_khz={}", rate.get() / 1000)));
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine {
            engine: Engine::Tcg,
            cpus: 2,
            memory: Mebibytes::from_mib(512),
            kernel: "/cache/vmlinux".into(),
            firmware: None,
            initramfs: 9,
            command_line: "quiet".to_owned(),
            link_device: LinkDevice::VirtioPort,
            link: 5,
            console: 6,
            control: 7,
            disk: Some(DiskArgument {
                image: "/a,b/disk.img".into(),
                direct: true,
                bus: DiskBus::Virtio,
                shared: false,
                read_only: false,
                throttle: Throttle::default(),
                handed: None,
            }),
            nics: vec![],
            extras: Extras::default(),
        }
    }

    fn line(machine: &Machine) -> String {
        machine
            .arguments()
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn nothing_listens_and_nothing_is_read_in() {
        let line = line(&machine());
        for part in ["-nodefaults", "-no-user-config", "-display none", "-no-reboot"] {
            assert!(line.contains(part), "{part}: {line}");
        }
        for part in ["server", "path=", "host=", "-net", "-nic", "vnc", "tcp:"] {
            assert!(!line.contains(part), "{part}: {line}");
        }
        assert!(line.contains("file=/a,,b/disk.img"), "{line}");
        assert!(line.contains("-initrd /proc/self/fd/9"), "{line}");
        assert!(line.contains("-smp cpus=2,sockets=1,cores=2,threads=1 -m 512M"), "{line}");
    }

    #[test]
    fn a_card_sees_its_tap_device_and_nothing_else() {
        let card =
            |device, tap, vhost| NicArgument { device, tap, vhost, mac: "02:4b:0a:4d:01:01".to_owned() };
        let nics = vec![card("virtio-net-pci", 11, Some(12)), card("e1000", 13, None)];
        let words = Machine { nics, ..machine() }.arguments();
        let after = |option: &str| -> Vec<String> {
            let options = words.windows(2).filter(|pair| pair[0] == option);
            options.map(|pair| pair[1].to_string_lossy().into_owned()).collect()
        };
        // Nothing but inherited descriptors: no network of QEMU's own, no script, no helper.
        assert_eq!(after("-netdev"), ["tap,id=net0,fd=11,vhost=on,vhostfd=12", "tap,id=net1,fd=13"]);
        assert!(after("-net").is_empty() && after("-nic").is_empty());
        let devices = after("-device");
        let has = |device: &str| devices.iter().any(|word| word == device);
        assert!(has("virtio-net-pci,netdev=net0,mac=02:4b:0a:4d:01:01,romfile=,disable-legacy=on"));
        assert!(has("e1000,netdev=net1,mac=02:4b:0a:4d:01:01,romfile="), "{devices:?}");
    }

    #[test]
    fn engine_and_cache_show_in_the_words() {
        let kvm = Machine { engine: Engine::Kvm, disk: None, link_device: LinkDevice::Serial, ..machine() };
        let kvm = line(&kvm);
        assert!(kvm.contains("-accel kvm -cpu host") && kvm.contains("-serial chardev:link"), "{kvm}");
        assert!(!kvm.contains("virtio-blk") && !kvm.contains("virtserialport"), "{kvm}");
        let tcg = line(&machine());
        assert!(
            tcg.contains("-accel tcg,thread=multi -cpu max") && tcg.contains("cache=none,aio=native"),
            "{tcg}"
        );
    }

    #[test]
    fn each_bus_has_its_device_and_a_shared_disk_its_permission() {
        let with = |bus, shared| {
            let (read_only, throttle) = (false, Throttle::default());
            let disk = Some(DiskArgument {
                image: "/dev/loop7".into(),
                direct: true,
                bus,
                shared,
                read_only,
                throttle,
                handed: None,
            });
            line(&Machine { disk, ..machine() })
        };
        let sata = with(DiskBus::Sata, true);
        assert!(
            sata.contains(
                "-device ich9-ahci,id=ahci-disk -device ide-hd,drive=disk,bus=ahci-disk.0,werror=report,share-rw=on"
            ),
            "{sata}"
        );
        let nvme = with(DiskBus::Nvme, false);
        assert!(nvme.contains("-device nvme,drive=disk,serial=bulkhead-disk"), "{nvme}");
        assert!(!nvme.contains("share-rw") && nvme.contains("file=/dev/loop7"), "{nvme}");
        assert!(with(DiskBus::Virtio, true).ends_with("disable-legacy=on,share-rw=on"));
    }

    #[test]
    fn the_counter_is_called_reliable_only_when_the_host_trusts_it() {
        let rate = Some(Hertz::from_hz(2_600_000_000));
        let trusted = HostCounter { trusted: true, rate };
        let text = |engine, counter| command_line(engine, LinkDevice::VirtioPort, counter);
        assert!(text(Engine::Tcg, trusted).ends_with("tsc=reliable tsc_early_khz=2600000"));
        assert!(!text(Engine::Tcg, HostCounter { trusted: false, rate }).contains("tsc"));
        assert!(!text(Engine::Kvm, trusted).contains("tsc"));
        assert!(!text(Engine::Tcg, trusted).contains("mitigations"));
    }
}
