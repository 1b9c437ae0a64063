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
//! (V − v) is kept over sleep, bounded by two slices; who owes something has it repaid as the others are served. Who wakes
//! eligible takes a CPU at once from who is due later, or has had too much.
//! Simplified: who runs is not protected (`RUN_TO_PARITY`); one queue for all CPUs; who sleeps in debt does not count in V;
//! service is charged when a slice begins, and what is not used is given back, so that CPUs that choose at the same moment
//! choose differently. Who goes to sleep or wakes is compared with what was truly used until then. On one CPU it gives sleepers
//! what Linux' rules give within 3 % of the CPU (`tests/sleepers.rs`). A VM that has all it can use is never more than two slices
//! per virtual CPU behind. Reservations come first within each period.

use std::cmp::Reverse;

use super::budgets::Budgets;
use super::entity::{Entity, Origin, SHORTEST, Sum};
use super::forest::Measure;
use super::lines::Lines;
use super::meetings::{Meetings, place_after};
use super::rivals::Rivals;
use super::{Pick, Policy, Why};
use crate::host::{CpuId, VcpuId, View, VmId};
use crate::time::{Span, Time};

/// Slices per virtual CPU that a VM may be behind.
const BEHIND: i128 = 2;

/// What a VM that waits is asked for: its v, and since when who is next waits, where somebody can starve.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Asked {
    v: i128,
    since: Time,
}

impl Measure for Asked {
    fn least(self, other: Self) -> Self {
        Self { v: self.v.min(other.v), since: self.since.min(other.since) }
    }
}

impl Measure for i128 {
    fn least(self, other: Self) -> Self {
        self.min(other)
    }
}

/// Virtual CPUs by their deadlines with their v, VMs by what they are owed and by their deadlines.
type Line = Lines<i128, (Reverse<Span>, i128), i128, Asked>;

/// Of those who run: how many, and the sum of the moments in nanoseconds until which they were charged.
#[derive(Debug, Clone, Copy, Default)]
struct Ahead {
    count: i128,
    until: i128,
}

impl Ahead {
    const fn add(&mut self, until: Time) {
        self.count += 1;
        self.until += until.nanos() as i128;
    }

    const fn remove(&mut self, until: Time) {
        self.count -= 1;
        self.until -= until.nanos() as i128;
    }

    /// Nanoseconds that were charged and not used.
    const fn unused(&self, now: Time) -> i128 {
        self.until - self.count * now.nanos() as i128
    }
}

/// The policy.
#[derive(Debug, Clone)]
pub struct Eevdf {
    slice: Span,
    period: Span,
    vms: Vec<Entity>,
    vcpus: Vec<Entity>,
    /// Who waits: virtual CPUs by their deadlines, VMs by what they are owed and by theirs.
    lines: Option<Line>,
    /// VMs that wait, by v.
    waiting: Option<Rivals<i128>>,
    waiting_of: Vec<u32>,
    active_of: Vec<u32>,
    /// Over the VMs that may use the same CPUs.
    sums: Vec<Sum>,
    /// Sum of v over each VM's virtual CPUs that have something to do; they all weigh the same.
    sum_of: Vec<i128>,
    /// Who runs: until when it was charged.
    charged_to: Vec<Option<Time>>,
    /// The same summed up for each VM.
    ahead_of: Vec<Ahead>,
    /// And for the VMs that may use the same CPUs.
    aheads: Vec<Ahead>,
    meetings: Meetings,
    budgets: Option<Budgets>,
    /// A slice of the lightest VM, by weight.
    longest: i128,
}

impl Eevdf {
    /// With this slice, and this period of quotas.
    pub fn new(slice: Span, period: Span) -> Self {
        Self {
            slice,
            period,
            vms: Vec::new(),
            vcpus: Vec::new(),
            lines: None,
            waiting: None,
            waiting_of: Vec::new(),
            active_of: Vec::new(),
            sums: Vec::new(),
            sum_of: Vec::new(),
            charged_to: Vec::new(),
            ahead_of: Vec::new(),
            aheads: Vec::new(),
            meetings: Meetings::default(),
            budgets: None,
            longest: 0,
        }
    }

    /// The VMs that `vm` meets, itself included, as far as they have something to do, by what they have used.
    fn used_around(&self, vm: usize, now: Time) -> Sum {
        let used = |place: usize| self.sums[place].without(self.aheads[place].unused(now));
        self.meetings.near(vm).map(used).sum()
    }

    /// V of the VMs that may use `cpu`.
    fn mean_on(&self, cpu: CpuId) -> Option<i128> {
        self.meetings.on(cpu).map(|place| self.sums[place]).sum::<Sum>().mean()
    }

