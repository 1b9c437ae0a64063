//! What a migration costs: who runs on another CPU than the last time fills its caches anew before it gets on.
//!
//! ```text
//!  CPU 0 |A ────────|B ────          A's working set is in the caches of CPU 0
//!  CPU 1 |C ───|~~~~A ─────          ~ filled anew: working set / rate at which it is filled, counted as switching
//! ```
//! That the cost grows with the working set, up to the size of the cache, was measured by Li, Ding and Shen, "Quantifying the
//! cost of context switch" (2007). The formula is this model's own, and simple: it is paid at once, the whole of it however
//! short the last stay was, and between CPUs that share a cache it is a stated part of that.

use super::Machine;
use crate::host::view::{CpuId, VcpuId};
use crate::time::Span;

/// What migrations cost; nothing by default.
#[derive(Debug, Clone, Default)]
pub struct Migration {
    /// By VM, between CPUs that share no cache; nothing for VMs beyond.
    pub of_vm: Vec<Span>,
    /// CPUs that share a cache, in groups of so many from CPU 0 on.
    pub group: u32,
    /// What part of the cost it is within a group, 0 to 1.
    pub near: f64,
}

impl Machine {
    /// Lets migrations cost so much.
    pub fn migrate_at(&mut self, migration: Migration) {
        self.migration = migration;
    }

    /// Whether `vcpu` ran on another CPU than this the last time: that is counted, and what it takes answered.
    pub(super) fn refill(&mut self, vcpu: VcpuId, cpu: CpuId) -> Span {
        let Some(last) = self.view.vcpu(vcpu).last_cpu().filter(|last| *last != cpu) else {
            return Span::ZERO;
        };
        self.view.cpus[cpu.index()].migrations += 1;
        let Migration { of_vm, group, near } = &self.migration;
        let Some(cost) = of_vm.get(self.view.vm_of(vcpu).index()) else { return Span::ZERO };
        let group_of = |cpu: CpuId| cpu.0 / (*group).max(1);
        if group_of(last) != group_of(cpu) {
            return *cost;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a span")]
        let part = (cost.as_f64() * near.clamp(0.0, 1.0)).round() as u64;
        Span::from_nanos(part)
    }
}
