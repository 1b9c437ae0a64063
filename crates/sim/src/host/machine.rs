//! The machine: runs guests on the host's CPUs as the policy says, event by event.
//!
//! ```text
//!  event ─► progress (who ran, how far) ─► attend (what does the guest want now?) ─┬─► goes on: next event at its end
//!                                                                                  ├─► halts ───────┐
//!                                                                                  ├─► helps ───────┤ CPU is free
//!                                                            time is up ───────────┴─► preempted ───┴─► pick anew
//! ```
//! What one guest does to another (wake it, hand it a lock) is collected and done before time goes on, in the order in
//! which it came up. So a simulation is a function of its parts and their seeds, nothing else.

mod books;
mod migration;
mod run;
mod slices;
mod speeds;

pub use migration::Migration;
pub use run::Pause;
pub use speeds::{Done, Memory, Sharing, Speeds, of_vm};

use std::collections::VecDeque;

use super::cpus::CpuSet;
use super::report::{HostReport, idle_for_nothing};
use super::trace::Trace;
use super::view::{Cpu, CpuId, State, Vcpu, VcpuId, View, Vm, VmId};
use crate::brake::Brake;
use crate::guest::{Demand, Effects, Guest};
use crate::packed::Packed;
use crate::policy::{Pick, Policy, Why};
use crate::queue::Queue;
use crate::time::{Span, Time};

/// Pokes and picks at one moment after which something goes round in circles.
const MOST_AT_ONCE: u64 = 10_000_000;

/// When a simulation ends.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// At this moment at the latest.
    pub until: Time,
    /// After so many events at the latest.
    pub events: u64,
    /// As soon as every program that has an end has reached it.
    pub when_done: bool,
}

/// Why a simulation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    /// Every program that has an end has reached it.
    Done,
    /// The stated time is over.
    Time,
    /// The stated number of events is used up.
    Events,
    /// Nothing will ever happen again, or threads wait for each other's locks, and somebody still waits.
    Deadlock,
    /// A program or a policy goes round in circles without time going on.
    Circles,
    /// The books do not balance or a CPU idled for nothing: a defect of the simulator, in words.
    Broken(String),
}

/// What every host has besides its CPUs and its policy.
#[derive(Debug, Clone, Copy, Default)]
pub struct Habits {
    /// What it takes to bring another virtual CPU onto a CPU than the one that ran there last.
    pub switch: Span,
    /// Whether who spins in vain is replaced, by who was preempted in its kernel first (true) or by anyone (false).
    pub help: Option<bool>,
    /// Who holds a lock at the end of its slice is left on until it has given it back, for so long at most.
    pub grace: Span,
    /// CPUs are not in step: virtual CPUs come up in the random order of this seed, and the first slice on CPU i of n is
    /// cut to (i + 1)/n of its length.
    pub staggered: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Cpu(CpuId, u32),
    Guest(VmId, u32),
    Tick,
    /// The policy's clock, out of its rhythm.
    ExtraTick,
}

/// What the machine knows of a CPU that the policy need not.
#[derive(Debug, Clone, Copy, Default)]
struct Seat {
    /// Events with another stamp are stale.
    stamp: u32,
    /// When whoever runs must go.
    until: Time,
    /// Up to when its guest knows that it ran; later than now while it is being brought on.
    told: Time,
    /// When it is brought on.
    there: Time,
    /// Since when it is being brought on, as far as that is not in the trace yet.
    switching: Time,
    /// Whether it was left on beyond its slice.
    graced: bool,
}

/// A host with its guests.
pub struct Machine {
    view: View,
    seats: Vec<Seat>,
    policy: Box<dyn Policy>,
    guests: Vec<Guest>,
    habits: Habits,
    migration: Migration,
    queue: Queue<Event>,
    effects: Effects,
    /// CPUs that are to pick anew.
    again: VecDeque<CpuId>,
    trace: Trace,
    events: u64,
    unfinished: u32,
    trouble: Option<Stopped>,
    begun: bool,
    ended: Option<Stopped>,
    brake: Brake,
    checks: bool,
    /// Where CPUs slow each other.
    speeds: Option<Box<Speeds>>,
}

/// Hosts with a million virtual CPUs are to fit into the memory of small machines.
const _: () = assert!(Machine::BYTES_PER_VCPU <= 176, "a virtual CPU takes too many bytes");

impl Machine {
    /// What is kept for a virtual CPU, its books and the one thread on it included, the thread's program and what the
    /// policy notes left out.
    pub const BYTES_PER_VCPU: usize = size_of::<Vcpu>() + Guest::BYTES_PER_VCPU;

