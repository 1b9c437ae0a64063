//! EEVDF with group scheduling: of the VMs that have had no more than their fair share (eligible), the one whose request
//! is due first runs; within it, the same among its virtual CPUs.
//!
//! ```text
//!  VMs by weight      A ──●────────┤ deadline = v + slice / weight        V: mean of v by weight
//!  (groups)           B ─────●─┤                                          ● left of V: eligible; B is due first
//!                          V ▲                  ─► its virtual CPUs, all of one weight, by the same rule
//! ```
//! Source: Stoica and Abdel-Wahab, "Earliest Eligible Virtual Deadline First" (1995); Linux' documentation of the EEVDF
//! scheduler (since 6.6) and of control groups (`cpu.weight`, `cpu.max`): a group per VM, quota and period as there. Lag
//! (V − v) is kept over sleep, bounded by a slice. Who wakes eligible and with an earlier deadline takes a CPU at once.
//! Simplified: lag does not decay over sleep, and who runs is not spared to its fair share first; one queue for all CPUs; service is charged when a slice begins, and what is not used is given back, so
//! that CPUs that choose at the same moment choose differently. A VM that has all it can use is never more than two
//! slices per virtual CPU behind. Reservations come first within each period.

use std::cmp::Reverse;

use super::budgets::Budgets;
use super::meetings::{Meetings, place_after};
use super::{Pick, Policy, Why};
use crate::host::{CpuId, VcpuId, View, VmId};
use crate::time::{Span, Time};

/// Weight 1 in whole units.
const UNIT: f64 = 1_048_576.0;
/// Bits by which time is finer than a nanosecond.
const FINE: u32 = 40;
/// Slices per virtual CPU that a VM may be behind.
const BEHIND: i128 = 2;

/// Who competes: a VM, or a virtual CPU within its VM.
#[derive(Debug, Clone, Copy)]
struct Entity {
    weight: i128,
    /// Service by weight.
    v: i128,
    /// When the present request is due, in the same measure.
    deadline: i128,
    /// What it was owed when it went to sleep.
    lag: i128,
}

impl Entity {
    #[expect(clippy::cast_possible_truncation, reason = "weights are at most a million")]
    fn new(weight: f64) -> Self {
        Self { weight: ((weight * UNIT).round() as i128).max(1), v: 0, deadline: 0, lag: 0 }
    }

    /// A span in its measure.
    const fn by_weight(&self, span: Span) -> i128 {
        let fine = (span.nanos() as i128) << FINE;
        // The same, and quicker: weight 1 is a power of two, and almost everybody has it.
        if self.weight.count_ones() == 1 { fine >> self.weight.trailing_zeros() } else { fine / self.weight }
    }

    /// It asks for a slice, if the last request is fulfilled.
    const fn request(&mut self, slice: Span) {
        if self.v >= self.deadline {
            self.deadline = self.v + self.by_weight(slice);
        }
    }

    const fn charge(&mut self, span: Span) {
        self.v += self.by_weight(span);
    }

    const fn pay_back(&mut self, span: Span) {
        self.v -= self.by_weight(span);
    }

    fn sleep(&mut self, mean: Option<i128>, slice: Span) {
        let most = self.by_weight(slice);
        self.lag = mean.map_or(0, |mean| (mean - self.v).clamp(-most, most));
    }

    fn wake(&mut self, mean: Option<i128>, slice: Span) {
        if let Some(mean) = mean {
            self.v = mean - self.lag;
        }
        self.deadline = self.v;
        self.request(slice);
    }
}

/// The mean of v by weight.
fn mean<'a>(entities: impl Iterator<Item = &'a Entity>) -> Option<i128> {
    let add = |(sum, weight): (i128, i128), it: &Entity| (sum + it.v * it.weight, weight + it.weight);
    let (sum, weight) = entities.fold((0, 0), add);
    (weight > 0).then(|| sum.div_euclid(weight))
}

/// The policy.
#[derive(Debug, Clone)]
pub struct Eevdf {
    slice: Span,
    period: Span,
    vms: Vec<Entity>,
    vcpus: Vec<Entity>,
    waits: Vec<bool>,
    waiting_of: Vec<u32>,
    active_of: Vec<u32>,
    /// Sum of v over each VM's virtual CPUs that have something to do; they all weigh the same.
    sum_of: Vec<i128>,
    /// What of a slice that was charged has not been used yet.
    ahead: Vec<Span>,
    meetings: Meetings,
    budgets: Option<Budgets>,
}

impl Eevdf {
    /// With this slice, and this period of quotas.
    pub fn new(slice: Span, period: Span) -> Self {
        Self {
            slice,
            period,
            vms: Vec::new(),
            vcpus: Vec::new(),
            waits: Vec::new(),
            waiting_of: Vec::new(),
            active_of: Vec::new(),
            sum_of: Vec::new(),
            ahead: Vec::new(),
            meetings: Meetings::default(),
            budgets: None,
        }
    }

