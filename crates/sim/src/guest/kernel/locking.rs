//! What threads do while they wait for a lock, and what giving it back does to them; who is next, `lock.rs` knows.
//!
//! ```text
//!               ┌──────────── told or woken ◄──────────────────────────────────┐
//!  acquire ─► spins ─ long ─► tells the host (pays the exit) ─► spins …        │
//!               ├─ out of patience (pv), the one before has halted (pv-queued), owner does not run (mutex)
//!               │                       └─► pays for halting ─► halts, or sleeps (mutex) and lets other threads run
//!               └─ got it ─► pays for the cache line (those that poll one) ─► goes on
//!  release ─► tells who has it next ─ has halted: pays the kick; it wants a CPU `wake` later
//! ```

use super::super::lock::{LockKind, OnLongWait, Released, Waiting};
use super::super::thread::{Bill, Doing, Wait};
use super::{Demand, Effects, Guest, GuestCpu, small};
use crate::time::{Span, Time};

impl Guest {
    /// Thread `number`, which did not get a lock, begins to wait for it.
    pub(super) fn begin_wait(&mut self, number: u32, lock: u32, now: Time) -> Doing {
        let before = self.threads[number as usize].spin;
        self.waits[number as usize] = Wait { since: now, spun: Span::ZERO, before };
        self.be_patient(number, lock);
        Doing::Spinning { lock }
    }

    /// It spins for its whole patience from now on.
    fn be_patient(&mut self, number: u32, lock: u32) {
        let patience = self.locks[lock as usize].kind.patience();
        if let (Some(patience), Some(end)) = (patience, self.patience.get_mut(number as usize)) {
            *end = self.threads[number as usize].spin + patience;
        }
    }

    /// Whether a thread is on a virtual CPU that runs.
    fn runs(&self, number: u32) -> bool {
        let on = self.threads[number as usize].on.get();
        on.is_some_and(|index| self.cpus[index as usize].runs)
    }

    /// Lets a thread look that runs.
    fn tell(&self, number: u32, effects: &mut Effects) {
        if self.runs(number) {
            effects.pokes.extend(self.threads[number as usize].on.get().map(|index| self.vcpu(index)));
        }
    }

    /// A thread that spins looks at its lock.
    pub(super) fn spin(
        &mut self,
        index: u32,
        number: u32,
        lock: u32,
        now: Time,
        effects: &mut Effects,
    ) -> Option<Demand> {
        if self.gets(number, lock, now, effects) {
            return None;
        }
        if self.gives_up(index, number, lock) {
            return self.pay(number, (self.costs.halt, Bill::Halt, lock), |guest| {
                guest.rest(index, number, lock, effects)
            });
        }
        let spun = self.waits[number as usize].spun;
        let for_host = match self.on_long_wait {
            OnLongWait::Spin => Span::FOREVER,
            OnLongWait::Help(limit) => self.window(index, limit).less(spun),
            OnLongWait::Halt(limit) => limit.less(spun),
        };
        if !for_host.is_zero() {
            return Some(Demand::Run(for_host.min(self.until_it_gives_up(index, number, lock))));
        }
        self.waits[number as usize].spun = Span::ZERO;
        if matches!(self.on_long_wait, OnLongWait::Help(_)) {
            return self.pay(number, (self.costs.exit, Bill::Exit, lock), |guest| Some(guest.exit(index)));
        }
        self.pay(number, (self.costs.halt, Bill::Halt, lock), |guest| {
            guest.rest(index, number, lock, effects)
        })
    }

    /// A thread pays for something before it happens; at once if it costs nothing.
    fn pay(
        &mut self,
        number: u32,
        (left, bill, lock): (Span, Bill, u32),
        happens: impl FnOnce(&mut Self) -> Option<Demand>,
    ) -> Option<Demand> {
        if left.is_zero() {
            return happens(self);
        }
        self.threads[number as usize].doing = Doing::Paying { left, bill, lock };
        None
    }

    /// What a thread has paid for happens.
    pub(super) fn paid(
        &mut self,
        index: u32,
        number: u32,
        (bill, lock): (Bill, u32),
        now: Time,
        effects: &mut Effects,
    ) -> Option<Demand> {
        match bill {
            Bill::Kick => self.threads[number as usize].doing = Doing::Asking,
            Bill::Send => self.threads[number as usize].doing = self.send(index, now, effects),
            Bill::Handover => self.got(number, lock, now, effects),
            Bill::Halt | Bill::Exit => {
                self.threads[number as usize].doing = Doing::Spinning { lock };
                if !self.gets(number, lock, now, effects) {
                    return match bill {
                        Bill::Halt => self.rest(index, number, lock, effects),
                        _ => Some(self.exit(index)),
                    };
                }
            }
        }
        None
    }

