//! Who sleeps beside who never does, on one CPU: there a single queue and queues per CPU are the same thing, and EEVDF is short
//! enough to be written down once more.

use super::random::{Case, Does, Kind, VmCase};
use super::{ENDLESS, host, machine, run, shares, vm};
use crate::host::Limits;
use crate::random::Stream;
use crate::time::{Span, Time};

const CASES: u64 = 100;
const SPAN: Span = Span::from_secs(60);
/// Nanoseconds that count for nothing: 60 s are 6 × 10¹⁰ of them, and an f64 has 16 digits.
const NEAR: f64 = 0.01;

/// One CPU, an endless loop, and one to three VMs that work and sleep for random times.
fn case(kind: Kind, slice: Span, number: u64) -> Case {
    let mut random = Stream::new(number, &[77]);
    let mut up_to = |most: u64| 1 + random.below(most);
    let vm = |weight, does| VmCase {
        vcpus: 1,
        weight,
        reserved: 0.0,
        limit: None,
        places: vec![vec![0]],
        threads: vec![does],
    };
    let mut vms = vec![vm(1.0, Does::Endless)];
    for _ in 0..up_to(3) {
        let weight = [0.5, 1.0, 2.0, 4.0, 100.0][usize::try_from(up_to(5) - 1).unwrap_or(0)];
        let (work, sleep) = (Span::from_micros(up_to(40) * 250), Span::from_micros(up_to(40) * 250));
        vms.push(vm(weight, Does::Naps(work, sleep, u32::MAX)));
    }
    let seed = 2 * number;
    Case { kind, cpus: 1, slice, switch: Span::ZERO, vms, seed, staggered: true, per_vcpu: false, width: 1 }
}

fn simulated(case: &Case) -> Vec<f64> {
    let mut machine = case.machine();
    machine.run(&Limits { until: Time::ZERO + SPAN, events: u64::MAX, when_done: false });
    shares(&machine)
}

/// What a task wants.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Wants {
    /// So much work yet, in ns.
    Work(f64),
    SleepUntil(f64),
}

/// A task of the written-down EEVDF.
#[derive(Debug, Clone)]
struct Task {
    weight: f64,
    does: Does,
    wants: Wants,
    v: f64,
    deadline: f64,
    lag: f64,
    queued: bool,
    /// Sleeps, but owes something and stays queued until it is picked.
    delayed: bool,
    had: f64,
}

/// Linux' rules since 6.12 on one CPU, without its protection of who runs and without the tick: a mean by weight over all
/// that are queued, lag kept over sleep, debts repaid in the queue.
struct Linux {
    tasks: Vec<Task>,
    running: Option<usize>,
    now: f64,
    slice: f64,
    random: Stream,
}

impl Linux {
    fn new(case: &Case) -> Self {
        let mut random = Stream::new(case.seed, &[78]);
        let task = |vm: &VmCase| Task {
            weight: vm.weight,
            does: vm.threads[0],
            wants: Wants::Work(work(vm.threads[0], &mut random)),
            v: 0.0,
            deadline: case.slice.as_f64() / vm.weight,
            lag: 0.0,
            queued: true,
            delayed: false,
            had: 0.0,
        };
        let tasks = case.vms.iter().map(task).collect();
        Self { tasks, running: None, now: 0.0, slice: case.slice.as_f64(), random }
    }

    fn mean(&self) -> f64 {
        let queued = || self.tasks.iter().filter(|task| task.queued);
        queued().map(|task| task.weight * task.v).sum::<f64>() / queued().map(|task| task.weight).sum::<f64>()
    }

    fn pick(&self) -> Option<usize> {
        let mean = self.mean() + NEAR;
        let eligible = (0..self.tasks.len()).filter(|at| self.tasks[*at].queued && self.tasks[*at].v <= mean);
        eligible.min_by(|a, b| self.tasks[*a].deadline.total_cmp(&self.tasks[*b].deadline))
    }

    fn dequeue(&mut self, at: usize) {
        let most = 2.0 * self.slice / self.tasks[at].weight;
        self.tasks[at].lag = (self.mean() - self.tasks[at].v).clamp(-most, most);
        self.tasks[at].queued = false;
    }

    fn wake(&mut self, at: usize) {
        self.tasks[at].wants = Wants::Work(work(self.tasks[at].does, &mut self.random));
        if std::mem::take(&mut self.tasks[at].delayed) {
            if self.tasks[at].v > self.mean() {
                return;
            }
            self.dequeue(at);
            self.tasks[at].lag = 0.0;
        }
        let load: f64 = self.tasks.iter().filter(|task| task.queued).map(|task| task.weight).sum();
        let mean = self.mean();
        let it = &mut self.tasks[at];
        if load > 0.0 {
            it.v = mean - it.lag * (load + it.weight) / load;
        }
        it.deadline = it.v + self.slice / it.weight;
        it.queued = true;
    }

