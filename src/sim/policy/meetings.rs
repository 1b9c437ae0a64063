//! Which VMs can meet on a CPU: only those compete, so only their books are compared.

use crate::sim::host::{CpuId, CpuSet, View};

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
        let places = |vm: &crate::sim::host::Vm| {
            let cpus = vm.vcpus().flat_map(|vcpu| view.affinity(vcpu).iter());
            cpus.collect::<CpuSet>()
        };
        Self(Some(view.vms.iter().map(places).collect()))
    }

    /// Whether two VMs, by their numbers, can meet.
    pub fn meet(&self, one: usize, other: usize) -> bool {
        self.0.as_ref().is_none_or(|places| places[one].first_common(&places[other]).is_some())
    }

    /// Whether a VM, by its number, may use a CPU.
    pub fn may(&self, vm: usize, cpu: CpuId) -> bool {
        self.0.as_ref().is_none_or(|places| places[vm].contains(cpu.0))
    }
}
