//! Xen's credit scheduler as it is: a queue per CPU, sorted by priority; every 30 ms credits are dealt out by weight and everybody
//! is under or over his share until the next time; a CPU whose next one is over, or that is idle, steals who is under.
//!
//! ```text
//!  wake ─► queue of its CPU ─► an idle CPU is told, or who runs there makes room for who is boosted
//!  10 ms, each CPU for itself: who runs is boosted no more, counts as active, goes to an idle CPU if others wait here,
//!                              and to an idle core if somebody runs on the other thread of this one
//!  30 ms, one CPU for all:     credits to who is active; below 0: OVER; above 30 ms: half of them, active no more
//!  slice over (30 ms)          next of the own queue; if that is OVER or nobody: the first UNDER of another CPU's queue
//! ```
//! Source: `xen/common/sched/credit.c` of Xen 4.21 in development, read for what it does. As there, who may have more credit
//! than the others' use leaves is dealt with in passing, a balance that fell below zero is made up for, only the own CPU's queue
//! is looked at when somebody wakes and no CPU is idle, CPUs look round for work once in a millisecond, and weights count for
//! each virtual CPU that is active since 4.1 (`weights = "per-vcpu"`); the manual, and Xen before, count them for a VM, which
//! is the default here. Simplified: credits are nanoseconds and not rounded up to tenths of a millisecond; no soft affinity
//! and no nodes; who yields waits like everybody else; caps are exact (`limit_cpus` per 30 ms).

mod books;
mod peers;

pub use books::CreditKeys;
use books::{Account, Clock, Priority, Seat};
use peers::Peers;

use super::Slop;
use super::caps::Caps;
use super::queues::RunQueues;
use crate::host::{CpuId, CpuSet, State, VcpuId, View, VmId};
use crate::policy::{Pick, Policy, Why};
use crate::queue::Queue;
use crate::time::{Span, Time};

/// Ticks per accounting period.
const TICKS: u64 = 3;
/// A CPU looks round for work to steal once in this time.
const BALANCE: Span = Span::from_millis(1);

/// The policy.
#[derive(Debug, Clone)]
pub struct PerCpuCredit {
    keys: CreditKeys,
    tick: Span,
    accounts: Vec<Account>,
    seats: Vec<Seat>,
    /// By priority, then by place in line.
    queues: Option<RunQueues<(Priority, i64)>>,
    peers: Peers,
    caps: Caps,
    clock: Queue<Clock>,
    slop: Slop,
    /// Next places at the end of a line and at its head.
    ends: (i64, i64),
    /// VMs that have active virtual CPUs, in the order in which credits are dealt out; how many each has.
    order: Vec<VmId>,
    active_of: Vec<u32>,
    balance: f64,
    /// From which CPU on work was stolen, and idle CPUs were told, last.
    robbed: u32,
    told: u32,
    /// CPUs that should pick anew once this event is done with, if they are idle then.
    later: Vec<CpuId>,
    /// CPUs that are left, and gone to, once this event is done with, where CPUs are threads of cores.
    moving: (CpuSet, CpuSet),
}

impl PerCpuCredit {
    /// With these keys.
    pub fn new(keys: CreditKeys) -> Self {
        Self {
            keys,
            tick: Span::from_nanos((keys.slice.nanos() / TICKS).max(1)),
            accounts: Vec::new(),
            seats: Vec::new(),
            queues: None,
            peers: Peers::default(),
            caps: Caps::default(),
            clock: Queue::default(),
            slop: Slop::new(true),
            ends: (0, 0),
            order: Vec::new(),
            active_of: Vec::new(),
            balance: 0.0,
            robbed: 0,
            told: 0,
            later: Vec::new(),
            moving: Default::default(),
        }
    }

    fn insert(&mut self, vcpu: VcpuId, view: &View) {
        self.ends.0 += 1;
        let it = &self.accounts[vcpu.index()];
        let key = (it.priority, self.ends.0);
        self.push(vcpu, it.home, key, view);
    }

    fn push(&mut self, vcpu: VcpuId, at: CpuId, key: (Priority, i64), view: &View) {
        let Some(queues) = &mut self.queues else { return };
        queues.push(at.0, vcpu, key, view);
        self.peers.add(view.vcpu(vcpu).affinity, key.0 as u8, at);
    }

