//! Who took the time: what the kernel of an instance counted while a probe ran, and what the host saw of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::units::{Hertz, Micros, Nanos};

/// One line of `/proc/interrupts` (or of a tracer): how often on the CPU of the probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterruptCount {
    /// Its name as the kernel prints it: `LOC`, `RES`, `24`.
    pub name: String,
    /// What the kernel says about it: `Local timer interrupts`, `PCI-MSI virtio0-input.0`.
    pub about: String,
    /// How often while the probe ran, on all CPUs the instance grants.
    pub count: u64,
}

/// Throttling of real-time threads: `sched_rt_runtime_us` of `sched_rt_period_us`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RtThrottle {
    /// Real-time threads may run so long …
    pub runtime_us: Micros,
    /// … in each period.
    pub period_us: Micros,
}

/// Time taken by one source, as a tracer of the kernel (osnoise, timerlat, sched events) says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TracedSource {
    /// Name of the thread, interrupt or soft interrupt.
    pub name: String,
    /// How often it ran on the CPU of the probe.
    pub count: u64,
    /// How long in all.
    pub total_ns: Nanos,
    /// Its longest single stretch.
    pub longest_ns: Nanos,
}

/// What the kernel of the instance counted while the probe ran. What it does not say is none or empty.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Accounts {
    /// How long was counted.
    pub elapsed_ns: Nanos,
    /// Time stolen by the hypervisor, all CPUs granted.
    pub steal_ns: Option<Nanos>,
    /// Switches in which a thread of the agent gave up its CPU.
    pub voluntary_switches: Option<u64>,
    /// Switches in which a thread of the agent was made to give up its CPU.
    pub involuntary_switches: Option<u64>,
    /// Time runnable threads of the agent waited for a CPU (`schedstat`).
    pub run_delay_ns: Option<Nanos>,
    /// Interrupts, most frequent first, at most 32; those that did not happen are left out.
    pub interrupts: Vec<InterruptCount>,
    /// Soft interrupts, most frequent first, at most 16.
    pub soft_interrupts: Vec<InterruptCount>,
    /// Rate of the timer tick on the busiest CPU; none when it does not tick or is not counted.
    pub tick_hz: Option<Hertz>,
    /// Throttling of real-time threads; none when it is switched off or not known.
    pub rt_throttle: Option<RtThrottle>,
    /// What tracers say, longest first, at most 32; empty without the rights or the tracers.
    pub traced: Vec<TracedSource>,
    /// Why something is not known: `osnoise: tracefs is not mounted`.
    pub unknown: Vec<String>,
}

/// What the host saw of an instance in a slice of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostSlice {
    /// End of the slice, `CLOCK_MONOTONIC` of the host.
    pub at_ns: Nanos,
    /// CPU time its threads took since the slice before.
    pub run_ns: Nanos,
    /// Time its runnable threads waited for a CPU since the slice before.
    pub wait_ns: Nanos,
    /// Page faults the host handled for it since the slice before.
    pub faults: u64,
}

/// What the host saw of an instance during a measurement.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostAccount {
    /// CPU time of everything that carries the instance.
    pub cpu_time_ns: Nanos,
    /// Time its runnable threads waited for a CPU.
    pub wait_ns: Nanos,
    /// Page faults the host handled for it.
    pub faults: u64,
    /// The same over time, at most 4096 slices.
    pub slices: Vec<HostSlice>,
    /// CPU time that looking took.
    pub own_cost_ns: Nanos,
}
