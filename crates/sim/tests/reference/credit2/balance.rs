//! Loads of credit2's queues, averaged over about a second, and what is moved between queues when they differ.

use super::{Credit2, DIGITS};

/// The window of the averages, 2^20 times 1024 ns.
const WINDOW: u32 = 20;
const GRAIN: u32 = 10;

impl Credit2 {
    /// Notes a new number of runnable virtual CPUs, and lets the averages follow.
    pub fn count(&mut self, queue: usize, vcpu: Option<usize>, change: i64) {
        let at = self.work.now >> GRAIN;
        let it = &mut self.queues[queue];
        it.load = averaged(it.load, it.runnable, at - it.load_at);
        it.load_at = at;
        it.runnable += change;
        if let Some(vcpu) = vcpu {
            let was = match change {
                -1 => 1,
                1 => 0,
                _ => i64::from(self.can_run(vcpu)),
            };
            let own = &mut self.vcpus[vcpu];
            own.load = averaged(own.load, was, at - own.load_at);
            own.load_at = at;
        }
    }

    /// Between the queue and the one whose load differs most: the push, pull or swap after which they differ least.
    pub fn balance(&mut self, local: usize) {
        self.count(local, None, 0);
        let (mut least, mut other, mut end) = (0, None, local);
        for queue in (0..self.queues.len()).filter(|queue| *queue != local) {
            self.count(queue, None, 0);
            end = queue;
            let difference = (self.queues[local].load - self.queues[queue].load).abs();
            if difference > least {
                (least, other) = (difference, Some(queue));
            }
        }
        let Some(other) = other else { return };
        // Xen looks at the last queue of its list here, not at the one that it has found.
        let most = self.queues[local].load.max(self.queues[end].load);
        let cpus = |queue| self.cpus.iter().filter(|cpu| cpu.queue == queue).count() as i64;
        let is_under = most < cpus(local).max(cpus(end)) << DIGITS;
        if least < 1 << (if is_under { DIGITS } else { DIGITS - 3 }) {
            return;
        }
        let of = |it: &Self, queue| {
            (0..it.vcpus.len()).filter(|at| it.vcpus[*at].queue == queue).collect::<Vec<_>>()
        };
        let (here, there) = (of(self, local), of(self, other));
        for vcpu in here.iter().chain(&there) {
            self.age(*vcpu);
        }
        let can_move = |vcpu: &usize, to| {
            let it = &self.vcpus[*vcpu];
            it.moves_to.is_none() && (0..self.cpus.len()).any(|at| it.places[at] && self.cpus[at].queue == to)
        };
        let pushed: Vec<usize> = here.into_iter().filter(|vcpu| can_move(vcpu, other)).collect();
        let pulled: Vec<usize> = there.into_iter().filter(|vcpu| can_move(vcpu, local)).collect();
        let mut best = (None, None);
        let load = |vcpu: Option<usize>| vcpu.map_or(0, |vcpu| self.vcpus[vcpu].load);
        for push in pushed.iter().copied().map(Some).chain([None]) {
            for pull in pulled.iter().copied().map(Some).chain([None]) {
                let moved = 2 * (load(pull) - load(push));
                let difference = (self.queues[local].load - self.queues[other].load + moved).abs();
                if difference < least {
                    (least, best) = (difference, (push, pull));
                }
            }
        }
        for (vcpu, to) in [(best.0, other), (best.1, local)] {
            if let Some(vcpu) = vcpu {
                self.migrate(vcpu, to);
            }
        }
    }

    fn age(&mut self, vcpu: usize) {
        let at = self.work.now >> GRAIN;
        let was = i64::from(self.can_run(vcpu));
        let it = &mut self.vcpus[vcpu];
        it.load = averaged(it.load, was, at - it.load_at);
        it.load_at = at;
    }

    fn migrate(&mut self, vcpu: usize, to: usize) {
        if self.vcpus[vcpu].is_scheduled {
            self.vcpus[vcpu].moves_to = Some(to);
            self.call(self.vcpus[vcpu].cpu);
            return;
        }
        let from = self.vcpus[vcpu].queue;
        let waits = self.queues[from].waiting.contains(&vcpu);
        if waits {
            self.queues[from].waiting.retain(|other| *other != vcpu);
            self.count(from, None, -1);
        }
        self.leave(vcpu);
        self.vcpus[vcpu].cpu = self.cpu_in(&self.vcpus[vcpu].places.clone(), to);
        self.assign(vcpu, to);
        if waits {
            self.count(to, None, 1);
            self.enqueue(vcpu);
            self.tickle(vcpu);
        }
    }
}

/// A load after `time` of `count` runnable ones.
fn averaged(load: i64, count: i64, time: i64) -> i64 {
    if time > 1 << WINDOW {
        return count << DIGITS;
    }
    load + ((time * (count << DIGITS)) >> WINDOW) - ((time * load) >> WINDOW)
}
