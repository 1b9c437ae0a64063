//! Who took the time: what the kernel of an instance counted while a probe ran, and what the host saw of it.

use serde::{Deserialize, Serialize};

use super::quantity::{Bytes, Hertz, Micros, Nanos};

/// Most CPUs of which an instance's own account is kept.
pub const MOST_CPU_ACCOUNTS: usize = 256;
/// Most kinds of interrupts kept.
pub const MOST_INTERRUPTS: usize = 32;
/// Most kinds of soft interrupts kept.
pub const MOST_SOFT_INTERRUPTS: usize = 16;
/// Most block devices kept.
pub const MOST_DEVICES: usize = 16;
/// Most traced sources kept.
pub const MOST_TRACED: usize = 32;

/// One line of `/proc/interrupts` or `/proc/softirqs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterruptCount {
    /// Its name as the kernel prints it: `LOC`, `RES`, `24`.
    pub name: String,
    /// What the kernel says about it: `Local timer interrupts`, `PCI-MSI virtio0-input.0`.
    pub about: String,
    /// How often while the probe ran, on all CPUs the instance grants.
    pub count: u64,
}

/// What happened on one CPU while the probe ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuAccount {
    /// Number of the CPU.
    pub cpu: u32,
    /// Time the hypervisor stole from it, in steps of 10 ms; none when the kernel does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal_ns: Option<Nanos>,
    /// Timer interrupts; none when they are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticks: Option<u64>,
    /// All interrupts, the timer's among them; none when they are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupts: Option<u64>,
}

/// What a block device or one of its partitions did while the probe ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceCount {
    /// Its name as the kernel prints it: `vda1`.
    pub name: String,
    /// Requests to read.
    pub reads: u64,
    /// Requests to write.
    pub writes: u64,
    /// Time in which it had at least one request.
    pub busy_ns: Nanos,
}

/// Throttling of real-time threads: `sched_rt_runtime_us` of `sched_rt_period_us`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RtThrottle {
    /// Real-time threads may run so long …
    pub runtime_us: Micros,
    /// … in each period.
    pub period_us: Micros,
}

/// Time taken by one source, as the kernel's tracer says: net, without what interrupted it in turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Time runnable threads of the agent waited for a CPU (`schedstat`), those of loads in the instance among them.
    pub run_delay_ns: Option<Nanos>,
    /// Switches in which a thread of the probe itself was made to give up its CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe_involuntary_switches: Option<u64>,
    /// Time runnable threads of the probe itself waited for a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe_run_delay_ns: Option<Nanos>,
    /// Time threads of the probe itself waited for a block device, in steps of 10 ms (delay accounting).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe_block_delay_ns: Option<Nanos>,
    /// Block devices, busiest first, at most [`MOST_DEVICES`]; those that did nothing are left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceCount>,
    /// CPUs granted one by one, ascending, at most [`MOST_CPU_ACCOUNTS`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub per_cpu: Vec<CpuAccount>,
    /// Interrupts, most frequent first, at most [`MOST_INTERRUPTS`]; those that did not happen are left out.
    pub interrupts: Vec<InterruptCount>,
    /// Soft interrupts, most frequent first, at most [`MOST_SOFT_INTERRUPTS`].
    pub soft_interrupts: Vec<InterruptCount>,
    /// Rate of the timer tick on the busiest CPU; none when it does not tick or is not counted.
    pub tick_hz: Option<Hertz>,
    /// Throttling of real-time threads; none when it is switched off or not known.
    pub rt_throttle: Option<RtThrottle>,
    /// What tracers say, longest first, at most [`MOST_TRACED`]; empty when tracing was not asked for, or not
    /// possible.
    pub traced: Vec<TracedSource>,
    /// The same within the latest wake-ups of the wake-up probe alone, from their due times until the thread ran; empty
    /// for other probes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traced_late: Vec<TracedSource>,
    /// Why something is not known: `tracing: tracefs is not mounted`.
    pub unknown: Vec<String>,
}

/// What the host saw of an instance in a slice of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// On which memory nodes of its host a guest's memory lay. A guest cannot know: it is told the nodes it was made to see.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct HostMemory {
    /// Bytes on each node before the measurement as `(node, bytes)`, ascending.
    pub before_bytes: Vec<(u32, Bytes)>,
    /// The same after it.
    pub after_bytes: Vec<(u32, Bytes)>,
    /// Why that is not known; none when it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// What the host saw of an instance during a measurement.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Memory node of the CPU on which its busiest thread ran last; none when not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Where a guest's memory lay; none where that was not asked: of other probes, and of instances that see it themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<HostMemory>,
}

impl HostAccount {
    /// The part of the guest's memory that lies on the node of the CPU its busiest thread ran on; none when either is not
    /// known, or there is none of it yet.
    pub fn local_share(&self) -> Option<f64> {
        let memory = self.memory.as_ref().filter(|memory| memory.unknown.is_none())?;
        let node = self.node?;
        let all: f64 = memory.after_bytes.iter().map(|(_, bytes)| bytes.as_f64()).sum();
        let near = memory.after_bytes.iter().filter(|(at, _)| *at == node);
        let near: f64 = near.map(|(_, bytes)| bytes.as_f64()).sum();
        Some(near / all).filter(|share| share.is_finite())
    }
}
