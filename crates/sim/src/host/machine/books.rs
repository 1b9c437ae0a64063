//! The machine's books: who had how much of which CPU, exactly.

use super::Machine;
use crate::host::trace::{Mode, Stretch};
use crate::host::view::{CpuId, State};

impl Machine {
    /// Tells the guest on `cpu` how far it has come.
    pub(super) fn progress(&mut self, cpu: CpuId) {
        let now = self.view.now;
        let Some((vm, index)) = self.guest_on(cpu) else { return };
        let Some(vcpu) = self.view.cpus[cpu.index()].running else { return };
        let seat = &mut self.seats[cpu.index()];
        let there = seat.there.min(now);
        if seat.switching < there {
            let from = std::mem::replace(&mut seat.switching, there);
            self.trace.add(Stretch { cpu, vcpu, from, to: there, mode: Mode::Switch });
        }
        if now <= seat.told {
            return;
        }
        let from = std::mem::replace(&mut seat.told, now);
        let work = self.work(cpu, vcpu, now.since(from));
        let guest = &mut self.guests[vm.index()];
        self.trace.add(Stretch { cpu, vcpu, from, to: now, mode: guest.mode(index) });
        guest.progress(index, now.since(from), work);
    }

    /// Brings the books of `cpu` and of who runs there up to date.
    pub(super) fn charge(&mut self, cpu: CpuId) {
        let now = self.view.now;
        self.progress(cpu);
        let place = &mut self.view.cpus[cpu.index()];
        let span = now.since(place.since);
        let from = std::mem::replace(&mut place.since, now);
        let Some(vcpu) = place.running else {
            place.idle += span;
            return;
        };
        let began = self.view.vcpus[vcpu.index()].since;
        let there = self.seats[cpu.index()].there.min(now);
        let switching = there.since(from);
        place.switching += switching;
        place.run += span - switching;
        let it = &mut self.view.vcpus[vcpu.index()];
        it.run += now.since(began);
        it.since = now;
        self.policy.ran(vcpu, cpu, span, &self.view);
    }

    /// Closes all books at the end.
    pub(super) fn close(&mut self) {
        let now = self.view.now;
        for (cpu, _) in (0..).zip(0..self.view.cpus.len()) {
            self.charge(CpuId(cpu));
        }
        for vcpu in &mut self.view.vcpus {
            let span = now.since(vcpu.since);
            match vcpu.state {
                State::Halted => vcpu.halted += span,
                State::Ready => vcpu.steal += span,
                State::Running(_) => {}
            }
            vcpu.since = now;
        }
    }
}
