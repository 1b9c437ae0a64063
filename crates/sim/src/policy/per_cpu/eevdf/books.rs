//! What Linux' fair scheduler knows of virtual CPUs, of VMs on each CPU, and of CPUs.

use crate::host::{CpuId, VmId};
use crate::policy::entity::{Entity, Sum};
use crate::policy::forest::Set;
use crate::time::Time;

/// A VM on a CPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    /// The VM.
    pub(super) vm: VmId,
    /// The CPU.
    pub(super) cpu: CpuId,
    /// It competes as this.
    pub(super) entity: Entity,
    /// Virtual CPUs that want to run there, waiting or running.
    pub(super) count: u32,
    /// The sum of their v.
    pub(super) v: i128,
    /// Those that wait.
    pub(super) waiting: Set,
}

impl Group {
    /// V of those within.
    pub(super) const fn mean(&self) -> i128 {
        if self.count == 0 { 0 } else { self.v.div_euclid(self.count as i128) }
    }
}

/// A virtual CPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    /// It competes as this.
    pub(super) entity: Entity,
    /// Where it runs or waits, or did last.
    pub(super) home: CpuId,
    /// Its group on that CPU, while it wants to run.
    pub(super) group: Option<u32>,
    /// While it runs: until when it was charged.
    pub(super) charged: Time,
    /// Where it is to go when it leaves its CPU.
    pub(super) moves: Option<CpuId>,
}

/// A CPU's queue.
#[derive(Debug, Clone, Default)]
pub(super) struct Local {
    /// Groups of which somebody waits.
    pub(super) waiting: Set,
    /// All groups that want to run there.
    pub(super) sum: Sum,
    /// Times in a row that nothing could be moved although something should.
    pub(super) failed: u32,
    /// The same of who runs beside another on a core, while this CPU's own is idle.
    pub(super) failed_core: u32,
    /// When it evens out next.
    pub(super) due: Time,
}
