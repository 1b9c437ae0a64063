//! A scheduler like Xen's RTDS: every virtual CPU is a deferrable server with a budget per period, and of those that have
//! budget left the one whose period ends first runs (global earliest deadline first).
//!
//! ```text
//!  period   ├──────────────┼──────────────┤     deadline: the end of the period
//!  budget   ▇▇▇▇▆▅▃▁       ▇▇▇▇▇▇▅▃▁            burnt by running only, kept while it halts, full again at each period
//! ```
//! Source: the documentation of Xen's RTDS (wiki "RTDS-Based-Scheduler"; xl manual, `sched-rtds`), RT-Xen (Xi, Wilson, Lu,
//! Gill 2011; Xi et al. 2014), deferrable server (Strosnider, Lehoczky, Sha 1995). Not work-conserving: who has no budget
//! left waits for its next period, also beside idle CPUs. All first periods begin at the beginning. On one CPU everybody
//! has its budget in each period as long as the sum of budget/period is at most 1.

use super::budgets::Purse;
use super::meetings::place_after;
use super::{Pick, Policy, Why};
use crate::host::{CpuId, State, VcpuId, View};
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
    waits: bool,
}

/// The policy.
#[derive(Debug, Clone)]
pub struct Rtds {
    reserves: Vec<Reserve>,
    servers: Vec<Server>,
    slice: Span,
}

impl Rtds {
    /// With what each VM's virtual CPUs have; VMs without have everything.
    pub const fn new(reserves: Vec<Reserve>) -> Self {
        Self { reserves, servers: Vec::new(), slice: Span::from_millis(1) }
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
    fn place(&self, vcpu: VcpuId, view: &View, but: &[CpuId]) -> Option<CpuId> {
        if !self.has_budget(vcpu) {
            return None;
        }
        let free = view.idle_cpu_for(vcpu).filter(|cpu| !but.contains(cpu));
        let idle = || {
            view.affinity(vcpu).iter().map(CpuId).find(|cpu| view.idle.contains(cpu.0) && !but.contains(cpu))
        };
        if let Some(cpu) = free.or_else(idle) {
            return Some(cpu);
        }
        let cpus = (0u32..).map(CpuId).zip(&view.cpus);
        let may = cpus.filter(|(cpu, _)| view.may_run(vcpu, *cpu) && !but.contains(cpu));
        let running = may.filter_map(|(cpu, place)| {
            place.running.map(|other| (self.servers[other.index()].deadline, cpu))
        });
        let latest = running.max_by_key(|(deadline, cpu)| (*deadline, std::cmp::Reverse(*cpu)));
        latest.filter(|(deadline, _)| *deadline > self.servers[vcpu.index()].deadline).map(|(_, cpu)| cpu)
    }

    fn next_deadline(&self) -> Option<Time> {
        self.servers.iter().map(|server| server.deadline).min()
    }
}

impl Policy for Rtds {
    fn begin(&mut self, view: &View) {
        let server = |vcpu: &crate::host::Vcpu| {
            let everything = Reserve { budget: Span::from_millis(10), period: Span::from_millis(10) };
            let Reserve { budget, period } =
                self.reserves.get(vcpu.vm.index()).copied().unwrap_or(everything);
            Server { purse: Purse::of(budget), period, deadline: Time::ZERO + period, waits: false }
        };
        self.servers = view.vcpus.iter().map(server).collect();
        self.slice = self.reserves.iter().map(|reserve| reserve.budget).max().unwrap_or(self.slice);
    }

    fn ready(&mut self, vcpu: VcpuId, why: Why, view: &View) -> Option<CpuId> {
        self.servers[vcpu.index()].waits = true;
        if why == Why::Woken { self.place(vcpu, view, &[]) } else { place_after(vcpu, view) }
    }

    fn take(&mut self, vcpu: VcpuId, _: &View) {
        self.servers[vcpu.index()].waits = false;
    }

    fn pick(&mut self, cpu: CpuId, view: &View) -> Pick {
        let vcpus = (0u32..).map(VcpuId).zip(&self.servers).filter(|(_, server)| server.waits);
        let may = vcpus.filter(|(vcpu, _)| view.may_run(*vcpu, cpu) && self.has_budget(*vcpu));
        let first = may.min_by_key(|(vcpu, server)| (server.deadline, *vcpu));
        let Some((vcpu, left)) = first.map(|(vcpu, server)| (vcpu, server.purse.left())) else {
            return Pick::Idle;
        };
        self.take(vcpu, view);
        Pick::Run(vcpu, view.now + left)
    }

    fn ran(&mut self, vcpu: VcpuId, _: CpuId, span: Span, _: &View) {
        self.servers[vcpu.index()].purse.pay(span);
    }

    fn first_tick(&self) -> Option<Time> {
        self.next_deadline()
    }

    /// Periods are over: budgets are full again, and who has the earliest deadlines now takes CPUs from the latest.
    fn tick(&mut self, view: &View, again: &mut Vec<CpuId>) -> Option<Time> {
        for server in &mut self.servers {
            while server.deadline <= view.now {
                server.purse.fill();
                server.deadline = server.deadline + server.period;
            }
        }
        let vcpus = (0u32..).map(VcpuId).zip(&view.vcpus);
        let ready = vcpus.filter(|(_, vcpu)| vcpu.state == State::Ready).map(|(vcpu, _)| vcpu);
        let mut ready: Vec<VcpuId> = ready.filter(|vcpu| self.has_budget(*vcpu)).collect();
        ready.sort_by_key(|vcpu| (self.servers[vcpu.index()].deadline, *vcpu));
        for vcpu in ready {
            let cpu = self.place(vcpu, view, again);
            again.extend(cpu);
        }
        self.next_deadline()
    }

    fn is_work_conserving(&self) -> bool {
        false
    }

    /// As for all, but only who has budget left.
    fn help(&mut self, spinner: VcpuId, cpu: CpuId, kernel_first: bool, view: &View) -> Option<VcpuId> {
        let vm = &view.vms[view.vm_of(spinner).index()];
        let ready = |vcpu: &VcpuId| *vcpu != spinner && view.vcpu(*vcpu).state == State::Ready;
        let others =
            vm.vcpus().filter(|vcpu| ready(vcpu) && view.may_run(*vcpu, cpu) && self.has_budget(*vcpu));
        others.min_by_key(|vcpu| {
            let it = view.vcpu(*vcpu);
            (kernel_first && !it.in_kernel, it.since, *vcpu)
        })
    }
}