    /// V of the VMs that `vm` meets, itself included, as far as they have something to do.
    fn mean_around(&self, vm: usize) -> Option<i128> {
        let near =
            |(other, _): &(usize, &Entity)| self.active_of[*other] > 0 && self.meetings.meet(vm, *other);
        mean(self.vms.iter().enumerate().filter(near).map(|(_, it)| it))
    }

    /// V of the VMs that may use `cpu`.
    fn mean_on(&self, cpu: CpuId) -> Option<i128> {
        let near =
            |(other, _): &(usize, &Entity)| self.active_of[*other] > 0 && self.meetings.may(*other, cpu);
        mean(self.vms.iter().enumerate().filter(near).map(|(_, it)| it))
    }

    /// V within a VM.
    fn mean_within(&self, vm: usize) -> Option<i128> {
        (self.active_of[vm] > 0).then(|| self.sum_of[vm].div_euclid(self.active_of[vm].into()))
    }

    /// A virtual CPU that has something to do moves on by so much, or back.
    fn advance(&mut self, vcpu: VcpuId, vm: VmId, by: i128) {
        self.vcpus[vcpu.index()].v += by;
        self.sum_of[vm.index()] += by;
    }

    fn woken(&mut self, vcpu: VcpuId, vm: usize) {
        if self.active_of[vm] == 0 {
            let mean = self.mean_around(vm);
            self.vms[vm].wake(mean, self.slice);
        }
        let mean = self.mean_within(vm);
        let it = &mut self.vcpus[vcpu.index()];
        it.wake(mean, self.slice);
        self.active_of[vm] += 1;
        self.sum_of[vm] += it.v;
    }

    /// It does not run any more: what it did not use of its slice is given back.
    fn off(&mut self, vcpu: VcpuId, vm: VmId) {
        let rest = std::mem::take(&mut self.ahead[vcpu.index()]);
        self.vms[vm.index()].pay_back(rest);
        let back = self.vcpus[vcpu.index()].by_weight(rest);
        self.advance(vcpu, vm, -back);
        if let Some(budgets) = &mut self.budgets {
            budgets.back(vcpu, vm);
        }
    }

    /// A VM that had all it could use has no claim for what it could not.
    fn forget_claims(&mut self, vm: usize, view: &View) {
        let rivals = (0..self.vms.len())
            .filter(|other| *other != vm && self.waiting_of[*other] > 0 && self.meetings.meet(vm, *other));
        let Some(least) = rivals.map(|other| self.vms[other].v).min() else { return };
        let width = i128::from(view.vms[vm].count).min(view.cpus.len() as i128);
        // A slice of the lightest moves it far ahead; that alone is no reason to forget anything.
        let longest = self.vms.iter().map(|it| it.by_weight(self.slice)).max().unwrap_or(0);
        let it = &mut self.vms[vm];
        it.v = it.v.max(least - BEHIND * (width * it.by_weight(self.slice) + longest));
        it.request(self.slice);
    }

    /// A CPU that `vcpu`, which has woken, takes from the one that is due last.
    fn prey(&self, vcpu: VcpuId, vm: VmId, view: &View) -> Option<CpuId> {
        let mean = self.mean_around(vm.index())?;
        let eligible = self.vms[vm.index()].v <= mean;
        let is_due_later = |other: VcpuId| {
            let owner = view.vm_of(other);
            if self.budgets.as_ref().is_some_and(|budgets| budgets.serves(other)) {
                false
            } else if owner == vm {
                self.vcpus[other.index()].deadline > self.vcpus[vcpu.index()].deadline
            } else {
                eligible && self.vms[owner.index()].deadline > self.vms[vm.index()].deadline
            }
        };
        let cpus = (0u32..).map(CpuId).zip(&view.cpus).filter(|(cpu, _)| view.may_run(vcpu, *cpu));
        let running = cpus.filter_map(|(cpu, place)| place.running.map(|other| (cpu, other)));
        let later = running.filter(|(_, other)| is_due_later(*other));
        let due =
            |vcpu: VcpuId| (self.vms[view.vm_of(vcpu).index()].deadline, self.vcpus[vcpu.index()].deadline);
        later.max_by_key(|(cpu, other)| (due(*other), Reverse(*cpu))).map(|(cpu, _)| cpu)
    }

    /// Who of `vm` comes next on `cpu`.
    fn next_of(&self, vm: VmId, cpu: CpuId, view: &View) -> Option<VcpuId> {
        let (sum, count) = (self.sum_of[vm.index()], i128::from(self.active_of[vm.index()]));
        let vcpus = view.vms[vm.index()].vcpus();
        let waiting = vcpus.filter(|vcpu| self.waits[vcpu.index()] && view.may_run(*vcpu, cpu));
        waiting.min_by_key(|vcpu| {
            let it = &self.vcpus[vcpu.index()];
            // Beyond the mean of its VM.
            (it.v * count > sum, it.deadline, *vcpu)
        })
    }
}

