//! What can be asked for less of: a key of a partition, or a channel.

use std::fmt;

use model::partition::set::PartitionSet;
use model::system::{Level, System};

/// A need, as it is written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Need {
    /// The partition, or the channel.
    pub partition: String,
    /// Which of its keys.
    pub key: NeedKey,
}

/// A key of a partition that plans must heed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NeedKey {
    /// `cpus`, with how much of each.
    Cpus,
    /// `memory_mib`.
    Memory,
    /// That replicas are apart.
    Apart,
    /// `isolation`.
    Isolation,
    /// `near`.
    Near,
    /// `hosts`.
    Hosts,
    /// `max_downtime_ms`.
    Downtime,
    /// `disk` of its needs.
    Disk,
    /// `network` of its needs.
    Network,
    /// `deadline`.
    Deadline,
    /// `talks_to` this one.
    Talk(String),
    /// Ports, saved folders and disks, which are one partition's at a time.
    Alone,
    /// That all partitions of a channel are together.
    Channel,
}

impl Need {
    /// That key of that partition.
    pub fn new(partition: &str, key: NeedKey) -> Self {
        Self { partition: partition.to_owned(), key }
    }

    /// Keys on the way to it in the system's file.
    pub fn path(&self) -> Vec<String> {
        let name = self.partition.as_str();
        let words: Vec<&str> = match &self.key {
            NeedKey::Cpus => vec!["partition", name, "cpus"],
            NeedKey::Memory => vec!["partition", name, "memory_mib"],
            NeedKey::Apart => vec!["partition", name, "needs", "replicas"],
            NeedKey::Isolation => vec!["partition", name, "needs", "isolation"],
            NeedKey::Near => vec!["partition", name, "needs", "near"],
            NeedKey::Hosts => vec!["partition", name, "needs", "hosts"],
            NeedKey::Downtime => vec!["partition", name, "needs", "max_downtime_ms"],
            NeedKey::Disk => vec!["partition", name, "needs", "disk"],
            NeedKey::Network => vec!["partition", name, "needs", "network"],
            NeedKey::Deadline => vec!["partition", name, "needs", "deadline"],
            NeedKey::Talk(other) => vec!["partition", name, "needs", "talks_to", other],
            NeedKey::Alone => vec!["partition", name],
            NeedKey::Channel => vec!["channel", name],
        };
        words.into_iter().map(ToOwned::to_owned).collect()
    }

    /// All needs of a system.
    pub fn all(system: &System) -> Vec<Self> {
        let PartitionSet { partitions, channels, .. } = &system.set;
        let mut all = Vec::new();
        for (name, entry) in partitions {
            let needs = system.needs.get(name).cloned().unwrap_or_default();
            let mut keys = vec![NeedKey::Cpus, NeedKey::Memory];
            keys.extend((needs.replicas > 1).then_some(NeedKey::Apart));
            keys.extend(needs.isolation.map(|_| NeedKey::Isolation));
            keys.extend((!needs.near.is_empty()).then_some(NeedKey::Near));
            keys.extend((!needs.hosts.is_empty()).then_some(NeedKey::Hosts));
            keys.extend(needs.max_downtime_ms.map(|_| NeedKey::Downtime));
            keys.extend(needs.disk.map(|_| NeedKey::Disk));
            keys.extend(needs.network.map(|_| NeedKey::Network));
            keys.extend(needs.deadline.map(|_| NeedKey::Deadline));
            keys.extend(needs.talks_to.keys().cloned().map(NeedKey::Talk));
            let is_alone = !entry.ports.is_empty() || entry.save.is_some() || !entry.disks.is_empty();
            keys.extend(is_alone.then_some(NeedKey::Alone));
            all.extend(keys.into_iter().map(|key| Self::new(name, key)));
        }
        all.extend(channels.keys().map(|name| Self::new(name, NeedKey::Channel)));
        all
    }

    /// What it asks for, in a user's words.
    pub fn words(&self, system: &System) -> String {
        let name = &self.partition;
        let entry = system.set.partitions.get(name);
        let needs = system.needs.get(name).cloned().unwrap_or_default();
        let word = |level: Option<Level>| level.map_or("", Level::word);
        match &self.key {
            NeedKey::Cpus => {
                let cpus = entry.map_or(0, |entry| entry.cpus);
                let of = needs.share_percent.map_or_else(
                    || "whole".to_owned(),
                    |percent| format!("of which it must have {percent} % each"),
                );
                let each =
                    if needs.replicas > 1 { format!(", {} times", needs.replicas) } else { String::new() };
                format!("{name}: {cpus} CPUs, {of}{each}")
            }
            NeedKey::Memory => {
                let memory = entry.map_or(0, |entry| entry.memory_mib.get());
                let huge = if entry.is_some_and(|entry| entry.hugepages) { " in huge pages" } else { "" };
                format!("{name}: {memory} MiB{huge}")
            }
            NeedKey::Apart => {
                format!("{name}: its {} replicas each on another {}", needs.replicas, needs.apart().word())
            }
            NeedKey::Isolation => {
                let whom = if needs.isolated_from.is_empty() {
                    "anybody".to_owned()
                } else {
                    needs.isolated_from.join(", ")
                };
                format!("{name}: no {} in common with {whom}", word(needs.isolation))
            }
            NeedKey::Near => format!("{name}: on the memory node of its device"),
            NeedKey::Hosts => format!("{name}: on {} only", needs.hosts.join(", ")),
            NeedKey::Downtime => {
                let ms = needs.max_downtime_ms.map_or(0, units::Millis::get);
                format!("{name}: away for {ms} ms at most when its host dies")
            }
            NeedKey::Disk => {
                let rate = needs.disk.map_or(units::Bytes::default(), |disk| disk.bytes_per_s);
                format!("{name}: {rate} per second of a disk")
            }
            NeedKey::Network => {
                let rate = needs.network.map_or(units::Bytes::default(), |network| network.bytes_per_s);
                format!("{name}: {rate} per second of a network card")
            }
            NeedKey::Deadline => {
                let within = needs.deadline.map_or(0, |deadline| deadline.within_us.get());
                format!("{name}: its work done within {within} µs")
            }
            NeedKey::Talk(other) => {
                let talk = needs.talks_to.get(other);
                let latency = talk.and_then(|talk| talk.latency_us);
                let rate = talk.map_or(units::Bytes::default(), |talk| talk.bytes_per_s);
                let within =
                    latency.map_or(String::new(), |us| format!(", each message within {} µs", us.get()));
                format!("{name}: {rate} per second to {other}{within}")
            }
            NeedKey::Alone => format!("{name}: its ports, folders and disks of the host for itself"),
            NeedKey::Channel => format!("channel {name}: all who have it on one host"),
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path().join("."))
    }
}
