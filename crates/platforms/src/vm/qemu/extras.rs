//! What partitions have beyond a probe's guest: ports for streams, file trees, memory in its place, plugs at switches.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::PathBuf;

use super::{DiskArgument, LayerArgument, SectionArgument, commas_doubled, disk_arguments};
use crate::vm::guest::{FILES_TAG, LATE_PLACE};
use crate::vm::system_view::SystemView;
use units::Mebibytes;

/// Length of the queue of virtio-fs: as many pages as one request may have, and more.
pub const FILES_QUEUE: u32 = 1024;
/// QEMU's name of the socket to the process that serves files.
pub const FILES_CHARDEV: &str = "files";
/// QEMU's name of the port for late devices.
pub const LATE_PORT: &str = "late";

/// Longest path of a socket that Linux takes, in bytes (unix(7)).
pub const LONGEST_SOCKET_PATH: usize = 107;

/// What a machine has beyond CPUs, memory, link and a disk. Nothing by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Extras {
    /// Further virtio ports.
    pub ports: Vec<PortArgument>,
    /// File trees.
    pub shares: Vec<ShareArgument>,
    /// How the guest reaches them.
    pub file_device: FileDevice,
    /// Descriptor of the connected socket of the process that serves them, where QEMU does not.
    pub files: Option<RawFd>,
    /// Where the memory lies.
    pub memory: MemoryArgument,
    /// Further disks.
    pub disks: Vec<DiskArgument>,
    /// The disk of its saved layer, if it has one.
    pub layer: Option<LayerArgument>,
    /// Cards at switches.
    pub plugs: Vec<PlugArgument>,
    /// Sections of channels.
    pub sections: Vec<SectionArgument>,
    /// Descriptor of a connected socket for a second control channel, over which the cards are told what became of
    /// their switches.
    pub plug_control: Option<RawFd>,
    /// Hardware address of a card at QEMU's own network, if there is one.
    pub user_network: Option<String>,
    /// Boots what its first disk holds, with QEMU's usual firmware, instead of a kernel of ours.
    pub boots_disk: bool,
    /// QEMU will run without our wall, which keeps set-ID bits, devices and owners out of what is written: it then notes
    /// them beside the files (`user.virtfs.*`) instead of giving them.
    pub without_wall: bool,
    /// It is saved once its guest is up, or made from one that was.
    pub park: Option<ParkArgument>,
    /// Created with its CPUs stopped; see [`super::super::qmp::Qmp::cont`].
    pub paused: bool,
}

/// A virtio port that is connected to a socket of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortArgument {
    /// By which the guest finds it; letters, digits, `.`.
    pub name: &'static str,
    /// Descriptor of the guest's end of the connected socket.
    pub socket: RawFd,
}

/// How a guest reaches file trees of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileDevice {
    /// 9P, which QEMU speaks itself.
    #[default]
    Plan9,
    /// virtio-fs: a process of ours serves them, and QEMU sees none of them.
    VirtioFs,
}

/// A file tree of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareArgument {
    /// By which the guest mounts it; at most 31 letters and digits.
    pub tag: String,
    /// Folder on the host; what of it is in the tree, see `tree`.
    pub path: PathBuf,
    /// What the tree is.
    pub tree: SharedTree,
    /// Whether the guest may write to it.
    pub writable: bool,
}

/// What a file tree is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SharedTree {
    /// All of the folder.
    All,
    /// A single file, in a tree in which nothing else is.
    File,
    /// Parts of the host's tree.
    Only(SystemView),
}

/// Where memory lies, and how the guest sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemoryArgument {
    /// All of it on this node of the host, taken before the guest starts.
    pub node: Option<u32>,
    /// In huge pages, taken before the guest starts.
    pub hugepages: bool,
    /// Memory nodes the guest sees; 0 and 1 are the usual one.
    pub guest_nodes: u32,
}

/// A machine whose guest is told late what it is. What files it sees comes to it as a late device, too, by
/// [`super::super::migration::plug_files`]: QEMU saves no machine that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParkArgument {
    /// Descriptor of the file in memory that is the guest's memory.
    pub memory: RawFd,
    /// Whether it is made from a saved one, and waits for that one's devices.
    pub is_restored: bool,
}