    /// A host of so many CPUs, VM by VM with its guest; `affinities` has the sets of CPUs that `affinity_of` names per
    /// virtual CPU.
    pub fn new(
        cpus: u32,
        vms: Vec<Vm>,
        affinities: Vec<CpuSet>,
        affinity_of: &[u32],
        guests: Vec<Guest>,
        policy: Box<dyn Policy>,
        habits: Habits,
    ) -> Self {
        let owners = vms.iter().zip(0u32..).flat_map(|(vm, number)| vm.vcpus().map(move |_| VmId(number)));
        let vcpus = owners.zip(affinity_of).map(|(vm, affinity)| Vcpu {
            vm,
            state: State::Halted,
            since: Time::ZERO,
            last: Packed::NONE,
            in_kernel: false,
            affinity: *affinity,
            run: Span::ZERO,
            steal: Span::ZERO,
            halted: Span::ZERO,
            dispatches: 0,
        });
        let view = View {
            now: Time::ZERO,
            cpus: vec![Cpu::default(); cpus as usize],
            vcpus: vcpus.collect(),
            vms,
            ready: vec![0; affinities.len()],
            affinities,
            idle: CpuSet::first(cpus),
            smt: 1,
            in_step: habits.staggered.is_none(),
        };
        let unfinished = guests.iter().map(Guest::unfinished).sum();
        Self {
            view,
            seats: vec![Seat::default(); cpus as usize],
            policy,
            guests,
            habits,
            migration: Migration::default(),
            queue: Queue::default(),
            effects: Effects::default(),
            again: VecDeque::new(),
            trace: Trace::default(),
            events: 0,
            unfinished,
            trouble: None,
            begun: false,
            ended: None,
            brake: Brake::default(),
            checks: cfg!(debug_assertions),
            speeds: None,
        }
    }

    /// Keeps the first so many stretches of who ran where.
    pub fn keep_trace(&mut self, stretches: usize) {
        self.trace = Trace::new(stretches);
    }

    /// Stops when this brake is pulled, in the middle of a moment too: it does not go on from there.
    pub fn stop_with(&mut self, brake: &Brake) {
        self.brake = brake.clone();
    }

    /// Checks after every event that no CPU idles for nothing; debug builds always do.
    pub const fn check_everything(&mut self) {
        self.checks = true;
    }

    /// Whether nothing will happen any more.
    fn is_dead(&self) -> bool {
        self.queue.is_empty() && self.view.cpus.iter().all(|cpu| cpu.running.is_none())
    }

    fn all_halted(&self) -> bool {
        self.view.vcpus.iter().all(|vcpu| vcpu.state == State::Halted)
    }

    fn step(&mut self) {
        let Some((at, event)) = self.queue.pop() else { return };
        self.view.now = at;
        match event {
            Event::Cpu(cpu, stamp) if self.seats[cpu.index()].stamp == stamp => {
                self.events += 1;
                self.look(cpu);
            }
            Event::Cpu(..) => return,
            Event::Guest(vm, token) => {
                self.events += 1;
                self.guests[vm.index()].timer(token, &mut self.effects);
            }
            // Nobody will ever want a CPU again: a clock that goes on would hide a deadlock.
            Event::Tick if self.is_dead() && self.all_halted() => return,
            Event::Tick => {
                self.events += 1;
                if let Some(at) = self.tick() {
                    // A clock that does not go on would hold up everything.
                    let after_now = self.view.now + Span::from_nanos(1);
                    self.queue.push(at.max(after_now), Event::Tick);
                }
            }
            Event::ExtraTick => {
                self.events += 1;
                self.tick();
            }
        }
        self.settle();
        self.ask_for_extra_tick();
        if self.checks && self.policy.is_work_conserving() {
            self.trouble = self.trouble.take().or_else(|| idle_for_nothing(&self.view).map(Stopped::Broken));
        }
    }

    /// The policy may want its clock to be looked at besides.
    fn ask_for_extra_tick(&mut self) {
        if let Some(at) = self.policy.extra_tick() {
            self.queue.push(at.max(self.view.now), Event::ExtraTick);
        }
    }

    /// The policy's clock: everybody's books are brought up to date first, where it wants that.
    fn tick(&mut self) -> Option<Time> {
        if self.policy.reads_all_books() {
            for (cpu, _) in (0..).zip(0..self.view.cpus.len()) {
                self.charge(CpuId(cpu));
            }
        }
        let mut again = Vec::new();
        let next = self.policy.tick(&self.view, &mut again);
        self.again.extend(again);
        next
    }

