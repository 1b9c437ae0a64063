//! What the host tells PID 1 of a guest: one small file in its first file system.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use model::partition::network::NamedAddress;
use model::partition::{Bind, Program};
use units::Bytes;

/// Where that file is; a process that finds it and is PID 1 runs a guest, not a container.
pub const CONFIG_PATH: &str = "/bulkhead.json";
/// Name of the virtio port that carries the link.
pub const LINK_PORT: &str = "bulkhead.link";
/// Names of the virtio ports that carry a program's streams.
pub const INPUT_PORT: &str = "bulkhead.in";
/// See [`INPUT_PORT`].
pub const OUTPUT_PORT: &str = "bulkhead.out";
/// See [`INPUT_PORT`].
pub const ERROR_PORT: &str = "bulkhead.err";
/// Name of the virtio port that all sessions share.
pub const SESSIONS_PORT: &str = "bulkhead.sessions";
/// By which the guest finds the host's files over virtio-fs.
pub const FILES_TAG: &str = "files";
/// Serial number by which the guest finds the disk of its saved layer.
pub const LAYER_SERIAL: &str = "bulkhead-layer";
/// Where the program's own file is, when it is all that its partition has.
pub const PROGRAM_PATH: &str = "/program";
/// Where the guest's disk is mounted.
pub const SCRATCH: &str = "/scratch";
/// Folder in which a program finds its sections.
pub const SECTIONS: &str = "/dev/bulkhead";
/// Folder in which a program finds its secrets.
pub const SECRETS: &str = "/run/secrets";
/// Most sections of a guest.
pub const MOST_SECTIONS: u8 = 64;
/// Line a guest prints when it is only to say that its init runs; the boot benchmark waits for it.
pub const INIT_RUNS: &str = "bulkhead: init runs";

/// What PID 1 is to do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GuestConfig {
    /// Only print [`INIT_RUNS`] and power off.
    pub only_say_that_init_runs: bool,
    /// What carries the link.
    pub link: LinkDevice,
    /// Modules without which there is no link, in load order.
    pub link_modules: Vec<GuestModule>,
    /// Modules for the disk, in load order; loaded while the agent already answers.
    pub disk_modules: Vec<GuestModule>,
    /// What is on the disk.
    pub disk: GuestDisk,
    /// Modules for the network cards, in load order; none without cards.
    pub nic_modules: Vec<GuestModule>,
    /// Network cards to bring up before the agent answers.
    pub nics: Vec<GuestNic>,
    /// Cards that are one, each at the switch of another link.
    pub bonds: Vec<GuestBond>,
    /// Its device, by the name that the guest's driver gives it.
    pub disk_device: PathBuf,
    /// Remarks of the host that belong into every report of the disk probe.
    pub disk_notes: Vec<String>,
    /// A failure to rehearse.
    pub rehearse: Option<Rehearsal>,
    /// The program that is to run instead of the agent.
    pub program: Option<Box<GuestProgram>>,
    /// Modules that it needs, in load order.
    pub program_modules: Vec<GuestModule>,
    /// What it is to do is told later, see [`Wake`].
    pub parks: bool,
}

/// What a parked PID 1 is told: what it is, and what no two guests that were made from one saved machine may share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wake {
    /// What it is to do.
    pub config: GuestConfig,
    /// The host's time, since 1970.
    pub unix_time_ns: u64,
    /// Random bytes of the host, [`SEED_BYTES`] of them.
    pub seed: Secret,
}

/// Longest [`Wake`] in bytes; who has more to say boots its guest.
pub const LONGEST_WAKE: usize = 3 << 20;
/// Bytes of randomness that a parked guest is given.
pub const SEED_BYTES: usize = 64;
/// Where on the first PCI bus the port is behind which a parked guest's late devices appear.
pub const LATE_PLACE: u8 = 0x10;

/// A program that runs in a guest.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestProgram {
    /// The program. Its `argv[0]` is what the user typed.
    pub program: Program,
    /// Name of the guest.
    pub hostname: String,
    /// Tag of the file tree that is its root; without one the root holds nothing but the program's own file, at this
    /// path.
    pub root: Root,
    /// Whether the trees come over virtio-fs, where a tree's tag is its number; else over 9P.
    #[serde(default)]
    pub virtio_fs: bool,
    /// Further trees, mounted in this order.
    pub trees: Vec<GuestTree>,
    /// Paths below the root tree that appear elsewhere, read-only.
    pub inner_binds: Vec<Bind>,
    /// Router and name server, where there is a way out.
    pub way_out: Option<WayOut>,
    /// Sections of channels, in the order of their devices.
    #[serde(default)]
    pub sections: Vec<GuestSection>,
    /// For its `/etc/hosts`; without any, that stays as it is.
    #[serde(default)]
    pub names: Vec<NamedAddress>,
    /// Nobody is at the other end of the link: the program starts by itself, its input is empty, and what would be
    /// told the host goes into the link as lines of JSON.
    #[serde(default)]
    pub unattended: bool,
    /// Files that its user alone can read.
    #[serde(default)]
    pub secrets: Vec<GuestSecret>,
    /// Whether there is a port for sessions.
    #[serde(default)]
    pub takes_sessions: bool,
}

