//! Arguments of `exec`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

use crate::cli::tool_args::ToolArgs;
use model::partition::{ImageRef, PortSpec, VolumeSpec, is_name};

const EXEC_AFTER: &str = "\
The program sees the system's programs and libraries, /etc as everybody may read it, and the folder it starts in, \
read-only, with a throw-away layer of its own on top; nothing else of the host, unless --ro, --rw or --files all says so. \
It runs in the current folder (which is not shown when it is a home or everybody's, such as /tmp), as the current \
user, with PATH, HOME, USER, TERM, TZ, the locale and such alone of the environment (--env NAME, --env-all: more). \
Its machine has this one's name (--hostname), its processes have the limits of the shell (ulimit). It has no network unless --net says so; --port works without one.

Paths given with --rw are written through; a single file can be written, made longer and shorter, but not replaced or \
removed: programs that save by renaming need its folder. What is written there belongs to whoever called bulkhead and \
gives nobody rights there: other owners and set-ID bits are seen in partitions alone, device nodes and file capabilities \
are refused (in the throw-away layer they work). Called by root, it has root's own files and what everybody may \
use, not root's power over the files of others. Locks are the host's; sockets and FIFOs have both ends in the partition. \
All of it, call by call: docs/partitions.md.

--save DIR keeps what the program changes elsewhere, instead of throwing it away: the next one with DIR finds it, over the same \
system, tree or image and no other, one at a time. What it synced is there whatever is killed; what the host could not keep is a failure \
(125). The size of DIR (--save-size, settled when it is made) is that of a disk to the program: ENOSPC. Owners and set-ID bits in it are the \
partition's alone.

The image of --image is unpacked once into the cache folder and never changed: what the program changes of it is thrown away, unless --save keeps it. \
Names of --user are the image's own. What is after -- stands for its arguments (Cmd), behind its program if it has one \
(Entrypoint); of this command's environment it has TERM with -t, and what --env, --env-file and --env-all name.

The first machine of a kind (CPUs, memory, kernel) is saved in the cache folder when it has booted, before it is told its program; later ones are \
made from that, in a fraction of the time, each with its own time and random numbers. Not with disks, networks, huge pages, memory nodes, \
--save or --files none; --cold does without, and --report says which way it was.

Standard input is read as the program runs, also when the program does not want it: < /dev/null. Signals are the \
program's: INT, TERM, HUP, QUIT, USR1, USR2, WINCH, TSTP and CONT. Ctrl-Z stops it and then this command; the guest \
itself runs on, so fg or kill -CONT wakes both at once. With -t every key is the program's, Ctrl-Z and Ctrl-C included.

Examples:
  bulkhead exec -- uname -a
  bulkhead exec --cpus 2 --memory 2GiB --rw \"$PWD\" -- make -j2
  sort < big.txt | bulkhead exec -- ./filter --strict > out.txt
  bulkhead exec -t -- bash
  bulkhead exec --ro ~/data --env OMP_NUM_THREADS -- ./solver
  bulkhead exec --files none -- ./static-program
  bulkhead exec --image oci:docker.io/library/alpine:3.20 -t -- sh
  bulkhead exec --volume data:/var/lib/db -- ./db
  bulkhead exec --save ./state --image oci:docker.io/library/debian:12 --net user -- apt-get update
  bulkhead exec --net plant/control -- curl http://db:8080/
  bulkhead exec --port 8080:80 --ro /srv/www -- ./web-server
  bulkhead exec --env-file job.env --secret token=/etc/job/token -- ./job
  bulkhead exec --in db -t -- sh                  beside the program of partition db of a set
  bulkhead exec --pin 2,3 --cpus 2 --node 0 --realtime 50 --report -- ./controller

Exit codes:
  that of the program; 128 + n when signal n killed it, which is said on stderr, or that memory ran out
  125 bulkhead or the guest failed   126 it cannot be executed   127 it was not found";

/// What runs the CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Accel {
    /// KVM if it really works, else TCG
    Auto,
    /// The processor's virtualization
    Kvm,
    /// QEMU's translator
    Tcg,
}

