//! Xen's credit scheduler, event by event, with a queue for each CPU. Written after reading `xen/common/sched/credit.c` and
//! `core.c` of Xen at c447b7308b13 (August 2026), and L. Cherkasova, D. Gupta, A. Vahdat, "Comparison of the three CPU
//! schedulers in Xen", SIGMETRICS PER 35(2), 2007. One socket, one memory node, no hyperthreads, no soft affinity, no yields.

use super::host::{Host, MICRO, MILLI, Weights};
use super::work::{Run, State, Work, cycle};

const SLICE: i64 = 30 * MILLI;
const TICK: i64 = 10 * MILLI;
const RATELIMIT: i64 = MILLI;
const BALANCE_RATELIMIT: i64 = MILLI;
const SHORTEST_TIMER: i64 = 100 * MICRO;

/// Rules by which shares leave their weights; switched off to show that it is they who do it.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Who has saved more than a slice loses half of it, and earns no more until it is seen running.
    pub cuts_savings: bool,
    /// Who owes more than a slice is forgiven the rest.
    pub forgives_debts: bool,
    /// Credits of a CPU and accounting period. Every division of them is rounded up.
    pub per_slice: i64,
}

/// As in Xen.
pub const XEN: Rules = Rules { cuts_savings: true, forgives_debts: true, per_slice: 300 };

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Priority {
    Idle,
    Over,
    Under,
    Boost,
}

struct Vcpu {
    vm: usize,
    places: Vec<bool>,
    cpu: usize,
    credit: i64,
    /// What was burnt less than a whole credit, in millionths.
    residual: i64,
    /// Up to when its time is paid for; while it does not run, how far behind it was.
    paid_until: i64,
    entered: i64,
    priority: Priority,
    is_active: bool,
    is_parked: bool,
    migrates: bool,
}

#[derive(Clone)]
struct Cpu {
    queue: Vec<usize>,
    current: Option<usize>,
    /// Whether others see it as idle.
    is_idler: bool,
    tick: Option<i64>,
    slice_end: Option<i64>,
    sorted: u64,
    balanced: i64,
    tickled_last: usize,
    must_schedule: bool,
}

struct Credit<'a> {
    host: &'a Host,
    weights: Weights,
    rules: Rules,
    work: Work,
    vcpus: Vec<Vcpu>,
    cpus: Vec<Cpu>,
    /// VMs with active virtual CPUs, in the order in which they are served.
    active: Vec<usize>,
    balance: i64,
    bias: usize,
    accounting: i64,
    accountings: u64,
}

/// CPUs that each VM gets.
pub fn cpus(host: &Host, weights: Weights, rules: Rules, run: &Run) -> Vec<f64> {
    let mut credit = Credit::new(host, weights, rules, run);
    while let Some(at) = credit.next_event().filter(|at| *at < run.until) {
        credit.work.now = at;
        credit.handle();
        while let Some(cpu) = credit.cpus.iter().position(|cpu| cpu.must_schedule) {
            credit.schedule(cpu);
        }
    }
    credit.work.cpus(host)
}

impl<'a> Credit<'a> {
    fn new(host: &'a Host, weights: Weights, rules: Rules, run: &Run) -> Self {
        let cpu = Cpu {
            queue: Vec::new(),
            current: None,
            is_idler: true,
            tick: None,
            slice_end: None,
            sorted: 0,
            balanced: 0,
            tickled_last: 0,
            must_schedule: false,
        };
        let mut vcpus: Vec<Vcpu> = Vec::new();
        for (vm, number) in host.vcpus() {
            let places = host.places(vm, number);
            let before = if number == 0 { host.cpus - 1 } else { vcpus[vcpus.len() - 1].cpu };
            vcpus.push(Vcpu {
                vm,
                cpu: cycle(before, host.cpus, |cpu| places[cpu]).unwrap(),
                places,
                credit: 0,
                residual: 0,
                paid_until: 0,
                entered: 0,
                priority: Priority::Under,
                is_active: false,
                is_parked: false,
                migrates: true,
            });
        }
        Self {
            host,
            weights,
            rules,
            work: Work::new(host, run),
            vcpus,
            cpus: vec![cpu; host.cpus],
            active: Vec::new(),
            balance: 0,
            bias: 0,
            accounting: run.accounting,
            accountings: 0,
        }
    }

    fn next_event(&self) -> Option<i64> {
        let timers = self.cpus.iter().flat_map(|cpu| [cpu.tick, cpu.slice_end]);
        let turns = (0..self.vcpus.len()).map(|vcpu| self.work.turns(vcpu));
        timers.chain(turns).flatten().chain([self.accounting]).min()
    }

