//! Interrupts that virtual CPUs of a guest send to each other and wait for: TLB shoot-downs.
//!
//! ```text
//!  sender ─ pays per interrupt ─► each other virtual CPU that has a thread ─ pays, acknowledges ─┐
//!     └─ spins until the last has ◄──────────────────────────────────────────────────────────────┘
//!        one that is preempted does so when it runs again; paravirtual: it is left out, and flushes its TLB then
//! ```
//! As `smp_call_function_many` waits in Linux (`kernel/smp.c`); paravirtual as `kvm_flush_tlb_others` since 4.16
//! (`arch/x86/kernel/kvm.c`), which leaves out all that the host has scheduled out. A virtual CPU without a thread has a lazy TLB and is
//! left out, too. Interrupts are taken while a thread spins or holds a lock: locks that switch them off are not simulated. Read,
//! not copied.

use super::super::interrupts::Interrupts;
use super::super::thread::{Bill, Doing};
use super::{Demand, Effects, Guest};
use crate::time::{Span, Time};

impl Guest {
    /// The thread on virtual CPU `index` begins a shoot-down; what it does then, at first.
    pub(super) fn shoot_down(&mut self, index: u32, now: Time, effects: &mut Effects) -> Doing {
        let count = self.others(index).count() as u64;
        let left = Span::from_nanos(self.costs.send.nanos().saturating_mul(count));
        if left.is_zero() {
            return self.send(index, now, effects);
        }
        Doing::Paying { left, bill: Bill::Send, lock: 0 }
    }

    /// Virtual CPUs that virtual CPU `index` has to interrupt.
    fn others(&self, index: u32) -> impl Iterator<Item = u32> + '_ {
        let is_asked = move |(other, cpu): &(u32, &super::GuestCpu)| {
            *other != index && cpu.current.get().is_some() && (cpu.runs || !self.costs.pv_flush)
        };
        (0u32..).zip(&self.cpus).filter(is_asked).map(|(other, _)| other)
    }

    /// Sends the interrupts of the thread on virtual CPU `index`; what it does then.
    pub(super) fn send(&mut self, index: u32, now: Time, effects: &mut Effects) -> Doing {
        let others: Vec<u32> = self.others(index).collect();
        let Some(number) = self.cpus[index as usize].current.get().filter(|_| !others.is_empty()) else {
            return Doing::Asking;
        };
        let (threads, cpus) = (self.threads.len(), self.cpus.len());
        let interrupts = self.interrupts.get_or_insert_with(|| Box::new(Interrupts::new(threads, cpus)));
        interrupts.send(number, &others);
        for other in others {
            self.rouse(other, now, effects);
        }
        Doing::Awaiting
    }

    /// Virtual CPU `index`, which runs, handles what it was interrupted for: how long that takes it, or it acknowledges.
    pub(super) fn interrupted(&mut self, index: u32, effects: &mut Effects) -> Option<Demand> {
        let senders = match self.interrupts.as_mut()?.look(index, self.costs.handle) {
            Ok(senders) => senders,
            Err(left) => return Some(Demand::Run(left)),
        };
        for sender in senders {
            let on = self.threads[sender as usize].on.get().filter(|on| self.cpus[*on as usize].runs);
            effects.pokes.extend(on.map(|on| self.vcpu(on)));
        }
        None
    }

    /// Thread `number` goes on if all have acknowledged.
    pub(super) fn awaits(&mut self, number: u32) -> Option<Demand> {
        if self.interrupts.as_ref().is_some_and(|interrupts| interrupts.is_waited_for_by(number)) {
            return Some(Demand::Run(Span::FOREVER));
        }
        self.threads[number as usize].doing = Doing::Asking;
        None
    }

    /// Whether virtual CPU `index` has spent this time on interrupts.
    pub(super) fn handles(&mut self, index: u32, span: Span) -> bool {
        if !self.interrupts.as_mut().is_some_and(|interrupts| interrupts.pass(index, span)) {
            return false;
        }
        if let Some(number) = self.cpus[index as usize].current.get() {
            let thread = &mut self.threads[number as usize];
            thread.cpu += span;
            thread.kernel += span;
        }
        true
    }
}
