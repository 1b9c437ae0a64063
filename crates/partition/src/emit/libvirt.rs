//! Domains and networks for libvirt (its "Domain XML format" and "Network XML format").

use std::path::PathBuf;

use super::words::{CONSOLE_FILE, PORTS, kernel_words};
use super::xml::Xml;
use super::{Emission, Emitted, KERNEL_FILE, Prepared, initrd_file, text};
use model::partition::set::Restart;
use model::partition::{DiskSpec, NumberList, Priority};
use platforms::lab::address::Mac;
use platforms::vm::guest::{INPUT_PORT, section_place};
use platforms::vm::qemu::{Engine, SectionArgument};
use units::Reason;

/// Time over which a cap of the CPUs is held, in microseconds: what the kernel takes by itself.
const CAP_PERIOD_US: u32 = 100_000;

/// Writes all domains and networks.
pub fn write(emission: &Emission, emitted: &mut Emitted) -> Result<(), Reason> {
    for (name, _) in &emission.networks {
        let mut xml = Xml::default();
        xml.comment("No <forward> and no <ip>: the partitions reach each other and nothing else.");
        xml.element("network", &[], |xml| -> Result<(), Reason> {
            xml.text("name", &[], &network(emission, name));
            xml.empty("bridge", &[("stp", "off"), ("delay", "0")]);
            Ok(())
        })?;
        emitted.file(format!("{}.network.xml", network(emission, name)), xml.finish(), false);
        emitted
            .remark(format!("network {name}: a bridge of libvirt, on which a partition may use any address and is held to no rate"));
    }
    for partition in &emission.partitions {
        let known = emitted.remarks.len();
        remarks(emission, partition, emitted);
        let mut xml = Xml::default();
        for remark in emitted.remarks.iter().skip(known) {
            xml.comment(&format!("Not as with Bulkhead: {remark}"));
        }
        let kind = if emission.engine == Engine::Tcg { "qemu" } else { "kvm" };
        let mut attributes = vec![("type", kind)];
        if partition.spec.sections.iter().any(|section| !section.writable) {
            attributes.push(("xmlns:qemu", "http://libvirt.org/schemas/domain/qemu/1.0"));
        }
        xml.element("domain", &attributes, |xml| domain(xml, emission, partition))?;
        emitted.file(format!("{}.xml", emission.full_name(partition)), xml.finish(), false);
    }
    Ok(())
}

fn network(emission: &Emission, name: &str) -> String {
    format!("{}-{name}", emission.set)
}

fn remarks(emission: &Emission, partition: &Prepared, emitted: &mut Emitted) {
    let name = &partition.spec.name;
    if matches!(partition.spec.resources.priority, Priority::Nice(_)) {
        emitted.remark(format!("{name}: no nice value, libvirt knows weights and real time only"));
    }
    if partition.restart != Restart::Never {
        emitted.remark(format!("{name}: not started again when its program ends, only when it crashes"));
    }
    if !partition.after.is_empty() {
        emitted.remark(format!("{name}: waits for nobody; start the domains in order"));
    }
    for section in &partition.spec.sections {
        let (channel, file) = (&section.name, memory(emission, &section.name));
        let file = file.display();
        emitted.remark(if section.writable {
            format!("{name}: channel {channel} is libvirt's own file {file}, which stays there")
        } else {
            format!(
                "{name}: libvirt has no read-only view of channel {channel}, so QEMU is told itself; it opens {file}, which \
                 its writer's domain makes and a profile of AppArmor or SELinux may have to allow"
            )
        });
    }
}

fn domain(xml: &mut Xml, emission: &Emission, partition: &Prepared) -> Result<(), Reason> {
    let resources = &partition.spec.resources;
    xml.text("name", &[], &emission.full_name(partition));
    xml.text("memory", &[("unit", "MiB")], &resources.memory.get().to_string());
    if resources.hugepages {
        xml.element("memoryBacking", &[], |xml| -> Result<(), Reason> {
            xml.empty("hugepages", &[]);
            Ok(())
        })?;
    }
    let cpus = resources.cpus.to_string();
    let pin = resources.pin.as_ref().map(ToString::to_string);
    let cpuset = pin.as_deref().map(|pin| ("cpuset", pin));
    let placement: Vec<(&str, &str)> = [("placement", "static")].into_iter().chain(cpuset).collect();
    xml.text("vcpu", &placement, &cpus);
    tuning(xml, partition)?;
    xml.element("os", &[], |xml| -> Result<(), Reason> {
        xml.text("type", &[("arch", "x86_64"), ("machine", "q35")], "hvm");
        if partition.is_program() {
            xml.text("kernel", &[], &emission.beside(KERNEL_FILE)?);
            xml.text("initrd", &[], &emission.beside(&initrd_file(&partition.spec.name))?);
            xml.text("cmdline", &[], &kernel_words(emission.engine));
        } else {
            xml.empty("boot", &[("dev", "hd")]);
        }
        Ok(())
    })?;
    cpu(xml, emission, partition)?;
    xml.text("on_poweroff", &[], "destroy");
    // A program's guest ends by a restart.
    xml.text("on_reboot", &[], if partition.is_program() { "destroy" } else { "restart" });
    xml.text("on_crash", &[], if partition.restart == Restart::Never { "destroy" } else { "restart" });
    xml.element("devices", &[], |xml| devices(xml, emission, partition))?;
    read_only_sections(xml, emission, partition)
}

