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
//! that uses all its virtual CPUs stays the first in line, so what others leave is dealt out again (water-filling). What
//! such a VM could not use does not count as a claim either: it is never more than a few turns behind (as weights are
//! readjusted in Chandra, Adler, Goyal, Shenoy 2000). Limits and reservations per period of 100 ms, or of ten turns if
//! that is longer.

use std::cmp::Reverse;

use super::budgets::Budgets;
use super::meetings::{Meetings, place_after};
use super::{Pick, Why};
use crate::host::{CpuId, State, VcpuId, View, VmId};
use crate::time::{Span, Time};

/// Units of virtual time per nanosecond and weight 1: weights as small as 10⁻⁶ keep their resolution.
const FINE: f64 = 1024.0;
/// The period of limits and reservations, at least.
const PERIOD: Span = Span::from_millis(100);
/// It has at least so many turns, so that one that is under way says little.
const TURNS: u64 = 10;
/// Turns per virtual CPU that a VM may be behind the others.
const BEHIND: u64 = 4;

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
    /// Virtual CPUs of each VM that have something to do.
    active_of: Vec<u32>,
    waiting: u32,
    /// Virtual time that each virtual CPU's VM has paid for its current turn and it has not used yet; and by VM.
    paid: Vec<u128>,
    paid_of: Vec<u128>,
    budgets: Budgets,
    meetings: Meetings,
    /// Virtual time of a turn of the lightest VM.
    longest: u128,
}

impl FairQueue {
    /// With this turn; `weight` says what each VM weighs.
    pub fn new(quantum: Span, view: &View, weight: impl Fn(usize) -> f64) -> Self {
        let turns = Span::from_nanos(quantum.nanos().saturating_mul(TURNS));
        let mut queue = Self {
            quantum,
            weights: (0..view.vms.len()).map(weight).collect(),
            vms: vec![0; view.vms.len()],
            vcpus: vec![0; view.vcpus.len()],
            waits: vec![false; view.vcpus.len()],
            waiting_of: vec![0; view.vms.len()],
            active_of: vec![0; view.vms.len()],
            waiting: 0,
            paid: vec![0; view.vcpus.len()],
            paid_of: vec![0; view.vms.len()],
            budgets: Budgets::new(PERIOD.max(turns), view, true),
            meetings: Meetings::new(view),
            longest: 0,
        };
        queue.longest = (0..view.vms.len()).map(|vm| queue.virtual_time(vm, quantum)).max().unwrap_or(0);
        queue
    }

    /// Takes in one that is ready; answers an idle CPU for it, or one that it may take from another.
    pub fn ready(&mut self, vcpu: VcpuId, why: Why, view: &View) -> Option<CpuId> {
        let vm = view.vm_of(vcpu).index();
        self.pay_back(vcpu, view);
        if why == Why::Woken {
            if self.active_of[vm] == 0 {
                // Who was away starts where the others are.
                let least = self.least(vm, &self.active_of);
                self.vms[vm] = self.vms[vm].max(least.unwrap_or(0));
            }
            let is_active = |other: &VcpuId| *other != vcpu && view.vcpu(*other).state != State::Halted;
            let siblings =
                view.vms[vm].vcpus().filter(is_active).map(|other| self.vcpus[other.index()]).min();
            if let Some(least) = siblings {
                self.vcpus[vcpu.index()] = self.vcpus[vcpu.index()].max(least);
            }
            self.active_of[vm] += 1;
        } else {
            self.budgets.back(vcpu, view.vm_of(vcpu));
        }
        if !std::mem::replace(&mut self.waits[vcpu.index()], true) {
            if self.waiting_of[vm] == 0 {
                self.forget_claims(vm, view);
            }
            self.waiting_of[vm] += 1;
            self.waiting += 1;
        }
        let idle = if why == Why::Woken || self.meetings.are_free() {
            view.idle_cpu_for(vcpu)
        } else {
            place_after(vcpu, view)
        };
        idle.or_else(|| self.budgets.evict(vcpu, view, &[]))
    }

    /// The least virtual time of other VMs that `vm` meets somewhere, among those that `among` counts.
    fn least(&self, vm: usize, among: &[u32]) -> Option<u128> {
        let meets = |other: &usize| self.meetings.meet(vm, *other);
        let others = (0..self.vms.len()).filter(|other| *other != vm && among[*other] > 0);
        others.filter(meets).map(|other| self.vms[other].saturating_sub(self.paid_of[other])).min()
    }

