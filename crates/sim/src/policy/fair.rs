//! What the three policies that promise shares have in common: a fair queue, and what a VM weighs in it.
//!
//! ```text
//!  equal_per_vm ─┐
//!  proportional ─┼─ weight of a VM ─► Fair ─► FairQueue
//!  per_thread   ─┘
//! ```

use super::fair_queue::FairQueue;
use super::{Pick, Policy, Why};
use crate::host::{CpuId, VcpuId, View, Vm};
use crate::time::{Span, Time};

/// A policy of fair shares.
#[derive(Debug, Clone)]
pub struct Fair {
    quantum: Span,
    weight: fn(&View, &Vm) -> f64,
    queue: Option<FairQueue>,
}

impl Fair {
    /// With turns of this length, in proportion to what `weight` says of each VM.
    pub(super) const fn new(quantum: Span, weight: fn(&View, &Vm) -> f64) -> Self {
        Self { quantum, weight, queue: None }
    }
}

impl Policy for Fair {
    fn begin(&mut self, view: &View) {
        let weight = |vm: usize| (self.weight)(view, &view.vms[vm]);
        self.queue = Some(FairQueue::new(self.quantum, view, weight));
    }

    fn ready(&mut self, vcpu: VcpuId, why: Why, view: &View) -> Option<CpuId> {
        self.queue.as_mut().and_then(|queue| queue.ready(vcpu, why, view))
    }

    fn take(&mut self, vcpu: VcpuId, view: &View) {
        if let Some(queue) = &mut self.queue {
            queue.take(vcpu, view);
        }
    }

    fn pick(&mut self, cpu: CpuId, view: &View) -> Pick {
        self.queue.as_mut().map_or(Pick::Idle, |queue| queue.pick(cpu, view))
    }

    fn ran(&mut self, vcpu: VcpuId, cpu: CpuId, span: Span, view: &View) {
        if let Some(queue) = &mut self.queue {
            queue.ran(vcpu, cpu, span, view);
        }
    }

    fn halted(&mut self, vcpu: VcpuId, view: &View) {
        if let Some(queue) = &mut self.queue {
            queue.halted(vcpu, view);
        }
    }

    fn first_tick(&self) -> Option<Time> {
        self.queue.as_ref().and_then(FairQueue::first_tick)
    }

    fn tick(&mut self, view: &View, again: &mut Vec<CpuId>) -> Option<Time> {
        self.queue.as_mut().map(|queue| queue.tick(view, again))
    }

    fn is_work_conserving(&self) -> bool {
        !self.queue.as_ref().is_some_and(FairQueue::has_limits)
    }
}
