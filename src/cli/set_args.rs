//! The command line of `up`, `down`, `ps` and what is done with one partition of a set, as typed.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::tool_args::ToolArgs;

const UP_AFTER: &str = "\
In FILE, for example:
  [network.control]
  links = 2
  [partition.db]
  program = [\"/usr/bin/db\"]
  ready = { tcp = 5432 }
  networks = [\"control\"]
  [partition.plc]
  program = [\"/usr/bin/python3\", \"/opt/plc.py\"]
  cpus = 2
  pin = \"2-3\"
  after = [\"db\"]
  networks = [\"control\"]
  # memory that plc writes and db reads; both map /dev/bulkhead/values
  [channel.values]
  writer = \"plc\"
  readers = [\"db\"]
  size_mib = 1
All keys: bulkhead schema set

Examples:
  bulkhead up plant.toml
  bulkhead up plant.toml                again: starts only what is missing or changed
  bulkhead ps
  bulkhead down plant
  bulkhead up solver.toml --split node    one partition per memory node, each with its share
  bulkhead up plant-plan/plan.json           what bulkhead plan has planned for the host that is \"here\"
  bulkhead up plant-plan/plan.json --on b    for host b: over ssh where it is \"ssh:NAME\", else b is this machine
  bulkhead down plant-plan/plan.json --on b  ends it there
  bulkhead up plant.toml --emit systemd --out /srv/plant
  bulkhead up plant.toml --emit boot && systemctl enable --now ./plant-boot/bulkhead-plant.service

--on HOST over ssh copies this program into the cache folder there (~/.cache/bulkhead/programs), and starts what is planned for HOST as if \
you had typed it there. Programs, images, QEMU and the guest's kernel are those of that machine; --qemu, --kernel and --modules are paths \
there. Ctrl-C, or a lost connection, ends what was begun. Partitions that run go on without the connection.

--split node is for programs that pass messages; those that share memory cannot be split. Each part has its share of \
CPUs and memory, and BULKHEAD_PART (from 0) and BULKHEAD_PARTS in its environment.

--emit starts nothing: it writes files with which another manager runs the same partitions without Bulkhead, and \
beside them the kernel and a first file system for each program. --emit boot is the exception: a service that runs this \
up at boot, and down when it is stopped. Such a program starts by itself with an empty input; \
its output is in NAME.output/out and err, how it ended in end, the guest's console in console. What a manager cannot \
do is said on stderr and in the files.

Exit codes:
  0 all of it runs
  2 the file is wrong, or somebody else works on the set
  3 the machine lacks something
  4 a part failed, everything that was started is ended again
  130 interrupted, likewise";

/// Arguments of `up`.
#[derive(Debug, Args)]
#[command(after_help = UP_AFTER)]
pub struct UpArgs {
    /// The set, a TOML file; or a plan.json, of which the set of one host is taken
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// With a plan: for which of its hosts; one that is "ssh:NAME" is reached over ssh, any other is this machine [default: the one that
    /// is "here", or the only one]
    #[arg(long, value_name = "HOST")]
    pub on: Option<String>,
    /// What guests are made of.
    #[command(flatten)]
    pub tools: ToolArgs,
    /// Print what runs as JSON, as ps does
    #[arg(long)]
    pub json: bool,
    /// Make one partition of each job per memory node of this host
    #[arg(long, value_name = "AT")]
    pub split: Option<SplitAt>,
    /// Start nothing; write files for another manager instead
    #[arg(long, value_name = "MANAGER")]
    pub emit: Option<EmitFor>,
    /// Folder for those files [default: NAME-MANAGER]
    #[arg(long, value_name = "DIR", requires = "emit")]
    pub out: Option<PathBuf>,
}

/// Where jobs are split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SplitAt {
    /// At the borders of memory nodes; for programs that pass messages, not for those that share memory
    Node,
}

/// Whose files are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EmitFor {
    /// Domains and networks, XML
    Libvirt,
    /// A shell script for each partition
    Qemu,
    /// A service for each partition
    Systemd,
    /// One service for systemd that brings the set up with Bulkhead at boot (as root: the system's; else the user's own)
    Boot,
}

/// Arguments of `down`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bulkhead down            the only set there is\n  bulkhead down plant\n  \
                        bulkhead down plant.toml\n  bulkhead down plant-plan/plan.json --on b    what up --on b has started, over \
                        ssh where b is \"ssh:NAME\"\n\nWorks whatever was killed before; nothing is left."
)]
pub struct DownArgs {
    /// Name of the set, or its file, or the plan.json it is of [default: the only one there is]
    #[arg(value_name = "NAME|FILE")]
    pub set: Option<String>,
    /// With a plan.json: on which of its hosts
    #[arg(long, value_name = "HOST", requires = "set")]
    pub on: Option<String>,
}

/// Arguments of `ps`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bulkhead ps\n  bulkhead ps plant --json | jq '.[0].partitions[] | select(.phase == \"lost\")'\n  \
                        bulkhead ps --console db     what db wrote last: its output, its errors; of an image, its console\n  \
                        bulkhead ps plant-plan/plan.json --on b    on host b of that plan, over ssh where it is \"ssh:NAME\""
)]
pub struct PsArgs {
    /// Name of a set, or the plan.json it is of [default: all]
    #[arg(value_name = "NAME|PLAN")]
    pub set: Option<String>,
    /// With a plan.json: on which of its hosts
    #[arg(long, value_name = "HOST", requires = "set")]
    pub on: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
    /// Print the last lines that this partition has written instead
    #[arg(long, value_name = "PARTITION", conflicts_with = "json")]
    pub console: Option<String>,
}