/// A card at a switch. QEMU listens at a socket in a folder of ours, 0700, and the switch dials: of the two ends only
/// the listening one takes a second connection after the first has gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlugArgument {
    /// Where it listens; at most [`LONGEST_SOCKET_PATH`] bytes.
    pub socket: PathBuf,
    /// Descriptor of that socket where it was made before QEMU.
    pub listener: Option<RawFd>,
    /// Hardware address.
    pub mac: String,
}

impl Extras {
    /// Arguments for QEMU of a machine with so many CPUs and so much memory. Ports share the bus of the link.
    pub fn arguments(&self, cpus: u32, memory: Mebibytes) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        for (number, port) in self.ports.iter().enumerate() {
            words.extend(
                ["-chardev".to_owned(), format!("socket,id=port{number},fd={}", port.socket)]
                    .map(OsString::from),
            );
            let device = format!("virtserialport,bus=ports.0,chardev=port{number},name={}", port.name);
            words.extend(["-device".into(), device.into()]);
        }
        if self.file_device == FileDevice::Plan9 {
            for (number, share) in self.shares.iter().enumerate() {
                words.extend(share.arguments(number, self.without_wall));
            }
        }
        let is_shared = self.files.is_some();
        let memory = match &self.park {
            Some(park) => park.arguments(cpus, memory),
            None => self.memory.arguments(cpus, memory, is_shared),
        };
        words.extend(memory.into_iter().map(OsString::from));
        if let Some(fd) = self.files {
            words.extend(["-chardev".into(), format!("socket,id={FILES_CHARDEV},fd={fd}").into()]);
        }
        if self.files.is_some() && self.park.is_none() {
            let device =
                format!("vhost-user-fs-pci,chardev={FILES_CHARDEV},tag={FILES_TAG},queue-size={FILES_QUEUE}");
            words.extend(["-device".into(), device.into()]);
        }
        for (number, disk) in self.disks.iter().enumerate() {
            words.extend(disk_arguments(disk, &format!("disk{}", number + 1)));
        }
        words.extend(self.layer.iter().flat_map(LayerArgument::arguments).map(OsString::from));
        for (number, plug) in self.plugs.iter().enumerate() {
            words.extend(plug.arguments(number));
        }
        words.extend(self.sections.iter().flat_map(SectionArgument::arguments));
        if let Some(fd) = self.plug_control {
            let chardev = format!("socket,id=plugs,fd={fd}");
            words.extend(["-chardev", &chardev, "-mon", "chardev=plugs,mode=control"].map(OsString::from));
        }
        if let Some(mac) = &self.user_network {
            let device = format!("virtio-net-pci,netdev=user,mac={mac},romfile=,disable-legacy=on");
            words.extend(["-netdev", "user,id=user", "-device", &device].map(OsString::from));
        }
        if self.paused {
            words.push("-S".into());
        }
        words
    }
}

impl ShareArgument {
    /// `multidevs=remap`: a tree may span several file systems whose inode numbers clash.
    fn arguments(&self, number: usize, without_wall: bool) -> [OsString; 4] {
        let model = if self.writable && without_wall { "mapped-xattr" } else { "none" };
        let mut back =
            OsString::from(format!("local,id=share{number},security_model={model},multidevs=remap,"));
        back.push(if self.writable { "readonly=off,path=" } else { "readonly=on,path=" });
        back.push(commas_doubled(&self.path));
        let front = format!("virtio-9p-pci,fsdev=share{number},mount_tag={},disable-legacy=on", self.tag);
        ["-fsdev".into(), back, "-device".into(), front.into()]
    }
}

impl MemoryArgument {
    /// Sizes in bytes of the files in memory that a machine with so much of it is made of; none where it has plain memory.
    /// `is_shared`: with a process that serves the guest's files, and must reach what it asks for.
    pub fn file_sizes(&self, memory: Mebibytes, is_shared: bool) -> Vec<u64> {
        let nodes = self.guest_nodes.max(1);
        if nodes == 1 && self.node.is_none() && !self.hugepages && !is_shared {
            return Vec::new();
        }
        spread(memory.get(), nodes).into_iter().map(|mib| Mebibytes::from_mib(mib).to_bytes().get()).collect()
    }

