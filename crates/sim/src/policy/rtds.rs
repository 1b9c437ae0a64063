//! A scheduler like Xen's RTDS: every virtual CPU is a deferrable server with a budget per period, and of those that have
//! budget left the one whose period ends first runs (global earliest deadline first).
//!
//! ```text
//!  period   ├──────────────┼──────────────┤     deadline: the end of the period
//!  budget   ▇▇▇▇▆▅▃▁       ▇▇▇▇▇▇▅▃▁            burnt by running only, kept while it halts, full again at each period
//! ```
//! Source: the documentation of Xen's RTDS (wiki "RTDS-Based-Scheduler"; xl manual, `sched-rtds`), RT-Xen (Xi, Wilson, Lu,
//! Gill 2011; Xi et al. 2014), deferrable server (Strosnider, Lehoczky, Sha 1995). Not work-conserving: who has no budget
//! left waits for its next period, also beside idle CPUs. First periods begin with the simulation; with `phase_us` the
//! first one is cut to that and has its whole budget, as of a server that has not run before. On one CPU everybody who
//! wants it all along has its budget in each period as long as the sum of budget/period is at most 1; who wakes in the middle of a
//! period needs more, because others' kept budgets come on top of their next ones (`bounds::admission::deferrable`).

use std::collections::BTreeSet;

use super::budgets::{Purse, first_of};
use super::lines::Lines;
use super::meetings::place_after;
use super::{Pick, Policy, Why};
use crate::host::{CpuId, CpuSet, State, VcpuId, View, VmId};
use crate::scenario::{Names, micros};
use crate::time::{Span, Time};
use model::scenario::Scenario;

/// Budget and period of each virtual CPU of a VM.
#[derive(Debug, Clone, Copy)]
pub struct Reserve {
    /// So long it may run per period.
    pub budget: Span,
    /// The period.
    pub period: Span,
}

#[derive(Debug, Clone, Copy)]
struct Server {
    purse: Purse,
    period: Span,
    deadline: Time,
}

/// The policy.
#[derive(Debug, Clone)]
pub struct Rtds {
    reserves: Vec<Reserve>,
    servers: Vec<Server>,
    /// Who waits and has budget left, by deadline.
    lines: Option<Lines<Time, Time>>,
    /// When the periods of each VM's virtual CPUs end.
    ends: BTreeSet<(Time, VmId)>,
    slice: Span,
}

impl Rtds {
    /// With what each VM's virtual CPUs have; VMs without have everything.
    pub fn new(reserves: Vec<Reserve>) -> Self {
        let (servers, ends) = (Vec::new(), BTreeSet::new());
        Self { reserves, servers, lines: None, ends, slice: Span::from_millis(1) }
    }

    /// With what a scenario says at its VMs.
    pub(super) fn from_scenario(names: &Names, scenario: &Scenario) -> Self {
        let reserve = |vm: usize| {
            let spec = names.spec(scenario, vm);
            let period = spec.and_then(|spec| spec.period_us).map_or(Span::from_millis(10), micros);
            let budget = spec.and_then(|spec| spec.budget_us).map_or(period, micros);
            Reserve { budget, period }
        };
        Self::new((0..names.vms.len()).map(reserve).collect())
    }

    fn has_budget(&self, vcpu: VcpuId) -> bool {
        !self.servers[vcpu.index()].purse.left().is_zero()
    }

    /// A CPU for `vcpu`: an idle one, or the one whose deadline is the latest, if it is later than its own.
    fn place(&self, vcpu: VcpuId, view: &View, but: &CpuSet) -> Option<CpuId> {
        if !self.has_budget(vcpu) {
            return None;
        }
        let is_left = |cpu: &CpuId| !but.contains(cpu.0);
        let idle = || view.idle.common(view.affinity(vcpu)).map(CpuId).find(is_left);
        if let Some(cpu) = view.idle_cpu_for(vcpu).filter(is_left).or_else(idle) {
            return Some(cpu);
        }
        let may = view.affinity(vcpu).iter().map(CpuId).filter(is_left);
        let running = may.filter_map(|cpu| {
            view.cpus[cpu.index()].running.map(|other| (self.servers[other.index()].deadline, cpu))
        });
        let latest = running.max_by_key(|(deadline, cpu)| (*deadline, std::cmp::Reverse(*cpu)));
        latest.filter(|(deadline, _)| *deadline > self.servers[vcpu.index()].deadline).map(|(_, cpu)| cpu)
    }

    fn next_deadline(&self) -> Option<Time> {
        self.ends.first().map(|(end, _)| *end)
    }

