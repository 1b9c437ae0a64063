//! Gang scheduling (co-scheduling): all virtual CPUs of a VM run at once, or none does. VMs come by their virtual time, so
//! by weight each gets the same CPU time, the CPUs it holds without using them counted in.
//!
//! ```text
//!             slice   slice   slice
//!  CPU 0      A.0     B.0     A.0        a plan per slice: VMs in order, each if all of it still finds CPUs
//!  CPU 1      A.1     B.1     A.1
//!  CPU 2      A.2      ·      A.2        · held by nobody: not work-conserving
//! ```
//! Source: Ousterhout, "Scheduling techniques for concurrent systems" (1982); as a remedy for preempted lock holders:
//! Uhlig et al., "Towards scalable multiprocessor virtual machines" (2004). A VM of more virtual CPUs than it may use CPUs
//! is several gangs that take turns. A gang that has nothing to do at all gives its CPUs to others that fit; one that
//! wakes waits for room, at most to the end of the slice. Limits hold per 100 ms, or ten slices if that is longer; it
//! knows no reservations.

use std::collections::{BTreeMap, BTreeSet};

use super::budgets::Budgets;
use super::forest::{Forest, Measure, Set};
use super::meetings::Meetings;
use super::rivals::Rivals;
use super::{Pick, Policy, Why};
use crate::host::{CpuId, CpuSet, State, VcpuId, View, VmId};
use crate::time::{Span, Time};

/// Units of virtual time per nanosecond and weight 1.
const FINE: f64 = 1024.0;
/// Limits hold for so long, at least.
const PERIOD: Span = Span::from_millis(100);
/// A gang that may run for less than this is left out.
const LEAST: Span = Span::from_micros(1);

/// Virtual CPUs that run together.
#[derive(Debug, Clone)]
struct Together {
    vm: VmId,
    vcpus: Vec<VcpuId>,
    /// Its CPUs, in the same order; empty when it has none.
    cpus: Vec<CpuId>,
    /// Until when it may run.
    until: Time,
    /// When it last had CPUs, as a count, for turns within a VM.
    turn: u64,
    /// How many of it have something to do.
    awake: u32,
}

/// A way to give each of several virtual CPUs a CPU of its own (Kuhn's augmenting paths).
struct Seating<'a> {
    view: &'a View,
    free: &'a CpuSet,
    /// Of these, who has none yet.
    open: CpuSet,
    /// By CPU, whose it is.
    holders: BTreeMap<u32, VcpuId>,
}

impl<'a> Seating<'a> {
    fn new(view: &'a View, free: &'a CpuSet) -> Self {
        Self { view, free, open: free.clone(), holders: BTreeMap::new() }
    }

    /// Finds a CPU for one more; others may have to move.
    fn add(&mut self, vcpu: VcpuId) -> bool {
        let mut tried = CpuSet::default();
        self.seat(vcpu, &mut tried)
    }

    fn seat(&mut self, vcpu: VcpuId, tried: &mut CpuSet) -> bool {
        let view = self.view;
        // Where it was, then what nobody has, then what somebody can be moved from.
        let last = view.vcpu(vcpu).last_cpu().filter(|cpu| view.may_run(vcpu, *cpu)).map(|cpu| cpu.0);
        let open = last.filter(|cpu| self.open.contains(*cpu));
        if let Some(cpu) = open.or_else(|| self.open.first_common(view.affinity(vcpu))) {
            self.open.remove(cpu);
            self.holders.insert(cpu, vcpu);
            return true;
        }
        let (last, free) = (last.filter(|cpu| self.free.contains(*cpu)), self.free);
        for cpu in last.into_iter().chain(free.common(view.affinity(vcpu))) {
            if tried.contains(cpu) {
                continue;
            }
            tried.insert(cpu);
            let Some(holder) = self.holders.get(&cpu).copied() else { continue };
            if self.seat(holder, tried) {
                self.holders.insert(cpu, vcpu);
                return true;
            }
        }
        false
    }

    /// Everybody's CPU.
    fn places(&self) -> BTreeMap<VcpuId, CpuId> {
        self.holders.iter().map(|(cpu, vcpu)| (*vcpu, CpuId(*cpu))).collect()
    }
}

