//! Xen's credit2 scheduler, event by event. Written after reading `xen/common/sched/credit2.c` and `core.c` of Xen at
//! c447b7308b13 (August 2026), and G. Dunlap, "Scheduler development update", Xen summit in Asia, 2009. No hyperthreads, no soft
//! affinity, no yields, no caps. Xen has a run queue for each socket of up to 16 CPUs, so the hosts here have one; a queue
//! for each CPU (`credit2_runqueue=cpu`) makes its balancing visible.

mod balance;

use super::host::{Host, MICRO, MILLI, Weights};
use super::work::{Run, State, Work, cycle};

/// Credit is nanoseconds of the heaviest virtual CPU of a queue.
const INITIAL: i64 = 10 * MILLI;
const LEAST: i64 = -INITIAL;
const OF_IDLE: i64 = LEAST - 1;
const SHORTEST_TIMER: i64 = 500 * MICRO;
const LONGEST_TIMER: i64 = INITIAL;
const CARRIED_OVER: i64 = SHORTEST_TIMER;
const TOLERANCE: i64 = 50 * MICRO;
const RESISTANCE: i64 = 500 * MICRO;
const COMPENSATION: i64 = 50 * MICRO;
/// Loads have so many binary digits after the point.
const DIGITS: u32 = 18;

/// Rules by which shares leave their weights; switched off to show that it is they who do it.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Who owes more than 10 ms of the heaviest is forgiven the rest.
    pub forgives_debts: bool,
    /// Who has saved more than that and 0.5 ms loses the rest at a reset.
    pub clips_savings: bool,
    /// Nobody runs for less, if it does not want to.
    pub ratelimit: i64,
}

/// As in Xen.
pub const XEN: Rules = Rules { forgives_debts: true, clips_savings: true, ratelimit: MILLI };

/// Which CPUs share a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queues {
    One,
    PerCpu,
}

struct Vcpu {
    places: Vec<bool>,
    weight: i64,
    queue: usize,
    cpu: usize,
    credit: i64,
    residual: i64,
    paid_until: i64,
    entered: i64,
    called: Option<usize>,
    /// Whether a CPU has it: it was chosen, and has not been put away since.
    is_scheduled: bool,
    moves_to: Option<usize>,
    load: i64,
    load_at: i64,
}

#[derive(Clone)]
struct Cpu {
    queue: usize,
    current: Option<usize>,
    is_called: bool,
    timer: Option<i64>,
    must_schedule: bool,
}

#[derive(Clone)]
struct Queue {
    waiting: Vec<usize>,
    heaviest: i64,
    runnable: i64,
    load: i64,
    load_at: i64,
    last_pick: usize,
}

struct Credit2 {
    rules: Rules,
    work: Work,
    vcpus: Vec<Vcpu>,
    cpus: Vec<Cpu>,
    queues: Vec<Queue>,
}

/// CPUs that each VM gets.
pub fn cpus(host: &Host, weights: Weights, queues: Queues, rules: Rules, run: &Run) -> Vec<f64> {
    let mut credit2 = Credit2::new(host, weights, queues, rules, run);
    while let Some(at) = credit2.next_event().filter(|at| *at < run.until) {
        credit2.work.now = at;
        credit2.handle();
        while let Some(cpu) = credit2.cpus.iter().position(|cpu| cpu.must_schedule) {
            credit2.schedule(cpu);
        }
    }
    credit2.work.cpus(host)
}

impl Credit2 {
    fn new(host: &Host, weights: Weights, queues: Queues, rules: Rules, run: &Run) -> Self {
        let count = if queues == Queues::One { 1 } else { host.cpus };
        let queue =
            Queue { waiting: Vec::new(), heaviest: 1, runnable: 0, load: 0, load_at: 0, last_pick: 0 };
        let cpu = |at| Cpu {
            queue: at % count,
            current: None,
            is_called: false,
            timer: None,
            must_schedule: false,
        };
        let mut credit2 = Self {
            rules,
            work: Work::new(host, run),
            vcpus: Vec::new(),
            cpus: (0..host.cpus).map(cpu).collect(),
            queues: vec![queue; count],
        };
        for (vm, number) in host.vcpus() {
            let whole = 768 * i64::from(host.vms[vm].weight);
            let weight = if weights == Weights::PerVm { whole / host.vms[vm].vcpus as i64 } else { whole };
            credit2.add(host.places(vm, number), weight);
        }
        credit2
    }

    /// A new virtual CPU, in the least loaded queue that has a CPU for it.
    fn add(&mut self, places: Vec<bool>, weight: i64) {
        let allowed = (0..self.queues.len())
            .filter(|queue| (0..places.len()).any(|at| places[at] && self.cpus[at].queue == *queue));
        let queue = allowed.min_by_key(|queue| self.queues[*queue].load).unwrap();
        let mut it = Vcpu {
            places,
            weight,
            queue,
            cpu: 0,
            credit: INITIAL,
            residual: 0,
            paid_until: 0,
            entered: 0,
            called: None,
            is_scheduled: false,
            moves_to: None,
            load: 1 << (DIGITS - 1),
            load_at: 0,
        };
        it.cpu = self.cpu_in(&it.places, queue);
        self.vcpus.push(it);
        self.assign(self.vcpus.len() - 1, queue);
    }

