//! Everything that can be wrong with a set whatever the host.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use super::{
    ChannelEntry, Fault, HIGHEST_MEMBER, MOST_CHANNELS, MOST_NETWORKS, MOST_PARTITIONS, PartitionEntry,
    PartitionSet, USER_NETWORK, ascending,
};
use crate::model::names::nearest;
use crate::model::partition::{LONGEST_NAME, NumberList, is_name};
use crate::model::units::Bytes;

/// Most virtual CPUs of a partition.
const MOST_CPUS: u32 = 256;
/// Longest command line with its environment, in bytes; Linux takes 2 MiB at most.
const LONGEST_WORDS: usize = 1 << 20;

impl PartitionSet {
    /// Checks everything that can be known without a host.
    ///
    /// # Errors
    /// The first key at fault.
    pub fn check(&self) -> Result<(), Fault> {
        name_fits(&["name"], &self.name)?;
        counted("partition", self.partitions.len(), 1, MOST_PARTITIONS)?;
        counted("network", self.networks.len(), 0, MOST_NETWORKS)?;
        counted("channel", self.channels.len(), 0, MOST_CHANNELS)?;
        if let Some(seconds) = self.boot_deadline_s {
            bounded(&["boot_deadline_s"], seconds.into(), 1, 3600)?;
        }
        for (name, network) in &self.networks {
            name_fits(&["network", name], name)?;
            if name == USER_NETWORK {
                return Err(Fault::new(&["network", name], "this name is that of QEMU's own network"));
            }
            bounded(&["network", name, "links"], network.links.into(), 1, 2)?;
        }
        for (name, entry) in &self.partitions {
            name_fits(&["partition", name], name)?;
            self.check_partition(name, entry)?;
        }
        for (name, channel) in &self.channels {
            name_fits(&["channel", name], name)?;
            self.check_channel(name, channel)?;
        }
        ascending(&self.partitions)?;
        self.check_realtime()?;
        self.check_disks()?;
        self.wiring().map(drop)
    }

    fn check_partition(&self, name: &str, entry: &PartitionEntry) -> Result<(), Fault> {
        let at = |key: &'static str| ["partition", name, key];
        entry.check_content(name)?;
        entry.check_resources(name)?;
        entry.check_files(name)?;
        for other in &entry.after {
            self.known_partition(&at("after"), other)?;
            if other == name {
                return Err(Fault::new(&at("after"), format!("\"{name}\" cannot wait for itself")));
            }
        }
        let mut seen = BTreeSet::new();
        for plug in entry.plugs() {
            let key = if entry.networks.contains(&plug.network) { "networks" } else { "card" };
            let fault = |problem: String| Err(Fault::new(&at(key), problem));
            if plug.network == USER_NETWORK {
                if plug.number.is_some() || plug.bytes_per_s.is_some() {
                    return fault(format!("network \"{USER_NETWORK}\" has neither numbers nor limits"));
                }
            } else if !self.networks.contains_key(&plug.network) {
                let known: Vec<&str> =
                    self.networks.keys().map(String::as_str).chain([USER_NETWORK]).collect();
                return fault(unknown("network", &plug.network, &known));
            }
            if let Some(number) = plug.number {
                bounded(&at(key), number.into(), 1, HIGHEST_MEMBER.into())?;
            }
            if plug.bytes_per_s.is_some_and(|limit| limit.get() < 1000) {
                return fault("a card of fewer than 1000 bytes per second carries nothing".to_owned());
            }
            if !seen.insert(plug.network.clone()) {
                return fault(format!("network \"{}\" is there twice", plug.network));
            }
        }
        Ok(())
    }

    fn known_partition(&self, path: &[&str], name: &str) -> Result<(), Fault> {
        if self.partitions.contains_key(name) {
            return Ok(());
        }
        let known: Vec<&str> = self.partitions.keys().map(String::as_str).collect();
        Err(Fault::new(path, unknown("partition", name, &known)))
    }