fn tuning(xml: &mut Xml, partition: &Prepared) -> Result<(), Reason> {
    let resources = &partition.spec.resources;
    let pinned = resources.pin.as_ref().map(NumberList::numbers).unwrap_or_default();
    let one_to_one = pinned.len() == resources.cpus as usize;
    let realtime = match resources.priority {
        Priority::Realtime(priority) => Some(priority.to_string()),
        _ => None,
    };
    if resources.cpu_weight.is_some()
        || resources.cpu_cap_percent.is_some()
        || one_to_one
        || realtime.is_some()
    {
        xml.element("cputune", &[], |xml| -> Result<(), Reason> {
            if let Some(weight) = resources.cpu_weight {
                xml.text("shares", &[], &weight.to_string());
            }
            if let Some(cap) = resources.cpu_cap_percent {
                let quota = u64::from(cap) * u64::from(CAP_PERIOD_US) / 100;
                xml.text("global_period", &[], &CAP_PERIOD_US.to_string());
                xml.text("global_quota", &[], &quota.max(1000).to_string());
            }
            for (number, cpu) in pinned.iter().enumerate().filter(|_| one_to_one) {
                xml.empty("vcpupin", &[("vcpu", &number.to_string()), ("cpuset", &cpu.to_string())]);
            }
            if let Some(priority) = &realtime {
                let all = format!("0-{}", resources.cpus.saturating_sub(1));
                xml.empty("vcpusched", &[("vcpus", &all), ("scheduler", "fifo"), ("priority", priority)]);
            }
            Ok(())
        })?;
    }
    let Some(node) = resources.node else { return Ok(()) };
    xml.element("numatune", &[], |xml| {
        xml.empty("memory", &[("mode", "strict"), ("nodeset", &node.to_string())]);
        Ok(())
    })
}

/// The processor, and the memory nodes that the guest sees, its CPUs and memory spread evenly over them.
fn cpu(xml: &mut Xml, emission: &Emission, partition: &Prepared) -> Result<(), Reason> {
    let resources = &partition.spec.resources;
    let mode = if emission.engine == Engine::Tcg { "maximum" } else { "host-passthrough" };
    let cpus = resources.cpus.to_string();
    xml.element("cpu", &[("mode", mode)], |xml| {
        xml.empty("topology", &[("sockets", "1"), ("cores", &cpus), ("threads", "1")]);
        if emission.engine == Engine::Tcg {
            // As `TRANSLATED_CPU`; FSRM is a name that older libvirts do not know.
            xml.empty("feature", &[("policy", "disable"), ("name", "erms")]);
        }
        let nodes = resources.guest_nodes.max(1);
        if nodes == 1 {
            return Ok(());
        }
        xml.element("numa", &[], |xml| {
            let mut first = 0;
            for node in 0..nodes {
                let own = resources.cpus / nodes + u32::from(node < resources.cpus % nodes);
                let (count, part) = (u64::from(nodes), u64::from(node));
                let kib = resources.memory.get() * 1024;
                let memory = kib / count + u64::from(part < kib % count);
                let range = format!("{first}-{}", first + own.max(1) - 1);
                first += own;
                let (id, memory) = (node.to_string(), memory.to_string());
                xml.empty("cell", &[("id", &id), ("cpus", &range), ("memory", &memory), ("unit", "KiB")]);
            }
            Ok(())
        })
    })
}

