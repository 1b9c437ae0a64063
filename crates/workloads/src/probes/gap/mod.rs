//! Gap probe: one pinned thread reads the cycle counter back to back; each difference of two reads is a gap. What
//! takes the CPU away (interrupts, other threads, the hypervisor) shows as a long gap. Source: Lourot's thesis, §2
//! of the methodology.

pub mod observe;
pub mod pace;
pub mod probe;
pub mod record;
