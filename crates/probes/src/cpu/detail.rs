//! What the cpu probe brings home: raw enough that every figure can be computed again.

use serde::{Deserialize, Serialize};
use units::Nanos;

/// Times at one number of threads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuPoint {
    /// Threads running at once.
    pub threads: u32,
    /// From the common start until the last thread is done, one per repetition.
    pub elapsed_ns: Vec<Nanos>,
}

/// Outcome of the threads-versus-time probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuDetail {
    /// Rounds of the loop per thread.
    pub iterations: u64,
    /// CPUs the instance says it has.
    pub cpus: u32,
    /// One entry per number of threads, ascending.
    pub points: Vec<CpuPoint>,
}
