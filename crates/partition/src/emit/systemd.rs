//! A service for each partition, and a target that stands for the set (systemd.service(5), systemd.resource-control(5)).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::quote::{comment, unit, unit_path, unit_value};
use super::words::groups;
use super::{Emission, Emitted, Prepared, initrd_file, text};
use model::partition::Priority;
use model::partition::set::Restart;
use platforms::vm::qemu::Engine;
use units::Reason;

/// Walls that fit around QEMU whatever a partition has. What it writes is for its owner alone.
const ALWAYS: &str = "\
NoNewPrivileges=yes
ProtectSystem=strict
ProtectProc=invisible
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
LockPersonality=yes
KeyringMode=private
DevicePolicy=closed
SystemCallArchitectures=native
SystemCallFilter=~@clock @cpu-emulation @debug @module @mount @obsolete @raw-io @reboot @swap
UMask=0077
";

/// Writes the units.
pub fn write(emission: &Emission, emitted: &mut Emitted) -> Result<(), Reason> {
    for partition in &emission.partitions {
        let service = service(emission, partition, emitted)?;
        emitted.unit(format!("{}.service", emission.full_name(partition)), service);
    }
    if let Some(service) = memory_service(emission)? {
        emitted.unit(memory_unit(emission), service);
    }
    let names =
        emission.partitions.iter().map(|partition| format!("{}.service", emission.full_name(partition)));
    let target = format!(
        "[Unit]\nDescription=Partitions of {}\nWants={}\n\n[Install]\nWantedBy=multi-user.target\n",
        emission.set,
        names.collect::<Vec<_>>().join(" ")
    );
    emitted.unit(format!("{}.target", emission.set), target);
    Ok(())
}

fn service(emission: &Emission, partition: &Prepared, emitted: &mut Emitted) -> Result<String, Reason> {
    let name = &partition.spec.name;
    let known = emitted.remarks.len();
    let (settings, mine) = settings(partition);
    for remark in mine {
        emitted.remark(format!("{name}: {remark}"));
    }
    let groups = groups(emission, partition, &memory(emission), emitted)?;
    let mut out = String::new();
    for remark in emitted.remarks.iter().skip(known) {
        let _ = writeln!(out, "# Not as with Bulkhead: {}", comment(remark));
    }
    let _ = writeln!(
        out,
        "[Unit]\nDescription=Partition {name} of {}\nPartOf={}.target",
        emission.set, emission.set
    );
    let waits = |other: &String| format!("{}-{other}.service", emission.set);
    let has_memory = !partition.spec.sections.is_empty();
    let memory_unit = has_memory.then(|| memory_unit(emission));
    let after: Vec<String> = memory_unit.into_iter().chain(partition.after.iter().map(waits)).collect();
    if !after.is_empty() {
        let _ = writeln!(out, "Requires={0}\nAfter={0}", after.join(" "));
    }
    if !partition.after.is_empty() {
        emitted.remark(format!("{name}: waits until the others were started, not until their programs run"));
    }
    if partition.restart != Restart::Never {
        out.push_str("StartLimitIntervalSec=60\nStartLimitBurst=5\n");
    }
    out.push_str("\n[Service]\nType=exec\nKillMode=mixed\n");
    let _ = writeln!(out, "WorkingDirectory={}", unit_value(text(&emission.folder)?));
    out.push_str(&settings);
    out.push_str(&walls(emission, partition)?);
    if has_memory {
        let shown = memory(emission).display().to_string();
        emitted.remark(format!("channels: their memory stays in {shown} until the host is started again"));
    }
    let _ = write!(out, "ExecStart={}", unit(text(&emission.qemu)?));
    for word in groups.iter().flat_map(|group| &group.words) {
        // An option begins a line.
        let _ = if word.starts_with('-') {
            write!(out, " \\\n    {}", unit(word))
        } else {
            write!(out, " {}", unit(word))
        };
    }
    let _ = write!(out, "\n\n[Install]\nWantedBy={}.target\n", emission.set);
    Ok(out)
}