/// Virtual CPUs of a gang, for who asks for one that fits.
#[derive(Debug, Clone, Copy)]
struct Width(usize);

impl Measure for Width {
    fn least(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }
}

/// The policy.
#[derive(Debug, Clone)]
pub struct Gang {
    slice: Span,
    gangs: Vec<Together>,
    /// Which gang each virtual CPU is in.
    group_of: Vec<u32>,
    /// First gang of each VM, and behind the last.
    first_of: Vec<usize>,
    /// Who may run on each CPU, and CPUs that nobody holds.
    seats: Vec<Option<VcpuId>>,
    free: CpuSet,
    /// Gangs that hold CPUs.
    holders: BTreeSet<usize>,
    /// Gangs that want CPUs and hold none, by their VM's time and their turn.
    line: Option<Forest<(u128, u64), Width>>,
    waiting: Set,
    vms: Vec<u128>,
    /// VMs that have something to do.
    active: Option<Rivals<u128>>,
    end: Time,
    /// Up to when who holds CPUs has been charged for them.
    charged: Time,
    turn: u64,
    later: Option<Time>,
    budgets: Option<Budgets>,
    renewal: Option<Time>,
}

impl Gang {
    /// With this slice.
    pub fn new(slice: Span) -> Self {
        Self {
            slice,
            gangs: Vec::new(),
            group_of: Vec::new(),
            first_of: Vec::new(),
            seats: Vec::new(),
            free: CpuSet::default(),
            holders: BTreeSet::new(),
            line: None,
            waiting: Set::EMPTY,
            vms: Vec::new(),
            active: None,
            end: Time::ZERO,
            charged: Time::ZERO,
            turn: 0,
            later: None,
            budgets: None,
            renewal: None,
        }
    }

    /// As many gangs for each VM as it takes.
    fn form(&mut self, view: &View) {
        let all = CpuSet::first(u32::try_from(view.cpus.len()).unwrap_or(u32::MAX));
        for (vm, number) in view.vms.iter().zip(0u32..) {
            self.first_of.push(self.gangs.len());
            let mut left: Vec<VcpuId> = vm.vcpus().collect();
            while !left.is_empty() {
                let mut seating = Seating::new(view, &all);
                let (vcpus, rest): (Vec<VcpuId>, Vec<VcpuId>) =
                    left.iter().partition(|vcpu| seating.add(**vcpu));
                // Somebody who may run nowhere: the scenario's check does not let that happen.
                if vcpus.is_empty() {
                    break;
                }
                for vcpu in &vcpus {
                    self.group_of[vcpu.index()] = u32::try_from(self.gangs.len()).unwrap_or(u32::MAX);
                }
                let (cpus, until) = (Vec::new(), Time::ZERO);
                self.gangs.push(Together { vm: VmId(number), vcpus, cpus, until, turn: 0, awake: 0 });
                left = rest;
            }
        }
        self.first_of.push(self.gangs.len());
    }

