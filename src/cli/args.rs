//! The command line as typed. Verbs turn these into domain settings; nothing else reads argv.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub use super::channel_args::{BenchArgs, ChannelArgs, ChannelVerb};
use super::exec::args::ExecArgs;
use super::moment;
use super::mpirun::args::MpirunArgs;
use super::plan::args::PlanArgs;
pub use super::set_args::{DownArgs, LogsArgs, OneArgs, PsArgs, SplitAt, UpArgs, VolumeArgs, VolumeVerb};
use super::tool_args::ToolArgs;
use super::verify::args::VerifyArgs;
use units::Nanos;

const AFTER: &str = "\
Examples:
  bulkhead measure                     native, container and VM on this machine, about four minutes
  bulkhead measure --quick             the same in under a minute, with wider intervals
  bulkhead measure native vm:tcg       only these two
  bulkhead doctor                      is this host quiet enough to be measured?
  bulkhead compare before/ after/      what changed between two runs
  bulkhead simulate cpu-share          what would happen, and what was published about it
  bulkhead exec -- uname -a            run a program as a partition of its own

Exit codes:
  0 done   1 a platform does not meet --require, or a published figure does not hold   2 bad input
  3 the machine lacks something   4 a measured thing broke, or a simulation got stuck   130 interrupted";

/// Tells you, before you share a machine, what each tenant will get.
#[derive(Debug, Parser)]
#[command(name = "bulkhead", version, about, after_help = AFTER, max_term_width = 100, subcommand_required = true)]
#[command(arg_required_else_help = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs, one file each.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Measure what running in a container or a VM costs on this machine
    Measure(Box<MeasureArgs>),
    /// Run a program as a partition of its own: a virtual machine with the host's files, streams and exit code
    Exec(Box<ExecArgs>),
    /// Run an unmodified MPI program over several partitions that talk at memory speed
    Mpirun(Box<MpirunArgs>),
    /// Channels between partitions: what they give on this host
    Channel(Box<ChannelArgs>),
    /// Decide where partitions go: on which host, memory node and CPUs, proven best, or why there is no way
    Plan(Box<PlanArgs>),
    /// Bring a set of partitions up: programs and machines with their networks, walled off
    Up(UpArgs),
    /// Verify that every requirement of a set holds, under the load and the failure that matter
    Verify(Box<VerifyArgs>),
    /// End a set of partitions and leave nothing of it
    Down(DownArgs),
    /// Show what partitions run where
    Ps(PsArgs),
    /// Show what a partition's program writes
    Logs(LogsArgs),
    /// Start one partition of a set that is up, which was stopped or has ended
    Start(OneArgs),
    /// End one partition of a set; the others stay
    Stop(OneArgs),
    /// End one partition of a set and start it again
    Restart(OneArgs),
    /// List and remove volumes: folders by name that partitions write and that last
    Volume(VolumeArgs),
    /// Simulate a scenario: what would happen on a host, and what was published about it
    Simulate(SimulateArgs),
    /// Check whether this host is fit to be measured, and what is missing
    Doctor(DoctorArgs),
    /// Compare two runs
    Compare(CompareArgs),
    /// Show a run again: terminal table, report.html, results.json from its journal
    Report(ReportArgs),
    /// List the shipped experiments, print one, or check a file
    Experiment(ExperimentArgs),
    /// List the classes of work that platforms are held against, print one, or check a file
    Classes(ClassesArgs),
    /// Print the JSON schema of what is written to disk
    Schema(SchemaArgs),
    /// Print a shell completion script
    Completions(CompletionsArgs),
    /// Print the man page, or write all of them to a folder
    Man(ManArgs),
}

const MEASURE_AFTER: &str = "\
Platforms:
  native            a process on the host
  container[:NAME]  an OCI container; NAME is crun, runc, youki, runsc or a path
  vm[:ACCEL]        a QEMU guest; ACCEL is kvm or tcg; without it KVM is tried first
  fake              scripted, for trying out experiments
  A platform named twice is measured twice (native native is an A/A test).

Clocks:
  The host's clock is asked before and after each probe: by datagrams where the probe has a
  network (net and mpi in layouts), over the agent's link elsewhere (of a VM, its virtio port).
  Half the round trip is the error bar; the summary says both for each platform.

In DIR afterwards:
  experiment.toml   what was measured, seed included     journal.jsonl   one line per measurement
  results.json      every figure with its interval       report.html     open it in a browser

Examples:
  bulkhead measure
  bulkhead measure --quick --out /tmp/first-look
  bulkhead measure native container:crun container:runc --probe syscall --probe fork
  bulkhead measure --experiment my.toml --seed 7
  bulkhead measure --experiment full --plan
  bulkhead measure --until-decided --budget-s 1200 --deadline 2ms
  bulkhead measure --resume bulkhead-run-20260102-150405";

