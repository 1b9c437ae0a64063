//! What a guest's locks and interrupts cost, besides the waiting.

use crate::time::Span;

/// What locks and interrupts cost a guest; nothing by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GuestCosts {
    /// CPU time to halt and come back.
    pub halt: Span,
    /// CPU time of who wakes one that has halted.
    pub kick: Span,
    /// From then until that one wants a CPU.
    pub wake: Span,
    /// CPU time of telling the host.
    pub exit: Span,
    /// So many times longer a virtual CPU spins before it tells the host anew; 0 and 1: as long.
    pub exit_growth: u32,
    /// Time of a cache line from one CPU to another.
    pub line: Span,
    /// CPU time of an interrupt for who sends it.
    pub send: Span,
    /// CPU time of an interrupt for who gets it.
    pub handle: Span,
    /// Whether who is preempted is not interrupted: it flushes its TLB when it runs again.
    pub pv_flush: bool,
}
