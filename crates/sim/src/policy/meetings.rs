//! Which VMs can meet on a CPU: only those compete, so only their books are compared.

use std::collections::{BTreeMap, BTreeSet};

use crate::host::{CpuId, CpuSet, VcpuId, View};
use crate::time::{Span, Time};

/// Turns after which who waits comes first, where not all may use the same CPUs: a VM that has its share on one CPU could
/// otherwise starve on another.
const LONG: u64 = 50;

/// Where VMs may be: the different sets of CPUs, and which is whose; nothing where all may use the same CPUs.
#[derive(Debug, Clone, Default)]
pub struct Meetings {
    places: Vec<CpuSet>,
    place_of: Vec<usize>,
}

impl Meetings {
    /// Those of the VMs there are.
    pub fn new(view: &View) -> Self {
        let first = view.vcpus.first().map(|vcpu| vcpu.affinity);
        if view.vcpus.iter().all(|vcpu| Some(vcpu.affinity) == first) {
            return Self::default();
        }
        let mut numbers: BTreeMap<Vec<u32>, usize> = BTreeMap::new();
        let mut places = Vec::new();
        let place_of = view.vms.iter().map(|vm| {
            let sets: BTreeSet<u32> = vm.vcpus().map(|vcpu| view.vcpu(vcpu).affinity).collect();
            let cpus =
                sets.iter().filter_map(|set| view.affinities.get(*set as usize)).flat_map(CpuSet::iter);
            let place: CpuSet = cpus.collect();
            *numbers.entry(place.iter().collect()).or_insert_with(|| {
                places.push(place);
                places.len() - 1
            })
        });
        let place_of = place_of.collect();
        Self { places, place_of }
    }

    /// Whether all may use the same CPUs.
    pub const fn are_free(&self) -> bool {
        self.places.is_empty()
    }

    /// How many sets of CPUs there are.
    pub fn count(&self) -> usize {
        self.places.len().max(1)
    }

    /// The number of a VM's set of CPUs.
    pub fn place_of(&self, vm: usize) -> usize {
        self.place_of.get(vm).copied().unwrap_or(0)
    }

    /// Numbers of the sets whose VMs a VM can meet.
    pub fn near(&self, vm: usize) -> impl Iterator<Item = usize> + '_ {
        let own = self.places.get(self.place_of(vm));
        let meets = move |at: &usize| match (own, self.places.get(*at)) {
            (Some(own), Some(other)) => own.first_common(other).is_some(),
            _ => true,
        };
        (0..self.count()).filter(meets)
    }

    /// Numbers of the sets that a CPU is in.
    pub fn on(&self, cpu: CpuId) -> impl Iterator<Item = usize> + '_ {
        (0..self.count()).filter(move |at| self.places.get(*at).is_none_or(|place| place.contains(cpu.0)))
    }

    /// Whether who has waited since then has waited for very many turns of this length: he starves, where not all may use
    /// the same CPUs.
    pub fn is_long(&self, since: Time, turn: Span, view: &View) -> bool {
        !self.are_free() && view.now.since(since) >= Span::from_nanos(turn.nanos().saturating_mul(LONG))
    }
}

/// An idle CPU for one that has just left its own: another than that, if somebody else waits for it there.
pub fn place_after(vcpu: VcpuId, view: &View) -> Option<CpuId> {
    let last = view.vcpu(vcpu).last_cpu();
    let other = view.idle.common(view.affinity(vcpu)).map(CpuId).find(|cpu| Some(*cpu) != last);
    // It is ready itself.
    let waits = |at: CpuId| view.ready_on(at) > u32::from(view.may_run(vcpu, at));
    other.filter(|_| last.is_some_and(waits)).or_else(|| view.idle_cpu_for(vcpu))
}
