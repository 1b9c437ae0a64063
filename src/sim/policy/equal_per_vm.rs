//! Equal per VM: every VM gets the same CPU time as long as it can use it, whatever it has of virtual CPUs; what one does
//! not need goes to the others. With weights, in proportion to them.
//!
//! Source: the model of a fair hypervisor in Lourot's thesis (2010), chapter on CPU sharing; VMs in CPU groups of equal
//! weight behave so.

use super::fair_queue::FairQueue;
use super::{Pick, Policy, Why};
use crate::sim::host::{CpuId, VcpuId, View};
use crate::sim::time::Span;

macro_rules! fair_policy {
    ($(#[$meta:meta])* $name:ident, $weight:expr) => {
        $(#[$meta])*
        #[derive(Debug, Clone)]
        pub struct $name {
            quantum: Span,
            queue: Option<FairQueue>,
        }

        impl $name {
            /// With turns of this length.
            pub const fn new(quantum: Span) -> Self {
                Self { quantum, queue: None }
            }
        }

        impl Policy for $name {
            fn begin(&mut self, view: &View) {
                let weight = |vm: usize| -> f64 { ($weight)(view, &view.vms[vm]) };
                self.queue = Some(FairQueue::new(self.quantum, view, weight));
            }

            fn ready(&mut self, vcpu: VcpuId, why: Why, view: &View) -> Option<CpuId> {
                self.queue.as_mut().and_then(|queue| queue.ready(vcpu, why, view))
            }

            fn take(&mut self, vcpu: VcpuId, view: &View) {
                if let Some(queue) = &mut self.queue {
                    queue.take(vcpu, view);
                }
            }

            fn pick(&mut self, cpu: CpuId, view: &View) -> Pick {
                self.queue.as_mut().map_or(Pick::Idle, |queue| queue.pick(cpu, view))
            }

            fn ran(&mut self, vcpu: VcpuId, _cpu: CpuId, span: Span, view: &View) {
                if let Some(queue) = &mut self.queue {
                    queue.ran(vcpu, span, view);
                }
            }

            fn halted(&mut self, vcpu: VcpuId, view: &View) {
                if let Some(queue) = &mut self.queue {
                    queue.pay_back(vcpu, view);
                }
            }

            fn slice(&self) -> Span {
                self.quantum
            }
        }
    };
}

pub(super) use fair_policy;

fair_policy!(
    /// The policy.
    EqualPerVm,
    |_: &View, vm: &crate::sim::host::Vm| vm.weight
);
