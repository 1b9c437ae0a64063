//! A set of partitions with their networks: what `up`, `down` and `ps` work on, as a TOML file.
//!
//! ```text
//!  plant.toml ─► PartitionSet ─ check ─► order (who waits for whom) ─► numbers, addresses ─► one PartitionSpec each
//!                                 └─ at fault: path ─► line in the file
//! ```
//! Everything that can be told from the file alone is told here; what depends on the host is checked before anything is
//! started, by the room that starts.

mod address;
mod check;
mod errors;
mod follow;
mod host;
mod order;
mod read;
mod ready;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::image::ImageEntry;
use super::port::PortSpec;
use super::resources::{DiskSpec, NumberList};
use super::volume::VolumeSpec;
use crate::experiment::Accelerator;
use units::{Bytes, Mebibytes};

pub use address::{HIGHEST_MEMBER, Member, Subnet, Wiring};
pub use errors::{SetError, SetErrors};
pub use follow::FoundBy;
pub use host::{HostNode, HostSize, OVERHEAD};
pub use order::{ascending, dependants_first};
pub use read::{Fault, Faults, MAX_SET_BYTES, ReadSet};
pub use ready::{Health, HealthEntry, Ready, ReadyCheck, ReadyEntry};
pub use state::*;

/// Most partitions of a set.
pub const MOST_PARTITIONS: usize = 256;
/// Most networks of a set.
pub const MOST_NETWORKS: usize = 64;
/// Most channels of a set.
pub const MOST_CHANNELS: usize = 64;
/// The network of that name is QEMU's own: out through the host's sockets, nothing comes in.
pub const USER_NETWORK: &str = "user";
/// Memory of a partition that does not say.
pub const USUAL_MEMORY: Mebibytes = Mebibytes::from_mib(256);

/// A set of partitions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PartitionSet {
    /// Its name: letters, digits, `-`, `_` and `.`, at most 48; unset means the file's name without its ending.
    #[serde(default)]
    pub name: String,
    /// What runs the CPUs.
    #[serde(default)]
    pub accelerator: Accelerator,
    /// Seconds from a partition's creation until its program runs, 1 … 3600; unset means the usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_deadline_s: Option<u32>,
    /// Switches between partitions, by name.
    #[serde(default, rename = "network", skip_serializing_if = "BTreeMap::is_empty")]
    pub networks: BTreeMap<String, NetworkEntry>,
    /// Partitions, by name.
    #[serde(default, rename = "partition", skip_serializing_if = "BTreeMap::is_empty")]
    pub partitions: BTreeMap<String, PartitionEntry>,
    /// Memory that partitions share, by name.
    #[serde(default, rename = "channel", skip_serializing_if = "BTreeMap::is_empty")]
    pub channels: BTreeMap<String, ChannelEntry>,
}

/// A network: one switch, or two with hot standby.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct NetworkEntry {
    /// Switches: 1, or 2 of which one stands by.
    pub links: u8,
    /// IPv4 addresses, `10.77.1.0/24`, prefix 8 … 24; unset means the first free one of 10.77.1.0/24, 10.77.2.0/24, ….
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet: Option<String>,
}

impl Default for NetworkEntry {
    fn default() -> Self {
        Self { links: 1, subnet: None }
    }
}

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct PartitionEntry {
    /// The program with its arguments; without a slash it is looked for in `PATH` of `env`. Either this or `image = true`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub program: Vec<String>,
    /// `true` boots whatever the first disk holds. A string names a container's image as the program's root, `/srv/alpine` or
    /// `oci:docker.io/library/alpine:3.20`: a folder (an OCI layout, `:NAME` behind it chooses one of its images; or a root as it
    /// is), or a name at a registry, fetched once by `skopeo`. Its config says program, variables, folder and user; `program` stands
    /// for its arguments then.
    #[serde(skip_serializing_if = "ImageEntry::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "super::image::ImageKey"))]
    pub image: ImageEntry,
    /// Virtual CPUs, 1 … 255.
    pub cpus: u32,
    /// Host CPUs, `2-3,8`: as many as `cpus` binds one to one, any other number lets all use all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub pin: Option<NumberList>,
    /// Memory, 128 MiB … 16 TiB.
    pub memory_mib: Mebibytes,
    /// Host memory node that holds all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Whether memory lies in huge pages.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hugepages: bool,
    /// `nice` value of its CPUs, −20 … 19.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nice: Option<i8>,
    /// `SCHED_FIFO` priority of its CPUs, 1 … 99.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realtime: Option<u8>,
    /// Weight against other partitions, 1 … 10 000; 100 is usual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_weight: Option<u32>,
    /// At most this many percent of one CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_cap_percent: Option<u32>,
    /// Memory nodes that the guest sees, 1 … `cpus`.
    pub guest_nodes: u32,
    /// Name of the failure domain that it is in: whatever is in one fails together, as on the server that it stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
    /// File tree the program sees, read-only: `system` (programs, libraries, `/etc` as everybody may read it, the folder it
    /// starts in, `ro`), `all` of the host's, `none`, or a folder of the host as its root.
    pub files: String,
    /// Folders and files of the host that it sees besides the system's, read-only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ro: Vec<PathBuf>,
    /// Folders of the host that the program may write to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rw: Vec<PathBuf>,
    /// Paths of the host that appear elsewhere, read-only: `/opt/a:/srv`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bind: Vec<String>,
    /// Folders by name that its program may write to at a path, `data:/var/lib/db`, and that last when the set is gone; partitions
    /// may share one (`bulkhead volume ls`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub volumes: Vec<VolumeSpec>,
    /// Folder that keeps what its program changes of its files, made when it is not there; unset means that this is thrown away. It
    /// belongs to one partition, and to its files or image and no others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub save: Option<PathBuf>,
    /// Most that this folder holds, 64 MiB … 16 TiB, settled when it is made; unset means 16 GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub save_size_mib: Option<Mebibytes>,
    /// Folder the program starts in; with an image `/` means the one that this names.
    pub workdir: PathBuf,
    /// Who runs the program: name or number of a user of the host (of an image: of its own); unset means who calls `up` (of an image:
    /// whom this names).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Environment; `PATH` and `HOME` are added where they are missing, nothing is taken over.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Files with more variables, `NAME=VALUE` in each line as it stands; later ones and `env` count before earlier ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env_file: Vec<PathBuf>,
    /// Files of the host whose content its program finds as `/run/secrets/NAME`, which its user alone can read (0400), in
    /// memory.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, PathBuf>,
    /// Name of the machine that its program sees; unset means the partition's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// What happens when its program ends or it breaks.
    pub restart: Restart,
    /// Restarts at most until it has run well for a minute, 1 … 1 000 000.
    pub restart_limit: u32,
    /// When it is ready, for those that are started after it; unset means as soon as its program runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<ReadyEntry>,
    /// How it is watched once it is ready; what is not well any more is ended, and `restart` says what then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthEntry>,
    /// Partitions that must be ready before it is started.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// Networks it is plugged into; `user` is QEMU's own, out through the host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<String>,
    /// The same, where more is to be said.
    #[serde(rename = "card", skip_serializing_if = "Vec::is_empty")]
    pub cards: Vec<CardEntry>,
    /// Ports of the host that lead to ports of its program, `8080:80` or `0.0.0.0:8080:80`; without an address only this
    /// host's own programs reach them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub ports: Vec<PortSpec>,
    /// Disks, in the guest's order.
    #[serde(rename = "disk", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<DiskEntry>"))]
    pub disks: Vec<DiskSpec>,
}

