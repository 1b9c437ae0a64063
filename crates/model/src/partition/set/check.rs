//! Everything that can be wrong with a set whatever the host.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::{
    CardEntry, ChannelEntry, Fault, Faults, HIGHEST_MEMBER, MOST_CHANNELS, MOST_NETWORKS, MOST_PARTITIONS,
    PartitionEntry, PartitionSet, USER_NETWORK, ascending,
};
use crate::partition::{
    ImageEntry, ImageRef, LEAST_MEMORY, LONGEST_NAME, MOST_CPUS, NumberList, PortSpec, boots_with,
    fits_layer, is_name,
};
use units::Bytes;
use units::names::hint;

/// Most ports of a partition.
const MOST_PORTS: usize = 64;
/// Longest command line with its environment, in bytes; Linux takes 2 MiB at most.
const LONGEST_WORDS: usize = 1 << 20;

impl PartitionSet {
    /// Everything that is wrong and can be known without a host.
    pub fn check(&self) -> Vec<Fault> {
        self.check_up_to(MOST_PARTITIONS)
    }

    /// The same, with at most so many partitions.
    pub(crate) fn check_up_to(&self, most: usize) -> Vec<Fault> {
        let mut faults = Faults::default();
        faults.note(name_fits(&["name"], &self.name));
        faults.note(counted("partition", self.partitions.len(), 1, most));
        faults.note(counted("network", self.networks.len(), 0, MOST_NETWORKS));
        faults.note(counted("channel", self.channels.len(), 0, MOST_CHANNELS));
        if let Some(seconds) = self.boot_deadline_s {
            faults.note(bounded(&["boot_deadline_s"], seconds.into(), 1, 3600));
        }
        for (name, network) in &self.networks {
            faults.note(name_fits(&["network", name], name));
            if name == USER_NETWORK {
                faults.add(&["network", name], "this name is that of QEMU's own network");
            }
            faults.note(bounded(&["network", name, "links"], network.links.into(), 1, 2));
        }
        for (name, entry) in &self.partitions {
            faults.note(name_fits(&["partition", name], name));
            self.check_partition(name, entry, &mut faults);
        }
        for (name, channel) in &self.channels {
            faults.note(name_fits(&["channel", name], name));
            self.check_channel(name, channel, &mut faults);
        }
        faults.note(ascending(&self.partitions).map(drop));
        self.check_realtime(&mut faults);
        self.check_disks(&mut faults);
        self.check_layers(&mut faults);
        self.check_ports(&mut faults);
        self.wire(&mut faults);
        faults.into()
    }

    fn check_partition(&self, name: &str, entry: &PartitionEntry, faults: &mut Faults) {
        let after = ["partition", name, "after"];
        entry.check_content(name, faults);
        entry.check_resources(name, faults);
        entry.check_files(name, faults);
        entry.check_given(name, faults);
        if let Some(ready) = &entry.ready {
            ready.checked(&["partition", name, "ready"], faults);
        }
        if let Some(health) = &entry.health {
            health.checked(&["partition", name, "health"], faults);
        }
        for (item, other) in entry.after.iter().enumerate() {
            faults.note(self.known_partition(&after, other).map_err(|fault| fault.item(item)));
            if other == name {
                faults.add_item(&after, item, format!("\"{name}\" cannot wait for itself"));
            }
        }
        let mut seen = BTreeSet::new();
        for plug in entry.plugs() {
            let key = if entry.networks.contains(&plug.network) { "networks" } else { "card" };
            self.check_plug(&["partition", name, key], &plug, faults);
            if !seen.insert(plug.network.clone()) {
                faults.add(&["partition", name, key], format!("network \"{}\" is there twice", plug.network));
            }
        }
    }

    fn check_plug(&self, at: &[&str], plug: &CardEntry, faults: &mut Faults) {
        if plug.network == USER_NETWORK {
            if plug.number.is_some() || plug.bytes_per_s.is_some() {
                faults.add(at, format!("network \"{USER_NETWORK}\" has neither numbers nor limits"));
            }
        } else if !self.networks.contains_key(&plug.network) {
            let known: Vec<&str> = self.networks.keys().map(String::as_str).chain([USER_NETWORK]).collect();
            faults.note(Err(unknown(at, "network", &plug.network, &known)));
        }
        if let Some(number) = plug.number {
            faults.note(bounded(at, number.into(), 1, HIGHEST_MEMBER.into()));
        }
        if plug.bytes_per_s.is_some_and(|limit| limit.get() < 1000) {
            faults.add(at, "a card of fewer than 1000 bytes per second carries nothing");
        }
    }

