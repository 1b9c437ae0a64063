//! Where slices begin and end: out of step from the beginning, and beyond their end for who holds a lock.
//!
//! ```text
//!  staggered  CPU 0 |B ─|A ────|B ────     timers of real CPUs are not in step: the first slice is cut
//!             CPU 1 |A ────|B ────|A ─
//!  grace      ──────────── end of the slice ─ lock given back: off now │ … or at the end of the grace
//! ```
//! Delayed preemption is from Uhlig and others, Towards Scalable Multiprocessor Virtual Machines (2004).

use std::collections::VecDeque;

use super::Machine;
use crate::host::view::{CpuId, VcpuId, VmId};
use crate::random::Stream;
use crate::time::{Span, Time};

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

#[cfg(test)]
mod tests {
    use crate::host::Limits;
    use crate::scenario::build;
    use crate::time::{Span, Time};
    use model::scenario::cases;

    #[test]
    fn cpus_are_out_of_step_and_vms_do_not_take_the_host_in_turns() {
        let text = r#"
name = "staggered"
[host]
cpus = 8
staggered = true
policy = { name = "equal-per-vm", quantum_us = 8000 }
[[vm]]
name = "A"
vcpus = 8
thread = [{ run = { program = "endless" } }]
[[vm]]
name = "B"
vcpus = 8
thread = [{ run = { program = "endless" } }]
"#;
        let scenario = cases(text, &[]).unwrap().remove(0).scenario;
        let mut machine = build(&scenario, 1);
        machine.keep_trace(10_000);
        let until = Time::ZERO + Span::from_secs(1);
        machine.run(&Limits { until, events: u64::MAX, when_done: false });
        let stretches = &machine.trace().stretches;
        let on = |cpu: u32, at: Time| {
            let there = stretches.iter().find(|stretch| stretch.cpu.0 == cpu && stretch.to > at);
            there.map(|stretch| stretch.vcpu)
        };
        let mut changes = 0;
        for cpu in 0..8u32 {
            let end = Time::ZERO + Span::from_millis(u64::from(cpu) + 1);
            let before = Time::from_nanos(end.nanos() - 1);
            assert_eq!(on(cpu, Time::ZERO), on(cpu, before), "nobody goes before his slice ends");
            changes += u32::from(on(cpu, before) != on(cpu, end));
        }
        assert!(changes >= 7, "{changes} of 8 CPUs change hands one after the other");
        // From the fair queue, which is paid when a turn is granted: about half of the CPUs at every moment.
        for at in (100..1000).map(|at| Time::ZERO + Span::from_millis(at) + Span::from_micros(500)) {
            let runs = stretches.iter().filter(|stretch| stretch.from <= at && at < stretch.to);
            let of_a = runs.filter(|stretch| stretch.vcpu.0 < 8).count();
            assert!((3..=5).contains(&of_a), "{of_a} of A at {at}");
        }
    }
}
