//! A simulated host at one moment: who runs where, who waits, and what the books say so far. It is looked at and gone:
//! nothing of it is written to disk.

use super::simulation::StretchMode;
use units::Nanos;

/// The host at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostState {
    /// The moment.
    pub at_ns: Nanos,
    /// Events that were handled up to it.
    pub events: u64,
    /// When the next event is due; none when nothing will happen any more.
    pub next_ns: Option<Nanos>,
    /// CPU by CPU.
    pub cpus: Vec<CpuState>,
    /// Virtual CPU by virtual CPU.
    pub vcpus: Vec<VcpuState>,
}

/// A CPU at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuState {
    /// The number of the virtual CPU on it, and what that is at.
    pub running: Option<(u32, StretchMode)>,
    /// When that must go, as far as the policy has said; none for never.
    pub until_ns: Option<Nanos>,
    /// Time somebody ran.
    pub run_ns: Nanos,
    /// Time virtual CPUs were switched.
    pub switching_ns: Nanos,
    /// Time nobody ran.
    pub idle_ns: Nanos,
}

/// A virtual CPU at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VcpuState {
    /// What it does.
    pub place: VcpuPlace,
    /// Time it was on a CPU, switches at its expense included.
    pub run_ns: Nanos,
    /// Time it waited for one.
    pub steal_ns: Nanos,
    /// Time it had nothing to do.
    pub halted_ns: Nanos,
    /// How often it was brought onto a CPU.
    pub dispatches: u64,
}

/// What a virtual CPU does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VcpuPlace {
    /// It runs on the CPU with this number.
    On(u32),
    /// It has waited so long for a CPU.
    Waits(Nanos),
    /// It has had nothing to do for so long.
    Halted(Nanos),
}
