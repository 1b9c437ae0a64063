//! Limits and reservations of VMs, for policies that share: what each may still have in this period, and what it is still
//! owed. Who is owed something comes first, who has used up its limit waits for the next period.
//!
//! ```text
//!  period    ├───────────────┼───────────────┤      at each │: the VM's purses are filled anew, debts are carried over
//!  limit     ████████ waits   ████████ waits        a turn is paid when it begins, what it leaves is paid back
//!  reserved  ▒▒▒▒ first, then as everybody else
//! ```
//! Limits as in Linux' control groups (`cpu.max`: quota and period; kernel documentation, admin-guide/cgroup-v2), paid in
//! advance so that no CPU can overdraw: over a run of any length T a VM has limit × (T + period) at most, because the quota of the last
//! period may be used before the run ends within it (in Linux limit × (T + 2 periods): its first period is cut, too, and its quota is
//! not). Reservations are bandwidth that is served first within each period, the VM with
//! the least slack before the others (least laxity first: Dertouzos and Mok 1989), because a single virtual CPU cannot
//! catch up on two CPUs at once. What a VM had besides is no debt. Where CPUs are out of step, the VMs' periods are as
//! well, evenly over a period, as Linux starts the period of each group at a moment of its own, unless a VM's moment is
//! stated (`phase_us`); the first one is cut, and with it what belongs to it.
//!
//! Where not all may use the same CPUs, who may go elsewhere would use up the only CPU of who may not. So a flow of CPU
//! time (`model::scenario::reserved`) says beforehand what each VM is owed on which CPU, and each CPU serves its own part
//! first, then what is owed elsewhere.

mod owed;

use owed::Owed;

use crate::host::{CpuId, CpuSet, State, VcpuId, View, VmId};
use crate::time::{Span, Time};

/// A stated amount per period, in nanoseconds; below zero is debt.
#[derive(Debug, Clone, Copy)]
pub struct Purse {
    size: i64,
    left: i64,
}

impl Purse {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "bounded by the scenario's check, and saturating is right"
    )]
    fn new(cpus: f64, period: Span, first: Span) -> Self {
        Self { size: (cpus * period.as_f64()) as i64, left: (cpus * first.as_f64()) as i64 }
    }

    /// A full one of this size.
    pub fn of(span: Span) -> Self {
        let size = i64::try_from(span.nanos()).unwrap_or(i64::MAX);
        Self { size, left: size }
    }

    /// Fills it: debts are carried over, savings are not.
    pub fn fill(&mut self) {
        self.left = self.size.min(self.left.saturating_add(self.size));
    }

    /// Takes so much out.
    pub const fn pay(&mut self, span: Span) {
        self.left = self.left.saturating_sub_unsigned(span.nanos());
    }

    /// Takes so much out, as far as it is there.
    fn pay_what_is_there(&mut self, span: Span) {
        self.pay(span.min(self.left()));
    }

    /// What was set aside comes back; never more than belongs to a period.
    fn pay_back(&mut self, span: Span) {
        self.left = self.size.min(self.left.saturating_add_unsigned(span.nanos()));
    }

    /// What is in it.
    pub fn left(&self) -> Span {
        Span::from_nanos(u64::try_from(self.left).unwrap_or(0))
    }
}

/// What is set aside for somebody who runs.
#[derive(Debug, Clone, Copy, Default)]
struct Grant {
    limit: Span,
    reserved: Span,
    /// Where.
    cpu: CpuId,
}

/// Limits and reservations of all VMs.
#[derive(Debug, Clone)]
pub struct Budgets {
    period: Span,
    /// When each VM's period is over.
    ends: Vec<Time>,
    limits: Vec<Option<Purse>>,
    reserved: Vec<Option<Owed>>,
    /// By CPU, who is owed something there in particular; empty where nobody is.
    owed_at: Vec<Vec<VmId>>,
    /// By virtual CPU; empty where no VM has a limit or a reservation.
    grants: Vec<Grant>,
}

impl Budgets {
    /// Those of the VMs there are; without reservations where a policy has none.
    pub fn new(period: Span, view: &View, with_reservations: bool) -> Self {
        Self::make(period, view, with_reservations, view.in_step)
    }

    /// Limits alone, whose periods begin together even where CPUs are out of step.
    pub fn in_step(period: Span, view: &View) -> Self {
        Self::make(period, view, false, true)
    }

