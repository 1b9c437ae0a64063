//! Equal per thread: every virtual CPU that wants to run counts the same, so a VM gets in proportion to how many it has.
//!
//! Source: what a host does whose scheduler knows threads and no VMs (plain QEMU processes); closed form: its threads over all threads.

use super::equal_per_vm::fair_policy;
use super::fair_queue::FairQueue;
use super::{Pick, Policy, Why};
use crate::sim::host::{CpuId, VcpuId, View};
use crate::sim::time::{Span, Time};

fair_policy!(
    /// The policy.
    PerThread,
    |_: &View, vm: &crate::sim::host::Vm| vm.weight * f64::from(vm.count)
);
