//! The work of virtual CPUs on a host: who computes, who sleeps, how much each has used, and timers that go off a little
//! late. Both reference schedulers stand on it.

use super::host::{Host, Load, MILLI, Random};

/// How one run of a reference scheduler differs from another.
#[derive(Clone, Debug)]
pub struct Run {
    /// When each CPU's timers come, relative to the others.
    pub phases: Vec<i64>,
    /// When the first accounting comes.
    pub accounting: i64,
    /// When each virtual CPU begins.
    pub starts: Vec<i64>,
    /// A timer is late by up to so much. Xen lets timers wait for others by 50 µs (`timer_slop`).
    pub lateness: i64,
    /// When looking begins, and when it ends.
    pub from: i64,
    pub until: i64,
    pub seed: u64,
}

impl Run {
    /// One with phases of its own.
    pub fn made(host: &Host, seed: u64, from: i64, until: i64) -> Self {
        let mut random = Random::new(seed ^ 0xfade);
        let phases = (0..host.cpus).map(|_| random.between(0, 10 * MILLI - 1)).collect();
        let accounting = random.between(1, 30 * MILLI);
        let starts = host.vcpus().iter().map(|_| random.between(0, 60 * MILLI)).collect();
        Self { phases, accounting, starts, lateness: 50_000, from, until, seed }
    }

    /// All timers in step and never late, everybody begins at once.
    pub fn in_step(host: &Host, from: i64, until: i64) -> Self {
        let starts = host.vcpus().iter().map(|_| 0).collect();
        let phases = vec![0; host.cpus];
        Self { phases, accounting: 30 * MILLI, starts, lateness: 0, from, until, seed: 0 }
    }
}

/// What a virtual CPU does just now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Sleeping { until: i64 },
    Ready,
    Running { since: i64 },
}

pub struct Work {
    pub now: i64,
    pub state: Vec<State>,
    pub run: Run,
    loads: Vec<Load>,
    /// CPU time until it sleeps.
    left: Vec<i64>,
    used: Vec<i64>,
    random: Random,
}

impl Work {
    pub fn new(host: &Host, run: &Run) -> Self {
        let vcpus = host.vcpus();
        let loads: Vec<Load> = vcpus.iter().map(|(vm, _)| host.vms[*vm].load).collect();
        let left =
            loads.iter().map(|load| if let Load::OnOff { work, .. } = load { *work } else { i64::MAX });
        Self {
            now: 0,
            state: run.starts.iter().map(|start| State::Sleeping { until: *start }).collect(),
            left: left.collect(),
            used: vec![0; vcpus.len()],
            loads,
            random: Random::new(run.seed),
            run: run.clone(),
        }
    }

    /// When a timer goes off that was set for `at`.
    pub fn late(&mut self, at: i64) -> i64 {
        at + self.random.between(0, self.run.lateness)
    }

    /// When this one falls asleep or wakes.
    pub fn turns(&self, vcpu: usize) -> Option<i64> {
        match self.state[vcpu] {
            State::Sleeping { until } => Some(until),
            State::Running { since } if self.loads[vcpu] != Load::Endless => Some(since + self.left[vcpu]),
            State::Running { .. } | State::Ready => None,
        }
    }

    pub fn start(&mut self, vcpu: usize) {
        assert_eq!(self.state[vcpu], State::Ready);
        self.state[vcpu] = State::Running { since: self.now };
    }

    /// Takes it off its CPU; it wants to go on.
    pub fn stop(&mut self, vcpu: usize) {
        let State::Running { since } = self.state[vcpu] else { panic!("{vcpu} does not run") };
        self.count(vcpu, since);
        if self.loads[vcpu] != Load::Endless {
            self.left[vcpu] -= self.now - since;
        }
        self.state[vcpu] = State::Ready;
    }

    /// It has done its work and sleeps.
    pub fn sleep(&mut self, vcpu: usize) {
        self.stop(vcpu);
        let Load::OnOff { work, wait } = self.loads[vcpu] else { panic!("{vcpu} never sleeps") };
        assert_eq!(self.left[vcpu], 0);
        self.left[vcpu] = work;
        self.state[vcpu] = State::Sleeping { until: self.now + wait };
    }

    pub fn wake(&mut self, vcpu: usize) {
        self.state[vcpu] = State::Ready;
    }

    fn count(&mut self, vcpu: usize, since: i64) {
        self.used[vcpu] += (self.now.min(self.run.until) - since.max(self.run.from)).max(0);
    }

    /// CPUs that each VM had while it was looked.
    pub fn cpus(mut self, host: &Host) -> Vec<f64> {
        self.now = self.run.until;
        for vcpu in 0..self.state.len() {
            if let State::Running { since } = self.state[vcpu] {
                self.count(vcpu, since);
            }
        }
        let mut of = vec![0.0; host.vms.len()];
        for ((vm, _), used) in host.vcpus().iter().zip(&self.used) {
            of[*vm] += *used as f64 / (self.run.until - self.run.from) as f64;
        }
        of
    }
}

/// The next CPU after `cpu` of those that `is` says, round and round; `cpu` itself comes last.
pub fn cycle(cpu: usize, cpus: usize, is: impl Fn(usize) -> bool) -> Option<usize> {
    (1..=cpus).map(|step| (cpu + step) % cpus).find(|cpu| is(*cpu))
}