    /// Does what is due.
    fn handle(&mut self) {
        let now = self.work.now;
        if self.accounting <= now {
            self.account();
            self.accounting = self.work.late(now + SLICE);
        }
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].tick.is_some_and(|at| at <= now) {
                self.tick(cpu);
                self.cpus[cpu].tick = Some(self.work.late(now + TICK));
            }
            if self.cpus[cpu].slice_end.is_some_and(|at| at <= now) {
                self.cpus[cpu].must_schedule = true;
            }
        }
        for vcpu in 0..self.vcpus.len() {
            if self.work.turns(vcpu).is_none_or(|at| at > now) {
                continue;
            }
            if matches!(self.work.state[vcpu], State::Sleeping { .. }) {
                self.work.wake(vcpu);
                self.wake(vcpu);
            } else {
                self.work.sleep(vcpu);
                self.cpus[self.vcpus[vcpu].cpu].must_schedule = true;
            }
        }
    }

    fn can_run(&self, vcpu: usize) -> bool {
        let it = &self.vcpus[vcpu];
        !it.is_parked && !matches!(self.work.state[vcpu], State::Sleeping { .. })
    }

    /// Behind all of at least its priority.
    fn enqueue(&mut self, vcpu: usize) {
        let priority = self.vcpus[vcpu].priority;
        let queue = &self.cpus[self.vcpus[vcpu].cpu].queue;
        let at = queue.iter().position(|other| priority > self.vcpus[*other].priority);
        let at = at.unwrap_or(queue.len());
        self.cpus[self.vcpus[vcpu].cpu].queue.insert(at, vcpu);
    }

    /// Whoever runs pays for its time in whole credits. What is left over is kept twice, as in Xen: as a residual, and in
    /// the time that it has paid up to.
    fn burn(&mut self, vcpu: usize) {
        let per_milli = self.rules.per_slice / 30;
        let it = &mut self.vcpus[vcpu];
        let run = self.work.now - it.paid_until;
        if run <= 0 {
            return;
        }
        let value = run * per_milli + it.residual;
        let credits = value / MILLI;
        it.residual = value % MILLI;
        it.credit -= credits;
        it.paid_until += credits * MILLI / per_milli;
    }

    fn wake(&mut self, vcpu: usize) {
        let it = &mut self.vcpus[vcpu];
        let migrates = std::mem::replace(&mut it.migrates, false);
        if it.is_parked {
            return;
        }
        if !migrates && it.priority == Priority::Under {
            it.priority = Priority::Boost;
        }
        self.enqueue(vcpu);
        self.tickle(vcpu);
    }

    /// Calls a CPU for somebody who has just been queued.
    fn tickle(&mut self, new: usize) {
        let cpu = self.vcpus[new].cpu;
        let is_idler = |at: usize| self.cpus[at].is_idler;
        let places = &self.vcpus[new].places;
        let current = self.cpus[cpu].current;
        let is_higher = current.is_none_or(|it| self.vcpus[new].priority > self.vcpus[it].priority);
        let are_idlers = (0..self.cpus.len()).any(is_idler);
        let mut called = None;
        if current.is_none()
            || is_idler(cpu) && places.iter().filter(|is| **is).count() == 1
            || !are_idlers && is_higher
        {
            called = Some(cpu);
        } else if are_idlers {
            let last = self.cpus[cpu].tickled_last;
            if let Some(idle) = cycle(last, self.cpus.len(), |at| is_idler(at) && places[at]) {
                called = Some(idle);
                self.cpus[cpu].tickled_last = idle;
            } else if is_higher {
                // No idle CPU is for the new one, so it runs here. Xen asks whether one is for the new one again where it
                // could ask for the current one, so nobody is ever sent away.
                called = Some(cpu);
            }
        }
        if let Some(called) = called {
            self.cpus[called].is_idler = false;
            self.cpus[called].must_schedule = true;
        }
    }

    /// A better CPU for this one: where it is, unless others wait there and some CPU idles.
    fn pick(&self, vcpu: usize) -> usize {
        let it = &self.vcpus[vcpu];
        let own = if it.places[it.cpu] {
            it.cpu
        } else {
            cycle(it.cpu, self.cpus.len(), |at| it.places[at]).unwrap()
        };
        let is_idle = |at: usize| {
            it.places[at] && (self.cpus[at].is_idler || at == it.cpu && self.cpus[at].queue.is_empty())
        };
        if is_idle(own) { own } else { cycle(own, self.cpus.len(), is_idle).unwrap_or(own) }
    }

    fn tick(&mut self, cpu: usize) {
        if let Some(vcpu) = self.cpus[cpu].current {
            if self.vcpus[vcpu].priority == Priority::Boost {
                self.vcpus[vcpu].priority = Priority::Under;
            }
            self.burn(vcpu);
            if !self.vcpus[vcpu].is_active {
                self.activate(vcpu);
            } else if self.pick(vcpu) != cpu {
                self.vcpus[vcpu].migrates = true;
                self.cpus[cpu].must_schedule = true;
            }
        }
        if self.cpus[cpu].sorted != self.accountings {
            self.cpus[cpu].sorted = self.accountings;
            let vcpus = &self.vcpus;
            self.cpus[cpu].queue.sort_by_key(|it| vcpus[*it].priority < Priority::Under);
        }
    }

    fn activate(&mut self, vcpu: usize) {
        self.vcpus[vcpu].is_active = true;
        let vm = self.vcpus[vcpu].vm;
        if !self.active.contains(&vm) {
            self.active.insert(0, vm);
        }
    }

    /// Active virtual CPUs of a VM.
    fn active_of(&self, vm: usize) -> Vec<usize> {
        (0..self.vcpus.len()).filter(|at| self.vcpus[*at].vm == vm && self.vcpus[*at].is_active).collect()
    }

    fn weight(&self, vm: usize) -> i64 {
        let parts = if self.weights == Weights::PerVm { 1 } else { self.active_of(vm).len() as i64 };
        i64::from(self.host.vms[vm].weight) * 256 * parts
    }

    /// Every 30 ms: credit for the active, by weight; who has some is `Under`.
    fn account(&mut self) {
        let per_slice = self.rules.per_slice;
        let in_all: i64 = self.active.iter().map(|vm| self.weight(*vm)).sum();
        let owed = (-self.balance).max(0);
        let mut total = per_slice * self.cpus.len() as i64 + owed;
        if in_all == 0 {
            self.balance = 0;
            return;
        }
        self.balance = 0;
        let mut weight_left = in_all;
        let mut somebody_wants_more = false;
        for vm in self.active.clone() {
            let (weight, members) = (self.weight(vm), self.active_of(vm));
            let count = members.len() as i64;
            weight_left -= weight;
            let mut peak = count * per_slice + up(owed * weight, in_all);
            let mut cap_each = None;
            if let Some(cap) = self.host.vms[vm].cap {
                let cap = up(cap * per_slice, 100);
                peak = peak.min(cap);
                cap_each = Some(up(cap, count));
            }
            let mut fair = up(total * weight, in_all);
            if fair < peak {
                somebody_wants_more = true;
            } else {
                if weight_left != 0 {
                    total += up((fair - peak) * in_all, weight_left);
                }
                if somebody_wants_more {
                    self.active.retain(|other| *other != vm);
                    self.active.insert(0, vm);
                }
                fair = peak;
            }
            let each = up(fair, count);
            for vcpu in members {
                self.give(vcpu, each, cap_each);
                self.balance += self.vcpus[vcpu].credit;
            }
        }
        self.accountings += 1;
    }

    fn give(&mut self, vcpu: usize, credit: i64, cap: Option<i64>) {
        let per_slice = self.rules.per_slice;
        let it = &mut self.vcpus[vcpu];
        it.credit += credit;
        if it.credit < 0 {
            it.priority = Priority::Over;
            let parks = cap.is_some_and(|cap| it.credit < -cap) && !it.is_parked;
            if self.rules.forgives_debts {
                it.credit = it.credit.max(-per_slice);
            }
            if parks {
                it.is_parked = true;
                self.park(vcpu);
            }
            return;
        }
        it.priority = Priority::Under;
        let is_full = self.rules.cuts_savings && it.credit > per_slice;
        if is_full {
            it.credit /= 2;
            it.is_active = false;
        }
        let vm = it.vm;
        if std::mem::replace(&mut it.is_parked, false) && self.can_run(vcpu) {
            self.unpark(vcpu);
        }
        if is_full && self.active_of(vm).is_empty() {
            self.active.retain(|other| *other != vm);
        }
    }

    fn park(&mut self, vcpu: usize) {
        let cpu = self.vcpus[vcpu].cpu;
        if self.cpus[cpu].current == Some(vcpu) {
            self.cpus[cpu].must_schedule = true;
        }
        self.cpus[cpu].queue.retain(|other| *other != vcpu);
    }

    /// Wakes it without a boost; who still runs goes on.
    fn unpark(&mut self, vcpu: usize) {
        if self.cpus[self.vcpus[vcpu].cpu].current != Some(vcpu) {
            self.vcpus[vcpu].migrates = false;
            self.enqueue(vcpu);
            self.tickle(vcpu);
        }
    }

    fn schedule(&mut self, cpu: usize) {
        let now = self.work.now;
        self.cpus[cpu].must_schedule = false;
        self.cpus[cpu].slice_end = None;
        let before = self.cpus[cpu].current;
        if let Some(vcpu) = before {
            self.burn(vcpu);
            let ran = now - self.vcpus[vcpu].entered;
            if self.can_run(vcpu) && !self.vcpus[vcpu].migrates && ran < RATELIMIT {
                let left = if ran < SHORTEST_TIMER { SHORTEST_TIMER } else { RATELIMIT - ran };
                self.cpus[cpu].slice_end = Some(self.work.late(now + left));
                return;
            }
            self.vcpus[vcpu].paid_until -= now;
            if self.can_run(vcpu) && !self.vcpus[vcpu].migrates {
                self.enqueue(vcpu);
            }
        }
        let next = self.choose(cpu);
        if before != next {
            if let Some(vcpu) = before
                && matches!(self.work.state[vcpu], State::Running { .. })
            {
                self.work.stop(vcpu);
            }
            if let Some(vcpu) = next {
                self.work.start(vcpu);
                self.vcpus[vcpu].entered = now;
                self.vcpus[vcpu].cpu = cpu;
            }
            self.cpus[cpu].current = next;
        }
        self.cpus[cpu].is_idler = next.is_none();
        match next {
            None => self.cpus[cpu].tick = None,
            Some(vcpu) => {
                self.vcpus[vcpu].paid_until += now;
                self.cpus[cpu].slice_end = Some(self.work.late(now + SLICE));
                if before.is_none() {
                    let phase = self.work.run.phases[cpu];
                    self.cpus[cpu].tick = Some(self.work.late(now + TICK - (now - phase).rem_euclid(TICK)));
                }
            }
        }
        if let Some(vcpu) = before.filter(|vcpu| next != Some(*vcpu) && self.vcpus[*vcpu].migrates) {
            self.move_away(vcpu);
        }
    }

    /// Somebody who was told to go to another CPU, and has just been taken off its own.
    fn move_away(&mut self, vcpu: usize) {
        self.vcpus[vcpu].cpu = self.pick(vcpu);
        if self.work.state[vcpu] == State::Ready {
            self.wake(vcpu);
        }
    }

    /// Who runs next on this CPU, taken out of its queue: the first, or, where that one is `Over` or there is none, one with
    /// a higher priority from the queue of another CPU.
    fn choose(&mut self, cpu: usize) -> Option<usize> {
        let first = self.cpus[cpu].queue.first().copied();
        let priority = first.map_or(Priority::Idle, |vcpu| self.vcpus[vcpu].priority);
        let now = self.work.now;
        if priority <= Priority::Over && now - self.cpus[cpu].balanced > BALANCE_RATELIMIT {
            self.cpus[cpu].balanced = now;
            if let Some(vcpu) = self.steal(cpu, priority) {
                return Some(vcpu);
            }
        }
        if first.is_some() {
            self.cpus[cpu].queue.remove(0);
        }
        first
    }

    fn steal(&mut self, cpu: usize, priority: Priority) -> Option<usize> {
        let count = self.cpus.len();
        let first = cycle(self.bias, count, |at| at != cpu && !self.cpus[at].is_idler)?;
        for peer in (0..count).map(|step| (first + step) % count) {
            if peer == cpu || self.cpus[peer].is_idler || self.cpus[peer].current.is_none() {
                continue;
            }
            let vcpus = &self.vcpus;
            let mut higher =
                self.cpus[peer].queue.iter().take_while(|vcpu| vcpus[**vcpu].priority > priority).copied();
            if let Some(vcpu) = higher.find(|vcpu| vcpus[*vcpu].places[cpu]) {
                self.cpus[peer].queue.retain(|other| *other != vcpu);
                self.vcpus[vcpu].cpu = cpu;
                self.bias = peer;
                return Some(vcpu);
            }
        }
        None
    }
}

/// Divides and rounds up, as all divisions of the accounting do.
fn up(value: i64, by: i64) -> i64 {
    (value + by - 1) / by
}