    fn known_partition(&self, path: &[&str], name: &str) -> Result<(), Fault> {
        if self.partitions.contains_key(name) {
            return Ok(());
        }
        let known: Vec<&str> = self.partitions.keys().map(String::as_str).collect();
        Err(unknown(path, "partition", name, &known))
    }

    fn check_channel(&self, name: &str, channel: &ChannelEntry, faults: &mut Faults) {
        let readers = ["channel", name, "readers"];
        faults.note(self.known_partition(&["channel", name, "writer"], &channel.writer));
        if channel.readers.is_empty() {
            faults.add(&readers, "a channel that nobody reads is none");
        }
        let mut seen = BTreeSet::from([channel.writer.as_str()]);
        for (item, reader) in channel.readers.iter().enumerate() {
            faults.note(self.known_partition(&readers, reader).map_err(|fault| fault.item(item)));
            if !seen.insert(reader) {
                faults.add_item(&readers, item, format!("\"{reader}\" is there twice, or writes"));
            }
        }
        let size = channel.size_mib.get();
        if !size.is_power_of_two() || size > 1024 {
            let problem = format!("wanted a power of two of at most 1024, got {size}");
            faults.add(&["channel", name, "size_mib"], problem);
        }
    }

    /// A CPU has one real-time partition: another one of the same priority would wait for it for ever.
    fn check_realtime(&self, faults: &mut Faults) {
        let mut taken: BTreeMap<u32, &str> = BTreeMap::new();
        for (name, entry) in self.partitions.iter().filter(|(_, entry)| entry.realtime.is_some()) {
            for cpu in entry.pin.iter().flat_map(NumberList::numbers) {
                if let Some(other) = taken.insert(*cpu, name) {
                    let problem = format!("CPU {cpu} belongs to \"{other}\", which is real-time, too");
                    faults.add(&["partition", name, "pin"], problem);
                }
            }
        }
    }

    /// A port of the host leads to one program.
    fn check_ports(&self, faults: &mut Faults) {
        let mut taken: Vec<(&str, &PortSpec)> = Vec::new();
        for (name, entry) in &self.partitions {
            let at = ["partition", name, "ports"];
            if entry.ports.len() > MOST_PORTS {
                faults.add(&at, format!("wanted at most {MOST_PORTS} of them, got {}", entry.ports.len()));
            }
            // Each is compared with all before it.
            for (item, port) in entry.ports.iter().take(MOST_PORTS).enumerate() {
                if let Some((other, _)) = taken.iter().find(|(_, other)| port.clashes(other)) {
                    let number = port.host.port();
                    let problem =
                        format!("port {number} of this host leads to partition \"{other}\" already");
                    faults.add_item(&at, item, problem);
                }
                taken.push((name, port));
            }
        }
    }

    /// Two writers of one file destroy it.
    fn check_disks(&self, faults: &mut Faults) {
        let mut users: BTreeMap<&Path, (&str, bool)> = BTreeMap::new();
        for (name, entry) in &self.partitions {
            for disk in &entry.disks {
                let before = users.insert(&disk.file, (name, disk.read_only));
                if let Some((other, read_only)) = before
                    && !(read_only && disk.read_only)
                {
                    let problem = format!(
                        "{} is a disk of \"{other}\", too: what is shared must be read_only in both",
                        disk.file.display()
                    );
                    faults.add(&["partition", name, "disk"], problem);
                }
            }
        }
    }

    /// A saved layer is one partition's.
    fn check_layers(&self, faults: &mut Faults) {
        let mut users: BTreeMap<&Path, &str> = BTreeMap::new();
        for (name, entry) in &self.partitions {
            let Some(folder) = &entry.save else { continue };
            if let Some(other) = users.insert(folder, name) {
                let problem =
                    format!("{} keeps what \"{other}\" changes: name another folder", folder.display());
                faults.add(&["partition", name, "save"], problem);
            }
        }
    }
}