    fn make(period: Span, view: &View, with_reservations: bool, in_step: bool) -> Self {
        let count = view.vms.len() as u64;
        let first = |number: u64| if in_step { period } else { part(period, number + 1, count) };
        let stated = view.vms.iter().map(|vm| vm.phase.map(|phase| first_of(period, phase)));
        let firsts: Vec<Span> =
            stated.zip(0..).map(|(stated, vm)| stated.unwrap_or_else(|| first(vm))).collect();
        let limits = view.vms.iter().zip(&firsts);
        let limits = limits.map(|(vm, first)| vm.limit_cpus.map(|cpus| Purse::new(cpus, period, *first)));
        let is_free = view.vms.iter().all(|vm| vm.limit_cpus.is_none() && vm.reserved_cpus <= 0.0);
        let reserved =
            if with_reservations { owed::of(view, period, &firsts) } else { vec![None; view.vms.len()] };
        Self {
            period,
            owed_at: owed::at_each(&reserved, view),
            ends: firsts.iter().map(|first| Time::ZERO + *first).collect(),
            limits: limits.collect(),
            reserved,
            grants: if is_free { Vec::new() } else { vec![Grant::default(); view.vcpus.len()] },
        }
    }

    /// Whether any VM has a limit.
    pub fn has_limits(&self) -> bool {
        self.limits.iter().any(Option::is_some)
    }

    /// Whether any VM has a limit or a reservation.
    pub const fn any(&self) -> bool {
        !self.grants.is_empty()
    }

    /// When the first period is over; nothing when there is neither a limit nor a reservation.
    pub fn first_tick(&self) -> Option<Time> {
        let purses = self.limits.iter().zip(&self.reserved).zip(&self.ends);
        let counted = purses.filter(|((limit, reserved), _)| limit.is_some() || reserved.is_some());
        counted.map(|(_, end)| *end).min()
    }

    /// Whether it has something left of its limit.
    pub fn allows(&self, vm: VmId) -> bool {
        self.limits[vm.index()].is_none_or(|purse| purse.left > 0)
    }

    /// The time that all it is owed in this period takes, wherever; nothing when it is owed nothing.
    pub fn takes(&self, vm: VmId) -> Span {
        self.reserved[vm.index()].as_ref().map_or(Span::ZERO, Owed::takes)
    }

    /// How urgently it has to have what it is owed in this period, on this CPU and then anywhere: the time that all it is
    /// owed takes; nothing when it is owed nothing there.
    pub fn urgency(&self, vm: VmId, cpu: CpuId) -> (Span, Span) {
        let takes = self.takes(vm);
        (if self.is_owed_on(vm, cpu) { takes } else { Span::ZERO }, takes)
    }

