//! Two levels at once: interfaces that are found alone hold together on one CPU; and sizes do not matter.

use bounds::{
    Interface, Scheduler, Server, Supply, Task, Verdict, Window, admission, edf, fixed_priority, least_budget,
};
use rand::RngExt;

use crate::made::{Rng, ns, rng, tasks};
use crate::priorities::anywhere;
use crate::simulator::{Release, whole};

const HORIZON: i64 = 2000;

/// A VM with its server and what it still has to do: jobs and what is left of them.
struct Vm {
    tasks: Vec<Task>,
    scheduler: Scheduler,
    interface: Interface,
    left: i64,
    /// Of a constant-bandwidth server: when its budget is due.
    due: i64,
    waiting: Vec<(Release, i64)>,
    longest: Vec<u64>,
}

impl Vm {
    fn new(rng: &mut Rng) -> Option<Self> {
        let tasks = tasks(rng);
        let scheduler = [Scheduler::FixedPriority, Scheduler::Edf][rng.random_range(0..2)];
        let period = ns(rng.random_range(2..9));
        // Deadlines so long that most sets leave room for others.
        let tasks: Vec<Task> = tasks
            .into_iter()
            .map(|task| task.with_deadline(ns(task.deadline().get() + 20)))
            .take(rng.random_range(1..3))
            .collect();
        let interface = least_budget(&tasks, scheduler, Server::Periodic, period).ok()?;
        let longest = vec![0; tasks.len()];
        Some(Self { tasks, scheduler, interface, left: 0, due: 0, waiting: Vec::new(), longest })
    }

    fn tick(&mut self, now: i64) {
        self.left -= 1;
        let key = |(release, _): &(Release, i64)| {
            let task = &self.tasks[release.task];
            match self.scheduler {
                Scheduler::FixedPriority => (-i64::from(task.priority()), release.arrival),
                Scheduler::Edf => (release.arrival + whole(task.deadline()), release.arrival),
            }
        };
        let place = (0..self.waiting.len()).min_by_key(|place| key(&self.waiting[*place])).unwrap();
        self.waiting[place].1 -= 1;
        if self.waiting[place].1 == 0 {
            let (release, _) = self.waiting.remove(place);
            let response = (now + 1 - release.arrival).unsigned_abs();
            self.longest[release.task] = self.longest[release.task].max(response);
        }
    }
}

/// What becomes of a budget that nobody wants.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It is used up all the same.
    Idling,
    /// It is kept until the period is over.
    Deferrable,
    /// A hard constant-bandwidth server.
    Reservation,
}

impl Vm {
    /// What happens to its server before this tick.
    fn fill(&mut self, kind: Kind, now: i64, was_idle: bool) {
        let [period, budget] = [self.interface.period, self.interface.budget].map(whole);
        if kind != Kind::Reservation {
            if now % period == 0 {
                (self.left, self.due) = (budget, now + period);
            }
            return;
        }
        let wakes = was_idle && !self.waiting.is_empty();
        if wakes && (now >= self.due || self.left * period > (self.due - now) * budget) {
            (self.left, self.due) = (budget, now + period);
        } else if self.left == 0 && now >= self.due {
            (self.left, self.due) = (budget, self.due + period);
        }
    }
}

/// Servers by earliest deadline on one CPU, tasks inside: whoever has a late or longer response than its bound.
fn beyond(vms: &mut [Vm], kind: Kind, rng: &mut Rng) -> Option<String> {
    let mut coming: Vec<Vec<Release>> = vms.iter().map(|vm| anywhere(&vm.tasks, rng, HORIZON)).collect();
    for of_vm in &mut coming {
        of_vm.sort_by_key(|release| std::cmp::Reverse(release.at));
    }
    for now in 0..HORIZON {
        for (vm, coming) in vms.iter_mut().zip(&mut coming) {
            let was_idle = vm.waiting.is_empty();
            while let Some(release) = coming.pop_if(|release| release.at <= now) {
                vm.waiting.push((release, whole(vm.tasks[release.task].execution())));
            }
            vm.fill(kind, now, was_idle);
        }
        let wants = |vm: &&mut Vm| vm.left > 0 && (kind == Kind::Idling || !vm.waiting.is_empty());
        match vms.iter_mut().filter(wants).min_by_key(|vm| vm.due) {
            Some(vm) if vm.waiting.is_empty() => vm.left -= 1,
            Some(vm) => vm.tick(now),
            None => {}
        }
    }
    vms.iter().find_map(|vm| {
        let supply = Supply::periodic(vm.interface.period, vm.interface.budget).unwrap();
        let bounds = vm.scheduler.responses(&vm.tasks, &supply);
        let mut all = bounds.into_iter().zip(&vm.longest).zip(&vm.tasks);
        let late = all.find(|((bound, seen), task)| {
            **seen > task.deadline().get() || bound.as_ref().is_ok_and(|bound| **seen > bound.response.get())
        });
        late.map(|late| format!("{late:?} of {:?} on {:?}", vm.tasks, vm.interface))
    })
}