    /// Takes it out of its queue, if it waits in one.
    fn remove(&mut self, vcpu: VcpuId, view: &View) -> bool {
        let Some(queues) = self.queues.as_mut().filter(|queues| queues.holds(vcpu)) else { return false };
        self.peers.take(view.vcpu(vcpu).affinity, queues.key(vcpu).0 as u8, CpuId(queues.place(vcpu)));
        queues.remove(vcpu, view);
        true
    }

    /// What it ran since it was last looked at is burnt.
    fn burn(&mut self, vcpu: VcpuId, now: Time) {
        let it = &mut self.accounts[vcpu.index()];
        it.credit = it.credit.saturating_sub_unsigned(now.since(it.burnt).nanos());
        it.burnt = now;
    }

    /// A CPU that should pick anew because `vcpu` waits, if any.
    fn tickle(&mut self, vcpu: VcpuId, view: &View) -> Option<CpuId> {
        let it = self.accounts[vcpu.index()];
        let Some(running) = view.cpus[it.home.index()].running else { return Some(it.home) };
        let is_sooner = it.priority < self.accounts[running.index()].priority;
        if view.idle.is_empty() {
            return is_sooner.then_some(it.home);
        }
        let mut idle = view.idle.clone();
        idle.intersect(view.affinity(vcpu));
        if let Some(cpu) = idle.next_after(self.told) {
            self.told = cpu;
            return Some(CpuId(cpu));
        }
        // Who runs may use a CPU that is idle, and this one may not.
        if is_sooner && view.idle.first_common(view.affinity(running)).is_some() {
            self.accounts[running.index()].moves = self.better_place(running, view);
        }
        is_sooner.then_some(it.home)
    }

    /// An idle CPU for somebody who runs where others wait. Where CPUs are threads of cores, as in Xen's `csched_cpu_pick` one of
    /// a core of which nobody uses any thread, if there is one, also for who runs alone on his CPU, but not on his core.
    fn better_place(&self, vcpu: VcpuId, view: &View) -> Option<CpuId> {
        let home = self.accounts[vcpu.index()].home;
        let waits = self.queues.as_ref().is_some_and(|queues| queues.len(home.0) > 0);
        if (view.smt == 1 && !waits) || view.idle.is_empty() {
            return None;
        }
        let mut idle = view.idle.clone();
        if view.smt > 1 {
            idle.unite(&self.moving.0);
            idle.subtract(&self.moving.1);
            if !waits {
                idle.insert(home.0);
            }
        }
        let mut whole = view.whole_cores(&idle);
        whole.intersect(view.affinity(vcpu));
        idle.intersect(view.affinity(vcpu));
        let near = if waits { idle.next_after(home.0)? } else { home.0 };
        let place = if whole.contains(near) { near } else { whole.next_after(near).unwrap_or(near) };
        Some(CpuId(place)).filter(|place| *place != home)
    }

    /// Who runs on `cpu` is to go elsewhere, if there is a better place.
    fn send(&mut self, running: VcpuId, cpu: CpuId, view: &View, again: &mut Vec<CpuId>) {
        let Some(place) = self.better_place(running, view) else { return };
        self.accounts[running.index()].moves = Some(place);
        again.push(cpu);
        if view.smt > 1 {
            // Others whose clock goes at this moment find things as they will be.
            if self.queues.as_ref().is_some_and(|queues| queues.len(cpu.0) == 0) {
                self.moving.0.insert(cpu.0);
            }
            self.moving.1.insert(place.0);
        }
    }

    /// The clock of one CPU.
    fn tick_on(&mut self, cpu: CpuId, view: &View, again: &mut Vec<CpuId>) {
        if let Some(running) = view.cpus[cpu.index()].running {
            self.burn(running, view.now);
            let it = &mut self.accounts[running.index()];
            if it.priority == Priority::Boost {
                it.priority = Priority::Under;
            }
            if it.active {
                self.send(running, cpu, view, again);
            } else {
                it.active = true;
                let vm = view.vm_of(running);
                self.active_of[vm.index()] += 1;
                if self.active_of[vm.index()] == 1 {
                    self.order.insert(0, vm);
                }
            }
        }
        self.sort(cpu, view);
    }

