//! The measurement kernels, one file or folder each. Every one returns raw data with its clock and its own cost.

pub mod batches;
pub mod build;
pub mod circle;
pub mod context;
pub mod cpu;
pub mod disk;
pub mod exit;
pub mod fork;
pub mod frames;
pub mod ftq;
pub mod fwq;
pub mod gap;
pub mod linpack;
pub mod lock;
pub mod mem_bandwidth;
pub mod mem_latency;
pub mod mpi;
pub mod net;
pub mod pages;
pub mod quantum;
pub mod share;
pub mod sizes;
pub mod streams;
pub mod syscall;
pub mod wakeup;
pub mod worst;

use self::context::Context;
use super::error::WorkError;
use model::job::ProbeReport;
use model::params::ProbeSpec;

/// Runs one probe.
///
/// # Errors
/// Why it could not be measured.
pub fn measure(spec: &ProbeSpec, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    match spec {
        ProbeSpec::Gap(params) => gap::probe::measure(params, context),
        ProbeSpec::Fwq(params) => fwq::measure(params, context),
        ProbeSpec::Ftq(params) => ftq::measure(params, context),
        ProbeSpec::Wakeup(params) => wakeup::probe::measure(params, context),
        ProbeSpec::Frames(params) => frames::measure(params, context),
        ProbeSpec::Exit(params) => exit::measure(params, context),
        ProbeSpec::Lock(params) => lock::measure(params, context),
        ProbeSpec::Linpack(params) => linpack::measure(params, context),
        ProbeSpec::Build(params) => build::measure(params, context),
        ProbeSpec::Pages(params) => pages::measure(params, context),
        ProbeSpec::Net(params) => net::probe::measure(params, context),
        ProbeSpec::Mpi(params) => mpi::probe::measure(params, context),
        ProbeSpec::Share(params) => share::measure(params, context),
        ProbeSpec::Cpu(params) => cpu::measure(params, context),
        ProbeSpec::Syscall(params) => syscall::measure(params, context),
        ProbeSpec::Fork(params) => fork::measure(params, context),
        ProbeSpec::MemLatency(params) => mem_latency::measure(params, context),
        ProbeSpec::MemBandwidth(params) => mem_bandwidth::measure(params, context),
        ProbeSpec::Disk(params) => disk::probe::measure(params, context),
    }
}