    /// The next CPU of a queue, round and round, of those that are allowed.
    fn cpu_in(&mut self, places: &[bool], queue: usize) -> usize {
        let last = self.queues[queue].last_pick;
        let cpu = cycle(last, self.cpus.len(), |at| places[at] && self.cpus[at].queue == queue).unwrap();
        self.queues[queue].last_pick = cpu;
        cpu
    }

    fn assign(&mut self, vcpu: usize, queue: usize) {
        self.vcpus[vcpu].queue = queue;
        self.queues[queue].load += self.vcpus[vcpu].load;
        self.weigh();
    }

    fn leave(&mut self, vcpu: usize) {
        let it = &mut self.vcpus[vcpu];
        let queue = &mut self.queues[it.queue];
        queue.load = (queue.load - it.load).max(0);
        it.queue = usize::MAX;
        self.weigh();
    }

    fn weigh(&mut self) {
        for (number, queue) in self.queues.iter_mut().enumerate() {
            let weights = self.vcpus.iter().filter(|it| it.queue == number).map(|it| it.weight);
            queue.heaviest = weights.max().unwrap_or(1);
        }
    }

    fn next_event(&self) -> Option<i64> {
        let timers = self.cpus.iter().filter_map(|cpu| cpu.timer);
        timers.chain((0..self.vcpus.len()).filter_map(|vcpu| self.work.turns(vcpu))).min()
    }