    /// VMs that are owed something on this CPU in particular.
    pub fn owed_on(&self, cpu: CpuId) -> impl Iterator<Item = VmId> + '_ {
        self.owed_at.get(cpu.index()).into_iter().flatten().copied()
    }

    /// VMs that have a limit or a reservation.
    pub fn counted(&self) -> Vec<VmId> {
        let purses = self.limits.iter().zip(&self.reserved).zip((0u32..).map(VmId));
        purses.filter(|((limit, owed), _)| limit.is_some() || owed.is_some()).map(|(_, vm)| vm).collect()
    }

    fn is_owed_on(&self, vm: VmId, cpu: CpuId) -> bool {
        self.reserved[vm.index()].as_ref().is_some_and(|owed| !owed.on(cpu).is_zero())
    }

    /// What is left of its limit; for ever when it has none.
    pub fn left(&self, vm: VmId) -> Span {
        self.limits[vm.index()].map_or(Span::FOREVER, |purse| purse.left())
    }

    /// `vcpu` of `vm` is to run on `cpu` for at most `wanted`: so long it may, which is set aside.
    pub fn grant(&mut self, vcpu: VcpuId, vm: VmId, cpu: CpuId, wanted: Span) -> Span {
        let mut span = wanted.min(self.left(vm));
        let mut grant = Grant { cpu, ..Grant::default() };
        if let Some(owed) = &mut self.reserved[vm.index()]
            && !owed.on(cpu).is_zero()
        {
            span = span.min(owed.on(cpu));
            grant.reserved = span;
            owed.pay_on(cpu, span);
        }
        if let Some(purse) = &mut self.limits[vm.index()] {
            grant.limit = span;
            purse.pay(span);
        }
        if let Some(place) = self.grants.get_mut(vcpu.index()) {
            *place = grant;
        }
        span
    }

    /// It ran so long: out of what was set aside, and beyond that out of the purses.
    pub fn ran(&mut self, vcpu: VcpuId, vm: VmId, span: Span) {
        let beyond = |grant: &mut Span| {
            let rest = span.less(*grant);
            *grant = grant.less(span);
            rest
        };
        let Some(grant) = self.grants.get_mut(vcpu.index()) else { return };
        let (limit, reserved) = (beyond(&mut grant.limit), beyond(&mut grant.reserved));
        self.limits[vm.index()].iter_mut().for_each(|purse| purse.pay(limit));
        self.reserved[vm.index()].iter_mut().for_each(|owed| owed.pay(reserved));
    }

    /// It does not run any more: what is left of what was set aside goes back.
    pub fn back(&mut self, vcpu: VcpuId, vm: VmId) {
        let Some(grant) = self.grants.get_mut(vcpu.index()).map(std::mem::take) else { return };
        self.limits[vm.index()].iter_mut().for_each(|purse| purse.pay_back(grant.limit));
        self.reserved[vm.index()].iter_mut().for_each(|owed| owed.pay_back(grant.cpu, grant.reserved));
    }

    /// Whether it runs for what its VM is owed.
    pub fn serves(&self, vcpu: VcpuId) -> bool {
        self.grants.get(vcpu.index()).is_some_and(|grant| !grant.reserved.is_zero())
    }

    /// Whether who runs there runs neither for what is owed nor where it is owed something.
    fn is_ordinary(&self, cpu: CpuId, view: &View) -> bool {
        let running = view.cpus[cpu.index()].running;
        running.is_some_and(|other| !self.serves(other) && !self.is_owed_on(view.vm_of(other), cpu))
    }

    /// A CPU that `vcpu`, which waits and whose VM is owed something there, may take from somebody whose VM is not.
    pub fn evict(&self, vcpu: VcpuId, view: &View) -> Option<CpuId> {
        let vm = view.vm_of(vcpu);
        if self.reserved[vm.index()].is_none() || !self.allows(vm) {
            return None;
        }
        let mut may = view.affinity(vcpu).iter().map(CpuId);
        may.find(|cpu| self.is_owed_on(vm, *cpu) && self.is_ordinary(*cpu, view))
    }

    /// A VM's period is over. CPUs that should pick anew go into `again`; answers when the next one is over.
    pub fn renew(&mut self, view: &View, again: &mut Vec<CpuId>) -> Time {
        let purses = self.limits.iter_mut().zip(&mut self.reserved).zip(&mut self.ends);
        for ((limit, reserved), end) in purses.filter(|(_, end)| **end <= view.now) {
            limit.iter_mut().for_each(Purse::fill);
            reserved.iter_mut().for_each(Owed::fill);
            *end = *end + self.period;
        }
        let wanting = (0u32..).map(VmId).zip(&view.vms).filter(|(vm, _)| self.reserved[vm.index()].is_some());
        let mut wanting = wanting.filter(|(vm, _)| self.allows(*vm)).flat_map(|(_, vm)| vm.vcpus());
        let cpus = 0..u32::try_from(view.cpus.len()).unwrap_or(u32::MAX);
        let mut evicted: CpuSet = cpus.filter(|cpu| self.is_ordinary(CpuId(*cpu), view)).collect();
        again.extend(view.idle.iter().map(CpuId));
        while !evicted.is_empty() {
            let Some(vcpu) = wanting.find(|vcpu| view.vcpu(*vcpu).state == State::Ready) else { break };
            let vm = view.vm_of(vcpu);
            let cpu = evicted.common(view.affinity(vcpu)).map(CpuId).find(|cpu| self.is_owed_on(vm, *cpu));
            if let Some(cpu) = cpu {
                evicted.remove(cpu.0);
                again.push(cpu);
            }
        }
        self.first_tick().unwrap_or(Time::NEVER)
    }
}

/// The first period of somebody whose periods end at this moment and whole ones before and after it.
pub fn first_of(period: Span, phase: Span) -> Span {
    match phase.nanos() % period.nanos().max(1) {
        0 => period,
        cut => Span::from_nanos(cut),
    }
}

/// So many of `count` equal parts.
fn part(span: Span, parts: u64, count: u64) -> Span {
    let nanos = u128::from(span.nanos()) * u128::from(parts) / u128::from(count.max(1));
    Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