    /// The next to run; who only pays off debts has paid them.
    fn reschedule(&mut self) {
        loop {
            self.running = self.pick();
            match self.running {
                Some(at) if self.tasks[at].delayed => {
                    self.tasks[at].delayed = false;
                    self.dequeue(at);
                    self.tasks[at].lag = self.tasks[at].lag.min(0.0);
                }
                _ => return,
            }
        }
    }

    /// When something happens next: somebody wakes, or who runs is done with his work or his request.
    fn next_at(&self) -> f64 {
        let sleepers = self.tasks.iter().filter_map(|task| match task.wants {
            Wants::SleepUntil(at) => Some(at),
            Wants::Work(_) => None,
        });
        let first = sleepers.fold(f64::INFINITY, f64::min);
        let running = self.running.map(|at| &self.tasks[at]);
        running.map_or(first, |it| match it.wants {
            Wants::Work(left) => first.min(self.now + left.min((it.deadline - it.v) * it.weight)),
            Wants::SleepUntil(_) => first,
        })
    }

    /// Who runs has run for so long.
    fn ran(&mut self, at: usize, span: f64) {
        let it = &mut self.tasks[at];
        it.had += span;
        it.v += span / it.weight;
        if it.v >= it.deadline - NEAR {
            it.deadline = it.v + self.slice / it.weight;
        }
        let Wants::Work(left) = it.wants else { return };
        it.wants = Wants::Work(left - span);
        if left - span > NEAR {
            return;
        }
        it.wants = Wants::SleepUntil(self.now + sleep(it.does, &mut self.random));
        if it.v > self.mean() + NEAR {
            self.tasks[at].delayed = true;
        } else {
            self.dequeue(at);
        }
    }

    fn step(&mut self) {
        self.reschedule();
        let at = self.next_at();
        let span = at - self.now;
        self.now = at;
        if let Some(running) = self.running {
            self.ran(running, span);
        }
        for at in 0..self.tasks.len() {
            if matches!(self.tasks[at].wants, Wants::SleepUntil(until) if until <= self.now) {
                self.wake(at);
            }
        }
    }
}

fn work(does: Does, random: &mut Stream) -> f64 {
    match does {
        Does::Naps(work, ..) => random.below(work.nanos()).max(1) as f64,
        _ => f64::INFINITY,
    }
}

fn sleep(does: Does, random: &mut Stream) -> f64 {
    match does {
        Does::Naps(_, sleep, _) => random.below(sleep.nanos()).max(1) as f64,
        _ => f64::INFINITY,
    }
}

fn widest(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn on_one_cpu_a_single_queue_is_a_queue_per_cpu() {
    for (single, queues, slice) in
        [(Kind::Eevdf, Kind::EevdfQueues, 3), (Kind::Credit2, Kind::Credit2Queues, 10)]
    {
        for number in 0..CASES {
            let of = |kind| simulated(&case(kind, Span::from_millis(slice), number));
            let (one, other) = (of(single), of(queues));
            assert!(widest(&one, &other) < 0.01, "{single:?} {number}: {one:?}, not {other:?}");
        }
    }
}

#[test]
fn who_sleeps_has_by_eevdf_what_linux_rules_give() {
    let (mut most, mut close, mut near, mut all) = (0.0_f64, 0, 0, 0);
    for number in 0..CASES {
        let case = case(Kind::Eevdf, Span::from_millis(3), number);
        let mut linux = Linux::new(&case);
        while linux.now < SPAN.as_f64() {
            linux.step();
        }
        let right: Vec<f64> = linux.tasks.iter().map(|task| task.had / linux.now).collect();
        let got = simulated(&case);
        most = most.max(widest(&got, &right));
        let within = |far: &dyn Fn(f64, f64) -> bool| {
            got.iter().zip(&right).filter(|(got, right)| far(**got, **right)).count()
        };
        close += within(&|got, right| (got - right).abs() < 0.01);
        near += within(&|got, right| (got / right - 1.0).abs() <= 0.02);
        all += right.len();
        // Those who owe something and sleep count in the mean there, and not here.
        assert!(widest(&got, &right) < 0.03, "{number}: {got:?}, not {right:?}");
    }
    println!("{near} of {all} within 2 %, {close} within 0.01 CPUs, the widest {most:.3}");
    assert!(close * 20 >= all * 19, "{close} of {all} within 0.01 CPUs");
}

#[test]
fn who_weighs_most_of_all_sleeps_and_still_has_what_it_wants() {
    for queues in ["single", "per-cpu"] {
        // Wants 98 %.
        let sleeper = "program = \"io\", work_us = 9800, wait_us = 200, rounds = 100000";
        let vms = vm("A", 1, "weight = 10000.0", sleeper) + &vm("B", 1, "", ENDLESS);
        let mut machine = machine(&(host(1, &format!("name = \"eevdf\", queues = \"{queues}\"")) + &vms));
        run(&mut machine, Span::from_secs(10));
        let shares = shares(&machine);
        assert!((shares[0] - 0.98).abs() < 0.005, "{queues}: {shares:?}");
    }
}