/// What a program's root is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Root {
    /// The file tree with this tag, under a layer of its own.
    Tree(String),
    /// Nothing but the file at [`PROGRAM_PATH`], which appears at this path.
    Alone(PathBuf),
}

impl Default for Root {
    fn default() -> Self {
        Self::Alone(PathBuf::from(PROGRAM_PATH))
    }
}

/// Name of the only file in a tree that shows one.
pub const SINGLE_FILE: &str = "file";

/// A file tree of the host in a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestTree {
    /// By which it is mounted.
    pub tag: String,
    /// Where.
    pub at: PathBuf,
    /// Whether the program may write to it.
    pub writable: bool,
    /// Whether it holds a single file, [`SINGLE_FILE`], which is what is shown at this path.
    pub is_file: bool,
}

/// A section of a channel in a guest: it appears as `/dev/bulkhead/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestSection {
    /// Name of the channel.
    pub name: String,
    /// What the device must have.
    pub bytes: Bytes,
    /// Whether the program may write.
    pub writable: bool,
}

/// A file that the program's user alone can read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestSecret {
    /// Its name in [`SECRETS`].
    pub name: String,
    /// What is in it.
    pub content: Secret,
}

/// What is shown nowhere. Written as text whose characters are the bytes, which takes a third of what numbers take.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Secret(pub Vec<u8>);

impl From<Secret> for String {
    fn from(secret: Secret) -> Self {
        secret.0.into_iter().map(char::from).collect()
    }
}

impl TryFrom<String> for Secret {
    type Error = std::char::TryFromCharError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.chars().map(u8::try_from).collect::<Result<_, _>>().map(Self)
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a secret of {} bytes", self.0.len())
    }
}

/// Where the device of a section is on the first PCI bus: place and function, from the end of the bus. The very last
/// place is the chipset's own.
pub const fn section_place(slot: u8) -> (u8, u8) {
    (0x1e - slot / 8, slot % 8)
}

/// The way out of a guest's network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WayOut {
    /// Router.
    pub router: Ipv4Addr,
    /// Name server.
    pub names: Ipv4Addr,
}

/// A module in the first file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestModule {
    /// Path of its file.
    pub path: String,
    /// Whether the guest cannot do without it.
    pub required: bool,
}

/// A network card of the guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestNic {
    /// Hardware address by which the guest finds it, as Linux writes it: `02:4b:0a:4d:01:01`.
    pub mac: String,
    /// Address it is given.
    pub address: Ipv4Addr,
    /// Length of its network's prefix.
    pub prefix: u8,
}

/// Cards that are one to whoever uses them: one carries everything, the next one takes over when that one's carrier
/// goes. All of them have the hardware address of the first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestBond {
    /// Hardware addresses by which the guest finds its cards.
    pub macs: Vec<String>,
    /// Address it is given.
    pub address: Ipv4Addr,
    /// Length of its network's prefix.
    pub prefix: u8,
}

/// What carries the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkDevice {
    /// The virtio port named [`LINK_PORT`].
    #[default]
    VirtioPort,
    /// The second serial port, for kernels without `virtio_console`.
    Serial,
}

/// What is on the guest's disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuestDisk {
    /// There is none; files go to memory.
    #[default]
    None,
    /// An ext4 file system, mounted at [`SCRATCH`].
    Ext4,
    /// Nothing: the device itself is what is measured.
    Raw,
}

/// A failure rehearsal: at its first job the guest breaks in this way, so that it can be proven that each failure of a
/// real guest is seen for what it is. Part of the program, not of its tests: what is proven is what is shipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rehearsal {
    /// The guest's kernel panics.
    Panic,
    /// The agent stops without a word.
    Hang,
    /// Bytes that are no message go over the link.
    Garbage,
    /// The agent ends in the middle of its job.
    Exit,
    /// The agent takes all memory until the kernel kills it.
    Oom,
    /// The guest's kernel runs, but no agent ever answers.
    Silent,
    /// Nothing breaks, but the guest's clock runs a tenth too fast and is set forward in the middle of the job.
    WrongClock,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_config_comes_back_and_unknown_keys_are_refused() {
        let config = GuestConfig {
            link_modules: vec![GuestModule { path: "/modules/virtio.ko".to_owned(), required: true }],
            disk: GuestDisk::Ext4,
            nics: vec![GuestNic {
                mac: "02:4b:0a:4d:01:01".to_owned(),
                address: Ipv4Addr::new(10, 77, 1, 1),
                prefix: 16,
            }],
            bonds: vec![GuestBond {
                macs: vec!["02:4b:0a:4d:01:01".to_owned(), "02:4c:0a:4d:01:01".to_owned()],
                address: Ipv4Addr::new(10, 77, 1, 1),
                prefix: 24,
            }],
            rehearse: Some(Rehearsal::Oom),
            ..GuestConfig::default()
        };
        let text = serde_json::to_string(&config).unwrap();
        assert!(text.contains(r#""rehearse":"oom""#), "{text}");
        assert_eq!(serde_json::from_str::<GuestConfig>(&text).unwrap(), config);
        assert!(serde_json::from_str::<GuestConfig>(r#"{"rehearsal": "oom"}"#).is_err());
    }
}