    /// Whether a thread that waits has its lock now; it may still have to pay for the cache line.
    fn gets(&mut self, number: u32, lock: u32, now: Time, effects: &mut Effects) -> bool {
        let it = &mut self.locks[lock as usize];
        let was_reserved = it.is_reserved();
        if !it.look(number) {
            // It is the first now, and spins anew: its whole patience.
            if it.is_reserved() && !was_reserved {
                self.be_patient(number, lock);
            }
            return false;
        }
        let left = std::mem::take(&mut it.handover);
        if left.is_zero() {
            self.got(number, lock, now, effects);
        } else {
            self.threads[number as usize].doing = Doing::Paying { left, bill: Bill::Handover, lock };
        }
        true
    }

    /// A thread that has waited goes on with its lock.
    fn got(&mut self, number: u32, lock: u32, now: Time, effects: &mut Effects) {
        let wait = self.waits[number as usize];
        let thread = &mut self.threads[number as usize];
        let it = &mut self.locks[lock as usize];
        let waited = now.since(wait.since);
        it.report.waits.add(waited, self.mhz);
        it.report.longest = it.report.longest.max(waited);
        it.report.spins.add(thread.spin.less(wait.before), self.mhz);
        thread.locks += 1;
        thread.doing = Doing::Asking;
        // Whoever is the first now keeps others from coming before it.
        let first = it.first().filter(|_| matches!(it.kind, LockKind::PvQueued(_)));
        if let Some(first) = first {
            self.tell(first, effects);
        }
    }

    /// Whether a thread that spins halts or sleeps now.
    fn gives_up(&self, index: u32, number: u32, lock: u32) -> bool {
        let it = &self.locks[lock as usize];
        let stands = |thread: u32| !self.runs(thread);
        match it.kind {
            LockKind::Mutex => {
                let before = it.neighbours(number).0;
                let turn_is_over =
                    self.cpus[index as usize].left.is_zero() && self.line.next(index).is_some();
                turn_is_over || it.holder.is_some_and(stands) || before.is_some_and(stands)
            }
            LockKind::PvQueued(_) if it.neighbours(number).0.is_some_and(|before| self.is_parked(before)) => {
                true
            }
            _ => self
                .patience
                .get(number as usize)
                .is_some_and(|end| self.threads[number as usize].spin >= *end),
        }
    }

    fn is_parked(&self, number: u32) -> bool {
        let on = self.threads[number as usize].on.get();
        on.is_some_and(|index| self.cpus[index as usize].parked)
    }

    /// For how long a thread spins if nobody tells it anything.
    fn until_it_gives_up(&self, index: u32, number: u32, lock: u32) -> Span {
        if self.locks[lock as usize].kind == LockKind::Mutex {
            return self.line.next(index).map_or(Span::FOREVER, |_| self.cpus[index as usize].left);
        }
        let end = self.patience.get(number as usize);
        end.map_or(Span::FOREVER, |end| end.less(self.threads[number as usize].spin))
    }

    /// It halts its virtual CPU, or sleeps and leaves it to others.
    fn rest(&mut self, index: u32, number: u32, lock: u32, effects: &mut Effects) -> Option<Demand> {
        if self.locks[lock as usize].kind == LockKind::Mutex {
            self.locks[lock as usize].sleeps(number);
            self.threads[number as usize].doing = Doing::Blocked { lock };
            self.leave_cpu(index);
            return None;
        }
        // It spins anew when it is woken and others were quicker.
        self.waits[number as usize].spun = Span::ZERO;
        self.be_patient(number, lock);
        self.locks[lock as usize].gives_way(number);
        let cpu = &mut self.cpus[index as usize];
        (cpu.runs, cpu.parked) = (false, true);
        if let (LockKind::PvQueued(_), Some(behind)) =
            (self.locks[lock as usize].kind, self.locks[lock as usize].neighbours(number).1)
        {
            self.tell(behind, effects);
        }
        Some(Demand::Halt)
    }

    /// How long a virtual CPU spins before it tells the host, which is this long at first.
    fn window(&self, index: u32, limit: Span) -> Span {
        let times = self.windows.get(index as usize).copied().unwrap_or(1);
        Span::from_nanos(limit.nanos().saturating_mul(times.into()))
    }

    /// It tells the host.
    fn exit(&mut self, index: u32) -> Demand {
        if let Some(window) = self.windows.get_mut(index as usize) {
            *window = window.saturating_mul(self.costs.exit_growth);
        }
        Demand::Help
    }