    /// Does everything that is to be done at this moment.
    fn settle(&mut self) {
        for _ in 0..MOST_AT_ONCE {
            if self.trouble.is_some() || self.brake.is_pulled() {
                return;
            }
            for (at, vm, token) in self.effects.timers.drain(..) {
                self.queue.push(at, Event::Guest(vm, token));
            }
            // First the CPUs: who is idle must be known before the next one looks for a place.
            if let Some(cpu) = self.again.pop_front() {
                self.pick(cpu);
            } else if let Some(vcpu) = self.effects.pokes.pop_front() {
                self.poke(vcpu);
            } else if !self.replan() {
                return;
            }
        }
        self.trouble = Some(Stopped::Circles);
    }

    /// A virtual CPU has something new to look at.
    fn poke(&mut self, vcpu: VcpuId) {
        match self.view.vcpu(vcpu).state {
            // It looks when it runs.
            State::Ready => {}
            State::Running(cpu) => self.look(cpu),
            State::Halted => {
                let now = self.view.now;
                let it = &mut self.view.vcpus[vcpu.index()];
                it.halted += now.since(it.since);
                it.since = now;
                self.view.turn(vcpu, State::Ready);
                let cpu = self.policy.ready(vcpu, Why::Woken, &self.view);
                self.again.extend(cpu);
            }
        }
    }

    /// Whoever runs on `cpu` is asked what it wants, and goes when its time is up.
    fn look(&mut self, cpu: CpuId) {
        self.progress(cpu);
        // It is still being brought on.
        if self.seats[cpu.index()].told > self.view.now && self.seats[cpu.index()].until > self.view.now {
            self.schedule(cpu, self.seats[cpu.index()].told);
            return;
        }
        let demand = self.ask(cpu);
        let time_is_up = self.seats[cpu.index()].until <= self.view.now || self.is_let_go(cpu);
        match demand {
            None => {}
            Some(Demand::Stuck) => self.trouble = Some(Stopped::Circles),
            Some(Demand::Deadlock) => self.trouble = Some(Stopped::Deadlock),
            Some(Demand::Halt) => self.off(cpu, None),
            Some(Demand::Help) => self.help(cpu),
            Some(Demand::Run(_)) if time_is_up && !self.grace(cpu) => self.off(cpu, Some(Why::Preempted)),
            Some(Demand::Run(span)) => self.schedule(cpu, self.view.now + span),
        }
    }

    /// What the guest on `cpu` wants.
    fn ask(&mut self, cpu: CpuId) -> Option<Demand> {
        let (vm, index) = self.guest_on(cpu)?;
        let speed = self.speed(cpu);
        let guest = &mut self.guests[vm.index()];
        let before = guest.unfinished();
        let demand = guest.attend(index, self.view.now, speed, &mut self.effects);
        self.unfinished -= before - guest.unfinished();
        self.touch(cpu);
        Some(demand)
    }

    /// Whether the guest on `cpu` is done with what it was at: that is over, even for who makes room at this moment.
    fn is_worked_off(&self, cpu: CpuId) -> bool {
        let is =
            |(vm, index): (VmId, u32)| self.guests[vm.index()].worked_off(index, self.view.now).is_some();
        self.guest_on(cpu).is_some_and(is)
    }

    fn guest_on(&self, cpu: CpuId) -> Option<(VmId, u32)> {
        let vcpu = self.view.cpus[cpu.index()].running?;
        let vm = self.view.vm_of(vcpu);
        Some((vm, vcpu.0 - self.view.vms[vm.index()].first.0))
    }

    /// Another virtual CPU runs in the place of one that spins in vain, for what is left of its slice.
    fn help(&mut self, cpu: CpuId) {
        let seat = self.seats[cpu.index()];
        if seat.until <= self.view.now {
            self.off(cpu, Some(Why::Preempted));
            return;
        }
        let spinner = self.view.cpus[cpu.index()].running;
        let other = match (self.habits.help, spinner) {
            (Some(kernel_first), Some(spinner)) => self.policy.help(spinner, cpu, kernel_first, &self.view),
            _ => None,
        };
        match other {
            // The others run already: it goes on spinning, and asks again.
            None => self.look(cpu),
            Some(other) => {
                self.policy.take(other, &self.view);
                self.leave(cpu, Some(Why::Yielded));
                self.bring(cpu, other, seat.until);
                self.elsewhere(spinner);
            }
        }
    }