    fn arguments(&self, cpus: u32, memory: Mebibytes, is_shared: bool) -> Vec<String> {
        let nodes = self.guest_nodes.max(1);
        if self.file_sizes(memory, is_shared).is_empty() {
            return Vec::new();
        }
        let sharing = if is_shared { ",share=on" } else { "" };
        let place = self.node.map_or_else(String::new, |node| format!(",host-nodes={node},policy=bind"));
        let huge = if self.hugepages { ",hugetlb=on" } else { "" };
        let taken = if self.node.is_some() || self.hugepages { ",prealloc=on" } else { "" };
        let mut words = Vec::new();
        let shares = spread(memory.get(), nodes);
        let cpu_shares = spread(u64::from(cpus), nodes);
        let mut first_cpu = 0;
        for (number, (mib, cpus)) in shares.into_iter().zip(cpu_shares).enumerate() {
            words.push("-object".to_owned());
            words.push(format!(
                "memory-backend-memfd,id=mem{number},size={mib}M{sharing}{place}{huge}{taken}"
            ));
            words.push("-numa".to_owned());
            let last_cpu = first_cpu + cpus.max(1) - 1;
            let range = if cpus == 0 { String::new() } else { format!(",cpus={first_cpu}-{last_cpu}") };
            words.push(format!("node,nodeid={number},memdev=mem{number}{range}"));
            first_cpu += cpus;
        }
        words
    }
}

impl ParkArgument {
    fn arguments(self, cpus: u32, memory: Mebibytes) -> Vec<String> {
        let (fd, mib, last_cpu) = (self.memory, memory.get(), cpus.saturating_sub(1));
        let mut words = vec![
            "-object".to_owned(),
            format!("memory-backend-file,id=mem0,size={mib}M,share=on,mem-path=/proc/self/fd/{fd}"),
            "-numa".to_owned(),
            format!("node,nodeid=0,memdev=mem0,cpus=0-{last_cpu}"),
            "-device".to_owned(),
            format!("pcie-root-port,id={LATE_PORT},bus=pcie.0,chassis=1,addr={LATE_PLACE:#x}"),
        ];
        if self.is_restored {
            words.extend(["-incoming".to_owned(), "defer".to_owned()]);
        }
        words
    }
}

/// `total` in `parts` whole shares that differ by one at most.
fn spread(total: u64, parts: u32) -> Vec<u64> {
    let parts = u64::from(parts.max(1));
    (0..parts).map(|part| total / parts + u64::from(part < total % parts)).collect()
}