/// Arguments of `exec`.
#[derive(Debug, Args)]
#[command(after_help = EXEC_AFTER, args_override_self = true)]
pub struct ExecArgs {
    /// The program and its arguments, byte for byte; with an image's program, its arguments
    #[arg(value_name = "PROGRAM", required_unless_present = "image", trailing_var_arg = true)]
    pub command: Vec<OsString>,
    /// Run it in a partition of a set that is up, beside its own program, as that one's user with its files and variables and this
    /// shell's limits (-t, --env, --workdir and --user alone go with it)
    #[arg(long = "in", value_name = "[SET/]PARTITION",
          conflicts_with_all = ["ResourceArgs", "EngineArgs", "ToolArgs", "cold", "report", "files", "image", "bind", "volume", "save", "net", "port", "secret", "hostname", "disk", "ro", "rw",
                                "env_all", "env_clear"])]
    pub inside: Option<String>,
    /// Give it a terminal, of this one's size
    #[arg(long, short)]
    pub terminal: bool,
    /// Boot its machine, and save none: else the first one of its kind (CPUs, memory, kernel) is saved when it has booted, in the
    /// cache folder, and later ones are made from that until the host is started again
    #[arg(long)]
    pub cold: bool,
    /// Write what was asked, what was given and how it ended as JSON to FILE [default: stderr]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub report: Option<PathBuf>,
    /// What it is granted.
    #[command(flatten)]
    pub resources: ResourceArgs,
    /// What it sees.
    #[command(flatten)]
    pub sight: SightArgs,
    /// What it is made of.
    #[command(flatten)]
    pub engine: EngineArgs,
}

/// What a partition is granted.
#[derive(Debug, Args)]
#[command(next_help_heading = "Resources")]
pub struct ResourceArgs {
    /// Virtual CPUs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=255))]
    pub cpus: u32,
    /// Host CPUs they run on, 0-3,8 for example: as many as --cpus binds one to one
    #[arg(long, value_name = "LIST")]
    pub pin: Option<String>,
    /// Memory, 512MiB or 2GiB for example [default: 1GiB, at most half of what is free]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// Host memory node that holds all of it
    #[arg(long, value_name = "N")]
    pub node: Option<u32>,
    /// Memory in huge pages, reserved before the start
    #[arg(long)]
    pub hugepages: bool,
    /// Nice value of its CPUs, -20 ... 19
    #[arg(long, value_name = "N", allow_negative_numbers = true, conflicts_with = "realtime",
          value_parser = clap::value_parser!(i8).range(-20..=19))]
    pub nice: Option<i8>,
    /// Real-time priority (first in, first out) of its CPUs, 1 ... 99
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub realtime: Option<u8>,
    /// Weight of its CPUs against other partitions, 1 ... 10000
    #[arg(long, value_name = "W", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub cpu_weight: Option<u32>,
    /// At most this many percent of one CPU
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..))]
    pub cpu_cap: Option<u32>,
    /// Memory nodes that the guest sees
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub guest_nodes: u32,
}

/// Networks of `exec`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Net {
    /// None but itself.
    None,
    /// Out through the host's sockets, nothing comes in.
    User,
    /// With the partitions of a set that is up.
    Of {
        /// The set.
        set: String,
        /// Its network.
        network: String,
    },
}

impl FromStr for Net {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.split_once('/')) {
            ("none", _) => Ok(Self::None),
            ("user", _) => Ok(Self::User),
            (_, Some((set, network))) if is_name(set) && is_name(network) => {
                Ok(Self::Of { set: set.to_owned(), network: network.to_owned() })
            }
            _ => Err("none, user, or SET/NETWORK with the names of a set that is up and one of its networks was wanted"
                .to_owned()),
        }
    }
}