/// Arguments of `measure`.
#[derive(Debug, Args)]
#[command(after_help = MEASURE_AFTER)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct MeasureArgs {
    /// Platforms to measure; the first is the baseline [default: those of the experiment]
    #[arg(value_name = "PLATFORM")]
    pub platforms: Vec<String>,
    /// A shipped experiment or a TOML file [default: default]
    #[arg(long, short, value_name = "NAME|FILE", conflicts_with = "quick")]
    pub experiment: Option<String>,
    /// The shipped experiment `quick`: under a minute, wider intervals
    #[arg(long, short)]
    pub quick: bool,
    /// Where to write; must not hold a run yet [default: bulkhead-run-DATE-TIME]
    #[arg(long, short, value_name = "DIR", conflicts_with = "resume")]
    pub out: Option<PathBuf>,
    /// Go on with an interrupted run; nothing is measured twice
    #[arg(long, short, value_name = "DIR",
          conflicts_with_all = ["platforms", "experiment", "quick", "probe", "seed", "rounds", "budget_s", "target_percent", "until_decided",
                                "kernel", "modules", "qemu", "runtime"])]
    pub resume: Option<PathBuf>,
    /// Measure only this probe (may be repeated)
    #[arg(long, short, value_name = "PROBE")]
    pub probe: Vec<String>,
    /// Seed of order and data [default: drawn and printed]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Rounds of each probe: N, or MIN..MAX
    #[arg(long, value_name = "N|MIN..MAX")]
    pub rounds: Option<String>,
    /// Once each probe has its least rounds, begin none after this many seconds of measuring
    #[arg(long, value_name = "S")]
    pub budget_s: Option<u32>,
    /// A figure is decided when its ratio to the baseline is known to ± this much, or a difference to a fifth of it
    #[arg(long, value_name = "P")]
    pub target_percent: Option<f64>,
    /// Measure until every verdict on a class of work is decided, or --budget-s is used up
    #[arg(long)]
    pub until_decided: bool,
    /// What guests are made of.
    #[command(flatten)]
    pub tools: ToolArgs,
    /// OCI runtime for containers
    #[arg(long, value_name = "NAME|PATH")]
    pub runtime: Option<String>,
    /// What the platforms are to be fit for.
    #[command(flatten)]
    pub fit: FitArgs,
    /// Let the disk probe write to a block device that is in use or carries something (disk = "device")
    #[arg(long)]
    pub i_know_this_destroys_data: bool,
    /// Only say what would be measured, in which order, and how long it would take
    #[arg(long, conflicts_with_all = ["resume", "out", "json"])]
    pub plan: bool,
    /// Print everything that is known, not one screen
    #[arg(long, conflicts_with_all = ["plan", "json"])]
    pub full: bool,
    /// Print results.json to stdout instead of the table
    #[arg(long)]
    pub json: bool,
}

/// What platforms are held against, for the verbs that show a run.
#[derive(Debug, Default, Clone, Args)]
#[command(next_help_heading = "Fit for what?")]
pub struct FitArgs {
    /// Classes of work to add to the shipped ones; one of the same name replaces it
    #[arg(long, value_name = "FILE")]
    pub classes: Option<PathBuf>,
    /// Deadline of the classes that have one, 5ms or 250us for example [default: that of the class, 10ms]
    #[arg(long, value_name = "TIME")]
    pub deadline: Option<String>,
    /// Share of activations that may miss the deadline [default: that of the class, 1e-3]
    #[arg(long, value_name = "SHARE")]
    pub miss_rate: Option<f64>,
    /// Exit with 1 unless every platform is suited for this class, with limits or without (may be repeated)
    #[arg(long, value_name = "CLASS")]
    pub require: Vec<String>,
}

impl FitArgs {
    /// The first of these arguments that was given.
    pub const fn first_given(&self) -> Option<&'static str> {
        if self.classes.is_some() {
            Some("--classes")
        } else if self.deadline.is_some() {
            Some("--deadline")
        } else if self.miss_rate.is_some() {
            Some("--miss-rate")
        } else if self.require.is_empty() {
            None
        } else {
            Some("--require")
        }
    }
}

const SIMULATE_AFTER: &str = "\
In DIR afterwards; of the same seed the same bytes:
  scenario.toml     what was simulated, as given
  results.json      every figure, for report and compare
  report.html       open it in a browser
  trace.json        who ran where; open it in Perfetto
  noise/            recorded noise that it names

