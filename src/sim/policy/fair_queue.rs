//! Fair queueing on two levels, the base of the policies that promise shares: VMs by their virtual time, and within a VM
//! its virtual CPUs by theirs. Who has had least for its weight comes next.
//!
//! ```text
//!  VM A  virtual time 10 ─ vCPUs 4, 6      next: A (10 < 12), its first (4 < 6), for one quantum
//!  VM B  virtual time 12 ─ vCPUs 5, 7      a VM that was away does not come back with old claims
//! ```
//! A VM pays for a turn when it is granted, as start tags advance, and gets back what it did not use: if it paid at the
//! end, all its virtual CPUs would be let in before the first had paid, and VMs would take the host in turns as a whole.
//!
//! Weighted fair queueing (Demers, Keshav, Shenker 1989; start-time variant of Goyal, Vin, Cheng 1996) on many CPUs: a VM
//! that uses all its virtual CPUs stays the first in line, so what others leave is dealt out again (water-filling).

use super::{Pick, Why};
use crate::sim::host::{CpuId, State, VcpuId, View};
use crate::sim::time::Span;

/// Units of virtual time per nanosecond and weight 1: weights as small as 10⁻⁶ keep their resolution.
const FINE: f64 = 1024.0;

/// The queue.
#[derive(Debug, Clone)]
pub struct FairQueue {
    quantum: Span,
    weights: Vec<f64>,
    /// Virtual time of VMs; sums of charges, in whole units, so that rounding cannot depend on the order.
    vms: Vec<u128>,
    /// Virtual time of virtual CPUs, and whether each waits.
    vcpus: Vec<u64>,
    waits: Vec<bool>,
    waiting_of: Vec<u32>,
    waiting: u32,
    /// Virtual time that each virtual CPU's VM has paid for its current turn and it has not used yet; and by VM.
    paid: Vec<u128>,
    paid_of: Vec<u128>,
}

impl FairQueue {
    /// With this turn; `weight` says what each VM weighs.
    pub fn new(quantum: Span, view: &View, weight: impl Fn(usize) -> f64) -> Self {
        Self {
            quantum,
            weights: (0..view.vms.len()).map(weight).collect(),
            vms: vec![0; view.vms.len()],
            vcpus: vec![0; view.vcpus.len()],
            waits: vec![false; view.vcpus.len()],
            waiting_of: vec![0; view.vms.len()],
            waiting: 0,
            paid: vec![0; view.vcpus.len()],
            paid_of: vec![0; view.vms.len()],
        }
    }

    /// Takes in one that is ready; answers an idle CPU for it.
    pub fn ready(&mut self, vcpu: VcpuId, why: Why, view: &View) -> Option<CpuId> {
        let vm = view.vm_of(vcpu).index();
        self.pay_back(vcpu, view);
        if why == Why::Woken {
            // Who was away starts where the others are.
            let is_active = |other: &VcpuId| *other != vcpu && view.vcpu(*other).state != State::Halted;
            let it = &view.vms[vm];
            if !it.vcpus().any(|other| is_active(&other)) {
                let others = (0..self.vms.len()).filter(|other| {
                    *other != vm
                        && view.vms[*other].vcpus().any(|vcpu| view.vcpu(vcpu).state != State::Halted)
                });
                if let Some(least) = others.map(|other| self.vms[other] - self.paid_of[other]).min() {
                    self.vms[vm] = self.vms[vm].max(least);
                }
            }
            let siblings = it.vcpus().filter(is_active).map(|other| self.vcpus[other.index()]).min();
            if let Some(least) = siblings {
                self.vcpus[vcpu.index()] = self.vcpus[vcpu.index()].max(least);
            }
        }
        if !std::mem::replace(&mut self.waits[vcpu.index()], true) {
            self.waiting_of[vm] += 1;
            self.waiting += 1;
        }
        view.idle_cpu_for(vcpu)
    }

    /// Takes one out.
    pub fn take(&mut self, vcpu: VcpuId, view: &View) {
        if std::mem::replace(&mut self.waits[vcpu.index()], false) {
            self.waiting_of[view.vm_of(vcpu).index()] -= 1;
            self.waiting -= 1;
        }
    }

    /// Who comes next on this CPU.
    pub fn pick(&mut self, cpu: CpuId, view: &View) -> Pick {
        if self.waiting == 0 {
            return Pick::Idle;
        }
        let candidate = |vm: usize| {
            let waiting =
                view.vms[vm].vcpus().filter(|vcpu| self.waits[vcpu.index()] && view.may_run(*vcpu, cpu));
            waiting.min_by_key(|vcpu| (self.vcpus[vcpu.index()], *vcpu))
        };
        let vms = (0..self.vms.len()).filter(|vm| self.waiting_of[*vm] > 0);
        let best = vms.filter_map(|vm| candidate(vm).map(|vcpu| (self.vms[vm], vcpu))).min();
        best.map_or(Pick::Idle, |(_, vcpu)| {
            self.take(vcpu, view);
            let vm = view.vm_of(vcpu).index();
            let price = self.price(vm, self.quantum);
            self.vms[vm] += price;
            self.paid[vcpu.index()] = price;
            self.paid_of[vm] += price;
            Pick::Run(vcpu, view.now + self.quantum)
        })
    }

    /// Somebody ran: what that was beyond the turn that is paid is paid now.
    pub fn ran(&mut self, vcpu: VcpuId, span: Span, view: &View) {
        let vm = view.vm_of(vcpu).index();
        let price = self.price(vm, span);
        let paid = self.paid[vcpu.index()].min(price);
        self.paid[vcpu.index()] -= paid;
        self.paid_of[vm] -= paid;
        self.vms[vm] += price - paid;
        self.vcpus[vcpu.index()] = self.vcpus[vcpu.index()].saturating_add(span.nanos());
    }

    /// Somebody has left his CPU: what is left of his turn is paid back.
    pub fn pay_back(&mut self, vcpu: VcpuId, view: &View) {
        let vm = view.vm_of(vcpu).index();
        let left = std::mem::take(&mut self.paid[vcpu.index()]);
        self.paid_of[vm] -= left;
        self.vms[vm] -= left;
    }

    /// So much virtual time of a VM.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, and saturating is right"
    )]
    fn price(&self, vm: usize, span: Span) -> u128 {
        (span.as_f64() * FINE / self.weights[vm].max(1e-6)) as u128
    }
}
