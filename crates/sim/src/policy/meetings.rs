//! Which VMs can meet on a CPU: only those compete, so only their books are compared.

use crate::host::{CpuId, CpuSet, State, VcpuId, View};
use crate::time::Span;

/// Turns after which who waits comes first, where not all may use the same CPUs: a VM that has its share on one CPU could
/// otherwise starve on another.
const LONG: u64 = 50;

/// Where each VM may be; nothing where all may use the same CPUs.
#[derive(Debug, Clone, Default)]
pub struct Meetings(Option<Vec<CpuSet>>);

impl Meetings {
    /// Those of the VMs there are.
    pub fn new(view: &View) -> Self {
        let first = view.vcpus.first().map(|vcpu| vcpu.affinity);
        if view.vcpus.iter().all(|vcpu| Some(vcpu.affinity) == first) {
            return Self(None);
        }
        let places = |vm: &crate::host::Vm| {
            let cpus = vm.vcpus().flat_map(|vcpu| view.affinity(vcpu).iter());
            cpus.collect::<CpuSet>()
        };
        Self(Some(view.vms.iter().map(places).collect()))
    }

    /// Whether all may use the same CPUs.
    pub const fn are_free(&self) -> bool {
        self.0.is_none()
    }

    /// Whether two VMs, by their numbers, can meet.
    pub fn meet(&self, one: usize, other: usize) -> bool {
        self.0.as_ref().is_none_or(|places| places[one].first_common(&places[other]).is_some())
    }

    /// Whether `vcpu` has waited for very many turns of this length.
    pub fn starves(&self, vcpu: VcpuId, turn: Span, view: &View) -> bool {
        let long = Span::from_nanos(turn.nanos().saturating_mul(LONG));
        !self.are_free() && view.now.since(view.vcpu(vcpu).since) >= long
    }

    /// Whether a VM, by its number, may use a CPU.
    pub fn may(&self, vm: usize, cpu: CpuId) -> bool {
        self.0.as_ref().is_none_or(|places| places[vm].contains(cpu.0))
    }
}

/// An idle CPU for one that has just left its own: another than that, if somebody else waits for it there.
pub fn place_after(vcpu: VcpuId, view: &View) -> Option<CpuId> {
    let last = view.vcpu(vcpu).last_cpu();
    let other = view.idle.iter().map(CpuId).find(|cpu| Some(*cpu) != last && view.may_run(vcpu, *cpu));
    let waits = |at: CpuId| {
        let mut others = (0u32..).map(VcpuId).zip(&view.vcpus);
        others.any(|(other, it)| other != vcpu && it.state == State::Ready && view.may_run(other, at))
    };
    other.filter(|_| last.is_some_and(waits)).or_else(|| view.idle_cpu_for(vcpu))
}