    /// Whoever holds CPUs pays for them.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, and saturating is right"
    )]
    fn charge(&mut self, view: &View) {
        let span = view.now.since(self.charged);
        self.charged = view.now;
        for gang in self.holders.iter().copied().collect::<Vec<_>>() {
            let Together { vm, ref cpus, .. } = self.gangs[gang];
            let held = span.as_f64() * cpus.len() as f64;
            let weight = view.vms[vm.index()].weight.max(1e-6);
            self.vms[vm.index()] += (held * FINE / weight) as u128;
            self.place(vm);
        }
    }

    fn gangs_of(&self, vm: VmId) -> std::ops::Range<usize> {
        self.first_of[vm.index()]..self.first_of[vm.index() + 1]
    }

    /// Brings a VM and its gangs to their places after a change of its books.
    fn place(&mut self, vm: VmId) {
        self.active.iter_mut().for_each(|active| active.touch(vm.index()));
        self.gangs_of(vm).for_each(|gang| self.place_gang(gang));
    }

    fn place_gang(&mut self, gang: usize) {
        let (it, id) = (&self.gangs[gang], u32::try_from(gang).unwrap_or(u32::MAX));
        let key = (self.vms[it.vm.index()], it.turn);
        let Some(line) = &mut self.line else { return };
        let waits = it.awake > 0 && it.cpus.is_empty();
        if line.holds(id) {
            if waits && line.key(id) == key {
                return;
            }
            line.remove(&mut self.waiting, id);
        }
        if waits {
            line.insert(&mut self.waiting, id, key, Width(it.vcpus.len()));
        }
    }

    fn leave(&mut self, gang: usize) {
        for cpu in std::mem::take(&mut self.gangs[gang].cpus) {
            self.seats[cpu.index()] = None;
            self.free.insert(cpu.0);
        }
        self.holders.remove(&gang);
        self.place_gang(gang);
    }

    /// Who holds CPUs until the end of the slice.
    fn plan(&mut self, view: &View, again: &mut Vec<CpuId>) {
        self.charge(view);
        let is_new = view.now >= self.end;
        if is_new {
            self.end = view.now + self.slice;
        }
        for gang in self.holders.iter().copied().collect::<Vec<_>>() {
            let it = &self.gangs[gang];
            if is_new || it.until <= view.now || it.awake == 0 {
                self.leave(gang);
            }
        }
        let mut left_out = Vec::new();
        while let Some(gang) = self.next_that_fits() {
            if !self.seat(gang, view) {
                left_out.push(gang);
            }
        }
        for gang in left_out {
            self.place_gang(gang);
        }
        let wrong = |(cpu, place): &(CpuId, &crate::host::Cpu)| match (place.running, self.seats[cpu.index()])
        {
            (None, None) => false,
            (Some(running), Some(seat)) => running != seat,
            (Some(_), None) => true,
            (None, Some(seat)) => view.vcpu(seat).state != State::Halted,
        };
        // Who has to change CPUs comes to the new one once it has left the old one: `ready` says where it belongs.
        again.extend((0u32..).map(CpuId).zip(&view.cpus).filter(wrong).map(|(cpu, _)| cpu));
    }

    /// Takes the first gang that is no wider than what is free out of the line.
    fn next_that_fits(&mut self) -> Option<usize> {
        let (line, free) = (self.line.as_mut()?, self.free.len() as usize);
        let gang = line.first_within(self.waiting, &|width: Width| width.0 <= free)?;
        line.remove(&mut self.waiting, gang);
        usize::try_from(gang).ok()
    }

    /// Gives a gang CPUs if all of it finds one; says whether it does.
    fn seat(&mut self, gang: usize, view: &View) -> bool {
        let it = &self.gangs[gang];
        let width = it.vcpus.len() as u64;
        let left = self.budgets.as_ref().map_or(Span::FOREVER, |budgets| budgets.left(it.vm));
        let others = &self.gangs[self.gangs_of(it.vm)];
        let held: u64 = others.iter().map(|other| other.cpus.len() as u64).sum();
        // What of the limit the VM's other gangs may use up meanwhile is theirs.
        let theirs = self.end.since(view.now).nanos().saturating_mul(held);
        let each = Span::from_nanos(left.nanos().saturating_sub(theirs) / width.max(1));
        if each < LEAST {
            return false;
        }
        let mut seating = Seating::new(view, &self.free);
        if !it.vcpus.iter().all(|vcpu| seating.add(*vcpu)) {
            return false;
        }
        let places = seating.places();
        let cpus: Vec<CpuId> = places.values().copied().collect();
        for (vcpu, cpu) in places {
            self.seats[cpu.index()] = Some(vcpu);
            self.free.remove(cpu.0);
        }
        self.turn += 1;
        let (turn, until) = (self.turn, self.end.min(view.now + each));
        let it = &mut self.gangs[gang];
        (it.cpus, it.turn, it.until) = (cpus, turn, until);
        self.holders.insert(gang);
        true
    }

    /// The CPU that it holds.
    fn seat_of(&self, vcpu: VcpuId) -> Option<CpuId> {
        let it = &self.gangs[self.group_of[vcpu.index()] as usize];
        it.vcpus.binary_search(&vcpu).ok().and_then(|at| it.cpus.get(at).copied())
    }
}