    /// Takes whoever runs off `cpu`, which picks anew.
    fn off(&mut self, cpu: CpuId, why: Option<Why>) {
        self.leave(cpu, why);
        self.again.push_back(cpu);
    }

    /// Whoever runs on `cpu` leaves: still wanting to run for this reason, or halted for none.
    fn leave(&mut self, cpu: CpuId, why: Option<Why>) {
        self.charge(cpu);
        let Some((vm, index)) = self.guest_on(cpu) else { return };
        let Some(vcpu) = self.view.cpus[cpu.index()].running.take() else { return };
        let in_kernel = self.guests[vm.index()].off(index, &mut self.effects);
        let it = &mut self.view.vcpus[vcpu.index()];
        it.in_kernel = in_kernel;
        it.last = Packed::some(cpu.0);
        self.view.turn(vcpu, if why.is_some() { State::Ready } else { State::Halted });
        let seat = &mut self.seats[cpu.index()];
        seat.stamp = seat.stamp.wrapping_add(1);
        self.touch(cpu);
        self.view.idle.insert(cpu.0);
        match why {
            None => self.policy.halted(vcpu, &self.view),
            Some(why) => {
                let elsewhere = self.policy.ready(vcpu, why, &self.view);
                self.again.extend(elsewhere.filter(|other| *other != cpu));
            }
        }
    }

    /// `cpu` picks who runs there now.
    fn pick(&mut self, cpu: CpuId) {
        if self.view.cpus[cpu.index()].running.is_some() {
            self.progress(cpu);
            if self.is_worked_off(cpu) {
                self.look(cpu);
                // It halted, and the CPU is to pick anew anyway.
                if self.view.cpus[cpu.index()].running.is_none() {
                    return;
                }
            }
            self.leave(cpu, Some(Why::Preempted));
        }
        let before = self.view.cpus[cpu.index()].last;
        if let Pick::Run(vcpu, until) = self.policy.pick(cpu, &self.view) {
            self.bring(cpu, vcpu, until);
            self.elsewhere(before.filter(|before| *before != vcpu));
        }
    }

    /// Who ran where somebody else runs now may find another CPU idle, on which that one may not run.
    fn elsewhere(&mut self, vcpu: Option<VcpuId>) {
        let waits = vcpu.filter(|vcpu| self.view.vcpu(*vcpu).state == State::Ready);
        self.again.extend(waits.and_then(|vcpu| self.view.idle_cpu_for(vcpu)));
    }

    /// Lets `vcpu` run on `cpu`, where nobody runs.
    fn bring(&mut self, cpu: CpuId, vcpu: VcpuId, until: Time) {
        let (now, refill) = (self.view.now, self.refill(vcpu, cpu));
        debug_assert!(self.view.may_run(vcpu, cpu), "virtual CPU {} may not run on {}", vcpu.0, cpu.0);
        let it = &mut self.view.vcpus[vcpu.index()];
        debug_assert_eq!(it.state, State::Ready, "virtual CPU {} is not ready", vcpu.0);
        it.steal += now.since(it.since);
        it.since = now;
        it.dispatches += 1;
        self.view.turn(vcpu, State::Running(cpu));
        let until = self.first_end(cpu, until);
        let place = &mut self.view.cpus[cpu.index()];
        place.idle += now.since(place.since);
        place.since = now;
        place.running = Some(vcpu);
        let cost = if place.last == Some(vcpu) { Span::ZERO } else { self.habits.switch } + refill;
        place.switches += u64::from(place.last != Some(vcpu));
        place.last = Some(vcpu);
        self.view.idle.remove(cpu.0);
        let seat = &mut self.seats[cpu.index()];
        seat.there = now + cost;
        seat.told = seat.there;
        seat.switching = now;
        // Whoever runs gets on, however short the slice.
        seat.until = until.max(seat.told + Span::from_nanos(1));
        seat.graced = false;
        self.look(cpu);
    }

    fn schedule(&mut self, cpu: CpuId, at: Time) {
        let seat = &mut self.seats[cpu.index()];
        seat.stamp = seat.stamp.wrapping_add(1);
        self.queue.push(at.min(seat.until), Event::Cpu(cpu, seat.stamp));
    }

    /// The books; they are up to date after [`Self::run`].
    pub fn report(&self) -> HostReport {
        HostReport::of(&self.view, self.events)
    }

    /// The guests, in the order of their VMs.
    pub fn guests(&self) -> &[Guest] {
        &self.guests
    }

    /// Who ran where.
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// What the host looks like now.
    pub const fn view(&self) -> &View {
        &self.view
    }
}
