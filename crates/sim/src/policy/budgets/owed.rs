//! What a VM that reserves CPU time is still owed in its period: on whichever CPU it runs, or CPU by CPU where not all VMs
//! may use the same ones.

use std::collections::BTreeSet;

use super::Purse;
use crate::host::{CpuId, View, Vm, VmId};
use crate::time::Span;
use model::scenario::reserved::{Allotment, ReservedDemand, allot, billionths};

/// What a VM is owed.
#[derive(Debug, Clone)]
pub(super) struct Owed {
    place: Place,
    /// CPUs that it can use at once.
    width: u64,
}

#[derive(Debug, Clone)]
enum Place {
    Anywhere(Purse),
    /// Ascending.
    At(Vec<(CpuId, Purse)>),
}

/// What each VM is owed; the first period is cut to these spans.
pub(super) fn of(view: &View, period: Span, firsts: &[Span]) -> Vec<Option<Owed>> {
    let first = view.vcpus.first().map(|vcpu| vcpu.affinity);
    let are_free = view.vcpus.iter().all(|vcpu| Some(vcpu.affinity) == first);
    let demand = |vm: &Vm| ReservedDemand {
        cpus: vm.vcpus().flat_map(|vcpu| view.affinity(vcpu).iter()).collect::<BTreeSet<u32>>(),
        billionths: billionths(vm.reserved_cpus),
    };
    let reserves = || view.vms.iter().filter(|vm| vm.reserved_cpus > 0.0);
    // What is impossible is refused before it is simulated; served wherever there is room it is as far as can be.
    let given =
        if are_free { Err(()) } else { allot(&reserves().map(demand).collect::<Vec<_>>()).map_err(|_| ()) };
    let mut given = given.ok().map(Vec::into_iter);
    let owed = |(vm, first): (&Vm, &Span)| {
        if vm.reserved_cpus <= 0.0 {
            return None;
        }
        let place = match given.as_mut().and_then(Iterator::next) {
            Some(allotment) => at(&allotment, period, *first),
            None => Place::Anywhere(Purse::new(vm.reserved_cpus, period, *first)),
        };
        Some(Owed { place, width: u64::from(vm.count).min(view.cpus.len() as u64).max(1) })
    };
    view.vms.iter().zip(firsts).map(owed).collect()
}

/// By CPU, who is owed something there in particular; nothing where nobody is.
pub(super) fn at_each(reserved: &[Option<Owed>], view: &View) -> Vec<Vec<VmId>> {
    let mut each = Vec::new();
    for (owed, vm) in reserved.iter().zip((0u32..).map(VmId)) {
        if let Some(Owed { place: Place::At(purses), .. }) = owed {
            each.resize(view.cpus.len(), Vec::new());
            for (cpu, _) in purses {
                each[cpu.index()].push(vm);
            }
        }
    }
    each
}

fn at(allotment: &Allotment, period: Span, first: Span) -> Place {
    let purse = |(cpu, part): (&u32, &u64)| (CpuId(*cpu), Purse::new(*part as f64 / 1e9, period, first));
    Place::At(allotment.iter().map(purse).collect())
}

impl Owed {
    /// So much on this CPU.
    pub(super) fn on(&self, cpu: CpuId) -> Span {
        match &self.place {
            Place::Anywhere(purse) => purse.left(),
            Place::At(purses) => find(purses, cpu).map_or(Span::ZERO, |at| purses[at].1.left()),
        }
    }

    /// The time that all of it takes at least: it has so many virtual CPUs, and each CPU gives what it has to give.
    pub(super) fn takes(&self) -> Span {
        let (all, most) = match &self.place {
            Place::Anywhere(purse) => (purse.left(), Span::ZERO),
            Place::At(purses) => purses.iter().fold((Span::ZERO, Span::ZERO), |(all, most), (_, purse)| {
                (all + purse.left(), most.max(purse.left()))
            }),
        };
        most.max(Span::from_nanos(all.nanos() / self.width))
    }

    /// So much of what it is owed there is set aside.
    pub(super) fn pay_on(&mut self, cpu: CpuId, span: Span) {
        self.purse(cpu).into_iter().for_each(|purse| purse.pay_what_is_there(span));
    }

    /// It had so much besides: of what it is owed, that is less, first where that is most.
    pub(super) fn pay(&mut self, mut span: Span) {
        match &mut self.place {
            Place::Anywhere(purse) => purse.pay_what_is_there(span),
            Place::At(purses) => {
                while let Some((_, purse)) = purses.iter_mut().max_by_key(|(_, purse)| purse.left()) {
                    let part = span.min(purse.left());
                    if part.is_zero() {
                        break;
                    }
                    purse.pay_what_is_there(part);
                    span = span.less(part);
                }
            }
        }
    }

    /// What was set aside there comes back.
    pub(super) fn pay_back(&mut self, cpu: CpuId, span: Span) {
        self.purse(cpu).into_iter().for_each(|purse| purse.pay_back(span));
    }

    /// A new period.
    pub(super) fn fill(&mut self) {
        match &mut self.place {
            Place::Anywhere(purse) => purse.fill(),
            Place::At(purses) => purses.iter_mut().for_each(|(_, purse)| purse.fill()),
        }
    }

    fn purse(&mut self, cpu: CpuId) -> Option<&mut Purse> {
        match &mut self.place {
            Place::Anywhere(purse) => Some(purse),
            Place::At(purses) => find(purses, cpu).map(|at| &mut purses[at].1),
        }
    }
}

fn find(purses: &[(CpuId, Purse)], cpu: CpuId) -> Option<usize> {
    purses.binary_search_by_key(&cpu, |(cpu, _)| *cpu).ok()
}