impl PlugArgument {
    fn arguments(&self, number: usize) -> [OsString; 4] {
        let mut back = OsString::from(format!("stream,id=plug{number},server=on,"));
        if let Some(listener) = self.listener {
            back.push(format!("addr.type=fd,addr.str={listener}"));
        } else {
            back.push("addr.type=unix,addr.path=");
            back.push(commas_doubled(&self.socket));
        }
        let front = format!(
            "virtio-net-pci,id=card{number},netdev=plug{number},mac={},romfile=,disable-legacy=on",
            self.mac
        );
        ["-netdev".into(), back, "-device".into(), front.into()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(extras: &Extras) -> String {
        let words = extras.arguments(6, Mebibytes::from_mib(1000));
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn nothing_is_added_by_default() {
        assert_eq!(line(&Extras::default()), "");
    }

    #[test]
    fn trees_are_read_only_unless_opened() {
        let share = |writable| ShareArgument {
            tag: "root".to_owned(),
            path: "/a,b".into(),
            tree: SharedTree::All,
            writable,
        };
        let text = line(&Extras { shares: vec![share(false), share(true)], ..Extras::default() });
        assert!(
            text.contains("readonly=on,path=/a,,b") && text.contains("readonly=off,path=/a,,b"),
            "{text}"
        );
        assert!(text.contains("virtio-9p-pci,fsdev=share1,mount_tag=root"), "{text}");
        let shares = vec![share(false), share(true)];
        let text = line(&Extras { shares, without_wall: true, ..Extras::default() });
        assert!(text.contains("=none,multidevs=remap,readonly=on"), "{text}");
        assert!(text.contains("=mapped-xattr,multidevs=remap,readonly=off"), "{text}");
    }

    #[test]
    fn over_virtio_fs_qemu_sees_no_tree_and_memory_is_shared() {
        let shares = vec![ShareArgument {
            tag: "0".to_owned(),
            path: "/a".into(),
            tree: SharedTree::All,
            writable: true,
        }];
        let memory = MemoryArgument { node: Some(1), hugepages: true, guest_nodes: 2 };
        let extras = Extras {
            shares,
            file_device: FileDevice::VirtioFs,
            files: Some(17),
            memory,
            ..Extras::default()
        };
        let text = line(&extras);
        assert!(!text.contains("9p") && !text.contains("/a"), "{text}");
        assert!(
            text.contains("-chardev socket,id=files,fd=17 -device vhost-user-fs-pci,chardev=files"),
            "{text}"
        );
        assert_eq!(
            text.matches(",share=on,host-nodes=1,policy=bind,hugetlb=on,prealloc=on").count(),
            2,
            "{text}"
        );
        let plain = line(&Extras { memory: MemoryArgument::default(), ..extras });
        assert!(plain.contains("memory-backend-memfd,id=mem0,size=1000M,share=on -numa"), "{plain}");
    }

    #[test]
    fn a_parked_machine_has_its_files_later() {
        let park = |is_restored| {
            let park = Some(ParkArgument { memory: 5, is_restored });
            line(&Extras { park, files: Some(17), file_device: FileDevice::VirtioFs, ..Extras::default() })
        };
        let (saved, restored) = (park(false), park(true));
        assert!(saved.contains("size=1000M,share=on,mem-path=/proc/self/fd/5"), "{saved}");
        assert!(saved.contains("-device pcie-root-port,id=late,bus=pcie.0,chassis=1,addr=0x10"), "{saved}");
        assert!(saved.contains("socket,id=files,fd=17") && !saved.contains("vhost-user-fs"), "{saved}");
        assert!(!saved.contains("-incoming"), "{saved}");
        // What was saved fits nothing but the same machine.
        assert_eq!(restored.replace(" -incoming defer", ""), saved);
    }

    #[test]
    fn memory_lies_where_it_was_asked_for() {
        let memory = |node, hugepages, guest_nodes| {
            line(&Extras { memory: MemoryArgument { node, hugepages, guest_nodes }, ..Extras::default() })
        };
        assert_eq!(memory(None, false, 1), "");
        assert_eq!(
            memory(Some(2), false, 0),
            "-object memory-backend-memfd,id=mem0,size=1000M,host-nodes=2,policy=bind,prealloc=on \
             -numa node,nodeid=0,memdev=mem0,cpus=0-5"
        );
        let four = memory(None, true, 4);
        assert!(four.contains("id=mem3,size=250M,hugetlb=on,prealloc=on"), "{four}");
        assert!(
            four.contains("nodeid=0,memdev=mem0,cpus=0-1 ") && four.contains("memdev=mem3,cpus=5-5"),
            "{four}"
        );
    }

    #[test]
    fn a_plug_waits_for_its_switch() {
        let plug = |listener| PlugArgument {
            socket: "/run/x.sock".into(),
            listener,
            mac: "02:00:00:00:00:01".to_owned(),
        };
        let handed = line(&Extras { plugs: vec![plug(Some(12))], ..Extras::default() });
        assert!(handed.contains("stream,id=plug0,server=on,addr.type=fd,addr.str=12 -device"), "{handed}");
        let plugs = vec![plug(None)];
        let text = line(&Extras { plugs, plug_control: Some(8), paused: true, ..Extras::default() });
        assert!(text.contains("socket,id=plugs,fd=8 -mon chardev=plugs,mode=control"), "{text}");
        assert!(text.contains("stream,id=plug0,server=on,addr.type=unix,addr.path=/run/x.sock"), "{text}");
        assert!(text.ends_with("-S"), "{text}");
    }
}
