//! The measurement kernels, one file or folder each. Every one returns raw data with its clock and its own cost.

pub mod batches;
pub mod context;
pub mod cpu;
pub mod disk;
pub mod fork;
pub mod fwq;
pub mod gap;
pub mod mem_bandwidth;
pub mod mem_latency;
pub mod quantum;
pub mod sizes;
pub mod streams;
pub mod syscall;
pub mod worst;

use self::context::Context;
use super::error::WorkError;
use crate::model::job::ProbeReport;
use crate::model::params::ProbeSpec;

/// Runs one probe.
///
/// # Errors
/// Why it could not be measured.
pub fn measure(spec: &ProbeSpec, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    match spec {
        ProbeSpec::Gap(params) => gap::probe::measure(params, context),
        ProbeSpec::Fwq(params) => fwq::measure(params, context),
        ProbeSpec::Cpu(params) => cpu::measure(params, context),
        ProbeSpec::Syscall(params) => syscall::measure(params, context),
        ProbeSpec::Fork(params) => fork::measure(params, context),
        ProbeSpec::MemLatency(params) => mem_latency::measure(params, context),
        ProbeSpec::MemBandwidth(params) => mem_bandwidth::measure(params, context),
        ProbeSpec::Disk(params) => disk::probe::measure(params, context),
    }
}
