//! QEMU's words for a partition that runs without us, in groups with what each is for.

use std::path::Path;

use super::{Emission, Emitted, KERNEL_FILE, Prepared, initrd_file, text};
use model::partition::{CardSpec, DiskSpec};
use model::platform::DiskBus;
use platforms::lab::address::Mac;
use platforms::vm::guest::{ERROR_PORT, INPUT_PORT, LINK_PORT, LinkDevice, OUTPUT_PORT};
use platforms::vm::qemu::{
    DiskArgument, Engine, Extras, HostCounter, MACHINE, MemoryArgument, SANDBOX, SectionArgument,
    TRANSLATED_CPU, Throttle, command_line,
};
use units::Reason;

/// UDP port of networks that are multicast groups.
const GROUP_PORT: u16 = 17_077;
/// Name of the file that the guest's console is written to, in the partition's folder.
pub const CONSOLE_FILE: &str = "console";
/// Ports of a program's partition, with the name of the file that each is written to.
pub const PORTS: [(&str, &str); 3] = [(LINK_PORT, "end"), (OUTPUT_PORT, "out"), (ERROR_PORT, "err")];

/// Words that belong together.
pub struct EmittedGroup {
    /// What they are for.
    pub about: &'static str,
    /// The words.
    pub words: Vec<String>,
}

/// All words after QEMU's name; `memory` is the folder of channels.
pub fn groups(
    emission: &Emission,
    partition: &Prepared,
    memory: &Path,
    emitted: &mut Emitted,
) -> Result<Vec<EmittedGroup>, Reason> {
    let mut groups = vec![machine(emission, partition)];
    if partition.is_program() {
        groups.push(kernel(emission, partition)?);
    }
    groups.push(sandbox());
    groups.push(console(emission, partition)?);
    groups.push(rest(partition)?);
    let networks = networks(partition, emitted)?;
    if !networks.words.is_empty() {
        groups.push(networks);
    }
    groups.push(channels(partition, memory)?);
    groups.retain(|group| !group.words.is_empty());
    Ok(groups)
}

/// What the guest's kernel is told.
pub fn kernel_words(engine: Engine) -> String {
    command_line(engine, LinkDevice::VirtioPort, HostCounter::default())
}

fn machine(emission: &Emission, partition: &Prepared) -> EmittedGroup {
    let resources = &partition.spec.resources;
    let cpus = resources.cpus;
    let mut words = owned(&["-name", &emission.full_name(partition)]);
    words.extend(owned(&["-nodefaults", "-no-user-config", "-display", "none", "-machine", MACHINE]));
    if partition.is_program() {
        // The guest ends by a restart.
        words.push("-no-reboot".to_owned());
    }
    words.extend(match emission.engine {
        Engine::Kvm => owned(&["-accel", "kvm", "-cpu", "host"]),
        Engine::Tcg => owned(&["-accel", "tcg,thread=multi", "-cpu", TRANSLATED_CPU]),
    });
    words.extend(["-smp".to_owned(), format!("cpus={cpus},sockets=1,cores={cpus},threads=1")]);
    words.extend(["-m".to_owned(), format!("{}M", resources.memory.get())]);
    EmittedGroup { about: "the machine", words }
}

/// QEMU's own filter of system calls, as with us.
fn sandbox() -> EmittedGroup {
    EmittedGroup {
        about: "what it may not do any more, once it has started",
        words: owned(&["-sandbox", SANDBOX]),
    }
}

fn kernel(emission: &Emission, partition: &Prepared) -> Result<EmittedGroup, Reason> {
    let (kernel, initrd) =
        (emission.beside(KERNEL_FILE)?, emission.beside(&initrd_file(&partition.spec.name))?);
    let append = kernel_words(emission.engine);
    Ok(EmittedGroup {
        about: "what it boots",
        words: owned(&["-kernel", &kernel, "-initrd", &initrd, "-append", &append]),
    })
}