impl Policy for Eevdf {
    fn begin(&mut self, view: &View) {
        self.vms = view.vms.iter().map(|vm| Entity::new(vm.weight)).collect();
        self.vcpus = vec![Entity::new(1.0); view.vcpus.len()];
        self.waits = vec![false; view.vcpus.len()];
        self.waiting_of = vec![0; view.vms.len()];
        self.active_of = vec![0; view.vms.len()];
        self.sum_of = vec![0; view.vms.len()];
        self.ahead = vec![Span::ZERO; view.vcpus.len()];
        self.meetings = Meetings::new(view);
        let budgets = Budgets::new(self.period, view, true);
        self.budgets = Some(budgets).filter(|budgets| budgets.first_tick().is_some());
    }

    fn ready(&mut self, vcpu: VcpuId, why: Why, view: &View) -> Option<CpuId> {
        let vm = view.vm_of(vcpu);
        if why == Why::Woken {
            self.woken(vcpu, vm.index());
        } else {
            self.off(vcpu, vm);
        }
        if !std::mem::replace(&mut self.waits[vcpu.index()], true) {
            if self.waiting_of[vm.index()] == 0 {
                self.forget_claims(vm.index(), view);
            }
            self.waiting_of[vm.index()] += 1;
        }
        let is_new = why == Why::Woken || self.meetings.are_free();
        if let Some(idle) = if is_new { view.idle_cpu_for(vcpu) } else { place_after(vcpu, view) } {
            return Some(idle);
        }
        let owed = self.budgets.as_ref().and_then(|budgets| budgets.evict(vcpu, view, &[]));
        let allowed = self.budgets.as_ref().is_none_or(|budgets| budgets.allows(vm));
        match owed {
            Some(cpu) => Some(cpu),
            None if why == Why::Woken && allowed => self.prey(vcpu, vm, view),
            None => None,
        }
    }

    fn take(&mut self, vcpu: VcpuId, view: &View) {
        if std::mem::replace(&mut self.waits[vcpu.index()], false) {
            self.waiting_of[view.vm_of(vcpu).index()] -= 1;
        }
    }

    fn pick(&mut self, cpu: CpuId, view: &View) -> Pick {
        let Some(mean) = self.mean_on(cpu) else { return Pick::Idle };
        let vms = (0u32..).map(VmId).take(self.vms.len());
        let may = |vm: &VmId| {
            self.waiting_of[vm.index()] > 0 && self.budgets.as_ref().is_none_or(|budgets| budgets.allows(*vm))
        };
        let candidates = vms.filter(may).filter_map(|vm| self.next_of(vm, cpu, view).map(|vcpu| (vm, vcpu)));
        let best = candidates.min_by_key(|(vm, vcpu)| {
            let starves = self.meetings.starves(*vcpu, self.slice, view);
            let it = &self.vms[vm.index()];
            let urgency = self.budgets.as_ref().map(|budgets| budgets.urgency(*vm, cpu));
            (Reverse(urgency), Reverse(starves), it.v > mean, it.deadline, *vm)
        });
        let Some((vm, vcpu)) = best else { return Pick::Idle };
        self.take(vcpu, view);
        let slice = self.slice;
        let span = self.budgets.as_mut().map_or(slice, |budgets| budgets.grant(vcpu, vm, cpu, slice));
        self.vms[vm.index()].request(slice);
        self.vms[vm.index()].charge(span);
        self.vcpus[vcpu.index()].request(slice);
        let on = self.vcpus[vcpu.index()].by_weight(span);
        self.advance(vcpu, vm, on);
        self.ahead[vcpu.index()] = span;
        Pick::Run(vcpu, view.now + span)
    }

    fn ran(&mut self, vcpu: VcpuId, _: CpuId, span: Span, view: &View) {
        let vm = view.vm_of(vcpu);
        let ahead = &mut self.ahead[vcpu.index()];
        let more = span.less(*ahead);
        *ahead = ahead.less(span);
        self.vms[vm.index()].charge(more);
        let on = self.vcpus[vcpu.index()].by_weight(more);
        self.advance(vcpu, vm, on);
        if let Some(budgets) = &mut self.budgets {
            budgets.ran(vcpu, vm, span);
        }
    }

    fn halted(&mut self, vcpu: VcpuId, view: &View) {
        let vm = view.vm_of(vcpu);
        self.off(vcpu, vm);
        // Alone it has nobody to be owed by.
        let within = self.mean_within(vm.index()).filter(|_| self.active_of[vm.index()] > 1);
        self.vcpus[vcpu.index()].sleep(within, self.slice);
        self.sum_of[vm.index()] -= self.vcpus[vcpu.index()].v;
        let around = self.mean_around(vm.index());
        self.active_of[vm.index()] -= 1;
        if self.active_of[vm.index()] == 0 {
            self.vms[vm.index()].sleep(around, self.slice);
        }
    }

    fn first_tick(&self) -> Option<Time> {
        self.budgets.as_ref().and_then(Budgets::first_tick)
    }

    fn tick(&mut self, view: &View, again: &mut Vec<CpuId>) -> Option<Time> {
        self.budgets.as_mut().map(|budgets| budgets.renew(view, again))
    }

    fn is_work_conserving(&self) -> bool {
        !self.budgets.as_ref().is_some_and(Budgets::has_limits)
    }
}