    /// Changes a VM's books, and the sums with them.
    fn change(&mut self, vm: usize, how: impl FnOnce(&mut Entity)) {
        let it = &mut self.vms[vm];
        if self.active_of[vm] == 0 {
            return how(it);
        }
        let sum = &mut self.sums[self.meetings.place_of(vm)];
        sum.remove(it);
        how(it);
        sum.add(it);
    }

    fn allows(&self, vm: VmId) -> bool {
        self.budgets.as_ref().is_none_or(|budgets| budgets.allows(vm))
    }

    /// Brings a VM to its places after a change of its books.
    fn place(&mut self, vm: VmId, view: &View) {
        let at = vm.index();
        let (v, deadline) = (self.vms[at].v, self.vms[at].deadline);
        let takes = self.budgets.as_ref().map_or(Span::ZERO, |budgets| budgets.takes(vm));
        let place = self.allows(vm).then_some((Reverse(takes), deadline));
        let within = self.mean_within(at).unwrap_or(0);
        let is_free = self.meetings.are_free();
        let asked = |lines: &Lines<_, _, _, _>, head| {
            place.map(|place| (place, Asked { v, since: lines.since(vm, head, is_free, view) }))
        };
        if let (Some(lines), Some(waiting)) = (&mut self.lines, &mut self.waiting) {
            waiting.touch(at);
            lines.queue(vm, &|v| v <= within, asked);
        }
    }

