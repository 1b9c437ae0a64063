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

use super::budgets::Budgets;
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
}

/// A way to give each of several virtual CPUs a CPU of its own (Kuhn's augmenting paths).
struct Seating<'a> {
    view: &'a View,
    free: &'a CpuSet,
    /// By CPU, whose it is.
    holders: Vec<Option<VcpuId>>,
}

impl<'a> Seating<'a> {
    fn new(view: &'a View, free: &'a CpuSet) -> Self {
        Self { view, free, holders: vec![None; view.cpus.len()] }
    }

    /// Finds a CPU for one more; others may have to move.
    fn add(&mut self, vcpu: VcpuId) -> bool {
        let mut tried = CpuSet::default();
        self.seat(vcpu, &mut tried)
    }

    fn seat(&mut self, vcpu: VcpuId, tried: &mut CpuSet) -> bool {
        let view = self.view;
        let usable = |cpu: &u32| self.free.contains(*cpu) && view.may_run(vcpu, CpuId(*cpu));
        // Where it was, then what nobody has, then what somebody can be moved from.
        let last = view.vcpu(vcpu).last_cpu().map(|cpu| cpu.0);
        let all: Vec<u32> = last.into_iter().chain(view.affinity(vcpu).iter()).filter(usable).collect();
        if let Some(cpu) = all.iter().find(|cpu| self.holders[**cpu as usize].is_none()) {
            self.holders[*cpu as usize] = Some(vcpu);
            return true;
        }
        for cpu in all {
            if tried.contains(cpu) {
                continue;
            }
            tried.insert(cpu);
            let Some(holder) = self.holders[cpu as usize] else { continue };
            if self.seat(holder, tried) {
                self.holders[cpu as usize] = Some(vcpu);
                return true;
            }
        }
        false
    }

    fn of(&self, vcpu: VcpuId) -> Option<CpuId> {
        let at = self.holders.iter().position(|holder| *holder == Some(vcpu));
        at.and_then(|at| u32::try_from(at).ok()).map(CpuId)
    }
}

