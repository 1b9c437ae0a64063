//! What a machine says of itself: the host, or what a guest sees. Collected by the agent wherever it runs, kept
//! with every result so that a figure can be traced to the machine that made it.

use serde::{Deserialize, Serialize};

use super::quantity::{Bytes, Hertz, Nanos};

/// What a machine (real or virtual) says of itself. What it does not say is `None`, never a guess.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MachineFacts {
    /// Architecture, `x86_64` for example.
    pub architecture: String,
    /// CPU model name.
    pub cpu_model: Option<String>,
    /// CPUs this process may run on.
    pub cpus: u32,
    /// Memory in all.
    pub memory_bytes: Option<Bytes>,
    /// Last-level cache.
    pub last_level_cache_bytes: Option<Bytes>,
    /// Operating system's pretty name.
    pub system: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Clock source of the kernel.
    pub clock_source: Option<String>,
    /// Hypervisor this machine runs under, as far as it shows.
    pub hypervisor: Option<String>,
    /// Rate of the cycle counter, measured.
    pub counter_hz: Option<Hertz>,
    /// Network cards of a guest: interface, driver, hardware address. Empty where none was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nics: Vec<String>,
}

/// The clock a probe used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockFacts {
    /// Its name: `tsc`, `cntvct`, `CLOCK_MONOTONIC_RAW`.
    pub name: String,
    /// Median cost of one read, nanoseconds.
    pub read_ns: f64,
    /// Smallest step seen between two reads, nanoseconds.
    pub resolution_ns: f64,
}

/// What a probe itself costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OwnCost {
    /// Median time the probe adds to one sample (the smallest thing it can see), nanoseconds.
    pub per_sample_ns: f64,
    /// CPU time used by the agent for this measurement.
    pub cpu_time_ns: Nanos,
    /// Memory the probe's arrays took.
    pub memory_bytes: Bytes,
}