Examples:
  bulkhead simulate --list
  bulkhead simulate cpu-share
  bulkhead simulate my.toml --out before
  bulkhead simulate my.toml --set host.policy=credit2 --out after
  bulkhead compare before after
  bulkhead simulate rhype-fwq --replications 20 --seed 7 --json | jq .published
  bulkhead simulate three-on-two --trace trace.json
  bulkhead simulate three-on-two --pause-at 5ms --pause-at 1s
  bulkhead simulate three-on-two --pause-at 1s --step
  bulkhead simulate --from bulkhead-run-20260102-150405 --out model
  bulkhead simulate --from bulkhead-run-20260102-150405 --set vm.first.weight=2.0

Exit codes:
  0 done   1 a published figure does not hold as demanded   2 bad input
  4 a simulation got stuck or reached its limits
  130 interrupted; what was done is shown, and written where --out says";

/// Arguments of `simulate`.
#[derive(Debug, Args)]
#[command(after_help = SIMULATE_AFTER, term_width = 80)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct SimulateArgs {
    /// A shipped scenario or a TOML file
    #[arg(value_name = "FILE|NAME", required_unless_present_any = ["list", "from"])]
    pub scenario: Option<String>,
    /// Take the parameters of a scenario from this measured run (share probe, several instances) and predict its fullest
    /// load, which the model is not given; --out keeps the scenario
    #[arg(long, value_name = "RUN", conflicts_with_all = ["scenario", "list"])]
    pub from: Option<PathBuf>,
    /// Of --from: hold out and predict the load with so many threads in the first instance and in each other one, 3+2 for
    /// example [default: the fullest]
    #[arg(long, value_name = "FIRST+OTHER", requires = "from", value_parser = load)]
    pub hold_out: Option<(u32, u32)>,
    /// List the shipped scenarios, each with what it shows
    #[arg(long, short, conflicts_with_all = ["scenario", "out", "set", "seed", "replications", "threads", "trace"])]
    pub list: bool,
    /// Where to write; must not hold anything yet [default: nothing is written]
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Put a value into the scenario, host.cpus=4 for example (may be repeated)
    #[arg(long, short, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Show figures whose id is like this, 'vm.A.*' or '*.wall*' for example (may be repeated) [default: the most
    /// telling ones; --json has all]
    #[arg(long, value_name = "PATTERN", conflicts_with_all = ["list", "json"])]
    pub figure: Vec<String>,
    /// Show all cases, all VMs and all tasks, however many there are
    #[arg(long, conflicts_with_all = ["list", "json"])]
    pub full: bool,
    /// Seed of everything random [default: that of the file]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// How often each case is simulated [default: that of the file]
    #[arg(long, value_name = "N")]
    pub replications: Option<u32>,
    /// Search the offsets of real-time tasks and servers for the ones that are worst for each task, in so many simulations of each case
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "500",
        value_parser = clap::value_parser!(u64).range(2..=1_000_000),
        conflicts_with_all = ["list", "pause_at", "step"]
    )]
    pub worst_phase: Option<u64>,
    /// Leave out the simulations with changed parameters, which tell how far predictions depend on each
    #[arg(long, conflicts_with_all = ["list"])]
    pub no_sensitivity: bool,
    /// Threads that simulate; results do not depend on it [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// The case that --trace, --pause-at, --step and the page of --out look at, by its label; all are simulated [default: the
    /// first]
    #[arg(long, value_name = "LABEL", conflicts_with_all = ["list"])]
    pub case: Vec<String>,
    /// Write who ran where in the first replication of a case, in Chrome's trace format
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Show who runs where, who waits and the books so far at this simulated time, 5ms for example, in the first replication
    /// of a case, then go on; no result depends on it (may be repeated)
    #[arg(long, value_name = "TIME", value_parser = moment::parse, conflicts_with_all = ["list", "json"])]
    pub pause_at: Vec<Nanos>,
    /// The same event by event, as commands on standard input say, from the beginning or the last --pause-at on
    #[arg(long, conflicts_with_all = ["list", "json"])]
    pub step: bool,
    /// Print everything as JSON to stdout instead of tables
    #[arg(long)]
    pub json: bool,
}

