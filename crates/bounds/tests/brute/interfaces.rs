//! Least budgets against a fine search that tries every budget, by ticks and by counting windows.

use std::cmp::Ordering;

use bounds::{Interface, NoInterface, Scheduler, Server, Task, least_bandwidth, least_budget, rows};
use rand::RngExt;

use crate::made::{Made, Rng, load, ns, quota, rng, server, tasks};
use crate::simulator::{Order, dense, run};

const HORIZON: i64 = 700;

/// Whether all jobs of the worst run are on time, by ticks; under earliest deadline first all windows are counted by letting
/// each task's last deadline be met, as late as it is: the run in which all is released at once has the most due.
fn is_on_time(tasks: &[Task], scheduler: Scheduler, made: &Made) -> bool {
    let ticks = &made.worst[0];
    let offsets = vec![0; tasks.len()];
    let order = match scheduler {
        Scheduler::FixedPriority => Order::Priority,
        Scheduler::Edf => Order::Deadline { last: 0 },
    };
    // Jobs released later than this need not end before the horizon.
    let mut releases = dense(tasks, &offsets, HORIZON - 100);
    let seen = run(tasks, &mut releases, &mut |now| ticks.at(now), order, 0, HORIZON);
    let on_time = seen.longest.iter().zip(tasks).all(|(seen, task)| *seen <= task.deadline().get());
    // What is a little too much is late only after a long time.
    on_time && seen.all_ended && load(tasks, made) != Ordering::Greater
}

fn some(rng: &mut Rng) -> Vec<Task> {
    let tasks = tasks(rng).into_iter();
    // Deadlines after releases, so that there is an interface at all for most.
    tasks.map(|task| task.with_deadline(ns(task.deadline().get().max(task.jitter().get() + 2)))).collect()
}

#[test]
fn least_budgets_are_those_of_a_fine_search() {
    let (mut found, mut none) = (0, 0);
    for seed in 0..1200 {
        let mut rng = rng(seed);
        let tasks = some(&mut rng);
        let period = rng.random_range(1..16);
        let deadline = rng.random_range(1..=period);
        for scheduler in [Scheduler::FixedPriority, Scheduler::Edf] {
            let (kind, largest) = match seed % 3 {
                0 => (Server::Periodic, period),
                1 => (Server::ExplicitDeadline { deadline: ns(deadline) }, deadline),
                _ => (Server::Quota, period),
            };
            let make = |budget| match kind {
                Server::Periodic => server(period, budget, period),
                Server::ExplicitDeadline { .. } => server(period, budget, deadline),
                Server::Quota => quota(period, budget),
            };
            let fine = (1..=largest).find(|budget| is_on_time(&tasks, scheduler, &make(*budget)));
            match least_budget(&tasks, scheduler, kind, ns(period)) {
                Ok(Interface { budget, is_least, .. }) => {
                    assert!(is_least);
                    assert_eq!(Some(budget.get()), fine, "{scheduler:?} {kind:?} {period}: {tasks:#?}");
                    found += 1;
                }
                Err(NoInterface::NotSchedulable { .. }) => {
                    assert_eq!(fine, None, "{scheduler:?} {kind:?} {period}: {tasks:#?}");
                    none += 1;
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
    assert!(found > 500 && none > 100, "{found} found, {none} without");
}

/// Whole nanoseconds of real sizes: the budget is enough, a nanosecond less is not.
#[test]
fn budgets_are_exact_to_the_nanosecond() {
    let us = |us: u64| ns(us * 1000);
    let tasks = [(1_370, 20_000, 3), (4_411, 50_000, 2), (10_007, 100_000, 1)]
        .map(|(c, t, priority)| Task::new(us(c), us(t)).unwrap().with_priority(priority));
    let periods = [500, 1_000, 2_500, 5_000, 7_001, 10_000].map(us);
    for scheduler in [Scheduler::FixedPriority, Scheduler::Edf] {
        let rows = rows(&tasks, scheduler, Server::Periodic, &periods);
        let mut last = 0.0;
        for row in &rows {
            let interface = row.interface.as_ref().unwrap();
            assert!(interface.is_least && interface.bandwidth() > last * 0.9);
            last = interface.bandwidth();
            let supply = |budget| Server::Periodic.supply(row.period, budget).unwrap();
            assert!(scheduler.test(&tasks, &supply(interface.budget)).is_schedulable());
            let less = ns(interface.budget.get() - 1);
            assert!(!scheduler.test(&tasks, &supply(less)).is_schedulable());
            let task = interface.as_task().unwrap();
            assert_eq!((task.execution(), task.period()), (interface.budget, row.period));
        }
        let best = least_bandwidth(&rows).unwrap().bandwidth();
        assert!(rows.iter().all(|row| row.interface.as_ref().unwrap().bandwidth() >= best));
    }
}

/// Earliest deadline first is optimal, so it never needs more than fixed priorities do.
#[test]
fn earliest_deadline_first_needs_no_more_than_fixed_priorities() {
    for seed in 0..500 {
        let mut rng = rng(seed);
        let tasks = some(&mut rng);
        let period = ns(rng.random_range(1..16));
        let fixed = least_budget(&tasks, Scheduler::FixedPriority, Server::Periodic, period);
        let edf = least_budget(&tasks, Scheduler::Edf, Server::Periodic, period);
        if let Ok(fixed) = fixed {
            assert!(edf.unwrap().budget <= fixed.budget, "{tasks:#?}");
        }
    }
}
