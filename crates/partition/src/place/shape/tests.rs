//! Hosts that were made up as folders, and this one.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

/// A host as a folder.
struct Made {
    root: tempfile::TempDir,
}

impl Made {
    /// With these CPUs online, and ours.
    fn new(online: &str, present: &str, memory_kib: u64) -> Self {
        let made = Self { root: tempfile::tempdir().unwrap() };
        made.put("sys/devices/system/cpu/online", online);
        made.put("sys/devices/system/cpu/present", present);
        made.put("proc/meminfo", &format!("MemTotal: {memory_kib} kB\nHugepagesize: 2048 kB\n"));
        made.ours(online, None);
        made
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    fn ours(&self, cpus: &str, nodes: Option<&str>) {
        let nodes = nodes.map_or_else(String::new, |nodes| format!("Mems_allowed_list:\t{nodes}\n"));
        self.put("proc/self/status", &format!("Name:\tx\nCpus_allowed_list:\t{cpus}\n{nodes}"));
    }

    fn cpu(&self, cpu: u32, socket: i32, siblings: &str, caches: &[(u32, &str, &str)]) {
        let at = |file: &str| format!("sys/devices/system/cpu/cpu{cpu}/{file}");
        self.put(&at("topology/physical_package_id"), &socket.to_string());
        self.put(&at("topology/core_cpus_list"), siblings);
        for (index, (level, kind, shared)) in caches.iter().enumerate() {
            self.put(&at(&format!("cache/index{index}/level")), &level.to_string());
            self.put(&at(&format!("cache/index{index}/type")), kind);
            self.put(&at(&format!("cache/index{index}/shared_cpu_list")), shared);
        }
    }

    fn node(&self, node: u32, cpus: &str, memory_kib: u64, huge: &[(u64, u64)]) {
        let at = |file: &str| format!("sys/devices/system/node/node{node}/{file}");
        self.put(&at("cpulist"), cpus);
        self.put(&at("meminfo"), &format!("Node {node} MemTotal: {memory_kib} kB"));
        for (size, count) in huge {
            self.put(&at(&format!("hugepages/hugepages-{size}kB/nr_hugepages")), &count.to_string());
        }
    }

    /// A device behind a PCI device of this node, as a card or a disk.
    fn device(&self, class: &str, name: &str, node: i32, files: &[(&str, &str)]) {
        let device = format!("sys/devices/pci0/{name}-pci");
        self.put(&format!("{device}/numa_node"), &node.to_string());
        for (file, text) in files {
            self.put(&format!("{device}/virtio0/{class}/{name}/{file}"), text);
        }
        let root = self.root.path();
        symlink("../..", root.join(format!("{device}/virtio0/{class}/{name}/device"))).unwrap();
        let folder = if class == "net" { "sys/class/net" } else { "sys/block" };
        fs::create_dir_all(root.join(folder)).unwrap();
        let up = if class == "net" { "../../.." } else { "../.." };
        let target = format!("{up}/{device}/virtio0/{class}/{name}");
        symlink(target, root.join(folder).join(name)).unwrap();
    }

    fn read(&self) -> SeenHost {
        self.read_with("")
    }

    fn read_with(&self, besides: &str) -> SeenHost {
        SeenHost::read(self.root.path(), &besides.parse().unwrap()).unwrap()
    }
}

/// 2 sockets × 2 nodes × 2 caches × 2 cores × 2 threads: CPUs 0-15 are the first threads, 16-31 the second ones.
fn big() -> Made {
    let made = Made::new("0-31", "0-31", 4 << 20);
    made.put("sys/devices/system/node/online", "0-3");
    for cpu in 0..32u32 {
        let core = cpu % 16;
        let pair = core / 2 * 2;
        let shared = format!("{pair}-{},{}-{}", pair + 1, pair + 16, pair + 17);
        let own = format!("{core},{}", core + 16);
        let caches = [(1, "Instruction", own.as_str()), (3, "Unified", &shared), (2, "Unified", &own)];
        made.cpu(cpu, i32::try_from(core / 8).unwrap(), &own, &caches);
    }
    for node in 0..4 {
        let huge: &[(u64, u64)] = if node == 2 { &[(2048, 16), (1 << 20, 0)] } else { &[(2048, 0)] };
        let first = node * 4;
        made.node(node, &format!("{first}-{},{}-{}", first + 3, first + 16, first + 19), 1 << 20, huge);
    }
    made
}

fn lists(lists: &[NumberList]) -> String {
    lists.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[test]
fn sockets_nodes_caches_and_cores_of_a_big_host_are_read() {
    let seen = big().read();
    assert_eq!(seen.notes, Vec::<String>::new());
    assert_eq!(seen.shape.nodes.iter().map(|node| node.socket).collect::<Vec<_>>(), [0, 0, 1, 1]);
    let third = &seen.shape.nodes[2];
    assert_eq!(third.cpus.to_string(), "8-11,24-27");
    assert_eq!(lists(&third.caches), "8-9,24-25 10-11,26-27");
    assert_eq!(lists(&third.cores), "8,24 9,25 10,26 11,27");
    assert_eq!((third.memory_mib.get(), third.hugepages_mib.get()), (1024, 32));
    assert_eq!(seen.shape.nodes[1].hugepages_mib.get(), 0);
    assert_eq!(seen.shape.faults(), Vec::new());
}

#[test]
fn a_host_without_memory_nodes_has_one() {
    let made = Made::new("0-3", "0-3", 2 << 20);
    for cpu in 0..4 {
        made.cpu(cpu, -1, &cpu.to_string(), &[]);
    }
    made.put("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "8");
    let seen = made.read();
    let [node] = &seen.shape.nodes[..] else { panic!("{seen:?}") };
    assert_eq!((node.number, node.socket, node.cpus.to_string().as_str()), (0, 0, "0-3"));
    assert_eq!((node.memory_mib.get(), node.hugepages_mib.get()), (2048, 16));
    // One cache for all and a core each are what nothing means.
    assert!(node.caches.is_empty() && node.cores.is_empty() && seen.notes.is_empty(), "{seen:?}");
}

#[test]
fn cpus_that_do_not_run_are_left_out_and_cores_stay_alike() {
    let made = big();
    made.put("sys/devices/system/cpu/online", "0-30");
    made.ours("0-31", None);
    // What the kernel says of the other thread of CPU 15 now.
    made.put("sys/devices/system/cpu/cpu15/topology/core_cpus_list", "15");
    let seen = made.read();
    let last = &seen.shape.nodes[3];
    assert_eq!(last.cpus.to_string(), "12-14,28-30");
    assert_eq!(lists(&last.cores), "12,28 13,29 14,30");
    assert_eq!(lists(&last.caches), "12-13,28-29 14,30");
    assert_eq!(seen.shape.faults(), Vec::new());
    let notes = seen.notes.join("\n");
    assert!(
        notes.contains("CPUs 31 do not run") && notes.contains("node 3: CPUs 15 are left out"),
        "{notes}"
    );
}

#[test]
fn a_cpuset_smaller_than_the_machine_is_all_there_is() {
    let made = big();
    made.ours("0-3,8,16-17", Some("0,2"));
    let seen = made.read();
    let cpus: Vec<String> = seen.shape.nodes.iter().map(|node| node.cpus.to_string()).collect();
    // Of node 0 two whole cores and two halves: four CPUs either way, so the whole ones.
    assert_eq!(cpus, ["0-1,16-17", "", "8", ""]);
    assert_eq!(
        seen.shape.nodes.iter().map(|node| node.memory_mib.get()).collect::<Vec<_>>(),
        [1024, 0, 1024, 0]
    );
    assert_eq!(seen.shape.faults(), Vec::new());
    let notes = seen.notes.join("\n");
    assert!(notes.contains("node 1: its memory is not ours"), "{notes}");
    assert!(notes.contains("CPUs 4-7,9-15,18-31 are not ours"), "{notes}");
    assert!(notes.contains("CPUs 2-3,8 share their cores"), "{notes}");
    // Isolated ones that we can be held to are ours as well.
    assert_eq!(made.read_with("24").shape.nodes[2].cpus.to_string(), "8,24");
    made.ours("40", None);
    let none = SeenHost::read(made.root.path(), &NumberList::default()).unwrap_err().to_string();
    assert!(none.contains("ours are 40"), "{none}");
}

#[test]
fn what_a_shape_cannot_say_is_told() {
    let made = big();
    // All of a socket's nodes at one cache, as QEMU shows it; pages of 1 GiB; two sockets in a node.
    for cpu in 0..4u32 {
        made.cpu(
            cpu,
            i32::try_from(cpu / 2).unwrap(),
            &format!("{cpu},{}", cpu + 16),
            &[(1, "Instruction", "0"), (3, "Unified", "0-7,16-23")],
        );
    }
    made.node(3, "12-15,28-31", 4 << 20, &[(2048, 1), (1 << 20, 2)]);
    let seen = made.read();
    assert_eq!((seen.shape.nodes[3].memory_mib.get(), seen.shape.nodes[3].hugepages_mib.get()), (2048, 2));
    let notes = seen.notes.join("\n");
    for wanted in
        ["its CPUs are of 2 sockets", "CPUs of several nodes", "2 GiB are huge pages of an unusual size"]
    {
        assert!(notes.contains(wanted), "{wanted}: {notes}");
    }
}

#[test]
fn cards_and_disks_are_what_has_hardware() {
    let made = big();
    made.device("net", "eth0", 2, &[("speed", "10000")]);
    made.device("net", "eth1", -1, &[("speed", "-1")]);
    made.device("net", "eth2", 9, &[("speed", "1000")]);
    made.put("sys/class/net/lo/speed", "10");
    made.put("sys/class/net/veth0/speed", "10000");
    let vda = [("size", "8"), ("removable", "0"), ("vda1/partition", "1"), ("vda1/holders/dm-0/x", "")];
    made.device("block", "vda", 3, &vda);
    made.device("block", "sr0", 0, &[("size", "8"), ("removable", "1")]);
    made.device("block", "nbd0", 0, &[("size", "0")]);
    made.put("sys/block/loop0/size", "8");
    let seen = made.read();
    let cards: Vec<_> =
        seen.shape.nics.iter().map(|card| (card.name.as_str(), card.node, card.bytes_per_s.get())).collect();
    assert_eq!(cards, [("eth0", Some(2), 1_250_000_000), ("eth2", None, 125_000_000)]);
    assert!(seen.notes.join("\n").contains("card eth1 is left out"), "{:?}", seen.notes);
    let [disk] = &seen.disks[..] else { panic!("{:?}", seen.disks) };
    assert_eq!((disk.name.as_str(), disk.node), ("vda", Some(3)));
    assert_eq!(disk.holds.iter().map(String::as_str).collect::<Vec<_>>(), ["dm-0", "vda", "vda1"]);
}

#[test]
fn this_host_is_read_and_right() {
    let seen = SeenHost::of_this_host().unwrap();
    assert_eq!(seen.shape.faults(), Vec::new());
    let host = HostTopology::of_this_host().unwrap();
    let of_all = seen.shape.nodes.iter().flat_map(|node| node.cpus.numbers());
    assert!(of_all.clone().count() > 0 && of_all.clone().all(|cpu| host.online.numbers().contains(cpu)));
}
