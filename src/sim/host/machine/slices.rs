//! Where slices begin and end: out of step from the beginning, and beyond their end for who holds a lock.
//!
//! ```text
//!  staggered  CPU 0 |B ─|A ────|B ────     timers of real CPUs are not in step: the first slice is cut
//!             CPU 1 |A ────|B ────|A ─
//!  grace      ──────────── end of the slice ─ lock given back: off now │ … or at the end of the grace
//! ```
//! Delayed preemption is from Uhlig, LeVasseur, Skoglund, Dannowski (2004).

use std::collections::VecDeque;

use super::Machine;
use crate::sim::host::view::{CpuId, VcpuId, VmId};
use crate::sim::random::Stream;
use crate::sim::time::{Span, Time};

/// Every order is as likely (Fisher and Yates).
fn shuffle(pokes: &mut VecDeque<VcpuId>, random: &mut Stream) {
    for end in (1..pokes.len()).rev() {
        let other = usize::try_from(random.below(end as u64 + 1)).unwrap_or(end);
        pokes.swap(end, other);
    }
}

impl Machine {
    /// Lets virtual CPUs come up in random order where CPUs are not in step.
    pub(super) fn stagger(&mut self) {
        if let Some(seed) = self.habits.staggered {
            shuffle(&mut self.effects.pokes, &mut Stream::new(seed, &[3]));
        }
    }

    /// The end of a slice, which the first one on a CPU reaches earlier where CPUs are not in step.
    pub(super) fn first_end(&self, cpu: CpuId, until: Time) -> Time {
        let is_first = self.view.cpus[cpu.index()].last.is_none();
        if self.habits.staggered.is_none() || !is_first || until == Time::NEVER {
            return until;
        }
        let length = u128::from(until.since(self.view.now).nanos());
        let part = length * (u128::from(cpu.0) + 1) / self.view.cpus.len().max(1) as u128;
        self.view.now + Span::from_nanos(u64::try_from(part).unwrap_or(u64::MAX))
    }

    /// Who holds a lock when its time is up may be left on, once.
    pub(super) fn grace(&mut self, cpu: CpuId) -> bool {
        let Some((vm, index)) = self.guest_on(cpu) else { return false };
        let seat = &mut self.seats[cpu.index()];
        if self.habits.grace.is_zero() || seat.graced || !self.guests[vm.index()].holds_lock(index) {
            return false;
        }
        seat.graced = true;
        seat.until = self.view.now + self.habits.grace;
        true
    }

    /// Whether who was left on beyond its slice has given its locks back.
    pub(super) fn is_let_go(&self, cpu: CpuId) -> bool {
        let holds = |(vm, index): (VmId, u32)| self.guests[vm.index()].holds_lock(index);
        self.seats[cpu.index()].graced && !self.guest_on(cpu).is_some_and(holds)
    }
}