    fn check_channel(&self, name: &str, channel: &ChannelEntry) -> Result<(), Fault> {
        let at = |key: &'static str| ["channel", name, key];
        self.known_partition(&at("writer"), &channel.writer)?;
        if channel.readers.is_empty() {
            return Err(Fault::new(&at("readers"), "a channel that nobody reads is none"));
        }
        let mut seen = BTreeSet::from([channel.writer.as_str()]);
        for reader in &channel.readers {
            self.known_partition(&at("readers"), reader)?;
            if !seen.insert(reader) {
                return Err(Fault::new(&at("readers"), format!("\"{reader}\" is there twice, or writes")));
            }
        }
        let size = channel.size_mib.get();
        if !size.is_power_of_two() || size > 1024 {
            return Err(Fault::new(
                &at("size_mib"),
                format!("wanted a power of two of at most 1024, got {size}"),
            ));
        }
        Ok(())
    }

    /// A CPU has one real-time partition: another one of the same priority would wait for it for ever.
    fn check_realtime(&self) -> Result<(), Fault> {
        let mut taken: BTreeMap<u32, &str> = BTreeMap::new();
        for (name, entry) in self.partitions.iter().filter(|(_, entry)| entry.realtime.is_some()) {
            for cpu in entry.pin.iter().flat_map(NumberList::numbers) {
                if let Some(other) = taken.insert(*cpu, name) {
                    let problem = format!("CPU {cpu} belongs to \"{other}\", which is real-time, too");
                    return Err(Fault::new(&["partition", name, "pin"], problem));
                }
            }
        }
        Ok(())
    }

    /// Two writers of one file destroy it.
    fn check_disks(&self) -> Result<(), Fault> {
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
                    return Err(Fault::new(&["partition", name, "disk"], problem));
                }
            }
        }
        Ok(())
    }
}

impl PartitionEntry {
    fn check_content(&self, name: &str) -> Result<(), Fault> {
        let at = |key: &'static str| ["partition", name, key];
        match (self.program.as_slice(), self.image) {
            ([], false) => {
                return Err(Fault::new(
                    &["partition", name],
                    "wanted program = [\"…\"], or image = true and a disk",
                ));
            }
            ([], true) => return self.check_image(name),
            (_, true) => return Err(Fault::new(&at("image"), "either program or image, not both")),
            ([first, ..], false) if first.is_empty() => {
                return Err(Fault::new(&at("program"), "the first word is the program and cannot be empty"));
            }
            _ => {}
        }
        if self.program.iter().any(|word| word.contains('\0')) {
            return Err(Fault::new(&at("program"), "words of a command line cannot hold NUL"));
        }
        for (key, value) in &self.env {
            if key.is_empty() || key.contains(['=', '\0']) || value.contains('\0') {
                return Err(Fault::new(
                    &["partition", name, "env", key],
                    "no variable can be called or hold this",
                ));
            }
        }
        let words: usize = self.program.iter().map(String::len).sum();
        let env: usize = self.env.iter().map(|(key, value)| key.len() + value.len()).sum();
        if words + env > LONGEST_WORDS {
            let problem =
                format!("{} bytes of words and environment; allowed are {LONGEST_WORDS}", words + env);
            return Err(Fault::new(&at("program"), problem));
        }
        Ok(())
    }

    fn check_image(&self, name: &str) -> Result<(), Fault> {
        if self.disks.is_empty() {
            return Err(Fault::new(
                &["partition", name, "image"],
                "wanted a disk that boots: [[partition.….disk]]",
            ));
        }
        let usual = Self::default();
        let of_programs = [
            ("files", self.files != usual.files),
            ("ro", !self.ro.is_empty()),
            ("rw", !self.rw.is_empty()),
            ("bind", !self.bind.is_empty()),
            ("workdir", self.workdir != usual.workdir),
            ("user", self.user.is_some()),
            ("env", !self.env.is_empty()),
        ];
        match of_programs.into_iter().find(|(_, is_set)| *is_set) {
            Some((key, _)) => {
                Err(Fault::new(&["partition", name, key], "says something about a program, this is an image"))
            }
            None => Ok(()),
        }
    }

