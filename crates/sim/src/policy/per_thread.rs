//! Equal per thread: every virtual CPU that wants to run counts the same, so a VM gets in proportion to how many it has.
//!
//! Source: what a host does whose scheduler knows threads and no VMs (plain QEMU processes); closed form: its threads
//! over all threads.

use super::fair::Fair;
use crate::time::Span;

/// Equal per virtual CPU, with turns of this length.
pub const fn per_thread(quantum: Span) -> Fair {
    Fair::new(quantum, |_, vm| vm.weight * f64::from(vm.count))
}