    /// The virtual CPUs of a VM that have something to do, by what they have used.
    fn used_within(&self, vm: usize, now: Time) -> Sum {
        let all = Sum::of_equals(self.active_of[vm].into(), self.sum_of[vm], &self.vcpus[0]);
        all.without(self.ahead_of[vm].unused(now))
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

    fn woken(&mut self, vcpu: VcpuId, vm: usize, now: Time) {
        if self.active_of[vm] == 0 {
            let others = self.used_around(vm, now);
            self.vms[vm].wake(others, self.slice, Origin::Here);
            self.sums[self.meetings.place_of(vm)].add(&self.vms[vm]);
        }
        let others = self.used_within(vm, now);
        let it = &mut self.vcpus[vcpu.index()];
        it.wake(others, self.slice, Origin::Here);
        self.active_of[vm] += 1;
        self.sum_of[vm] += it.v;
    }

    /// It does not run any more: what it did not use of its slice is given back.
    fn off(&mut self, vcpu: VcpuId, vm: VmId, now: Time) {
        let rest = self.charged_to[vcpu.index()].map_or(Span::ZERO, |until| until.since(now));
        self.charge_to(vcpu, vm, None);
        self.change(vm.index(), |it| it.pay_back(rest));
        let back = self.vcpus[vcpu.index()].by_weight(rest);
        self.advance(vcpu, vm, -back);
        if let Some(budgets) = &mut self.budgets {
            budgets.back(vcpu, vm);
        }
    }

    /// Who runs was charged until then; nobody is when he does not.
    fn charge_to(&mut self, vcpu: VcpuId, vm: VmId, until: Option<Time>) {
        let place = self.meetings.place_of(vm.index());
        for ahead in [&mut self.ahead_of[vm.index()], &mut self.aheads[place]] {
            if let Some(until) = self.charged_to[vcpu.index()] {
                ahead.remove(until);
            }
            if let Some(until) = until {
                ahead.add(until);
            }
        }
        self.charged_to[vcpu.index()] = until;
    }

    /// A VM that had all it could use has no claim for what it could not.
    fn forget_claims(&mut self, vm: usize, view: &View) {
        let (vms, waiting_of) = (&self.vms, &self.waiting_of);
        let v = |at: usize| (waiting_of[at] > 0).then(|| vms[at].v);
        let least = self.waiting.as_mut().and_then(|waiting| waiting.least(&self.meetings, vm, v));
        let Some(least) = least else { return };
        let width = i128::from(view.vms[vm].count).min(view.cpus.len() as i128);
        let (slice, longest) = (self.slice, self.longest);
        self.change(vm, |it| {
            // A slice of the lightest moves it far ahead; that alone is no reason to forget anything.
            it.v = it.v.max(least - BEHIND * (width * it.by_weight(slice) + longest));
            it.request(slice);
        });
    }

    /// v of a VM, by what it has used.
    fn used_by(&self, vm: VmId, now: Time) -> i128 {
        let it = &self.vms[vm.index()];
        it.v - it.by_nanos(self.ahead_of[vm.index()].unused(now))
    }

    /// A CPU that `vcpu`, which has woken, takes from the one that is due last; who runs and has had too much comes after all.
    fn prey(&self, vcpu: VcpuId, vm: VmId, view: &View) -> Option<CpuId> {
        let mean = self.used_around(vm.index(), view.now).mean()?;
        let within = self.used_within(vm.index(), view.now).mean()?;
        let may = self.used_by(vm, view.now) <= mean;
        let may_within = self.vcpus[vcpu.index()].v <= within;
        let due = |other: VcpuId| {
            let (owner, it) = (view.vm_of(other), &self.vcpus[other.index()]);
            let rest = self.charged_to[other.index()].map_or(Span::ZERO, |until| until.since(view.now));
            if owner == vm {
                (false, self.vms[owner.index()].deadline, it.v - it.by_weight(rest) > within, it.deadline)
            } else {
                let is_over = self.used_by(owner, view.now) > mean;
                (is_over, self.vms[owner.index()].deadline, false, it.deadline)
            }
        };
        let is_due_later = |other: VcpuId| {
            let (is_over, of_vm, is_over_within, deadline) = due(other);
            if self.budgets.as_ref().is_some_and(|budgets| budgets.serves(other)) {
                false
            } else if view.vm_of(other) == vm {
                may_within && (is_over_within || deadline > self.vcpus[vcpu.index()].deadline)
            } else {
                may && (is_over || of_vm > self.vms[vm.index()].deadline)
            }
        };
        let cpus = (0u32..).map(CpuId).zip(&view.cpus).filter(|(cpu, _)| view.may_run(vcpu, *cpu));
        let running = cpus.filter_map(|(cpu, place)| place.running.map(|other| (cpu, other)));
        let later = running.filter(|(_, other)| is_due_later(*other));
        later.max_by_key(|(cpu, other)| (due(*other), Reverse(*cpu))).map(|(cpu, _)| cpu)
    }

    /// Who of `vm` comes next on `cpu`.
    fn next_of(&self, vm: VmId, cpu: CpuId) -> Option<VcpuId> {
        let lines = self.lines.as_ref()?;
        let within = self.mean_within(vm.index())?;
        let heads = lines.of_vm_on(vm, cpu).filter_map(|line| lines.head(line, &|v| v <= within));
        heads.min_by_key(|vcpu| {
            let it = &self.vcpus[vcpu.index()];
            // Beyond the mean of its VM.
            (it.v > within, it.deadline, *vcpu)
        })
    }

    /// Who comes next on `cpu`.
    fn best(&self, cpu: CpuId, view: &View) -> Option<(VmId, VcpuId)> {
        let (lines, mean) = (self.lines.as_ref()?, self.mean_on(cpu)?);
        let starving = |since| self.meetings.is_long(since, self.slice, view);
        let eligible = |asked: Asked| asked.v <= mean;
        let starved = |asked: Asked| starving(asked.since);
        let both = |asked: Asked| eligible(asked) && starved(asked);
        let some = lines.firsts(cpu, &|_| true).chain(lines.firsts(cpu, &eligible));
        let more = lines.firsts(cpu, &starved).chain(lines.firsts(cpu, &both)).chain(lines.mixed());
        let vms = some.chain(more.filter(|_| !self.meetings.are_free()));
        let owed = self.budgets.iter().flat_map(|budgets| budgets.owed_on(cpu));
        let all = vms.chain(owed).filter(|vm| self.allows(*vm));
        let candidates = all.filter_map(|vm| self.next_of(vm, cpu).map(|vcpu| (vm, vcpu)));
        candidates.min_by_key(|(vm, vcpu)| {
            let it = &self.vms[vm.index()];
            let urgency = self.budgets.as_ref().map(|budgets| budgets.urgency(*vm, cpu));
            (Reverse(urgency), Reverse(starving(view.vcpu(*vcpu).since)), it.v > mean, it.deadline, *vm)
        })
    }

    fn leave_line(&mut self, vcpu: VcpuId, view: &View) {
        if let Some(lines) = self.lines.as_mut().filter(|lines| lines.holds(vcpu)) {
            lines.remove(vcpu, view);
            self.waiting_of[view.vm_of(vcpu).index()] -= 1;
        }
    }
}

impl Policy for Eevdf {
    fn begin(&mut self, view: &View) {
        self.vms = view.vms.iter().map(|vm| Entity::new(vm.weight)).collect();
        self.vcpus = vec![Entity::new(1.0); view.vcpus.len()];
        self.waiting_of = vec![0; view.vms.len()];
        self.active_of = vec![0; view.vms.len()];
        self.sum_of = vec![0; view.vms.len()];
        self.charged_to = vec![None; view.vcpus.len()];
        self.ahead_of = vec![Ahead::default(); view.vms.len()];
        self.meetings = Meetings::new(view);
        self.sums = vec![Sum::default(); self.meetings.count()];
        self.aheads = vec![Ahead::default(); self.meetings.count()];
        let nothing = Asked { v: 0, since: Time::ZERO };
        self.lines = Some(Lines::new(view, (0, 0), ((Reverse(Span::ZERO), 0), nothing)));
        self.waiting = Some(Rivals::new(&self.meetings, view.vms.len(), 0));
        self.longest = self.vms.iter().map(|it| it.by_weight(self.slice)).max().unwrap_or(0);
        let budgets = Budgets::new(self.period, view, true);
        self.budgets = Some(budgets).filter(|budgets| budgets.first_tick().is_some());
    }