    /// Brings those in a queue whose priority has changed to their places: the rest keeps its order.
    fn sort(&mut self, cpu: CpuId, view: &View) {
        let stale = std::mem::take(&mut self.seats[cpu.index()].stale);
        let Some(queues) = &self.queues else { return };
        let accounts = &self.accounts;
        let is_stale = |vcpu: &VcpuId| {
            let waits = queues.holds(*vcpu) && queues.place(*vcpu) == cpu.0;
            waits && queues.key(*vcpu).0 != accounts[vcpu.index()].priority
        };
        let mut stale: Vec<_> =
            stale.into_iter().filter(is_stale).map(|vcpu| (queues.key(vcpu), vcpu)).collect();
        stale.sort_unstable();
        stale.dedup();
        let (worse, better): (Vec<_>, Vec<_>) =
            stale.into_iter().partition(|((before, _), vcpu)| *before < accounts[vcpu.index()].priority);
        let in_order = worse.into_iter().rev().map(|(_, vcpu)| (vcpu, true));
        let in_order: Vec<_> = in_order.chain(better.into_iter().map(|(_, vcpu)| (vcpu, false))).collect();
        for (vcpu, to_head) in in_order {
            self.remove(vcpu, view);
            let line = if to_head {
                self.ends.1 -= 1;
                self.ends.1
            } else {
                self.ends.0 += 1;
                self.ends.0
            };
            self.push(vcpu, cpu, (self.accounts[vcpu.index()].priority, line), view);
        }
    }

    /// Deals out the credits of a period.
    fn account(&mut self, view: &View) {
        let period = self.keys.slice.as_f64();
        let weight = |vm: VmId, active: u32| {
            view.vms[vm.index()].weight * if self.keys.per_vcpu { f64::from(active) } else { 1.0 }
        };
        let active_of = &self.active_of;
        let total: f64 = self.order.iter().map(|vm| weight(*vm, active_of[vm.index()])).sum();
        let debt = (-self.balance).max(0.0);
        let mut credits = period * view.cpus.len() as f64 + debt;
        let (mut left, mut extra, mut of_each) = (total, false, Vec::new());
        let (mut first, mut rest) = (Vec::new(), Vec::new());
        for vm in &self.order {
            let active = active_of[vm.index()];
            let own = weight(*vm, active);
            left -= own;
            let limit = view.vms[vm.index()].limit_cpus.map_or(f64::INFINITY, |cpus| cpus * period);
            let most = f64::from(active).mul_add(period, debt * own / total).min(limit);
            let fair = credits * own / total;
            let mut moves = false;
            if fair < most {
                extra = true;
            } else {
                // What it cannot use is for those after it.
                if left > total * 1e-9 {
                    credits += (fair - most) * total / left;
                }
                moves = extra;
            }
            (if moves { &mut first } else { &mut rest }).push(*vm);
            of_each.push((*vm, fair.min(most) / f64::from(active.max(1))));
        }
        self.balance = 0.0;
        for (vm, credit) in of_each {
            view.vms[vm.index()].vcpus().for_each(|vcpu| self.earn(vcpu, credit, vm, view));
        }
        first.reverse();
        first.append(&mut rest);
        first.retain(|vm| self.active_of[vm.index()] > 0);
        self.order = first;
    }

    /// An active virtual CPU earns so much.
    #[expect(clippy::cast_possible_truncation, reason = "some periods' worth of time")]
    fn earn(&mut self, vcpu: VcpuId, credit: f64, vm: VmId, view: &View) {
        let most = i64::try_from(self.keys.slice.nanos()).unwrap_or(i64::MAX);
        let it = &mut self.accounts[vcpu.index()];
        if !it.active {
            return;
        }
        it.credit = it.credit.saturating_add(credit.round() as i64);
        let before = it.priority;
        if it.credit < 0 {
            it.priority = Priority::Over;
            it.credit = it.credit.max(-most);
        } else {
            it.priority = Priority::Under;
            if it.credit > most {
                it.active = false;
                it.credit /= 2;
                self.active_of[vm.index()] -= 1;
            }
        }
        self.balance += it.credit as f64;
        if before != it.priority && view.vcpu(vcpu).state == State::Ready {
            self.seats[it.home.index()].stale.push(vcpu);
        }
    }

