//! The command line of `channel`.

use clap::{Args, Subcommand};

use super::exec::args::EngineArgs;

/// Arguments of `channel`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub struct ChannelArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: ChannelVerb,
}

/// Verbs of channels.
#[derive(Debug, Subcommand)]
pub enum ChannelVerb {
    /// Measure a channel between two partitions beside the same ring elsewhere, TCP and a plain copy
    Bench(BenchArgs),
}

const BENCH_AFTER: &str = "\
What is measured, each way beside the others in every round, from 1 B to 4 MiB:
  channel       the ring between two partitions, through sections that one
                writes and the other only reads
  one guest     the same ring between two processes inside one of these partitions
  host          the same ring between two processes on the host
  TCP           a connection over virtio-net between the same two partitions
  copy          a plain copy by one process, inside the partition and on the
                host
  flag          a bare word each way, at 8 B, between the partitions and on the
                host: what any channel over this memory takes at least

First it is measured whether the mapping of a section is cached. Whoever leads
and whoever follows have the same two host CPUs in every way; a failed series
is recorded with its reason.

Examples:
  bulkhead channel bench                        about two minutes
  bulkhead channel bench --quick                under a minute, fewer sizes, wider intervals
  bulkhead channel bench --host-only            no partitions: the ring and the copy on this host
  bulkhead channel bench --rounds 20 --seed 7 --json > bench.json
  bulkhead channel bench --json | jq '.marks[] | {this, other, ratio, reached}'

Exit codes:
  0 done, whether marks were reached or not   3 no partitions can be started here   4 a series failed   130 interrupted";

/// Arguments of `channel bench`.
#[derive(Debug, Args)]
#[command(after_help = BENCH_AFTER)]
pub struct BenchArgs {
    /// Rounds [default: 9, with --quick 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(3..=1000))]
    pub rounds: Option<u32>,
    /// Under a minute: fewer sizes and rounds, shorter series
    #[arg(long, short)]
    pub quick: bool,
    /// Only what needs no partition
    #[arg(long, conflicts_with_all = ["kernel", "modules", "qemu", "accel", "boot_deadline_s"])]
    pub host_only: bool,
    /// Seed of the order [default: drawn and printed]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Print everything as JSON to stdout instead of tables: see `bulkhead schema channel`
    #[arg(long)]
    pub json: bool,
    /// What partitions are made of.
    #[command(flatten)]
    pub engine: EngineArgs,
}