    /// Lets it join its line, or leave it.
    fn join(&mut self, vcpu: VcpuId, joins: bool, view: &View) {
        let deadline = self.servers[vcpu.index()].deadline;
        let joins = joins && self.has_budget(vcpu);
        let Some(lines) = &mut self.lines else { return };
        if lines.holds(vcpu) {
            lines.remove(vcpu, view);
        }
        if joins {
            lines.push(vcpu, deadline, (), view);
        }
        let servers = &self.servers;
        let place = |_: &_, head: VcpuId| Some((servers[head.index()].deadline, ()));
        lines.queue(view.vm_of(vcpu), &|()| true, place);
    }

    /// Who could get a CPU when periods have begun, the earliest deadline first: of each set of CPUs as many as there are.
    fn first_ready(&self, view: &View) -> Vec<VcpuId> {
        let mut ready: Vec<VcpuId> = Vec::new();
        let mut count = vec![0; view.affinities.len()];
        if let Some(lines) = &self.lines {
            lines.walk(&mut |vcpu, _| {
                let count = &mut count[view.vcpu(vcpu).affinity as usize];
                *count += 1;
                ready.push(vcpu);
                *count < view.cpus.len()
            });
        }
        ready.sort_by_key(|vcpu| (self.servers[vcpu.index()].deadline, *vcpu));
        ready
    }
}

impl Policy for Rtds {
    fn begin(&mut self, view: &View) {
        let server = |vcpu: &crate::host::Vcpu| {
            let everything = Reserve { budget: Span::from_millis(10), period: Span::from_millis(10) };
            let Reserve { budget, period } =
                self.reserves.get(vcpu.vm.index()).copied().unwrap_or(everything);
            let phase = view.vms.get(vcpu.vm.index()).and_then(|vm| vm.phase);
            let first = phase.map_or(period, |phase| first_of(period, phase));
            Server { purse: Purse::of(budget), period, deadline: Time::ZERO + first }
        };
        self.servers = view.vcpus.iter().map(server).collect();
        self.lines = Some(Lines::new(view, (Time::ZERO, ()), (Time::ZERO, ())));
        let ends = view.vms.iter().zip((0u32..).map(VmId)).filter(|(vm, _)| vm.count > 0);
        self.ends = ends.map(|(vm, number)| (self.servers[vm.first.index()].deadline, number)).collect();
        self.slice = self.reserves.iter().map(|reserve| reserve.budget).max().unwrap_or(self.slice);
    }

    fn ready(&mut self, vcpu: VcpuId, why: Why, view: &View) -> Option<CpuId> {
        self.join(vcpu, true, view);
        if why == Why::Woken { self.place(vcpu, view, &CpuSet::default()) } else { place_after(vcpu, view) }
    }

    fn take(&mut self, vcpu: VcpuId, view: &View) {
        self.join(vcpu, false, view);
    }

    fn pick(&mut self, cpu: CpuId, view: &View) -> Pick {
        let Some(vcpu) = self.lines.as_ref().and_then(|lines| lines.first(cpu)) else { return Pick::Idle };
        self.take(vcpu, view);
        Pick::Run(vcpu, view.now + self.servers[vcpu.index()].purse.left())
    }

    fn ran(&mut self, vcpu: VcpuId, _: CpuId, span: Span, _: &View) {
        self.servers[vcpu.index()].purse.pay(span);
    }

    fn first_tick(&self) -> Option<Time> {
        self.next_deadline()
    }

    /// Periods are over: budgets are full again, and who has the earliest deadlines now takes CPUs from the latest.
    fn tick(&mut self, view: &View, again: &mut Vec<CpuId>) -> Option<Time> {
        while let Some((end, vm)) = self.ends.first().copied().filter(|(end, _)| *end <= view.now) {
            self.ends.remove(&(end, vm));
            let mut next = end;
            for vcpu in view.vms[vm.index()].vcpus() {
                let server = &mut self.servers[vcpu.index()];
                server.purse.fill();
                server.deadline = server.deadline + server.period;
                next = server.deadline;
                if view.vcpu(vcpu).state == State::Ready {
                    self.join(vcpu, true, view);
                }
            }
            self.ends.insert((next, vm));
        }
        let (mut but, mut failed) = (CpuSet::default(), vec![false; view.affinities.len()]);
        for vcpu in self.first_ready(view) {
            // Whose deadline is later gets none either.
            let failed = &mut failed[view.vcpu(vcpu).affinity as usize];
            if *failed {
                continue;
            }
            let cpu = self.place(vcpu, view, &but);
            *failed = cpu.is_none();
            if let Some(cpu) = cpu {
                but.insert(cpu.0);
                again.push(cpu);
            }
        }
        self.next_deadline()
    }

    fn is_work_conserving(&self) -> bool {
        false
    }

    fn may_stand_in(&self, vcpu: VcpuId, _: VcpuId, _: CpuId, _: &View) -> bool {
        self.has_budget(vcpu)
    }
}