impl PartitionEntry {
    fn check_content(&self, name: &str, faults: &mut Faults) {
        let at = |key: &'static str| ["partition", name, key];
        match (self.program.as_slice(), &self.image) {
            ([], ImageEntry::Disk(false)) => {
                let problem = "wanted program = [\"…\"], image = \"…\", or image = true and a disk";
                faults.add(&["partition", name], problem);
            }
            ([], ImageEntry::Disk(true)) => self.check_disk_image(name, faults),
            (_, ImageEntry::Disk(true)) => {
                faults.add(&at("image"), "either program or image = true, not both");
            }
            (_, ImageEntry::Root(image)) => self.check_image(name, image, faults),
            ([first, ..], ImageEntry::Disk(false)) if first.is_empty() => {
                faults.add(&at("program"), "the first word is the program and cannot be empty");
            }
            _ => {}
        }
        if self.program.iter().any(|word| word.contains('\0')) {
            faults.add(&at("program"), "words of a command line cannot hold NUL");
        }
        for (key, value) in &self.env {
            if key.is_empty() || key.contains(['=', '\0']) || value.contains('\0') {
                faults.add(&["partition", name, "env", key], "no variable can be called or hold this");
            }
        }
        let words: usize = self.program.iter().map(String::len).sum();
        let env: usize = self.env.iter().map(|(key, value)| key.len() + value.len()).sum();
        if words + env > LONGEST_WORDS {
            let got = words + env;
            let problem = format!("{got} bytes of words and environment; allowed are {LONGEST_WORDS}");
            faults.add(&at("program"), problem);
        }
    }

    /// It is the program's root, so there is no other.
    fn check_image(&self, name: &str, image: &ImageRef, faults: &mut Faults) {
        if let ImageRef::Folder(folder) = image {
            faults.note(absolute(&["partition", name, "image"], folder));
        }
        let usual = Self::default();
        for (key, is_set) in [("files", self.files != usual.files), ("ro", !self.ro.is_empty())] {
            if is_set {
                let problem = "says which of this host's files are the program's, and these are the image's; bind shows some";
                faults.add(&["partition", name, key], problem);
            }
        }
    }

    fn check_disk_image(&self, name: &str, faults: &mut Faults) {
        if self.disks.is_empty() {
            let problem = "wanted a disk that boots: [[partition.….disk]]";
            faults.add(&["partition", name, "image"], problem);
        }
        let usual = Self::default();
        let of_programs = [
            ("files", self.files != usual.files),
            ("ro", !self.ro.is_empty()),
            ("rw", !self.rw.is_empty()),
            ("bind", !self.bind.is_empty()),
            ("volumes", !self.volumes.is_empty()),
            ("save", self.save.is_some()),
            ("workdir", self.workdir != usual.workdir),
            ("user", self.user.is_some()),
            ("env", !self.env.is_empty()),
            ("env_file", !self.env_file.is_empty()),
            ("secrets", !self.secrets.is_empty()),
            ("hostname", self.hostname.is_some()),
            ("ports", !self.ports.is_empty()),
            ("ready", self.ready.is_some()),
            ("health", self.health.is_some()),
        ];
        for (key, _) in of_programs.into_iter().filter(|(_, is_set)| *is_set) {
            faults.add(&["partition", name, key], "says something about a program, this is an image");
        }
    }

    fn check_resources(&self, name: &str, faults: &mut Faults) {
        let at = |key: &'static str| ["partition", name, key];
        faults.note(bounded(&at("cpus"), self.cpus.into(), 1, MOST_CPUS.into()));
        match boots_with(self.memory_mib) {
            Ok(memory) => faults.note(bounded(&at("memory_mib"), memory.get(), LEAST_MEMORY.get(), 16 << 20)),
            Err(problem) => faults.add(&at("memory_mib"), problem),
        }
        faults.note(bounded(&at("guest_nodes"), self.guest_nodes.into(), 1, self.cpus.clamp(1, 64).into()));
        faults.note(bounded(&at("restart_limit"), self.restart_limit.into(), 1, 1_000_000));
        if self.pin.as_ref().is_some_and(|pin| pin.numbers().is_empty()) {
            faults.add(&at("pin"), "wanted CPUs such as \"2-3\", got none");
        }
        if let Some(weight) = self.cpu_weight {
            faults.note(bounded(&at("cpu_weight"), weight.into(), 1, 10_000));
        }
        if let Some(cap) = self.cpu_cap_percent {
            faults.note(bounded(&at("cpu_cap_percent"), cap.into(), 1, u64::from(self.cpus.max(1)) * 100));
        }
        if let Some(nice) = self.nice.filter(|nice| !(-20..=19).contains(nice)) {
            faults.add(&at("nice"), format!("{nice} is out of bounds; allowed is -20 to 19"));
        }
        if let Some(priority) = self.realtime {
            faults.note(bounded(&at("realtime"), priority.into(), 1, 99));
        }
        if self.nice.is_some() && self.realtime.is_some() {
            faults.add(&at("nice"), "either nice or realtime, not both");
        }
        absolute_all(&at("disk"), self.disks.iter().map(|disk| &disk.file), faults);
        for (item, disk) in self.disks.iter().enumerate() {
            let limits = [disk.bytes_per_s.map(Bytes::get), disk.operations_per_s];
            if limits.into_iter().flatten().any(|limit| limit == 0) {
                faults.add_item(&at("disk"), item, "a limit of 0 would stop the disk; leave it out for none");
            }
        }
    }

