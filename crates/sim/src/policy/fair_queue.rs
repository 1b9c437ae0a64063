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
use super::lines::Lines;
use super::meetings::{Meetings, place_after};
use super::rivals::Rivals;
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
    /// Who waits: virtual CPUs by their virtual time, VMs by what they are owed and by theirs.
    lines: Lines<u64, (Reverse<Span>, u128), (), Time>,
    waiting_of: Vec<u32>,
    /// Virtual CPUs of each VM that have something to do.
    active_of: Vec<u32>,
    /// VMs that have something to do, and VMs that wait, by their virtual time less what is paid in advance.
    active: Rivals<u128>,
    waiting: Rivals<u128>,
    /// Virtual time that the VM of whoever runs on each CPU has paid for that turn, as far as it is not used yet; and by VM.
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
        let (vms, meetings) = (view.vms.len(), Meetings::new(view));
        let mut queue = Self {
            quantum,
            weights: (0..vms).map(weight).collect(),
            vms: vec![0; vms],
            lines: Lines::new(view, (0, ()), ((Reverse(Span::ZERO), 0), Time::ZERO)),
            waiting_of: vec![0; vms],
            active_of: vec![0; vms],
            active: Rivals::new(&meetings, vms, 0),
            waiting: Rivals::new(&meetings, vms, 0),
            paid: vec![0; view.cpus.len()],
            paid_of: vec![0; vms],
            budgets: Budgets::new(PERIOD.max(turns), view, true),
            meetings,
            longest: 0,
        };
        queue.longest = (0..vms).map(|vm| queue.virtual_time(vm, quantum)).max().unwrap_or(0);
        queue
    }

    /// Brings a VM to its places after a change of its books.
    fn place(&mut self, vm: VmId, view: &View) {
        let at = vm.index();
        self.active.touch(at);
        self.waiting.touch(at);
        let place = self.budgets.allows(vm).then(|| (Reverse(self.budgets.takes(vm)), self.vms[at]));
        let is_free = self.meetings.are_free();
        let next =
            |lines: &Lines<_, _, _, _>, head| place.map(|to| (to, lines.since(vm, head, is_free, view)));
        self.lines.queue(vm, &|()| true, next);
    }

    /// Takes in one that is ready; answers an idle CPU for it, or one that it may take from another.
    pub fn ready(&mut self, vcpu: VcpuId, why: Why, view: &View) -> Option<CpuId> {
        let of = view.vm_of(vcpu);
        let vm = of.index();
        if why == Why::Woken {
            if self.active_of[vm] == 0 {
                // Who was away starts where the others are.
                let least = self.least_active(vm);
                self.vms[vm] = self.vms[vm].max(least.unwrap_or(0));
            }
            let is_active = |other: &VcpuId| *other != vcpu && view.vcpu(*other).state != State::Halted;
            let siblings = view.vms[vm].vcpus().filter(is_active).map(|other| self.lines.key(other)).min();
            if let Some(least) = siblings {
                self.lines.set_key(vcpu, self.lines.key(vcpu).max(least));
            }
            self.active_of[vm] += 1;
        } else {
            self.pay_back(vcpu, view);
            self.budgets.back(vcpu, of);
        }
        if !self.lines.holds(vcpu) {
            if self.waiting_of[vm] == 0 {
                self.forget_claims(vm, view);
            }
            self.waiting_of[vm] += 1;
            self.lines.push(vcpu, self.lines.key(vcpu), (), view);
        }
        self.place(of, view);
        let idle = if why == Why::Woken || self.meetings.are_free() {
            view.idle_cpu_for(vcpu)
        } else {
            place_after(vcpu, view)
        };
        idle.or_else(|| self.budgets.evict(vcpu, view))
    }

    /// The least time, less what is paid in advance, of other VMs that `vm` meets and that have something to do.
    fn least_active(&mut self, vm: usize) -> Option<u128> {
        let Self { active, meetings, active_of, vms, paid_of, .. } = self;
        let time = |at: usize| (active_of[at] > 0).then(|| vms[at].saturating_sub(paid_of[at]));
        active.least(meetings, vm, time)
    }

    /// The same of those that wait.
    fn least_waiting(&mut self, vm: usize) -> Option<u128> {
        let Self { waiting, meetings, waiting_of, vms, paid_of, .. } = self;
        let time = |at: usize| (waiting_of[at] > 0).then(|| vms[at].saturating_sub(paid_of[at]));
        waiting.least(meetings, vm, time)
    }

    /// A VM that had all it could use has no claim for what it could not.
    fn forget_claims(&mut self, vm: usize, view: &View) {
        let Some(least) = self.least_waiting(vm) else { return };
        let width = u64::from(view.vms[vm].count).min(view.cpus.len() as u64);
        let span = Span::from_nanos(self.quantum.nanos().saturating_mul(BEHIND * width));
        // A turn of the lightest moves it far ahead; that alone is no reason to forget anything.
        let behind = self.virtual_time(vm, span) + self.longest.saturating_mul(BEHIND.into());
        self.vms[vm] = self.vms[vm].max(least.saturating_sub(behind));
    }

    /// Takes one out.
    pub fn take(&mut self, vcpu: VcpuId, view: &View) {
        self.leave_line(vcpu, view);
        self.place(view.vm_of(vcpu), view);
    }

    fn leave_line(&mut self, vcpu: VcpuId, view: &View) {
        if self.lines.holds(vcpu) {
            self.lines.remove(vcpu, view);
            self.waiting_of[view.vm_of(vcpu).index()] -= 1;
        }
    }

    /// One has nothing to do from now on.
    pub fn halted(&mut self, vcpu: VcpuId, view: &View) {
        let vm = view.vm_of(vcpu);
        self.pay_back(vcpu, view);
        self.active_of[vm.index()] = self.active_of[vm.index()].saturating_sub(1);
        self.budgets.back(vcpu, vm);
        self.place(vm, view);
    }

    /// Who of a VM comes next on this CPU.
    fn candidate(&self, vm: VmId, cpu: CpuId) -> Option<VcpuId> {
        let heads = self.lines.of_vm_on(vm, cpu).filter_map(|line| self.lines.head(line, &|()| true));
        heads.min_by_key(|vcpu| (self.lines.key(*vcpu), *vcpu))
    }

    /// Who comes next on this CPU.
    pub fn pick(&mut self, cpu: CpuId, view: &View) -> Pick {
        let is_long = |since| self.meetings.is_long(since, self.quantum, view);
        let first = self.lines.firsts(cpu, &|_| true);
        let hungry = self.lines.firsts(cpu, &is_long).chain(self.lines.mixed());
        let vms = first.chain(hungry.filter(|_| !self.meetings.are_free())).chain(self.budgets.owed_on(cpu));
        let key = |vm: VmId| {
            let vcpu = self.candidate(vm, cpu).filter(|_| self.budgets.allows(vm))?;
            let starves = is_long(view.vcpu(vcpu).since);
            Some((Reverse(self.budgets.urgency(vm, cpu)), Reverse(starves), self.vms[vm.index()], vcpu))
        };
        let best = vms.filter_map(key).min();
        best.map_or(Pick::Idle, |(.., vcpu)| {
            self.leave_line(vcpu, view);
            let vm = view.vm_of(vcpu);
            let span = self.budgets.grant(vcpu, vm, cpu, self.quantum);
            let price = self.virtual_time(vm.index(), span);
            self.vms[vm.index()] += price;
            self.paid[cpu.index()] = price;
            self.paid_of[vm.index()] += price;
            self.place(vm, view);
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

    /// Somebody has just left his CPU: what is left of his turn is paid back.
    fn pay_back(&mut self, vcpu: VcpuId, view: &View) {
        let vm = view.vm_of(vcpu).index();
        let left = view.vcpu(vcpu).last_cpu().map_or(0, |cpu| std::mem::take(&mut self.paid[cpu.index()]));
        self.paid_of[vm] -= left;
        self.vms[vm] = self.vms[vm].saturating_sub(left);
    }

    /// Somebody ran there: what that was beyond the turn that is paid is paid now.
    pub fn ran(&mut self, vcpu: VcpuId, cpu: CpuId, span: Span, view: &View) {
        let vm = view.vm_of(vcpu);
        let price = self.virtual_time(vm.index(), span);
        let paid = self.paid[cpu.index()].min(price);
        self.paid[cpu.index()] -= paid;
        self.paid_of[vm.index()] -= paid;
        self.vms[vm.index()] += price - paid;
        self.lines.set_key(vcpu, self.lines.key(vcpu).saturating_add(span.nanos()));
        self.budgets.ran(vcpu, vm, span);
        self.active.touch(vm.index());
        self.waiting.touch(vm.index());
        // What was paid in advance has moved it already.
        if price > paid || self.budgets.any() {
            self.place(vm, view);
        }
    }

    /// When the first period of limits and reservations is over.
    pub fn first_tick(&self) -> Option<Time> {
        self.budgets.first_tick()
    }

    /// A period is over.
    pub fn tick(&mut self, view: &View, again: &mut Vec<CpuId>) -> Time {
        for (vm, number) in view.vms.iter().zip(0u32..) {
            // What a reservation gave beyond the fair share is not held against the VM for ever.
            if vm.reserved_cpus > 0.0 {
                let at = number as usize;
                let period = Span::from_nanos(self.quantum.nanos().saturating_mul(TURNS));
                let ahead = self.virtual_time(at, period);
                let most = self.least_waiting(at).map(|least| least.saturating_add(ahead));
                self.vms[at] = self.vms[at].min(most.unwrap_or(u128::MAX));
                self.place(VmId(number), view);
            }
        }
        let next = self.budgets.renew(view, again);
        for vm in self.budgets.counted() {
            self.place(vm, view);
        }
        next
    }

    /// Whether any VM has a limit.
    pub fn has_limits(&self) -> bool {
        self.budgets.has_limits()
    }
}