/// VMs with the least budgets found alone, of which a host's test accepts all together: they keep all bounds together.
fn fit_together(kind: Kind, test: fn(&[Task]) -> Verdict) {
    let (mut sets, mut most) = (0, 0.0_f64);
    for seed in 0..4000 {
        let mut rng = rng(seed);
        let mut vms: Vec<Vm> = (0..rng.random_range(2..4)).filter_map(|_| Vm::new(&mut rng)).collect();
        let servers: Vec<Task> = vms.iter().map(|vm| vm.interface.as_task().unwrap()).collect();
        if servers.len() < 2 || !test(&servers).is_schedulable() {
            continue;
        }
        sets += 1;
        most = most.max(vms.iter().map(|vm| vm.interface.bandwidth()).sum());
        assert_eq!(beyond(&mut vms, kind, &mut rng), None, "{seed}");
    }
    eprintln!("{sets} sets, at most {most} of a CPU");
    assert!(sets > 300 && most > 0.8, "{sets} sets, at most {most} of a CPU");
}

fn by_edf(servers: &[Task]) -> Verdict {
    edf::test(servers, &Supply::whole_cpu())
}

#[test]
fn servers_that_lose_what_is_not_wanted_fit_together() {
    fit_together(Kind::Idling, by_edf);
}

#[test]
fn reservations_fit_together() {
    fit_together(Kind::Reservation, admission::reservations);
}

#[test]
fn deferrable_servers_fit_together() {
    fit_together(Kind::Deferrable, admission::deferrable);
}

/// What a deferrable server kept comes on top: that budgets over periods sum up to 1 is not enough.
#[test]
fn of_deferrable_servers_the_sum_alone_is_not_enough() {
    let broken = (0..4000).filter(|seed| {
        let mut rng = rng(*seed);
        let mut vms: Vec<Vm> = (0..rng.random_range(2..4)).filter_map(|_| Vm::new(&mut rng)).collect();
        let servers: Vec<Task> = vms.iter().map(|vm| vm.interface.as_task().unwrap()).collect();
        by_edf(&servers).is_schedulable() && beyond(&mut vms, Kind::Deferrable, &mut rng).is_some()
    });
    assert!(broken.count() > 0);
    let servers = [(2, 4), (3, 6)].map(|(q, p)| Task::new(ns(q), ns(p)).unwrap());
    assert!(by_edf(&servers).is_schedulable());
    assert!(matches!(admission::deferrable(&servers), Verdict::NotSchedulable(_)));
    assert!(admission::deferrable(&servers[..1]).is_schedulable());
}

/// Everything so many times as long: so are responses, and verdicts are the same. What is right in single ticks is right
/// in nanoseconds.
#[test]
fn larger_times_change_nothing() {
    for seed in 0..1500 {
        let mut rng = rng(seed);
        let factor = [1_000_000, 999_999_937, 1 << 40, 1 << 50][rng.random_range(0..4)];
        let small = tasks(&mut rng);
        let scaled = |task: &Task| {
            let [c, t, d, j] = [task.execution(), task.period(), task.deadline(), task.jitter()]
                .map(|time| ns(time.get() * factor));
            let task = Task::new(c, t).unwrap().with_priority(task.priority());
            task.with_deadline(d).with_jitter(j)
        };
        let large: Vec<Task> = small.iter().map(scaled).collect();
        let (period, start) = (rng.random_range(2..12_u64), rng.random_range(0..4_u64));
        let budget = rng.random_range(period.div_ceil(2)..=period);
        let make = |by: u64| {
            let [start, first, rest] = [start * by, budget * by, period * by].map(ns);
            let windows = [(ns(0), start), (ns(start.get() + by), first)];
            let windows = windows.map(|(start, length)| Window { start, length });
            match seed % 3 {
                0 => Supply::periodic(rest, first).unwrap(),
                1 => Supply::quota(first, rest).unwrap(),
                _ => Supply::table(ns(start.get() + by + rest.get()), &windows).unwrap(),
            }
        };
        for scheduler in [Scheduler::FixedPriority, Scheduler::Edf] {
            let before = scheduler.responses(&small, &make(1));
            let after = scheduler.responses(&large, &make(factor));
            for (before, after) in before.into_iter().zip(after) {
                let before = before.map(|bound| bound.response.get() * factor).ok();
                assert_eq!(before, after.map(|bound| bound.response.get()).ok(), "{seed}");
            }
            let verdict = |tasks: &[Task], by| scheduler.test(tasks, &make(by)).is_schedulable();
            assert_eq!(verdict(&small, 1), verdict(&large, factor), "{seed}");
        }
    }
    assert!(fixed_priority::responses(&[], &Supply::whole_cpu()).is_empty());
}