    fn check_files(&self, name: &str, faults: &mut Faults) {
        let at = |key: &'static str| ["partition", name, key];
        match self.files.as_str() {
            "system" | "all" | "host" | "none" => {}
            folder if folder.starts_with('/') => faults.note(absolute(&at("files"), Path::new(folder))),
            got => {
                let hint = hint(got, &["system", "all", "none"]);
                let problem =
                    format!("wanted \"system\", \"all\", \"none\" or a folder, got \"{got}\"{hint}");
                faults.add(&at("files"), problem);
            }
        }
        faults.note(absolute(&at("workdir"), &self.workdir));
        absolute_all(&at("ro"), &self.ro, faults);
        absolute_all(&at("rw"), &self.rw, faults);
        self.check_save(name, faults);
        for (item, bind) in self.bind.iter().enumerate() {
            let Some((from, to)) = bind.split_once(':') else {
                let problem = format!("wanted \"/on/the/host:/in/the/partition\", got \"{bind}\"");
                faults.add_item(&at("bind"), item, problem);
                continue;
            };
            for path in [from, to] {
                faults.note(absolute(&at("bind"), Path::new(path)).map_err(|fault| fault.item(item)));
            }
        }
        if self.user.as_ref().is_some_and(String::is_empty) {
            faults.add(&at("user"), "wanted the name or number of a user");
        }
    }

    fn check_save(&self, name: &str, faults: &mut Faults) {
        let at = |key: &'static str| ["partition", name, key];
        if let Some(folder) = &self.save {
            faults.note(absolute(&at("save"), folder));
            if self.files == "none" && matches!(self.image, ImageEntry::Disk(_)) {
                faults.add(
                    &at("save"),
                    "keeps what a program changes of its files, and with files = \"none\" it has none",
                );
            }
        }
        match self.save_size_mib {
            Some(_) if self.save.is_none() => {
                faults.add(&at("save_size_mib"), "says how much save holds, which is not there");
            }
            Some(size) => faults.note(
                fits_layer(size).map(drop).map_err(|problem| Fault::new(&at("save_size_mib"), problem)),
            ),
            None => {}
        }
    }

    /// What its program is given besides files: variables, secrets, a name.
    fn check_given(&self, name: &str, faults: &mut Faults) {
        let at = |key: &'static str| ["partition", name, key];
        absolute_all(&at("env_file"), &self.env_file, faults);
        for (secret, path) in &self.secrets {
            let at = ["partition", name, "secrets", secret];
            faults.note(name_fits(&at, secret));
            faults.note(absolute(&at, path));
        }
        if let Some(domain) = &self.failure_domain {
            faults.note(name_fits(&at("failure_domain"), domain));
        }
        if let Some(hostname) = &self.hostname {
            faults.note(name_fits(&at("hostname"), hostname));
        }
    }
}

fn name_fits(path: &[&str], name: &str) -> Result<(), Fault> {
    if is_name(name) {
        return Ok(());
    }
    let wanted = "wanted letters, digits, -, _ and ., beginning with a letter or digit";
    Err(Fault::new(path, format!("{wanted}, at most {LONGEST_NAME}, got {name:?}")))
}

fn unknown(path: &[&str], what: &str, got: &str, known: &[&str]) -> Fault {
    Fault::new(path, format!("there is no {what} \"{got}\"{}", hint(got, known))).of_absence()
}

fn counted(key: &str, got: usize, least: usize, most: usize) -> Result<(), Fault> {
    if (least..=most).contains(&got) {
        return Ok(());
    }
    let fault = Fault::new(&[key], format!("wanted {least} to {most} of them, got {got}"));
    Err(if got < least { fault.of_absence() } else { fault })
}

fn bounded(path: &[&str], got: u64, least: u64, most: u64) -> Result<(), Fault> {
    if (least..=most).contains(&got) {
        return Ok(());
    }
    Err(Fault::new(path, format!("{got} is out of bounds; allowed is {least} to {most}")))
}

fn absolute_all<'a>(key: &[&str], paths: impl IntoIterator<Item = &'a PathBuf>, faults: &mut Faults) {
    for (item, path) in paths.into_iter().enumerate() {
        faults.note(absolute(key, path).map_err(|fault| fault.item(item)));
    }
}

fn absolute(key: &[&str], path: &Path) -> Result<(), Fault> {
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if path.is_absolute() && plain && !path.as_os_str().as_encoded_bytes().contains(&0) {
        return Ok(());
    }
    Err(Fault::new(key, format!("wanted a path from / without . and .., got \"{}\"", path.display())))
}