    /// A thread gives a lock back; what it does then, at first.
    pub(super) fn release(&mut self, number: u32, lock: u32, now: Time, effects: &mut Effects) -> Doing {
        let Self { locks, threads, cpus, random, costs, .. } = self;
        let doing = |thread: u32| match threads[thread as usize].on.get().map(|index| cpus[index as usize]) {
            Some(GuestCpu { runs: true, .. }) => Waiting::Spins,
            Some(GuestCpu { parked: true, .. }) => Waiting::Parked,
            _ => Waiting::Preempted,
        };
        let it = &mut locks[lock as usize];
        let is_polled = !costs.line.is_zero() && it.kind.shares_line();
        let polls = |thread: &u32| doing(*thread) == Waiting::Spins;
        let pollers = if is_polled { it.waiting().filter(polls).count() } else { 0 };
        let any = |count: usize| usize::try_from(random.below(count as u64)).unwrap_or(0);
        let Released { was_its, tell, wake } = it.release(number, doing, any);
        let next_sees = it.holder.is_some_and(|next| doing(next) == Waiting::Spins);
        let others = if next_sees { pollers.saturating_sub(1) as u64 } else { 0 };
        it.handover = Span::from_nanos(costs.line.nanos().saturating_mul(others) / 2);
        let thread = &mut threads[number as usize];
        thread.locks = thread.locks.saturating_sub(u16::from(was_its));
        let mut kicks = 0;
        if let Some(next) = tell {
            kicks += u64::from(self.is_parked(next));
            if let Some(on) = self.threads[next as usize].on.get() {
                self.rouse(on, now, effects);
            }
        }
        kicks += wake.map_or(0, |sleeper| self.wake(sleeper, lock, now, effects));
        let it = &self.locks[lock as usize];
        if it.kind == LockKind::Mutex && it.holder.is_some_and(|holder| !self.runs(holder)) {
            self.tell_spinners(lock, effects);
        }
        self.locks[lock as usize].report.kicks += kicks;
        let left = Span::from_nanos(self.costs.kick.nanos().saturating_mul(kicks));
        if left.is_zero() { Doing::Asking } else { Doing::Paying { left, bill: Bill::Kick, lock } }
    }

    /// Lets virtual CPU `index` look, later if it has to be woken.
    pub(super) fn rouse(&self, index: u32, now: Time, effects: &mut Effects) {
        if self.cpus[index as usize].parked && !self.costs.wake.is_zero() {
            self.wake_later(index, now, effects);
        } else {
            effects.pokes.push_back(self.vcpu(index));
        }
    }

    fn wake_later(&self, index: u32, now: Time, effects: &mut Effects) {
        effects.timers.push((now + self.costs.wake, self.vm, small(self.threads.len()) + index));
    }

    /// Wakes a thread that sleeps for a mutex; says whether a virtual CPU had to be woken for it.
    fn wake(&mut self, sleeper: u32, lock: u32, now: Time, effects: &mut Effects) -> u64 {
        let thread = &mut self.threads[sleeper as usize];
        if !matches!(thread.doing, Doing::Blocked { .. }) {
            return 0;
        }
        thread.doing = Doing::Spinning { lock };
        let most = 1 + u16::from(self.line.priority(thread.kind));
        let Some(idle) = self.find_place(sleeper, most, effects) else { return 0 };
        if !self.costs.wake.is_zero() {
            effects.pokes.pop_back();
            self.wake_later(idle, now, effects);
        }
        1
    }

    /// Those that spin for a mutex look, because its owner does not run; those that sleep are on no CPU.
    fn tell_spinners(&self, lock: u32, effects: &mut Effects) {
        self.locks[lock as usize].waiting().for_each(|waiting| self.tell(waiting, effects));
    }

    /// A thread has left its CPU, or its virtual CPU has: who spins because it ran stops doing so.
    pub(super) fn stops_running(&self, number: u32, effects: &mut Effects) {
        if self.locks.first().is_none_or(|lock| lock.kind != LockKind::Mutex) {
            return;
        }
        let thread = &self.threads[number as usize];
        if thread.locks > 0 {
            let own = (0u32..).zip(&self.locks).filter(|(_, lock)| lock.holder == Some(number));
            own.for_each(|(lock, _)| self.tell_spinners(lock, effects));
        }
        let behind = thread.waits_for().and_then(|lock| self.locks[lock as usize].neighbours(number).1);
        if let Some(behind) = behind {
            self.tell(behind, effects);
        }
    }
}