    /// Who of another CPU's queue runs here, because he is more urgent than that.
    fn steal(&mut self, cpu: CpuId, own: Option<Priority>, view: &View) -> Option<VcpuId> {
        let bound = own.map_or(u8::MAX, |own| own as u8);
        let mut busy = self.peers.below(bound, cpu);
        busy.subtract(&view.idle);
        let queues = self.queues.as_ref()?;
        while let Some(peer) = busy.next_after(self.robbed) {
            let found = queues.first_on(peer, cpu, view);
            let found = found.filter(|vcpu| own.is_none_or(|own| self.accounts[vcpu.index()].priority < own));
            // Round and round from the CPU that was robbed last.
            self.robbed = peer;
            if found.is_some() {
                return found;
            }
            busy.remove(peer);
        }
        None
    }

    /// Who comes next on `cpu`.
    fn next(&mut self, cpu: CpuId, view: &View) -> Option<VcpuId> {
        loop {
            let own = self.queues.as_ref().and_then(|queues| queues.first(cpu.0));
            let priority = own.map(|vcpu| self.accounts[vcpu.index()].priority);
            let seat = &mut self.seats[cpu.index()];
            let may_look = seat.balanced.is_none_or(|last| view.now.since(last) > BALANCE);
            let mut next = own;
            if may_look && priority.is_none_or(|own| own == Priority::Over) {
                seat.balanced = Some(view.now);
                next = self.steal(cpu, priority, view).or(own);
            }
            let vcpu = next?;
            self.remove(vcpu, view);
            if !self.caps.parks(vcpu, view.vm_of(vcpu)) {
                return Some(vcpu);
            }
            // It was nothing to steal.
            self.seats[cpu.index()].balanced = None;
        }
    }

    /// Lets those wait again whose VM may run again.
    fn free(&mut self, free: Vec<VcpuId>, view: &View) {
        for vcpu in free {
            self.insert(vcpu, view);
            // Nobody makes room for him: what that one gives back of his limit would free others, and so on.
            if view.idle.first_common(view.affinity(vcpu)).is_some() {
                let cpu = self.tickle(vcpu, view);
                self.later.extend(cpu);
            }
        }
    }
}

impl Policy for PerCpuCredit {
    fn begin(&mut self, view: &View) {
        let account = |home| Account {
            credit: 0,
            priority: Priority::Under,
            burnt: Time::ZERO,
            began: Time::ZERO,
            active: false,
            home,
            moves: None,
        };
        self.accounts = super::homes(view).into_iter().map(account).collect();
        self.seats = vec![Seat::default(); view.cpus.len()];
        self.queues = Some(RunQueues::new(view.cpus.len(), view, (Priority::Over, 0)));
        self.peers = Peers::new(view);
        self.active_of = vec![0; view.vms.len()];
        self.caps = Caps::new(self.keys.slice, view);
        self.slop = Slop::new(view.in_step);
        self.clock.push(Time::ZERO + self.keys.slice, Clock::Account);
        let count = view.cpus.len() as u64;
        for cpu in 0..u32::try_from(count).unwrap_or(u32::MAX) {
            let part = if view.in_step { count } else { u64::from(cpu) + 1 };
            let first = Span::from_nanos((self.tick.nanos() * part / count).max(1));
            self.clock.push(Time::ZERO + first, Clock::Tick(CpuId(cpu)));
        }
    }