impl Default for PartitionEntry {
    fn default() -> Self {
        Self {
            program: Vec::new(),
            image: ImageEntry::Disk(false),
            cpus: 1,
            pin: None,
            memory_mib: USUAL_MEMORY,
            node: None,
            hugepages: false,
            nice: None,
            realtime: None,
            cpu_weight: None,
            cpu_cap_percent: None,
            guest_nodes: 1,
            failure_domain: None,
            files: "system".to_owned(),
            ro: Vec::new(),
            rw: Vec::new(),
            bind: Vec::new(),
            volumes: Vec::new(),
            save: None,
            save_size_mib: None,
            workdir: PathBuf::from("/"),
            user: None,
            env: BTreeMap::new(),
            env_file: Vec::new(),
            secrets: BTreeMap::new(),
            hostname: None,
            restart: Restart::default(),
            restart_limit: 5,
            ready: None,
            health: None,
            after: Vec::new(),
            networks: Vec::new(),
            cards: Vec::new(),
            ports: Vec::new(),
            disks: Vec::new(),
        }
    }
}

/// What happens when a partition's program ends, or the partition breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// Nothing.
    #[default]
    Never,
    /// It is started again unless its program ended with 0.
    OnFailure,
    /// It is started again.
    Always,
}

/// A plug at a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CardEntry {
    /// Name of the network, or `user`.
    pub network: String,
    /// Number in the network, 1 … 250, from which hardware and IPv4 address follow; unset means the lowest free one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u8>,
    /// Bytes per second at most that it may send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<Bytes>,
}

/// A disk as the schema shows it.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
#[schemars(deny_unknown_fields)]
struct DiskEntry {
    /// Raw image or block device on the host.
    file: PathBuf,
    /// Whether the partition may only read it.
    #[serde(default)]
    read_only: bool,
    /// Bytes per second at most, reads and writes together.
    #[serde(default)]
    bytes_per_s: Option<Bytes>,
    /// Operations per second at most.
    #[serde(default)]
    operations_per_s: Option<u64>,
}

/// Memory that partitions share: one writes, the others can only read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ChannelEntry {
    /// The partition that may write.
    pub writer: String,
    /// Those that may read.
    pub readers: Vec<String>,
    /// Size, a power of two, 1 … 1024.
    pub size_mib: Mebibytes,
}

impl PartitionSet {
    /// Channels that a partition has, by name, and whether it is the one that may write.
    pub fn channels_of<'a>(
        &'a self,
        partition: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a ChannelEntry, bool)> {
        self.channels.iter().filter_map(move |(name, channel)| {
            let writes = channel.writer == partition;
            let has = writes || channel.readers.iter().any(|reader| reader == partition);
            has.then_some((name.as_str(), channel, writes))
        })
    }
}

impl PartitionEntry {
    /// Its plugs: those of `networks`, then those of `card`.
    pub fn plugs(&self) -> impl Iterator<Item = CardEntry> + '_ {
        let plain = self.networks.iter().map(|network| CardEntry {
            network: network.clone(),
            number: None,
            bytes_per_s: None,
        });
        plain.chain(self.cards.iter().cloned())
    }
}