const ONE_AFTER: &str = "\
Examples:
  bulkhead stop db             its logs stay; those that are started after it go on
  bulkhead start db            as bulkhead up has read it from the file, once what it is started after is up
  bulkhead restart plant/db    where several sets have a db
  bulkhead restart plant-plan/plan.json/db --on b    on host b of that plan

bulkhead up FILE starts what was stopped, too, and takes over what was changed in the file.

Exit codes:
  0 it is so   2 there is none, somebody else works on its set, or what it is started after is not up
  4 it failed, and stays so   130 interrupted; what was begun goes on by itself";

/// Arguments of `start`, `stop` and `restart`.
#[derive(Debug, Args)]
#[command(after_help = ONE_AFTER)]
pub struct OneArgs {
    /// The partition, where need be after its set, or the plan.json it is of
    #[arg(value_name = "[SET|PLAN/]PARTITION")]
    pub partition: String,
    /// With a plan.json: on which of its hosts
    #[arg(long, value_name = "HOST")]
    pub on: Option<String>,
}

/// Arguments of `logs`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bulkhead logs db\n  bulkhead logs -f plant/db     goes on until db has ended\n  \
                  bulkhead logs --tail 10 db 2> /dev/null\n  bulkhead logs -f plant-plan/plan.json/db --on b    on host b of that plan\n\n\
                  Its output goes to stdout, its errors to stderr; of a disk image, what came \
                  over its console.\nThe last megabyte or two of each is kept, and more while somebody follows it. On a terminal nothing is shown that could move the cursor."
)]
pub struct LogsArgs {
    /// The partition, where need be after its set, or the plan.json it is of
    #[arg(value_name = "[SET|PLAN/]PARTITION")]
    pub partition: String,
    /// With a plan.json: on which of its hosts
    #[arg(long, value_name = "HOST")]
    pub on: Option<String>,
    /// Go on with what it writes until it has ended
    #[arg(long, short)]
    pub follow: bool,
    /// Begin with the last N lines of each
    #[arg(long, short = 'n', value_name = "N")]
    pub tail: Option<usize>,
}

/// Arguments of `volume`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bulkhead exec --volume data:/var/lib/db -- ./db\n  bulkhead volume ls\n  bulkhead volume rm data\n\n\
                        In a set's file: volumes = [\"data:/var/lib/db\"]. Volumes are folders of whoever calls, in XDG_DATA_HOME or ~/.local/share, \
                        made when they are first used. They stay until they are removed."
)]
pub struct VolumeArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: VolumeVerb,
}

/// What is done with volumes.
#[derive(Debug, Subcommand)]
pub enum VolumeVerb {
    /// List them, and which are in use
    Ls {
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove some, with all that is in them; one that a running partition has stays
    Rm {
        /// Their names
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
    },
}
