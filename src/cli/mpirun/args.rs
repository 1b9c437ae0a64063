//! Arguments of `mpirun`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::exec::args::{EngineArgs, ProgramArgs};
use partition::mpi::layout::{MOST_RANKS, USUAL_PARTITIONS};

const MPIRUN_AFTER: &str = "\
Needs Open MPI 4 on this host (Debian: openmpi-bin) and, for channels, the library libbulkhead-fi.so, which is \
looked for beside this program and in ../lib/bulkhead, or where --provider or BULKHEAD_FABRIC name it (make install \
puts it there).

Neighbouring ranks are together: of 5 ranks in 2 partitions, 0 1 2 are in the first and 3 4 in the second. As with \
exec, programs see the host's files read-only with a throw-away layer on top; paths given with --rw are written \
through. Standard input goes to rank 0. Partitions see nothing but each other.

With channels every rank must come to its channel; one that does not is an error, nothing slower is taken in its \
place. They do not carry MPI_Comm_spawn, and windows (MPI_Win_create and its like) over several partitions only \
where MPI was initialised with MPI_THREAD_SERIALIZED or less: both are refused at once, in C and in Fortran; \
--transport tcp has both. Ctrl-C asks Open MPI to end the ranks; what has not ended 10 s later, or at the second Ctrl-C, is ended.

Examples:
  bulkhead mpirun -n 4 -- ./solver --steps 1000
  bulkhead mpirun -n 8 --partitions 4 --memory 2GiB --rw \"$PWD\" -- ./solver
  bulkhead mpirun -n 2 --transport tcp -- ./ping-pong    to compare with
  bulkhead mpirun -n 2 --env OMPI_MCA_coll=^hcoll -- ./solver

Exit codes:
  that of Open MPI's mpirun: 0, that of the first rank that failed, or 128 + n
  when signal n killed it, or came and ended the run
  125 bulkhead or a partition failed, or a rank never came to its channel
  126 the program cannot be executed   127 it was not found";

/// How ranks in different partitions send to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TransportArg {
    /// Memory that the partitions share
    Channel,
    /// Open MPI's own TCP over virtual network cards; within a partition its own shared memory
    Tcp,
}

/// Arguments of `mpirun`.
#[derive(Debug, Args)]
#[command(after_help = MPIRUN_AFTER, args_override_self = true)]
pub struct MpirunArgs {
    /// The MPI program and its arguments, byte for byte
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    pub command: Vec<OsString>,
    #[doc = "Ranks."]
    #[arg(long = "ranks", short = 'n', visible_alias = "np", value_name = "N", help = ranks_help())]
    pub ranks: u32,
    #[doc = "Partitions."]
    #[arg(long, short, value_name = "P", help = partitions_help())]
    pub partitions: Option<u32>,
    /// How ranks in different partitions send to each other
    #[arg(long, value_enum, default_value = "channel")]
    pub transport: TransportArg,
    /// The library for channels, or its folder
    #[arg(long, value_name = "FILE|DIR")]
    pub provider: Option<PathBuf>,
    /// What each partition is granted and shows.
    #[command(flatten)]
    pub each: EachArgs,
    /// What partitions are made of.
    #[command(flatten)]
    pub engine: EngineArgs,
}

/// What each partition is granted, and what ranks see in it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Each partition")]
pub struct EachArgs {
    /// Virtual CPUs of each partition [default: one per rank of the fullest, at most those of the host]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=255))]
    pub cpus: Option<u32>,
    /// Memory of each partition, 512MiB or 2GiB for example [default: 512MiB and 128MiB per rank, at most half of what is
    /// free for all]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// Memory of the channels that one rank writes, a power of two
    #[arg(long, value_name = "SIZE", default_value = "16MiB")]
    pub channel_size: String,
    /// What each rank is given.
    #[command(flatten)]
    pub program: ProgramArgs,
}

fn ranks_help() -> String {
    format!("Ranks, 1 to {MOST_RANKS}")
}

fn partitions_help() -> String {
    format!(
        "Partitions they are spread over, at most one per rank [default: {USUAL_PARTITIONS}, for one rank 1]"
    )
}
