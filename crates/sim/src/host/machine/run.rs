//! Runs the machine: to the end, up to a moment, or event by event. Between events nothing changes, so who pauses there
//! and looks gets the same end, to the last byte, as who does not.
//!
//! ```text
//!  begin ─► event ─► event ─► … ─► end: the books are closed
//!                 └─ pause ─► state (computed, not kept) ─► go on
//! ```

use super::{Event, Limits, Machine, Stopped};
use crate::host::report::imbalance;
use crate::host::trace::Mode;
use crate::host::view::{Cpu, CpuId, State};
use crate::time::{Span, Time};
use model::host_state::{CpuState, HostState, VcpuPlace, VcpuState};
use units::Nanos;

/// Up to where a machine runs before it can be looked at: what comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// Everything up to this moment has happened, and nothing after it.
    pub at: Time,
    /// So many events have been handled since the beginning.
    pub events: u64,
}

impl Pause {
    /// None before the end.
    pub const NEVER: Self = Self { at: Time::NEVER, events: u64::MAX };
}

impl Machine {
    /// Runs to the end.
    pub fn run(&mut self, limits: &Limits) -> Stopped {
        loop {
            if let Some(stopped) = self.run_to(limits, Pause::NEVER) {
                return stopped;
            }
        }
    }

    /// Runs up to a pause, or until its brake is pulled, or to the end: then it answers why it ended, and again whenever it is called after that.
    pub fn run_to(&mut self, limits: &Limits, pause: Pause) -> Option<Stopped> {
        if !std::mem::replace(&mut self.begun, true) {
            self.begin();
        }
        while self.ended.is_none() {
            if self.brake.is_pulled() {
                return None;
            }
            if let Some(stopped) = self.end(limits, pause) {
                self.close();
                let wrong = imbalance(&self.view);
                self.ended = Some(wrong.map_or(stopped, Stopped::Broken));
            } else if self.is_at(pause) {
                return None;
            } else {
                self.step();
            }
        }
        self.ended.clone()
    }

    fn begin(&mut self) {
        self.policy.begin(&self.view);
        if let Some(at) = self.policy.first_tick() {
            self.queue.push(at, Event::Tick);
        }
        for guest in &self.guests {
            guest.begin(&mut self.effects);
        }
        self.stagger();
        self.settle();
        self.ask_for_extra_tick();
    }

    /// Why nothing more is to happen before `pause`.
    fn end(&mut self, limits: &Limits, pause: Pause) -> Option<Stopped> {
        if let Some(trouble) = self.trouble.take() {
            return Some(trouble);
        }
        if limits.when_done && self.unfinished == 0 {
            return Some(Stopped::Done);
        }
        match self.queue.next_at() {
            Some(at) if at <= limits.until => (self.events >= limits.events).then_some(Stopped::Events),
            _ if limits.until == Time::NEVER => Some(Stopped::Deadlock),
            _ if pause.at < limits.until => None,
            _ => {
                self.view.now = limits.until;
                let is_stuck = self.unfinished > 0 && self.is_dead();
                Some(if is_stuck { Stopped::Deadlock } else { Stopped::Time })
            }
        }
    }

    /// How many events were handled so far.
    pub const fn events(&self) -> u64 {
        self.events
    }

    fn is_at(&self, pause: Pause) -> bool {
        self.events >= pause.events || self.queue.next_at().is_none_or(|next| next > pause.at)
    }

    /// What the host looks like at `moment`, or at the last event if that is later: to be asked at a pause.
    pub fn state(&self, moment: Time) -> HostState {
        let at = if self.ended.is_some() { self.view.now } else { moment.max(self.view.now) };
        let cpus = (0u32..).zip(&self.view.cpus).map(|(number, cpu)| self.cpu_state(CpuId(number), cpu, at));
        let vcpus = self.view.vcpus.iter().map(|vcpu| {
            let span = at.since(vcpu.since);
            let of = |sum: Span, now: bool| Nanos::from(if now { sum + span } else { sum });
            VcpuState {
                place: match vcpu.state {
                    State::Running(cpu) => VcpuPlace::On(cpu.0),
                    State::Ready => VcpuPlace::Waits(span.into()),
                    State::Halted => VcpuPlace::Halted(span.into()),
                },
                run_ns: of(vcpu.run, matches!(vcpu.state, State::Running(_))),
                steal_ns: of(vcpu.steal, vcpu.state == State::Ready),
                halted_ns: of(vcpu.halted, vcpu.state == State::Halted),
                dispatches: vcpu.dispatches,
            }
        });
        HostState {
            at_ns: at.since(Time::ZERO).into(),
            events: self.events,
            next_ns: self.queue.next_at().map(|next| next.since(Time::ZERO).into()),
            cpus: cpus.collect(),
            vcpus: vcpus.collect(),
        }
    }

    fn cpu_state(&self, number: CpuId, cpu: &Cpu, at: Time) -> CpuState {
        let seat = &self.seats[number.index()];
        let span = at.since(cpu.since);
        let switching = seat.there.min(at).since(cpu.since);
        let (run, switching, idle) = match cpu.running {
            Some(_) => (span - switching, switching, Span::ZERO),
            None => (Span::ZERO, Span::ZERO, span),
        };
        let mode = |(vm, index): (crate::host::VmId, u32)| match self.guests[vm.index()].mode(index) {
            _ if at < seat.there => Mode::Switch,
            mode => mode,
        };
        let running = cpu.running.zip(self.guest_on(number).map(mode));
        CpuState {
            running: running.map(|(vcpu, mode)| (vcpu.0, mode.into())),
            until_ns: (cpu.running.is_some() && seat.until < Time::NEVER)
                .then(|| seat.until.since(Time::ZERO).into()),
            run_ns: (cpu.run + run).into(),
            switching_ns: (cpu.switching + switching).into(),
            idle_ns: (cpu.idle + idle).into(),
        }
    }
}