fn console(emission: &Emission, partition: &Prepared) -> Result<EmittedGroup, Reason> {
    let file = |name: &str| -> Result<String, Reason> {
        let path = emission.output(partition, name)?.replace(',', ",,");
        Ok(format!("file,id={name},path={path}"))
    };
    let mut words = owned(&["-chardev", &file(CONSOLE_FILE)?, "-serial", "chardev:console"]);
    if partition.is_program() {
        words.extend(owned(&["-device", "virtio-serial-pci,id=ports,max_ports=6,disable-legacy=on"]));
        words.extend(owned(&["-chardev", "null,id=in", "-device"]));
        words.push(format!("virtserialport,bus=ports.0,chardev=in,name={INPUT_PORT}"));
        for (port, name) in PORTS {
            words.extend(owned(&["-chardev", &file(name)?, "-device"]));
            words.push(format!("virtserialport,bus=ports.0,chardev={name},name={port}"));
        }
    }
    Ok(EmittedGroup { about: "where its console and the program's output go", words })
}

/// Memory in its place, file trees, disks, QEMU's own network: as we would start them.
fn rest(partition: &Prepared) -> Result<EmittedGroup, Reason> {
    let spec = &partition.spec;
    let resources = &spec.resources;
    let user = spec.cards.iter().find(|card| **card == CardSpec::User);
    let extras = Extras {
        shares: partition.shares.clone(),
        memory: MemoryArgument {
            node: resources.node,
            hugepages: resources.hugepages,
            guest_nodes: resources.guest_nodes,
        },
        disks: spec.disks.iter().map(disk).collect(),
        without_wall: true,
        user_network: user.map(|_| Mac::of(crate::network::USER_ADDRESS).to_string()),
        ..Extras::default()
    };
    let words = extras.arguments(resources.cpus, resources.memory);
    let words = words.iter().map(|word| text(word.as_ref()).map(str::to_owned));
    Ok(EmittedGroup { about: "its memory, file trees and disks", words: words.collect::<Result<_, _>>()? })
}

fn disk(spec: &DiskSpec) -> DiskArgument {
    DiskArgument {
        image: spec.file.clone(),
        // Past the host's cache, so that one partition's writing is not another one's waiting.
        direct: true,
        bus: DiskBus::Virtio,
        shared: spec.read_only,
        read_only: spec.read_only,
        throttle: Throttle { bytes_per_s: spec.bytes_per_s, operations_per_s: spec.operations_per_s },
        handed: None,
    }
}

/// Memory that it shares with others, with the words that we would use.
fn channels(partition: &Prepared, memory: &Path) -> Result<EmittedGroup, Reason> {
    let sections = partition.sections(|name| memory.join(name));
    let words = sections.iter().flat_map(SectionArgument::arguments);
    let words = words.map(|word| text(word.as_ref()).map(str::to_owned));
    Ok(EmittedGroup { about: "memory it shares with others", words: words.collect::<Result<_, _>>()? })
}

/// Without a switch, a network is a multicast group on this machine.
fn networks(partition: &Prepared, emitted: &mut Emitted) -> Result<EmittedGroup, Reason> {
    let mut words = Vec::new();
    for (number, (network, mac)) in partition.plugs()?.into_iter().enumerate() {
        let bytes: Vec<u8> = mac.split(':').filter_map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
        let [.., first, second, third, _] = bytes.as_slice() else {
            return Err(format!("a hardware address was wanted, got {mac}").into());
        };
        emitted.remark(format!(
            "network {network}: a multicast group of this machine, 239.{first}.{second}.{third}; every process here can \
             listen to it and speak in it, nobody is held to a rate or to its own address"
        ));
        words.push("-netdev".to_owned());
        words.push(format!(
            "socket,id=net{number},mcast=239.{first}.{second}.{third}:{GROUP_PORT},localaddr=127.0.0.1"
        ));
        words.push("-device".to_owned());
        words.push(format!("virtio-net-pci,netdev=net{number},mac={mac},romfile=,disable-legacy=on"));
    }
    Ok(EmittedGroup { about: "its networks", words })
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
