//! Proportional to need: a VM counts as many times as it can use CPUs at once, min(virtual CPUs, CPUs).
//!
//! Source: Lourot's thesis (2010), which found it on `ESXi`: 4 of 8 units beside three VMs that want all give 14.3 %.

use super::fair::Fair;
use crate::host::{View, Vm};
use crate::time::Span;

/// Proportional to need, with turns of this length.
pub const fn proportional(quantum: Span) -> Fair {
    Fair::new(quantum, weight)
}

fn weight(view: &View, vm: &Vm) -> f64 {
    let cpus = u32::try_from(view.cpus.len()).unwrap_or(u32::MAX);
    vm.weight * f64::from(vm.count.min(cpus))
}