/// What a program sees.
#[derive(Debug, Args)]
#[command(next_help_heading = "What it sees")]
pub struct SightArgs {
    /// Its files: the system's with what is named, all of the host's, none but itself, or a folder as its root
    #[arg(long, value_name = "system|all|none|DIR", default_value = "system")]
    pub files: PathBuf,
    /// A container's image as its root: a folder with an OCI layout, of which NAME chooses one, or oci:NAME of a registry, fetched
    /// once by skopeo; with its program, variables, folder and user unless said otherwise; any other folder as with --files
    #[arg(long, value_name = "DIR[:NAME]|oci:NAME", conflicts_with = "files")]
    pub image: Option<ImageRef>,
    /// What any program in a partition is given.
    #[command(flatten)]
    pub program: ProgramArgs,
    /// Show FROM at TO, read-only (may be repeated)
    #[arg(long, value_name = "FROM:TO")]
    pub bind: Vec<OsString>,
    /// Folder by name that it may write to at PATH, made when it is not there; it lasts, and partitions may share it (may be
    /// repeated; see bulkhead volume)
    #[arg(long, value_name = "NAME:PATH")]
    pub volume: Vec<VolumeSpec>,
    /// Keep what it changes of its files in DIR, made when it is not there, instead of throwing it away: what is started with the same
    /// DIR over the same system, tree or image finds it. One at a time
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,
    /// Most that DIR holds, settled when it is made [default: 16GiB]
    #[arg(long, value_name = "SIZE", requires = "save")]
    pub save_size: Option<String>,
    /// Its network: none, a way out through the host's sockets (its loopback included), or one of a set that is up, where it finds the set's
    /// partitions by name
    #[arg(long, value_name = "none|user|SET/NETWORK", default_value = "none")]
    pub net: Net,
    /// Show it the content of FILE as /run/secrets/NAME, in memory, which its user alone can read (may be repeated)
    #[arg(long, value_name = "NAME=FILE")]
    pub secret: Vec<OsString>,
    /// Name of the machine that it sees [default: this host's]
    #[arg(long, value_name = "NAME")]
    pub hostname: Option<String>,
    /// Port of this host that leads to one of its, for this host's own programs unless an ADDRESS is named (0.0.0.0: for
    /// everybody); TCP (may be repeated)
    #[arg(long, value_name = "[ADDRESS:]HOST-PORT:PORT")]
    pub port: Vec<PortSpec>,
    /// Raw image or block device as a disk, written to; FILE,ro only read (may be repeated)
    #[arg(long, value_name = "FILE[,ro]")]
    pub disk: Vec<OsString>,
}

/// What any program in a partition is given, that of `exec` and the ranks of `mpirun`.
#[derive(Debug, Args)]
pub struct ProgramArgs {
    /// Folder or file it sees besides the system's, read-only (may be repeated)
    #[arg(long, value_name = "PATH")]
    pub ro: Vec<PathBuf>,
    /// Folder or file it may write to, under its own path (may be repeated)
    #[arg(long, value_name = "PATH")]
    pub rw: Vec<PathBuf>,
    /// Folder it starts in [default: the current one, in another tree /]
    #[arg(long, value_name = "PATH")]
    pub workdir: Option<PathBuf>,
    /// Set a variable, or pass one of this command's on (may be repeated)
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub env: Vec<OsString>,
    /// Set the variables in FILE, NAME=VALUE in each line as it stands (may be repeated; --env counts before it)
    #[arg(long, value_name = "FILE")]
    pub env_file: Vec<PathBuf>,
    /// Pass on the whole environment, secrets included
    #[arg(long, conflicts_with = "env_clear")]
    pub env_all: bool,
    /// Begin with an empty environment
    #[arg(long)]
    pub env_clear: bool,
    /// Who runs it [default: the current user with all groups]
    #[arg(long, value_name = "NAME|UID[:GID]")]
    pub user: Option<String>,
}

/// What a partition is made of.
#[derive(Debug, Args)]
#[command(next_help_heading = "Machine")]
pub struct EngineArgs {
    /// What runs its CPUs; whether KVM works is tried once per boot of the host
    #[arg(long, value_enum, default_value = "auto")]
    pub accel: Accel,
    /// What guests are made of.
    #[command(flatten)]
    pub tools: ToolArgs,
    /// Seconds until the program must run [default: 60 with TCG, 20 with KVM; on a busy host as many times longer as tasks share a CPU, up to 5]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub boot_deadline_s: Option<u64>,
}
