//! From a partition's description to a machine: trees, ports, disks, cards, and what its PID 1 is told.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use super::check::MOST_ALONE_BYTES;
use super::{Failed, lookup, view};
use crate::given_files;
use crate::network::{USER_RESOLVER, USER_ROUTER, cards};
use model::partition::network::NamedAddress;
use model::partition::{Content, DiskSpec, Files, PartitionSpec, Program, SecretSpec, SectionSpec};
use model::platform::DiskBus;
use platforms::vm::guest::{
    ERROR_PORT, GuestConfig, GuestProgram, GuestSecret, GuestSection, GuestTree, INPUT_PORT, OUTPUT_PORT,
    Root, SESSIONS_PORT, Secret, WayOut,
};
use platforms::vm::qemu::{
    DiskArgument, Extras, FileDevice, MemoryArgument, PortArgument, SectionArgument, ShareArgument,
    SharedTree, Throttle,
};

/// Tag of the tree that is the program's root.
const ROOT_TAG: &str = "root";

/// A machine's parts.
#[derive(Debug, Default)]
pub struct Assembled {
    /// For QEMU.
    pub extras: Extras,
    /// Guest's ends of ports, to be inherited by QEMU under their numbers.
    pub inherited: Vec<OwnedFd>,
    /// For PID 1.
    pub config: GuestConfig,
    /// The program's file, when it has no others.
    pub alone: Option<Vec<u8>>,
    /// Our ends of the streams' ports: input, output, error; none for an image.
    pub ports: Option<[UnixStream; 3]>,
    /// Our end of the port of sessions.
    pub sessions: Option<UnixStream>,
    /// Our end of the channel over which cards are told what became of their switches.
    pub plug_control: Option<UnixStream>,
    /// Our end of the channel over which QEMU tells that the saved layer cannot be written.
    pub layer_events: Option<UnixStream>,
    /// Where the switches of the plugs beat, see [`crate::network::Cards::beats`].
    pub beats: Vec<Option<PathBuf>>,
}

/// The single files that a checked partition's program may write to.
pub fn single_files(spec: &PartitionSpec) -> Result<Vec<PathBuf>, Failed> {
    let Content::Program(program) = &spec.content else { return Ok(Vec::new()) };
    let real = program.writable.iter().map(|path| real(path));
    Ok(real.collect::<Result<Vec<_>, _>>()?.into_iter().filter(|path| !path.is_dir()).collect())
}

/// Assembles a checked partition, whose program finds others by these names and its files this way, and perhaps has sessions beside it.
pub fn assemble(
    spec: &PartitionSpec,
    names: &[NamedAddress],
    files: FileDevice,
    takes_sessions: bool,
) -> Result<Assembled, Failed> {
    let cards = cards(&spec.cards)?;
    let way_out = cards.user_network.as_ref().map(|_| WayOut { router: USER_ROUTER, names: USER_RESOLVER });
    let is_plugged = !cards.plugs.is_empty();
    let resources = &spec.resources;
    let mut made = Assembled {
        extras: Extras {
            memory: MemoryArgument {
                node: resources.node,
                hugepages: resources.hugepages,
                guest_nodes: resources.guest_nodes,
            },
            disks: spec.disks.iter().map(disk).collect(),
            plugs: cards.plugs,
            sections: sections(&spec.sections),
            user_network: cards.user_network,
            boots_disk: spec.content == Content::Image,
            paused: true,
            ..Extras::default()
        },
        layer_events: None,
        beats: cards.beats,
        config: GuestConfig { nics: cards.nics, bonds: cards.bonds, ..GuestConfig::default() },
        ..Assembled::default()
    };
    if let Content::Program(program) = &spec.content {
        let mut guest = GuestProgram {
            program: (**program).clone(),
            hostname: program.hostname.clone().unwrap_or_else(|| spec.name.clone()),
            secrets: secrets(program)?,
            sections: spec.sections.iter().map(shown_section).collect(),
            names: names.to_vec(),
            takes_sessions,
            ..GuestProgram::default()
        };
        guest.way_out = way_out;
        serve_files(program, &mut guest, &mut made)?;
        made.extras.file_device = files;
        if files == FileDevice::VirtioFs {
            number_trees(&mut guest, &made.extras.shares);
        }
        made.config.program = Some(Box::new(guest));
        add_ports(&mut made, takes_sessions)
            .map_err(|error| Failed::own(format!("sockets for the streams: {error}")))?;
    }
    if is_plugged {
        add_plug_control(&mut made)
            .map_err(|error| Failed::own(format!("a socket for the cards: {error}")))?;
    }
    Ok(made)
}

fn disk(spec: &DiskSpec) -> DiskArgument {
    DiskArgument {
        image: spec.file.clone(),
        direct: false,
        bus: DiskBus::Virtio,
        shared: false,
        read_only: spec.read_only,
        throttle: Throttle { bytes_per_s: spec.bytes_per_s, operations_per_s: spec.operations_per_s },
        handed: None,
    }
}

/// Devices of sections, in their order.
pub fn sections(specs: &[SectionSpec]) -> Vec<SectionArgument> {
    let argument = |(spec, slot): (&SectionSpec, u8)| SectionArgument {
        path: spec.path.clone(),
        bytes: spec.size_mib.to_bytes(),
        writable: spec.writable,
        slot,
    };
    specs.iter().zip(0..).map(argument).collect()
}