    fn ready(&mut self, vcpu: VcpuId, why: Why, view: &View) -> Option<CpuId> {
        let mut free = Vec::new();
        let mut answer = None;
        if why == Why::Woken {
            let boosts = self.keys.boost && view.now > Time::ZERO;
            let it = &mut self.accounts[vcpu.index()];
            if boosts && it.priority == Priority::Under {
                it.priority = Priority::Boost;
            }
            self.insert(vcpu, view);
            answer = self.tickle(vcpu, view);
        } else {
            self.burn(vcpu, view.now);
            free = self.caps.back(vcpu, view.vm_of(vcpu), view);
            let moves = self.accounts[vcpu.index()].moves.take();
            if let Some(to) = moves {
                self.accounts[vcpu.index()].home = to;
                self.insert(vcpu, view);
                answer = self.tickle(vcpu, view);
            } else {
                self.insert(vcpu, view);
                if why == Why::Preempted {
                    let home = self.accounts[vcpu.index()].home;
                    self.seats[home.index()].left = Some(vcpu);
                }
            }
        }
        self.free(free, view);
        answer
    }

    fn take(&mut self, vcpu: VcpuId, view: &View) {
        if !self.remove(vcpu, view) {
            self.caps.take(vcpu, view.vm_of(vcpu));
        }
        let it = &mut self.accounts[vcpu.index()];
        (it.began, it.burnt) = (view.now, view.now);
    }

    fn pick(&mut self, cpu: CpuId, view: &View) -> Pick {
        let left = self.seats[cpu.index()].left.take();
        let rate_limit = self.keys.rate_limit;
        let limit = |it: &Account| it.began + rate_limit;
        let stays = left.filter(|vcpu| {
            let waits = self
                .queues
                .as_ref()
                .is_some_and(|queues| queues.holds(*vcpu) && queues.place(*vcpu) == cpu.0);
            waits && view.now < limit(&self.accounts[vcpu.index()])
        });
        let mut until = view.now + self.keys.slice + self.slop.draw();
        let next = match stays {
            Some(vcpu) if self.remove(vcpu, view) && !self.caps.parks(vcpu, view.vm_of(vcpu)) => {
                until = limit(&self.accounts[vcpu.index()]);
                Some(vcpu)
            }
            _ => self.next(cpu, view),
        };
        let Some(vcpu) = next else { return Pick::Idle };
        let it = &mut self.accounts[vcpu.index()];
        it.home = cpu;
        it.burnt = view.now;
        if left != Some(vcpu) {
            it.began = view.now;
        }
        let span = self.caps.grant(vcpu, view.vm_of(vcpu), cpu, until.since(view.now));
        Pick::Run(vcpu, view.now + span)
    }

    fn ran(&mut self, vcpu: VcpuId, cpu: CpuId, span: Span, view: &View) {
        // Who runs in another's place runs on another's CPU.
        self.accounts[vcpu.index()].home = cpu;
        self.caps.ran(vcpu, view.vm_of(vcpu), span);
    }

    fn halted(&mut self, vcpu: VcpuId, view: &View) {
        self.burn(vcpu, view.now);
        self.accounts[vcpu.index()].moves = None;
        let free = self.caps.back(vcpu, view.vm_of(vcpu), view);
        self.free(free, view);
    }

    fn first_tick(&self) -> Option<Time> {
        self.clock.next_at()
    }

    fn tick(&mut self, view: &View, again: &mut Vec<CpuId>) -> Option<Time> {
        again.extend(self.later.drain(..).filter(|cpu| view.idle.contains(cpu.0)));
        self.moving = Default::default();
        while self.clock.next_at().is_some_and(|at| at <= view.now) {
            match self.clock.pop() {
                Some((_, Clock::Tick(cpu))) => {
                    self.tick_on(cpu, view, again);
                    self.clock.push(view.now + self.tick + self.slop.draw(), Clock::Tick(cpu));
                }
                Some((at, Clock::Account)) => {
                    self.account(view);
                    let (free, _) = self.caps.renew(view);
                    self.free(free, view);
                    // Periods of limits begin at whole ones.
                    let late = if self.caps.any() { Span::ZERO } else { self.slop.draw() };
                    self.clock.push(at + self.keys.slice + late, Clock::Account);
                }
                None => break,
            }
        }
        self.clock.next_at()
    }

    fn extra_tick(&mut self) -> Option<Time> {
        (!self.later.is_empty()).then_some(Time::ZERO)
    }

    fn reads_all_books(&self) -> bool {
        false
    }

    fn is_work_conserving(&self) -> bool {
        false
    }
}
