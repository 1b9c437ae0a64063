//! Proportional to need: a VM counts as many times as it can use CPUs at once, min(virtual CPUs, CPUs).
//!
//! Source: Lourot's thesis (2010), which found it on `ESXi`: 4 of 8 units beside three VMs that want all give 14.3 %.

use super::equal_per_vm::fair_policy;
use super::fair_queue::FairQueue;
use super::{Pick, Policy, Why};
use crate::sim::host::{CpuId, VcpuId, View};
use crate::sim::time::{Span, Time};

fair_policy!(
    /// The policy.
    Proportional,
    |view: &View, vm: &crate::sim::host::Vm| {
        let cpus = u32::try_from(view.cpus.len()).unwrap_or(u32::MAX);
        vm.weight * f64::from(vm.count.min(cpus))
    }
);
