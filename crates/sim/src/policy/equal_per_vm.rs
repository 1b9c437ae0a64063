//! Equal per VM: every VM gets the same CPU time as long as it can use it, whatever it has of virtual CPUs; what one does
//! not need goes to the others. With weights, in proportion to them. Limits and reservations are honoured.
//!
//! Source: the model of a fair hypervisor in Lourot's thesis (2010), chapter on CPU sharing; VMs in CPU groups of equal
//! weight behave so.

use super::fair::Fair;
use crate::time::Span;

/// Equal per VM, with turns of this length.
pub const fn equal_per_vm(quantum: Span) -> Fair {
    Fair::new(quantum, |_, vm| vm.weight)
}