/// `3+2`: threads of the first instance and of each other one.
fn load(text: &str) -> Result<(u32, u32), String> {
    let count = |text: &str| text.trim().parse::<u32>().ok().filter(|count| *count > 0);
    let both = text.split_once('+').and_then(|(first, other)| count(first).zip(count(other)));
    both.ok_or_else(|| {
        "wanted threads of the first instance and of each other one, 3+2 for example".to_owned()
    })
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bulkhead doctor\n  bulkhead doctor --json | jq '.checks[] | select(.level == \"dirty\")'\n  \
                  bulkhead doctor --power\n  bulkhead doctor --power --runs 40 --budget-s 600\n  \
                  bulkhead doctor --host-file a.host.toml --run /tmp/monday\n\n\
                  A system's file names what --host-file wrote:  [host.a]  from = \"a.host.toml\"\n\n\
                  Exit codes:\n  0 done   2 bad input   3 the machine lacks something   4 a run of --power broke\n  \
                  130 interrupted; --power tells what it has found so far"
)]
pub struct DoctorArgs {
    /// Leave out the trial guest that shows whether KVM really works (takes up to ten seconds)
    #[arg(long)]
    pub no_trial: bool,
    /// Measure which differences runs on this host find: two native instances, one made slower by 2, 5 and 10 %, or by nothing
    /// (two to three minutes)
    #[arg(long, conflicts_with = "no_trial")]
    pub power: bool,
    /// Runs of each slowdown [default: 10]
    #[arg(long, value_name = "N", requires = "power", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: Option<u32>,
    /// Begin no further run after this many seconds [default: 150]
    #[arg(long, value_name = "S", requires = "power", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub budget_s: Option<u32>,
    /// Write what this host is made of, for planning: memory nodes, CPUs by core and by cache, memory, cards, disks; - for stdout
    #[arg(long, value_name = "FILE", conflicts_with_all = ["no_trial", "power", "json"])]
    pub host_file: Option<PathBuf>,
    /// With what was measured on it: the folder of a run, or what channel bench --json printed; several, the first counts
    #[arg(long = "run", value_name = "RUN", requires = "host_file")]
    pub runs_on_it: Vec<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `compare`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bulkhead compare monday/ tuesday/\n  bulkhead compare monday/ tuesday/ --html changes.html"
)]
pub struct CompareArgs {
    /// Run directory, or its results.json: the one compared with
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// Run directory, or its results.json
    #[arg(value_name = "B")]
    pub b: PathBuf,
    /// Write the comparison as a page, too
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print the changes as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bulkhead report bulkhead-run-20260102-150405\n  bulkhead report DIR --json | jq .verdicts\n  \
                  bulkhead report DIR --deadline 2ms --miss-rate 1e-4 --require real-time\n\n\
                  Exit codes:\n  0 shown, also where measurements failed, a simulation got stuck or a published figure does not hold: the\n    \
                  verb that made DIR has said so   1 a platform does not meet --require   2 bad input"
)]
pub struct ReportArgs {
    /// Run directory
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// What the platforms are to be fit for.
    #[command(flatten)]
    pub fit: FitArgs,
    /// Print everything that is known, not one screen
    #[arg(long, conflicts_with = "json")]
    pub full: bool,
    /// Print results.json to stdout instead of the table
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `experiment`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bulkhead experiment\n  bulkhead experiment default > my.toml\n  bulkhead experiment my.toml"
)]
pub struct ExperimentArgs {
    /// A shipped experiment to print, or a file to check
    #[arg(value_name = "NAME|FILE")]
    pub name: Option<String>,
    /// Print as JSON: the list of names, or the experiment
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `classes`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bulkhead classes\n  bulkhead classes real-time > mine.toml\n  bulkhead classes mine.toml\n  \
                  bulkhead report DIR --classes mine.toml\n  \
                  bulkhead classes real-time --requirements plant/plc > plc.requirements.toml"
)]
pub struct ClassesArgs {
    /// A shipped class to print, or a file to check
    #[arg(value_name = "NAME|FILE")]
    pub name: Option<String>,
    /// Print its conditions as requirements of a partition, for `bulkhead verify`, to begin with
    #[arg(long, value_name = "SET/PARTITION", requires = "name", conflicts_with = "json")]
    pub requirements: Option<String>,
    /// Print as JSON: the list of names, or the classes
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `schema`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bulkhead schema > results.schema.json\n  bulkhead schema experiment")]
pub struct SchemaArgs {
    /// Which format
    #[arg(value_enum, default_value = "results")]
    pub format: Format,
}

/// Formats with a schema.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum Format {
    /// results.json
    Results,
    /// A line of journal.jsonl
    Journal,
    /// experiment.toml, as JSON
    Experiment,
    /// A file of classes, as JSON
    Classes,
    /// Output of `doctor --json`
    Preflight,
    /// Output of `doctor --power --json`
    Power,
    /// scenario.toml, as JSON
    Scenario,
    /// A set of partitions, as JSON
    Set,
    /// Output of `channel bench --json`
    Channel,
    /// What `doctor --host-file` writes, as JSON
    Host,
    /// A system that `plan` takes, as JSON
    System,
    /// plan.json
    Plan,
    /// A file of requirements, as JSON
    Requirements,
    /// verify.json
    Verify,
    /// A line of a verification's journal.jsonl
    VerifyJournal,
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bulkhead completions bash > ~/.local/share/bash-completion/completions/bulkhead\n  \
                        bulkhead completions zsh > ~/.zfunc/_bulkhead"
)]
pub struct CompletionsArgs {
    /// Your shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bulkhead man | man -l -\n  bulkhead man --out ~/.local/share/man/man1")]
pub struct ManArgs {
    /// Write one page per verb to this folder
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}