    fn handle(&mut self) {
        let now = self.work.now;
        for cpu in &mut self.cpus {
            cpu.must_schedule |= cpu.timer.is_some_and(|at| at <= now);
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

    /// Whether it could run. One that is to go to another queue cannot until it is there.
    fn can_run(&self, vcpu: usize) -> bool {
        self.vcpus[vcpu].moves_to.is_none() && !matches!(self.work.state[vcpu], State::Sleeping { .. })
    }

    fn wake(&mut self, vcpu: usize) {
        if self.vcpus[vcpu].is_scheduled {
            return;
        }
        self.count(self.vcpus[vcpu].queue, Some(vcpu), 1);
        self.enqueue(vcpu);
        self.tickle(vcpu);
    }

    fn enqueue(&mut self, vcpu: usize) {
        let credit = self.vcpus[vcpu].credit;
        let queue = &self.queues[self.vcpus[vcpu].queue].waiting;
        let at = queue.iter().position(|other| credit > self.vcpus[*other].credit).unwrap_or(queue.len());
        self.queues[self.vcpus[vcpu].queue].waiting.insert(at, vcpu);
    }

    fn burn(&mut self, vcpu: usize) {
        let it = &mut self.vcpus[vcpu];
        let run = self.work.now - it.paid_until;
        if run <= 0 {
            return;
        }
        let value = run * self.queues[it.queue].heaviest + it.residual;
        it.residual = value % it.weight;
        it.credit -= value / it.weight;
        if self.rules.forgives_debts {
            it.credit = it.credit.max(LEAST);
        }
        it.paid_until = self.work.now;
    }

    /// By how much somebody new deserves this CPU more than who has it.
    fn score(&mut self, new: usize, cpu: usize) -> i64 {
        let Some(current) = self.cpus[cpu].current else { return -1 };
        if self.work.now - self.vcpus[current].entered <= self.rules.ratelimit - TOLERANCE {
            return -1;
        }
        self.burn(current);
        let resistance = if self.vcpus[new].cpu == cpu { 0 } else { RESISTANCE };
        self.vcpus[new].credit - self.vcpus[current].credit - resistance
    }

    /// Calls a CPU for somebody who was just queued: an idle one, else its own, else the one that it deserves most.
    fn tickle(&mut self, new: usize) {
        let (own, queue) = (self.vcpus[new].cpu, self.vcpus[new].queue);
        let is_for = |it: &Self, at: usize| {
            it.cpus[at].queue == queue && it.vcpus[new].places[at] && !it.cpus[at].is_called
        };
        let is_idle = |it: &Self, at: usize| is_for(it, at) && it.cpus[at].current.is_none();
        let mut called = None;
        if is_idle(self, own) {
            called = Some(own);
        } else if let Some(idle) = cycle(own, self.cpus.len(), |at| is_idle(self, at)) {
            called = Some(idle);
        } else if is_for(self, own) && self.score(new, own) > 0 {
            called = Some(own);
        } else {
            let mut most = 0;
            for cpu in (0..self.cpus.len()).filter(|at| *at != own) {
                if !is_for(self, cpu) {
                    continue;
                }
                let score = self.score(new, cpu);
                if score > most {
                    (most, called) = (score, Some(cpu));
                }
            }
        }
        if let Some(cpu) = called {
            self.call(cpu);
            self.vcpus[new].called = Some(cpu);
        }
    }

    fn call(&mut self, cpu: usize) {
        self.cpus[cpu].is_called = true;
        self.cpus[cpu].must_schedule = true;
    }

    /// Who runs next on this CPU; none if nobody.
    fn choose(&self, cpu: usize) -> Option<usize> {
        let current = self.cpus[cpu].current.filter(|vcpu| self.can_run(*vcpu));
        if let Some(vcpu) = current
            && self.work.now - self.vcpus[vcpu].entered < self.rules.ratelimit
        {
            return current;
        }
        let credit = current.map_or(OF_IDLE, |vcpu| self.vcpus[vcpu].credit);
        for vcpu in self.queues[self.cpus[cpu].queue].waiting.iter().copied() {
            let it = &self.vcpus[vcpu];
            if it.credit <= credit {
                break;
            }
            let is_called_elsewhere = it.called.is_some_and(|at| at != cpu && self.cpus[at].is_called);
            let resists = it.cpu != cpu && credit + RESISTANCE > it.credit;
            if it.places[cpu] && !is_called_elsewhere && !resists {
                return Some(vcpu);
            }
        }
        current
    }

    fn schedule(&mut self, cpu: usize) {
        let now = self.work.now;
        self.cpus[cpu].must_schedule = false;
        self.cpus[cpu].is_called = false;
        self.cpus[cpu].timer = None;
        let before = self.cpus[cpu].current;
        if let Some(vcpu) = before {
            self.burn(vcpu);
        }
        let queue = self.cpus[cpu].queue;
        let next = self.choose(cpu);
        let goes_back = before.filter(|vcpu| next != before && self.can_run(*vcpu));
        if let Some(vcpu) = next {
            if next == before {
                self.count(queue, next, 0);
            } else {
                self.queues[queue].waiting.retain(|other| *other != vcpu);
                self.vcpus[vcpu].is_scheduled = true;
            }
            let first = self.queues[queue].waiting.first().map_or(LEAST, |first| self.vcpus[*first].credit);
            if self.vcpus[vcpu].credit.max(first) <= 0 {
                self.reset(queue, vcpu);
                self.balance(queue);
            }
            let it = &mut self.vcpus[vcpu];
            it.paid_until = now;
            it.called = None;
            if it.cpu != cpu {
                it.credit += COMPENSATION;
                it.cpu = cpu;
            }
            let back = goes_back.map_or(0, |vcpu| self.vcpus[vcpu].credit);
            let length = self.length(vcpu, next == before, back);
            self.cpus[cpu].timer = Some(self.work.late(now + length));
        } else {
            self.count(queue, None, 0);
        }
        if next != before {
            self.switch(cpu, before, next, goes_back.is_some());
        }
    }

    fn switch(&mut self, cpu: usize, before: Option<usize>, next: Option<usize>, goes_back: bool) {
        self.cpus[cpu].current = next;
        if let Some(vcpu) = before
            && matches!(self.work.state[vcpu], State::Running { .. })
        {
            self.work.stop(vcpu);
        }
        if let Some(vcpu) = next {
            self.work.start(vcpu);
            self.vcpus[vcpu].entered = self.work.now;
        }
        let Some(vcpu) = before else { return };
        self.vcpus[vcpu].is_scheduled = false;
        if goes_back && self.can_run(vcpu) {
            self.enqueue(vcpu);
            self.tickle(vcpu);
        } else {
            self.count(self.vcpus[vcpu].queue, before, -1);
        }
        if let Some(queue) = self.vcpus[vcpu].moves_to.take() {
            self.leave(vcpu);
            self.vcpus[vcpu].cpu = self.cpu_in(&self.vcpus[vcpu].places.clone(), queue);
            self.assign(vcpu, queue);
            if self.work.state[vcpu] == State::Ready {
                self.wake(vcpu);
            }
        }
    }

    /// How long it may run: until its credit is as small as that of the next, within bounds.
    fn length(&self, vcpu: usize, goes_on: bool, back: i64) -> i64 {
        let it = &self.vcpus[vcpu];
        let queue = &self.queues[it.queue];
        let begun = if goes_on { self.work.now - it.entered } else { 0 };
        let least = SHORTEST_TIMER.max(self.rules.ratelimit - begun);
        let first = queue.waiting.first().map_or(0, |first| self.vcpus[*first].credit.max(0));
        let credit = it.credit - first.max(back).max(0);
        let length = if credit > 0 { credit * it.weight / queue.heaviest } else { 0 };
        if length < least { least } else { length.min(LONGEST_TIMER) }
    }

    /// The next one has no credit left: everybody of the queue gets more.
    fn reset(&mut self, queue: usize, next: usize) {
        let more = if self.vcpus[next].credit <= LEAST { 2 * INITIAL } else { INITIAL };
        for vcpu in 0..self.vcpus.len() {
            if self.vcpus[vcpu].queue != queue {
                continue;
            }
            if self.cpus[self.vcpus[vcpu].cpu].current == Some(vcpu) {
                self.burn(vcpu);
            }
            let it = &mut self.vcpus[vcpu];
            it.credit += more;
            if self.rules.clips_savings {
                it.credit = it.credit.min(INITIAL + CARRIED_OVER);
            }
            it.paid_until = self.work.now;
        }
    }
}