    fn ready(&mut self, vcpu: VcpuId, why: Why, view: &View) -> Option<CpuId> {
        let vm = view.vm_of(vcpu);
        if why == Why::Woken {
            self.woken(vcpu, vm.index(), view.now);
        } else {
            self.off(vcpu, vm, view.now);
        }
        if !self.lines.as_ref().is_some_and(|lines| lines.holds(vcpu)) {
            if self.waiting_of[vm.index()] == 0 {
                self.forget_claims(vm.index(), view);
            }
            self.waiting_of[vm.index()] += 1;
            let it = self.vcpus[vcpu.index()];
            self.lines.iter_mut().for_each(|lines| lines.push(vcpu, it.deadline, it.v, view));
        }
        self.place(vm, view);
        let is_new = why == Why::Woken || self.meetings.are_free();
        if let Some(idle) = if is_new { view.idle_cpu_for(vcpu) } else { place_after(vcpu, view) } {
            return Some(idle);
        }
        let owed = self.budgets.as_ref().and_then(|budgets| budgets.evict(vcpu, view));
        let allowed = self.allows(vm);
        match owed {
            Some(cpu) => Some(cpu),
            None if why == Why::Woken && allowed => self.prey(vcpu, vm, view),
            None => None,
        }
    }

    fn take(&mut self, vcpu: VcpuId, view: &View) {
        self.leave_line(vcpu, view);
        self.charge_to(vcpu, view.vm_of(vcpu), Some(view.now));
        self.place(view.vm_of(vcpu), view);
    }

    fn pick(&mut self, cpu: CpuId, view: &View) -> Pick {
        let Some((vm, vcpu)) = self.best(cpu, view) else { return Pick::Idle };
        self.leave_line(vcpu, view);
        let slice = self.slice;
        self.change(vm.index(), |it| it.request(slice));
        self.vcpus[vcpu.index()].request(slice);
        let rest = self.vms[vm.index()].rest().min(self.vcpus[vcpu.index()].rest()).max(SHORTEST);
        let span = self.budgets.as_mut().map_or(rest, |budgets| budgets.grant(vcpu, vm, cpu, rest));
        self.change(vm.index(), |it| it.charge(span));
        let on = self.vcpus[vcpu.index()].by_weight(span);
        self.advance(vcpu, vm, on);
        self.charge_to(vcpu, vm, Some(view.now + span));
        self.place(vm, view);
        Pick::Run(vcpu, view.now + span)
    }

    fn ran(&mut self, vcpu: VcpuId, _: CpuId, span: Span, view: &View) {
        let vm = view.vm_of(vcpu);
        let until = self.charged_to[vcpu.index()].unwrap_or(view.now);
        let more = view.now.since(until);
        self.charge_to(vcpu, vm, Some(until.max(view.now)));
        self.change(vm.index(), |it| it.charge(more));
        let on = self.vcpus[vcpu.index()].by_weight(more);
        self.advance(vcpu, vm, on);
        if let Some(budgets) = &mut self.budgets {
            budgets.ran(vcpu, vm, span);
        }
        self.place(vm, view);
    }

    fn halted(&mut self, vcpu: VcpuId, view: &View) {
        let vm = view.vm_of(vcpu);
        self.off(vcpu, vm, view.now);
        // Alone it has nobody to be owed by.
        let within = self.used_within(vm.index(), view.now).mean().filter(|_| self.active_of[vm.index()] > 1);
        self.vcpus[vcpu.index()].sleep(within, self.slice);
        self.sum_of[vm.index()] -= self.vcpus[vcpu.index()].v;
        if self.active_of[vm.index()] == 1 {
            let around = self.used_around(vm.index(), view.now).mean();
            self.sums[self.meetings.place_of(vm.index())].remove(&self.vms[vm.index()]);
            self.vms[vm.index()].sleep(around, self.slice);
        }
        self.active_of[vm.index()] -= 1;
        self.place(vm, view);
    }

    fn first_tick(&self) -> Option<Time> {
        self.budgets.as_ref().and_then(Budgets::first_tick)
    }

    fn tick(&mut self, view: &View, again: &mut Vec<CpuId>) -> Option<Time> {
        let budgets = self.budgets.as_mut()?;
        let (next, counted) = (budgets.renew(view, again), budgets.counted());
        for vm in counted {
            self.place(vm, view);
        }
        Some(next)
    }

    fn is_work_conserving(&self) -> bool {
        !self.budgets.as_ref().is_some_and(Budgets::has_limits)
    }
}