/// What is in them now; no process of ours keeps it longer than until the machine has it.
fn secrets(program: &Program) -> Result<Vec<GuestSecret>, Failed> {
    let one = |spec: &SecretSpec| {
        let content = given_files::secret(&spec.from)
            .map_err(|problem| Failed::own(format!("secret {}: {problem}", spec.name)))?;
        Ok(GuestSecret { name: spec.name.clone(), content: Secret(content) })
    };
    program.secrets.iter().map(one).collect()
}

fn shown_section(spec: &SectionSpec) -> GuestSection {
    GuestSection { name: spec.name.clone(), bytes: spec.size_mib.to_bytes(), writable: spec.writable }
}

/// Which trees are served, and where the guest mounts them.
fn serve_files(program: &Program, guest: &mut GuestProgram, made: &mut Assembled) -> Result<(), Failed> {
    let shares = &mut made.extras.shares;
    let mut share = |tag: &str, path: PathBuf, tree: SharedTree, writable: bool| {
        shares.push(ShareArgument { tag: tag.to_owned(), path, tree, writable });
    };
    match &program.files {
        Files::System | Files::All | Files::Tree(_) => {
            let view = view::of(program)?;
            let tree = view.map_or(SharedTree::All, SharedTree::Only);
            guest.root = Root::Tree(ROOT_TAG.to_owned());
            share(ROOT_TAG, lookup::root_of(program).to_owned(), tree, false);
        }
        Files::None => {
            let found = lookup::program(program)?;
            let found = found.ok_or_else(|| Failed::own("a program without files cannot lie in a bind"))?;
            made.alone = Some(read_alone(&found.host)?);
            guest.root = Root::Alone(found.inside);
        }
    }
    let is_host = matches!(program.files, Files::System | Files::All);
    let kind = |path: &Path| if path.is_dir() { SharedTree::All } else { SharedTree::File };
    for (number, path) in program.writable.iter().enumerate() {
        let tag = format!("open{number}");
        let real = real(path)?;
        // Where the host's own tree is served, its links lead to the real path.
        let at = if is_host { real.clone() } else { path.clone() };
        let tree = kind(&real);
        let is_file = tree == SharedTree::File;
        share(&tag, real, tree, true);
        guest.trees.push(GuestTree { tag, at, writable: true, is_file });
    }
    for (number, volume) in program.volumes.iter().enumerate() {
        let tag = format!("volume{number}");
        share(&tag, real(&volume.files())?, SharedTree::All, true);
        guest.trees.push(GuestTree { tag, at: volume.at.clone(), writable: true, is_file: false });
    }
    for (number, bind) in program.binds.iter().enumerate() {
        if program.files == Files::All {
            guest.inner_binds.push(bind.clone());
            continue;
        }
        let tag = format!("bind{number}");
        let tree = kind(&bind.from);
        let is_file = tree == SharedTree::File;
        share(&tag, bind.from.clone(), tree, false);
        guest.trees.push(GuestTree { tag, at: bind.to.clone(), writable: false, is_file });
    }
    // What lies above is there first: otherwise it would hide what lies in it, and take what is written there.
    guest.trees.sort_by_key(|tree| tree.at.components().count());
    Ok(())
}

/// Over virtio-fs all trees come from one device, where each is known by its number.
fn number_trees(guest: &mut GuestProgram, shares: &[ShareArgument]) {
    let number_of =
        |tag: &str| shares.iter().position(|share| share.tag == tag).map(|number| number.to_string());
    guest.virtio_fs = true;
    if let Root::Tree(tag) = &mut guest.root {
        *tag = number_of(tag).unwrap_or_default();
    }
    for tree in &mut guest.trees {
        tree.tag = number_of(&tree.tag).unwrap_or_default();
    }
}

fn real(path: &Path) -> Result<PathBuf, Failed> {
    fs::canonicalize(path).map_err(|error| Failed::own(format!("{}: {error}", path.display())))
}

fn read_alone(path: &Path) -> Result<Vec<u8>, Failed> {
    let mut content = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(MOST_ALONE_BYTES).read_to_end(&mut content));
    read.map(|_| content).map_err(|error| Failed::own(format!("reading {}: {error}", path.display())))
}

fn add_ports(made: &mut Assembled, takes_sessions: bool) -> io::Result<()> {
    let pairs = [UnixStream::pair()?, UnixStream::pair()?, UnixStream::pair()?];
    let names = [INPUT_PORT, OUTPUT_PORT, ERROR_PORT, SESSIONS_PORT];
    made.ports = Some(pairs.map(|(ours, theirs)| {
        made.inherited.push(theirs.into());
        ours
    }));
    if takes_sessions {
        let (ours, theirs) = UnixStream::pair()?;
        made.inherited.push(theirs.into());
        made.sessions = Some(ours);
    }
    made.extras.ports = names
        .into_iter()
        .zip(&made.inherited)
        .map(|(name, socket)| PortArgument { name, socket: socket.as_raw_fd() })
        .collect();
    Ok(())
}

fn add_plug_control(made: &mut Assembled) -> io::Result<()> {
    let (ours, theirs) = UnixStream::pair()?;
    made.extras.plug_control = Some(theirs.as_raw_fd());
    made.inherited.push(theirs.into());
    made.plug_control = Some(ours);
    Ok(())
}