/// What QEMU may not do there (systemd.exec(5)): it gets this partition's files and devices, and no rights beyond.
fn walls(emission: &Emission, partition: &Prepared) -> Result<String, Reason> {
    let spec = &partition.spec;
    let mut out = String::from(ALWAYS);
    let mut set = |key: &str, value: &str| {
        let _ = writeln!(out, "{key}={value}");
    };
    if let Some(user) = emission.user {
        set("User", &user.to_string());
    }
    // As root it gets to others' files in the trees that it shows by these rights alone.
    let writes = partition.shares.iter().any(|share| share.writable);
    let rights = match (emission.user, partition.shares.is_empty(), writes) {
        (Some(_), ..) | (_, true, _) => "",
        (_, _, false) => "CAP_DAC_READ_SEARCH",
        (_, _, true) => "CAP_DAC_READ_SEARCH CAP_DAC_OVERRIDE",
    };
    set("CapabilityBoundingSet", rights);
    let shares = partition.shares.iter().map(|share| (share.path.as_path(), share.writable));
    let disks = spec.disks.iter().map(|disk| (disk.file.as_path(), !disk.read_only));
    let output = emission.output_folder(partition);
    // Beside what it writes lies what it boots.
    let beside = [(emission.folder.as_path(), false), (output.as_path(), true)];
    let paths: Vec<(&Path, bool)> = shares.chain(disks).chain(beside).collect();
    let touches = |place: &str| {
        paths.iter().any(|(path, _)| path.starts_with(place) || Path::new(place).starts_with(path))
    };
    set(
        "ProtectHome",
        if ["/home", "/root", "/run/user"].into_iter().any(touches) { "read-only" } else { "yes" },
    );
    if !["/tmp", "/var/tmp"].into_iter().any(touches) {
        set("PrivateTmp", "yes");
    }
    for (path, _) in paths.iter().filter(|(path, writable)| *writable && !path.starts_with("/dev")) {
        set("ReadWritePaths", &unit_path(text(path)?));
    }
    for section in spec.sections.iter().filter(|section| section.writable) {
        set("ReadWritePaths", &unit_path(text(&memory(emission).join(&section.name))?));
    }
    // What programs find in their environments is theirs alone, and what they say.
    for other in emission.partitions.iter().filter(|other| other.spec.name != spec.name) {
        if other.is_program() {
            set("InaccessiblePaths", &unit_path(&emission.beside(&initrd_file(&other.spec.name))?));
        }
        set("InaccessiblePaths", &unit_path(text(&emission.output_folder(other))?));
    }
    if emission.engine == Engine::Kvm {
        set("DeviceAllow", "/dev/kvm rw");
    }
    for (path, writable) in paths.iter().filter(|(path, _)| path.starts_with("/dev")) {
        set("DeviceAllow", &format!("{} {}", unit_path(text(path)?), if *writable { "rw" } else { "r" }));
    }
    if spec.cards.is_empty() {
        set("PrivateNetwork", "yes");
        set("RestrictAddressFamilies", "AF_UNIX");
    } else {
        set("RestrictAddressFamilies", "AF_UNIX AF_INET AF_INET6");
    }
    if !matches!(spec.resources.priority, Priority::Realtime(_)) {
        set("RestrictRealtime", "yes");
    }
    // The translator writes the code that it runs.
    if emission.engine == Engine::Kvm {
        set("MemoryDenyWriteExecute", "yes");
    }
    Ok(out)
}

/// Folder of channels, in memory, of the service manager's own.
fn memory(emission: &Emission) -> PathBuf {
    PathBuf::from(format!("/run/bulkhead-{}", emission.set))
}

/// Name of the service that makes the memory of channels.
fn memory_unit(emission: &Emission) -> String {
    format!("{}.channels.service", emission.set)
}

/// Makes the memory of channels, before whoever has it mapped; it outlives the service. None of them may write there but to the
/// sections that are its own.
fn memory_service(emission: &Emission) -> Result<Option<String>, Reason> {
    let sections: BTreeMap<&str, u64> = emission
        .partitions
        .iter()
        .flat_map(|partition| &partition.spec.sections)
        .map(|section| (section.name.as_str(), section.size_mib.to_bytes().get()))
        .collect();
    if sections.is_empty() {
        return Ok(None);
    }
    let set = &emission.set;
    let mut out = format!("[Unit]\nDescription=Memory of the channels of {set}\nPartOf={set}.target\n");
    out.push_str("\n[Service]\nType=oneshot\nRemainAfterExit=yes\n");
    out.push_str(ALWAYS);
    if let Some(user) = emission.user {
        let _ = writeln!(out, "User={user}");
    }
    let _ = writeln!(
        out,
        "CapabilityBoundingSet=\nPrivateNetwork=yes\nRuntimeDirectory=bulkhead-{}\nRuntimeDirectoryMode=0700\n\
         RuntimeDirectoryPreserve=yes",
        unit_value(set)
    );
    for (name, bytes) in sections {
        let file = memory(emission).join(name);
        let _ = writeln!(out, "ExecStart=/usr/bin/fallocate -l {bytes} {}", unit(text(&file)?));
    }
    Ok(Some(out))
}

/// What the unit grants, and what cannot be said there.
fn settings(partition: &Prepared) -> (String, Vec<&'static str>) {
    let resources = &partition.spec.resources;
    let (mut out, mut remarks) = (String::new(), Vec::new());
    let mut set = |key: &str, value: String| {
        let _ = writeln!(out, "{key}={value}");
    };
    if let Some(pin) = &resources.pin {
        set("CPUAffinity", pin.to_string());
        set("AllowedCPUs", pin.to_string());
        if pin.numbers().len() == resources.cpus as usize {
            remarks.push("its CPUs share those they are pinned to, none has one of its own");
        }
    }
    if let Some(node) = resources.node {
        set("AllowedMemoryNodes", node.to_string());
    }
    if let Some(weight) = resources.cpu_weight {
        set("CPUWeight", weight.to_string());
    }
    if let Some(cap) = resources.cpu_cap_percent {
        set("CPUQuota", format!("{cap}%"));
    }
    match resources.priority {
        Priority::Usual => {}
        Priority::Nice(nice) => set("Nice", nice.to_string()),
        Priority::Realtime(priority) => {
            set("CPUSchedulingPolicy", "fifo".to_owned());
            set("CPUSchedulingPriority", priority.to_string());
            remarks.push("all of QEMU is real-time, not its CPUs alone");
        }
    }
    match partition.restart {
        Restart::Never => {}
        Restart::OnFailure => {
            set("Restart", "on-failure".to_owned());
            remarks.push("a program that fails ends QEMU well, so only a broken QEMU is started again");
        }
        Restart::Always => set("Restart", "always".to_owned()),
    }
    (out, remarks)
}
