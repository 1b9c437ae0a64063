//! Limits of VMs where each CPU has its own queue: who may not run is set aside, and comes back when its VM may. So that one
//! virtual CPU does not take all of a period's time at once, each is given its part of it at a time, as in Xen's credit2.

use crate::host::{CpuId, VcpuId, View, Vm, VmId};
use crate::policy::budgets::Budgets;
use crate::time::{Span, Time};

/// The least that is given at a time.
const LEAST: Span = Span::from_micros(500);

/// The limits, and who is set aside.
#[derive(Debug, Clone, Default)]
pub struct Caps {
    budgets: Option<Budgets>,
    /// By VM.
    parked: Vec<Vec<VcpuId>>,
    /// By VM, what is given at a time.
    parts: Vec<Span>,
}

impl Caps {
    /// Those of the VMs there are, per period.
    pub fn new(period: Span, view: &View) -> Self {
        let budgets = Some(Budgets::in_step(period, view)).filter(Budgets::has_limits);
        let parked = if budgets.is_some() { vec![Vec::new(); view.vms.len()] } else { Vec::new() };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a period")]
        let part = |vm: &Vm| {
            let all = vm.limit_cpus.unwrap_or(f64::INFINITY) * period.as_f64();
            Span::from_nanos((all / f64::from(vm.count.max(1))) as u64).max(LEAST)
        };
        Self { budgets, parked, parts: view.vms.iter().map(part).collect() }
    }

    /// Whether any VM has a limit.
    pub const fn any(&self) -> bool {
        self.budgets.is_some()
    }

    /// When the first period is over.
    pub fn first_tick(&self) -> Option<Time> {
        self.budgets.as_ref().and_then(Budgets::first_tick)
    }

    /// Sets `vcpu` aside if its VM may not run; whether it did.
    pub fn parks(&mut self, vcpu: VcpuId, vm: VmId) -> bool {
        let parks = self.budgets.as_ref().is_some_and(|budgets| !budgets.allows(vm));
        if parks && let Some(parked) = self.parked.get_mut(vm.index()) {
            parked.push(vcpu);
        }
        parks
    }

    /// Somebody who is set aside runs by another's choice; whether he was.
    pub fn take(&mut self, vcpu: VcpuId, vm: VmId) -> bool {
        let Some(parked) = self.parked.get_mut(vm.index()) else { return false };
        let before = parked.len();
        parked.retain(|other| *other != vcpu);
        parked.len() < before
    }

    /// `vcpu` is to run on `cpu` for at most `wanted`: so long it may.
    pub fn grant(&mut self, vcpu: VcpuId, vm: VmId, cpu: CpuId, wanted: Span) -> Span {
        let Some(budgets) = &mut self.budgets else { return wanted };
        let part = self.parts.get(vm.index()).copied().unwrap_or(wanted);
        budgets.grant(vcpu, vm, cpu, wanted.min(part))
    }

    /// It ran so long.
    pub fn ran(&mut self, vcpu: VcpuId, vm: VmId, span: Span) {
        self.budgets.iter_mut().for_each(|budgets| budgets.ran(vcpu, vm, span));
    }

    /// It does not run any more. Answers who may run again, who waits longest first.
    pub fn back(&mut self, vcpu: VcpuId, vm: VmId, view: &View) -> Vec<VcpuId> {
        let Some(budgets) = &mut self.budgets else { return Vec::new() };
        budgets.back(vcpu, vm);
        if budgets.allows(vm) {
            in_turn(self.parked.get_mut(vm.index()).map(std::mem::take).unwrap_or_default(), view)
        } else {
            Vec::new()
        }
    }

    /// A period is over: who may run again, who waits longest first, and when the next one is over.
    pub fn renew(&mut self, view: &View) -> (Vec<VcpuId>, Time) {
        let Some(budgets) = &mut self.budgets else { return (Vec::new(), Time::NEVER) };
        let next = budgets.renew(view, &mut Vec::new());
        let mut free = Vec::new();
        for (parked, vm) in self.parked.iter_mut().zip((0u32..).map(VmId)) {
            if budgets.allows(vm) {
                free.append(parked);
            }
        }
        (in_turn(free, view), next)
    }
}

/// A limit may not last for all virtual CPUs of a VM, and who is bound to one CPU must not come last each time.
fn in_turn(mut free: Vec<VcpuId>, view: &View) -> Vec<VcpuId> {
    free.sort_by_key(|vcpu| (view.vcpu(*vcpu).since, *vcpu));
    free
}