    fn check_resources(&self, name: &str) -> Result<(), Fault> {
        let at = |key: &'static str| ["partition", name, key];
        bounded(&at("cpus"), self.cpus.into(), 1, MOST_CPUS.into())?;
        bounded(&at("memory_mib"), self.memory_mib.get(), 64, 16 << 20)?;
        bounded(&at("guest_nodes"), self.guest_nodes.into(), 1, self.cpus.min(64).into())?;
        bounded(&at("restart_limit"), self.restart_limit.into(), 1, 1_000_000)?;
        if self.pin.as_ref().is_some_and(|pin| pin.numbers().is_empty()) {
            return Err(Fault::new(&at("pin"), "wanted CPUs such as \"2-3\", got none"));
        }
        if let Some(weight) = self.cpu_weight {
            bounded(&at("cpu_weight"), weight.into(), 1, 10_000)?;
        }
        if let Some(cap) = self.cpu_cap_percent {
            bounded(&at("cpu_cap_percent"), cap.into(), 1, u64::from(self.cpus) * 100)?;
        }
        if let Some(nice) = self.nice.filter(|nice| !(-20..=19).contains(nice)) {
            return Err(Fault::new(&at("nice"), format!("{nice} is out of bounds; allowed is -20 to 19")));
        }
        if let Some(priority) = self.realtime {
            bounded(&at("realtime"), priority.into(), 1, 99)?;
        }
        if self.nice.is_some() && self.realtime.is_some() {
            return Err(Fault::new(&at("nice"), "either nice or realtime, not both"));
        }
        for disk in &self.disks {
            absolute(&at("disk"), &disk.file)?;
            let limits = [disk.bytes_per_s.map(Bytes::get), disk.operations_per_s];
            if limits.into_iter().flatten().any(|limit| limit == 0) {
                return Err(Fault::new(
                    &at("disk"),
                    "a limit of 0 would stop the disk; leave it out for none",
                ));
            }
        }
        Ok(())
    }

    fn check_files(&self, name: &str) -> Result<(), Fault> {
        let at = |key: &'static str| ["partition", name, key];
        if !matches!(self.files.as_str(), "system" | "all" | "host" | "none") {
            if !self.files.starts_with('/') {
                let hint = nearest(&self.files, &["system", "all", "none"])
                    .map(|name| format!("; did you mean \"{name}\"?"));
                let problem =
                    format!("wanted \"system\", \"all\", \"none\" or a folder, got \"{}\"", self.files);
                return Err(Fault::new(&at("files"), problem + &hint.unwrap_or_default()));
            }
            absolute(&at("files"), Path::new(&self.files))?;
        }
        absolute(&at("workdir"), &self.workdir)?;
        self.ro.iter().try_for_each(|path| absolute(&at("ro"), path))?;
        self.rw.iter().try_for_each(|path| absolute(&at("rw"), path))?;
        for bind in &self.bind {
            let Some((from, to)) = bind.split_once(':') else {
                return Err(Fault::new(
                    &at("bind"),
                    format!("wanted \"/on/the/host:/in/the/partition\", got \"{bind}\""),
                ));
            };
            absolute(&at("bind"), Path::new(from))?;
            absolute(&at("bind"), Path::new(to))?;
        }
        if self.user.as_ref().is_some_and(String::is_empty) {
            return Err(Fault::new(&at("user"), "wanted the name or number of a user"));
        }
        Ok(())
    }
}

fn name_fits(path: &[&str], name: &str) -> Result<(), Fault> {
    if is_name(name) {
        return Ok(());
    }
    let wanted = "wanted letters, digits, -, _ and ., beginning with a letter or digit";
    Err(Fault::new(path, format!("{wanted}, at most {LONGEST_NAME}, got {name:?}")))
}

fn unknown(what: &str, got: &str, known: &[&str]) -> String {
    let hint = nearest(got, known).map(|name| format!("; did you mean \"{name}\"?")).unwrap_or_default();
    format!("there is no {what} \"{got}\"{hint}")
}

fn counted(key: &str, got: usize, least: usize, most: usize) -> Result<(), Fault> {
    if (least..=most).contains(&got) {
        return Ok(());
    }
    Err(Fault::new(&[key], format!("wanted {least} to {most} of them, got {got}")))
}

fn bounded(path: &[&str], got: u64, least: u64, most: u64) -> Result<(), Fault> {
    if (least..=most).contains(&got) {
        return Ok(());
    }
    Err(Fault::new(path, format!("{got} is out of bounds; allowed is {least} to {most}")))
}

fn absolute(key: &[&str], path: &Path) -> Result<(), Fault> {
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if path.is_absolute() && plain && !path.as_os_str().as_encoded_bytes().contains(&0) {
        return Ok(());
    }
    Err(Fault::new(key, format!("wanted a path from / without . and .., got \"{}\"", path.display())))
}