/// The policy.
#[derive(Debug, Clone)]
pub struct Gang {
    slice: Span,
    gangs: Vec<Together>,
    /// Which gang each virtual CPU is in.
    group_of: Vec<usize>,
    /// Who may run on each CPU.
    seats: Vec<Option<VcpuId>>,
    vms: Vec<u128>,
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
    pub const fn new(slice: Span) -> Self {
        Self {
            slice,
            gangs: Vec::new(),
            group_of: Vec::new(),
            seats: Vec::new(),
            vms: Vec::new(),
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
                    self.group_of[vcpu.index()] = self.gangs.len();
                }
                let (cpus, until) = (Vec::new(), Time::ZERO);
                self.gangs.push(Together { vm: VmId(number), vcpus, cpus, until, turn: 0 });
                left = rest;
            }
        }
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
        for gang in &self.gangs {
            let held = span.as_f64() * gang.cpus.len() as f64;
            let weight = view.vms[gang.vm.index()].weight.max(1e-6);
            self.vms[gang.vm.index()] += (held * FINE / weight) as u128;
        }
    }

    fn leave(&mut self, gang: usize) {
        for cpu in std::mem::take(&mut self.gangs[gang].cpus) {
            self.seats[cpu.index()] = None;
        }
    }

    fn wants(&self, gang: usize, view: &View) -> bool {
        self.gangs[gang].vcpus.iter().any(|vcpu| view.vcpu(*vcpu).state != State::Halted)
    }

    /// Who holds CPUs until the end of the slice.
    fn plan(&mut self, view: &View, again: &mut Vec<CpuId>) {
        self.charge(view);
        let is_new = view.now >= self.end;
        if is_new {
            self.end = view.now + self.slice;
        }
        for gang in 0..self.gangs.len() {
            if is_new || self.gangs[gang].until <= view.now || !self.wants(gang, view) {
                self.leave(gang);
            }
        }
        // Who comes back has no old claims.
        let active =
            (0..self.gangs.len()).filter(|gang| self.gangs[*gang].cpus.is_empty() && self.wants(*gang, view));
        let mut order: Vec<usize> = active.collect();
        order.sort_by_key(|gang| (self.vms[self.gangs[*gang].vm.index()], self.gangs[*gang].turn, *gang));
        for gang in order {
            self.seat(gang, view);
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

    /// Gives a gang CPUs if all of it finds one.
    fn seat(&mut self, gang: usize, view: &View) {
        let free: CpuSet =
            (0u32..).zip(&self.seats).filter(|(_, seat)| seat.is_none()).map(|(cpu, _)| cpu).collect();
        let it = &self.gangs[gang];
        let width = it.vcpus.len() as u64;
        let left = self.budgets.as_ref().map_or(Span::FOREVER, |budgets| budgets.left(it.vm));
        let held: u64 =
            self.gangs.iter().filter(|other| other.vm == it.vm).map(|other| other.cpus.len() as u64).sum();
        // What of the limit the VM's other gangs may use up meanwhile is theirs.
        let theirs = self.end.since(view.now).nanos().saturating_mul(held);
        let each = Span::from_nanos(left.nanos().saturating_sub(theirs) / width.max(1));
        if each < LEAST || u64::from(free.len()) < width {
            return;
        }
        let mut seating = Seating::new(view, &free);
        if !it.vcpus.iter().all(|vcpu| seating.add(*vcpu)) {
            return;
        }
        let cpus: Vec<CpuId> = it.vcpus.iter().filter_map(|vcpu| seating.of(*vcpu)).collect();
        for (cpu, vcpu) in cpus.iter().zip(&it.vcpus) {
            self.seats[cpu.index()] = Some(*vcpu);
        }
        self.turn += 1;
        let (turn, until) = (self.turn, self.end.min(view.now + each));
        let it = &mut self.gangs[gang];
        (it.cpus, it.turn, it.until) = (cpus, turn, until);
    }
}

impl Policy for Gang {
    fn begin(&mut self, view: &View) {
        self.group_of = vec![0; view.vcpus.len()];
        self.seats = vec![None; view.cpus.len()];
        self.vms = vec![0; view.vms.len()];
        self.form(view);
        let period = PERIOD.max(Span::from_nanos(self.slice.nanos().saturating_mul(10)));
        self.budgets = Some(Budgets::new(period, view, false)).filter(Budgets::has_limits);
        self.renewal = self.budgets.as_ref().and_then(Budgets::first_tick);
    }

    fn ready(&mut self, vcpu: VcpuId, why: Why, view: &View) -> Option<CpuId> {
        let gang = self.group_of[vcpu.index()];
        let vm = self.gangs[gang].vm;
        if why == Why::Woken
            && !view.vms[vm.index()]
                .vcpus()
                .any(|other| other != vcpu && view.vcpu(other).state != State::Halted)
        {
            // Who was away starts where the others are.
            let others =
                self.gangs.iter().zip(0..).filter(|(other, at)| other.vm != vm && self.wants(*at, view));
            let least = others.map(|(other, _)| self.vms[other.vm.index()]).min();
            self.vms[vm.index()] = self.vms[vm.index()].max(least.unwrap_or(0));
        }
        let seat = self.seats.iter().position(|seat| *seat == Some(vcpu));
        if seat.is_none() && why == Why::Woken && self.seats.contains(&None) {
            self.later = Some(view.now);
        }
        seat.and_then(|cpu| u32::try_from(cpu).ok()).map(CpuId)
    }

    fn take(&mut self, _: VcpuId, _: &View) {}

    fn pick(&mut self, cpu: CpuId, view: &View) -> Pick {
        let Some(vcpu) = self.seats[cpu.index()] else { return Pick::Idle };
        let until = self.gangs[self.group_of[vcpu.index()]].until;
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
        if !self.wants(self.group_of[vcpu.index()], view) {
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
