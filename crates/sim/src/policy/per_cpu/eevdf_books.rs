//! What Linux' fair scheduler knows of virtual CPUs, of VMs on each CPU, and of CPUs.

use crate::host::{CpuId, VmId};
use crate::policy::entity::{Entity, Sum};
use crate::policy::forest::Set;
use crate::time::Time;

/// A VM on a CPU.
#[derive(Debug, Clone, Copy)]
pub struct EevdfGroup {
    /// The VM.
    pub vm: VmId,
    /// The CPU.
    pub cpu: CpuId,
    /// It competes as this.
    pub entity: Entity,
    /// Virtual CPUs that want to run there, waiting or running.
    pub count: u32,
    /// The sum of their v.
    pub v: i128,
    /// Those that wait.
    pub waiting: Set,
}

impl EevdfGroup {
    /// V of those within.
    pub const fn mean(&self) -> i128 {
        if self.count == 0 { 0 } else { self.v.div_euclid(self.count as i128) }
    }
}

/// A virtual CPU.
#[derive(Debug, Clone, Copy)]
pub struct EevdfMember {
    /// It competes as this.
    pub entity: Entity,
    /// Where it runs or waits, or did last.
    pub home: CpuId,
    /// Its group on that CPU, while it wants to run.
    pub group: Option<u32>,
    /// While it runs: until when it was charged.
    pub charged: Time,
    /// Where it is to go when it leaves its CPU.
    pub moves: Option<CpuId>,
}

/// A CPU's queue.
#[derive(Debug, Clone, Default)]
pub struct Local {
    /// Groups of which somebody waits.
    pub waiting: Set,
    /// All groups that want to run there.
    pub sum: Sum,
    /// Times in a row that nothing could be moved although something should.
    pub failed: u32,
    /// The same of who runs beside another on a core, while this CPU's own is idle.
    pub failed_core: u32,
    /// When it evens out next.
    pub due: Time,
}