impl Policy for Gang {
    fn begin(&mut self, view: &View) {
        self.group_of = vec![0; view.vcpus.len()];
        self.seats = vec![None; view.cpus.len()];
        self.vms = vec![0; view.vms.len()];
        self.free = CpuSet::first(u32::try_from(view.cpus.len()).unwrap_or(u32::MAX));
        self.form(view);
        self.line = Some(Forest::new(self.gangs.len(), (0, 0), Width(0)));
        self.active = Some(Rivals::new(&Meetings::default(), view.vms.len(), 0));
        let period = PERIOD.max(Span::from_nanos(self.slice.nanos().saturating_mul(10)));
        self.budgets = Some(Budgets::new(period, view, false)).filter(Budgets::has_limits);
        self.renewal = self.budgets.as_ref().and_then(Budgets::first_tick);
    }

    fn ready(&mut self, vcpu: VcpuId, why: Why, view: &View) -> Option<CpuId> {
        if why == Why::Woken {
            let gang = self.group_of[vcpu.index()] as usize;
            let vm = self.gangs[gang].vm;
            if self.gangs[self.gangs_of(vm)].iter().all(|gang| gang.awake == 0) {
                // Who was away starts where the others are.
                let (gangs, first_of, vms) = (&self.gangs, &self.first_of, &self.vms);
                let is_awake =
                    |at: usize| gangs[first_of[at]..first_of[at + 1]].iter().any(|it| it.awake > 0);
                let time = |at: usize| is_awake(at).then(|| vms[at]);
                let active = self.active.as_mut();
                let least = active.and_then(|active| active.least(&Meetings::default(), vm.index(), time));
                self.vms[vm.index()] = self.vms[vm.index()].max(least.unwrap_or(0));
            }
            self.gangs[gang].awake += 1;
            self.place(vm);
        }
        let seat = self.seat_of(vcpu);
        if seat.is_none() && why == Why::Woken && !self.free.is_empty() {
            self.later = Some(view.now);
        }
        seat
    }

    fn take(&mut self, _: VcpuId, _: &View) {}

    fn pick(&mut self, cpu: CpuId, view: &View) -> Pick {
        let Some(vcpu) = self.seats[cpu.index()] else { return Pick::Idle };
        let until = self.gangs[self.group_of[vcpu.index()] as usize].until;
        if until <= view.now {
            // Its time is over, or its limit: a new plan, at once.
            self.later = Some(view.now);
            return Pick::Idle;
        }
        if view.vcpu(vcpu).state == State::Ready { Pick::Run(vcpu, until) } else { Pick::Idle }
    }

    fn ran(&mut self, vcpu: VcpuId, _: CpuId, span: Span, view: &View) {
        if let Some(budgets) = &mut self.budgets {
            budgets.ran(vcpu, view.vm_of(vcpu), span);
        }
    }

    fn halted(&mut self, vcpu: VcpuId, view: &View) {
        let gang = self.group_of[vcpu.index()] as usize;
        self.gangs[gang].awake -= 1;
        self.place(self.gangs[gang].vm);
        if self.gangs[gang].awake == 0 {
            self.later = Some(view.now);
        }
    }

    fn first_tick(&self) -> Option<Time> {
        Some(Time::ZERO)
    }

    fn tick(&mut self, view: &View, again: &mut Vec<CpuId>) -> Option<Time> {
        if let (Some(budgets), Some(renewal)) = (&mut self.budgets, self.renewal)
            && renewal <= view.now
        {
            self.renewal = Some(budgets.renew(view, &mut Vec::new()));
        }
        self.plan(view, again);
        Some(self.renewal.map_or(self.end, |renewal| renewal.min(self.end)))
    }

    fn extra_tick(&mut self) -> Option<Time> {
        self.later.take()
    }

    fn is_work_conserving(&self) -> bool {
        false
    }

    /// All of a VM run anyway.
    fn help(&mut self, _: VcpuId, _: CpuId, _: bool, _: &View) -> Option<VcpuId> {
        None
    }
}
