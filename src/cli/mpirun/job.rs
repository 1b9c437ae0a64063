//! From the arguments of `mpirun` to partitions.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use super::args::{MpirunArgs, TransportArg};
use crate::cli::exec::spec;
use model::partition::{Bind, CardSpec, Content, Files, PartitionSpec, Program, Resources};
use partition::mpi::layout::Layout;
use partition::mpi::sections::Sections;
use partition::mpi::words::{Transport, address, address_with_prefix, environment, name, number, words};
use partition::mpi::{AGENT_PATH, PLACES_PATH, WAIT_AT, agent};
use partition::network::switch::socket_name;
use platforms::vm::toolbox::{host_cpus, memory_for};
use units::{Bytes, Mebibytes};

/// What a partition gets unless said otherwise, and on top of it for each of its ranks.
const USUAL_MIB: u64 = 512;
/// See [`USUAL_MIB`].
const RANK_MIB: u64 = 128;
/// Least that is taken where little is free.
const LEAST_MIB: u64 = 256;
/// Name of the network.
const NETWORK: &str = "mpi";
/// Word with which Open MPI separates several programs.
const SEPARATOR: &[u8] = b":";

/// What was asked for, checked as far as it can be without looking at the host.
pub struct Job {
    /// Which rank is where.
    pub layout: Layout,
    /// How ranks send.
    pub transport: Transport,
    /// The program as a partition of its own would run it.
    pub program: Program,
    resources: Resources,
    /// Size of a rank's section.
    pub section: Mebibytes,
    token: String,
    /// Names this host among those whose ranks a run has.
    host: String,
}

/// What was found on the host for it.
pub struct Found<'a> {
    /// Open MPI's launcher.
    pub launcher: &'a Path,
    /// Folder of the library for channels, if they are used.
    pub library: Option<&'a Path>,
    /// This program.
    pub exe: &'a Path,
    /// Folder for the plugs of the network.
    pub link: &'a Path,
    /// The file of [`places`](partition::mpi::words::places).
    pub places: &'a Path,
    /// Memory of the ranks, if channels are used.
    pub sections: Option<&'a Sections>,
}

impl Job {
    /// Reads the arguments.
    pub fn of(args: &MpirunArgs) -> Result<Self> {
        let layout = Layout::of(args.ranks, args.partitions).map_err(|problem| anyhow!("{problem}"))?;
        if args.command.iter().any(|word| word.as_bytes() == SEPARATOR) {
            return Err(anyhow!(
                "a word that is only \":\" separates several programs for Open MPI; wanted one, start the others from a \
                 script that looks at OMPI_COMM_WORLD_RANK"
            ));
        }
        let each = &args.each;
        let section = spec::size("--channel-size", &each.channel_size, 1)?;
        if !section.get().is_power_of_two() {
            return Err(anyhow!("--channel-size {}: a power of two was wanted", each.channel_size));
        }
        let resources = resources(&layout, each.cpus, each.memory.as_deref())?;
        let program = spec::given(&args.command, &each.program, Files::System)?;
        let transport = match args.transport {
            TransportArg::Channel => Transport::Channel,
            TransportArg::Tcp => Transport::Tcp,
        };
        let token = random(agent::TOKEN_CHARS / 2).context("random numbers from /dev/urandom")?;
        let host = random(8).context("random numbers from /dev/urandom")?;
        Ok(Self { layout, transport, program, resources, section, token, host })
    }

    /// A partition with the program itself, to check what can be told of it before anything is made.
    pub fn as_asked(&self) -> PartitionSpec {
        self.partition("program".to_owned(), self.program.clone())
    }

    /// The partitions, that of the launcher first.
    pub fn partitions(&self, found: &Found<'_>) -> Vec<PartitionSpec> {
        let yields = self.layout.most() > self.resources.cpus;
        let count = self.layout.per_partition().len();
        let one = |place: usize| {
            let argv = if place == 0 {
                words(
                    found.launcher,
                    &self.layout,
                    found.library,
                    yields,
                    &self.program.argv,
                    &self.program.env,
                )
            } else {
                [AGENT_PATH, "agent", "mpi-wait"].map(|word| word.as_bytes().to_vec()).to_vec()
            };
            let users = self.program.env.clone();
            let bytes = self.section.to_bytes().get();
            let mut env = environment(users, found.library, bytes, &self.token, &self.host);
            if place > 0 {
                env.push((WAIT_AT.as_bytes().to_vec(), address(place).to_string().into_bytes()));
            }
            let bind = |from: &Path, to: &str| Bind { from: from.to_owned(), to: PathBuf::from(to) };
            let binds = vec![bind(found.exe, AGENT_PATH), bind(found.places, PLACES_PATH)];
            let library = found.library.map(Path::to_owned);
            let readable = self.program.readable.iter().cloned().chain(library).collect();
            let program = Program { argv, env, readable, binds, ..self.program.clone() };
            let number = number(place);
            let card = CardSpec::Switch {
                network: NETWORK.to_owned(),
                sockets: vec![found.link.join(socket_name(number))],
                number,
                address: address_with_prefix(place),
            };
            let sections = found.sections.map(|sections| sections.of_partition(place)).unwrap_or_default();
            PartitionSpec { cards: vec![card], sections, ..self.partition(name(place), program) }
        };
        (0..count).map(one).collect()
    }

    fn partition(&self, name: String, program: Program) -> PartitionSpec {
        PartitionSpec {
            name,
            content: Content::Program(Box::new(program)),
            resources: self.resources.clone(),
            disks: Vec::new(),
            cards: Vec::new(),
            sections: Vec::new(),
            ports: Vec::new(),
        }
    }

    /// What is allowed and may surprise.
    pub fn remark(&self) -> Option<String> {
        let all = self.resources.cpus as usize * self.layout.per_partition().len();
        let there = host_cpus();
        (all > there as usize).then(|| {
            format!(
                "the partitions' {all} CPUs take turns on {there} of the host's: ranks that wait for each other will be slow"
            )
        })
    }
}

fn resources(layout: &Layout, cpus: Option<u32>, memory: Option<&str>) -> Result<Resources> {
    let partitions = layout.per_partition().len() as u64;
    let memory = if let Some(text) = memory {
        spec::memory(text)?
    } else {
        let wanted = USUAL_MIB + RANK_MIB * u64::from(layout.most());
        // Half of what is free is for all of them.
        let share = memory_for(Bytes::from_bytes(u64::MAX)).get() / partitions;
        Mebibytes::from_mib(wanted.min(share).max(LEAST_MIB))
    };
    Ok(Resources::usual(cpus.unwrap_or_else(|| layout.most().min(host_cpus())), memory))
}

/// So many random bytes, in hexadecimal digits.
fn random(bytes: usize) -> std::io::Result<String> {
    use std::fmt::Write;
    let mut drawn = vec![0; bytes];
    File::open("/dev/urandom")?.read_exact(&mut drawn)?;
    Ok(drawn.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