fn devices(xml: &mut Xml, emission: &Emission, partition: &Prepared) -> Result<(), Reason> {
    xml.text("emulator", &[], text(&emission.qemu)?);
    for (number, spec) in partition.spec.disks.iter().enumerate() {
        disk(xml, number, spec)?;
    }
    for share in &partition.shares {
        let mode = if share.writable { "mapped" } else { "passthrough" };
        let kind = [("type", "mount"), ("accessmode", mode), ("multidevs", "remap")];
        xml.element("filesystem", &kind, |xml| -> Result<(), Reason> {
            xml.empty("source", &[("dir", text(&share.path)?)]);
            xml.empty("target", &[("dir", &share.tag)]);
            if !share.writable {
                xml.empty("readonly", &[]);
            }
            Ok(())
        })?;
    }
    for (of, mac) in partition.plugs()? {
        xml.element("interface", &[("type", "network")], |xml| -> Result<(), Reason> {
            xml.empty("mac", &[("address", &mac)]);
            xml.empty("source", &[("network", &network(emission, of))]);
            xml.empty("model", &[("type", "virtio")]);
            Ok(())
        })?;
    }
    if partition.has_user_card() {
        xml.element("interface", &[("type", "user")], |xml| -> Result<(), Reason> {
            xml.empty("mac", &[("address", &Mac::of(crate::network::USER_ADDRESS).to_string())]);
            xml.empty("model", &[("type", "virtio")]);
            Ok(())
        })?;
    }
    xml.element("serial", &[("type", "file")], |xml| -> Result<(), Reason> {
        xml.empty("source", &[("path", &emission.output(partition, CONSOLE_FILE)?)]);
        xml.empty("target", &[("port", "0")]);
        Ok(())
    })?;
    if partition.is_program() {
        xml.element("channel", &[("type", "null")], |xml| -> Result<(), Reason> {
            xml.empty("target", &[("type", "virtio"), ("name", INPUT_PORT)]);
            Ok(())
        })?;
    }
    for (port, name) in PORTS.into_iter().filter(|_| partition.is_program()) {
        xml.element("channel", &[("type", "file")], |xml| -> Result<(), Reason> {
            xml.empty("source", &[("path", &emission.output(partition, name)?)]);
            xml.empty("target", &[("type", "virtio"), ("name", port)]);
            Ok(())
        })?;
    }
    written_sections(xml, emission, partition)?;
    xml.empty("memballoon", &[("model", "none")]);
    Ok(())
}

/// Libvirt's file of a channel.
fn memory(emission: &Emission, channel: &str) -> PathBuf {
    PathBuf::from(format!("/dev/shm/{}-{channel}", emission.set))
}

/// Sections that it writes.
fn written_sections(xml: &mut Xml, emission: &Emission, partition: &Prepared) -> Result<(), Reason> {
    let sections = partition.spec.sections.iter().zip(0..).filter(|(section, _)| section.writable);
    for (section, slot) in sections {
        let name = format!("{}-{}", emission.set, section.name);
        let (place, function) = section_place(slot);
        let (place, function) = (format!("0x{place:02x}"), format!("0x{function:x}"));
        let mut address =
            vec![("type", "pci"), ("domain", "0x0000"), ("bus", "0x00"), ("slot", place.as_str())];
        address.push(("function", &function));
        if function == "0x0" {
            address.push(("multifunction", "on"));
        }
        xml.element("shmem", &[("name", &name), ("role", "master")], |xml| -> Result<(), Reason> {
            xml.empty("model", &[("type", "ivshmem-plain")]);
            xml.text("size", &[("unit", "M")], &section.size_mib.get().to_string());
            xml.empty("address", &address);
            Ok(())
        })?;
    }
    Ok(())
}

/// Sections that it only reads: said in QEMU's own words.
fn read_only_sections(xml: &mut Xml, emission: &Emission, partition: &Prepared) -> Result<(), Reason> {
    let sections = partition.sections(|name| memory(emission, name));
    let words: Vec<_> =
        sections.iter().filter(|section| !section.writable).flat_map(SectionArgument::arguments).collect();
    if words.is_empty() {
        return Ok(());
    }
    xml.element("qemu:commandline", &[], |xml| {
        for word in &words {
            xml.empty("qemu:arg", &[("value", text(word.as_ref())?)]);
        }
        Ok(())
    })
}

fn disk(xml: &mut Xml, number: usize, spec: &DiskSpec) -> Result<(), Reason> {
    let path = text(&spec.file)?;
    let (kind, key) = if path.starts_with("/dev/") { ("block", "dev") } else { ("file", "file") };
    xml.element("disk", &[("type", kind), ("device", "disk")], |xml| {
        xml.empty("driver", &[("name", "qemu"), ("type", "raw"), ("cache", "none"), ("io", "native")]);
        xml.empty("source", &[(key, path)]);
        xml.empty("target", &[("dev", &disk_name(number)), ("bus", "virtio")]);
        if spec.bytes_per_s.is_some() || spec.operations_per_s.is_some() {
            xml.element("iotune", &[], |xml| -> Result<(), Reason> {
                if let Some(limit) = spec.bytes_per_s {
                    xml.text("total_bytes_sec", &[], &limit.get().to_string());
                }
                if let Some(limit) = spec.operations_per_s {
                    xml.text("total_iops_sec", &[], &limit.to_string());
                }
                Ok(())
            })?;
        }
        if spec.read_only {
            xml.empty("readonly", &[]);
            xml.empty("shareable", &[]);
        }
        Ok(())
    })
}

/// `vda` … `vdz`, `vdaa` ….
fn disk_name(number: usize) -> String {
    let mut letters = Vec::new();
    let mut left = number + 1;
    while left > 0 {
        left -= 1;
        letters.push(b'a' + u8::try_from(left % 26).unwrap_or_default());
        left /= 26;
    }
    format!("vd{}", letters.iter().rev().map(|letter| char::from(*letter)).collect::<String>())
}