    /// A VM that had all it could use has no claim for what it could not.
    fn forget_claims(&mut self, vm: usize, view: &View) {
        let Some(least) = self.least(vm, &self.waiting_of) else { return };
        let width = u64::from(view.vms[vm].count).min(view.cpus.len() as u64);
        let span = Span::from_nanos(self.quantum.nanos().saturating_mul(BEHIND * width));
        // A turn of the lightest moves it far ahead; that alone is no reason to forget anything.
        let behind = self.virtual_time(vm, span) + self.longest.saturating_mul(BEHIND.into());
        self.vms[vm] = self.vms[vm].max(least.saturating_sub(behind));
    }

    /// Takes one out.
    pub fn take(&mut self, vcpu: VcpuId, view: &View) {
        if std::mem::replace(&mut self.waits[vcpu.index()], false) {
            self.waiting_of[view.vm_of(vcpu).index()] -= 1;
            self.waiting -= 1;
        }
    }

    /// One has nothing to do from now on.
    pub fn halted(&mut self, vcpu: VcpuId, view: &View) {
        let vm = view.vm_of(vcpu);
        self.pay_back(vcpu, view);
        self.active_of[vm.index()] = self.active_of[vm.index()].saturating_sub(1);
        self.budgets.back(vcpu, vm);
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
        let vms = (0u32..).map(VmId).take(self.vms.len());
        let waiting = vms.filter(|vm| self.waiting_of[vm.index()] > 0 && self.budgets.allows(*vm));
        let key = |vm: VmId, vcpu| {
            let starves = self.meetings.starves(vcpu, self.quantum, view);
            (Reverse(self.budgets.urgency(vm, cpu)), Reverse(starves), self.vms[vm.index()], vcpu)
        };
        let best = waiting.filter_map(|vm| candidate(vm.index()).map(|vcpu| key(vm, vcpu))).min();
        best.map_or(Pick::Idle, |(.., vcpu)| {
            self.take(vcpu, view);
            let vm = view.vm_of(vcpu);
            let span = self.budgets.grant(vcpu, vm, cpu, self.quantum);
            let price = self.virtual_time(vm.index(), span);
            self.vms[vm.index()] += price;
            self.paid[vcpu.index()] = price;
            self.paid_of[vm.index()] += price;
            Pick::Run(vcpu, view.now + span)
        })
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, and saturating is right"
    )]
    fn virtual_time(&self, vm: usize, span: Span) -> u128 {
        (span.as_f64() * FINE / self.weights[vm].max(1e-6)) as u128
    }

    /// Somebody has left his CPU: what is left of his turn is paid back.
    fn pay_back(&mut self, vcpu: VcpuId, view: &View) {
        let vm = view.vm_of(vcpu).index();
        let left = std::mem::take(&mut self.paid[vcpu.index()]);
        self.paid_of[vm] -= left;
        self.vms[vm] = self.vms[vm].saturating_sub(left);
    }

    /// Somebody ran: what that was beyond the turn that is paid is paid now.
    pub fn ran(&mut self, vcpu: VcpuId, span: Span, view: &View) {
        let vm = view.vm_of(vcpu);
        let price = self.virtual_time(vm.index(), span);
        let paid = self.paid[vcpu.index()].min(price);
        self.paid[vcpu.index()] -= paid;
        self.paid_of[vm.index()] -= paid;
        self.vms[vm.index()] += price - paid;
        self.vcpus[vcpu.index()] = self.vcpus[vcpu.index()].saturating_add(span.nanos());
        self.budgets.ran(vcpu, vm, span);
    }

    /// When the first period of limits and reservations is over.
    pub fn first_tick(&self) -> Option<Time> {
        self.budgets.first_tick()
    }

    /// A period is over.
    pub fn tick(&mut self, view: &View, again: &mut Vec<CpuId>) -> Time {
        for vm in 0..self.vms.len() {
            // What a reservation gave beyond the fair share is not held against the VM for ever.
            if view.vms[vm].reserved_cpus > 0.0 {
                let period = Span::from_nanos(self.quantum.nanos().saturating_mul(TURNS));
                let ahead = self.virtual_time(vm, period);
                let most = self.least(vm, &self.waiting_of).map(|least| least.saturating_add(ahead));
                self.vms[vm] = self.vms[vm].min(most.unwrap_or(u128::MAX));
            }
        }
        self.budgets.renew(view, again)
    }

    /// Whether any VM has a limit.
    pub fn has_limits(&self) -> bool {
        self.budgets.has_limits()
    }
}
