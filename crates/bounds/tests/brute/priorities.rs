//! Fixed priorities: responses observed against their bounds.

use std::cmp::Ordering;

use bounds::{NoBound, Supply, Task, Verdict, fixed_priority};
use rand::RngExt;

use crate::hosts::{Deferrable, HardCbs, Mood, Turns};
use crate::made::{Tally, exact_supply, load, ns, quota, rng, server, signed, table, tasks, turns};
use crate::simulator::{Order, Release, Seen, dense, run, whole};

const HORIZON: i64 = 1500;

/// No job takes longer than its bound; returns what was observed.
fn below(tasks: &[Task], supply: &Supply, seen: &Seen, about: &str) {
    for ((bound, seen), number) in fixed_priority::responses(tasks, supply).iter().zip(&seen.longest).zip(0..)
    {
        if let Ok(bound) = bound {
            let bound = bound.response.get();
            assert!(*seen <= bound, "task {number}: {seen} observed, bound {bound}, {about}, {tasks:#?}");
        }
    }
}

/// 1500 random sets on random supplies, released at once when waiting begins.
#[test]
fn bounds_are_reached_when_all_is_released_at_the_worst_moment() {
    let mut tally = Tally::default();
    let (mut refused, mut all) = (0, 0);
    for seed in 0..1500 {
        let mut rng = rng(seed);
        let (tasks, made) = (tasks(&mut rng), exact_supply(&mut rng));
        let mut longest = vec![0; tasks.len()];
        for ticks in &made.worst {
            let mut releases = dense(&tasks, &vec![0; tasks.len()], HORIZON);
            let seen = run(&tasks, &mut releases, &mut |now| ticks.at(now), Order::Priority, 0, HORIZON);
            below(&tasks, &made.supply, &seen, &made.what);
            longest = longest.iter().zip(&seen.longest).map(|(a, b)| *a.max(b)).collect();
        }
        let bounds = fixed_priority::responses(&tasks, &made.supply);
        for (number, (bound, longest)) in bounds.iter().zip(longest).enumerate() {
            all += 1;
            let urgent: Vec<Task> = tasks
                .iter()
                .enumerate()
                .filter(|(other, task)| *other == number || task.priority() > tasks[number].priority())
                .map(|(_, task)| *task)
                .collect();
            match bound {
                Ok(bound) => {
                    assert!(bound.is_reached && load(&urgent, &made) != Ordering::Greater);
                    tally.count(bound.response.get() == longest);
                }
                Err(NoBound::Overload { .. }) => {
                    assert_eq!(load(&urgent, &made), Ordering::Greater);
                    refused += 1;
                }
                Err(other) => panic!("{other}: {tasks:#?} {}", made.what),
            }
        }
        let is_on_time = bounds
            .iter()
            .zip(&tasks)
            .all(|(bound, task)| bound.as_ref().is_ok_and(|bound| bound.response <= task.deadline()));
        assert_eq!(fixed_priority::test(&tasks, &made.supply).is_schedulable(), is_on_time);
    }
    tally.holds(99, 4000, "fixed priorities");
    assert!(refused * 20 > all / 2, "{refused} of {all} overloads");
}

/// Releases anywhere, with any jitter, as seldom as they like.
pub fn anywhere(tasks: &[Task], rng: &mut crate::made::Rng, horizon: i64) -> Vec<Release> {
    let mut releases = Vec::new();
    for (task, its) in tasks.iter().enumerate() {
        let (period, jitter) = (whole(its.period()), whole(its.jitter()));
        let mut arrival = rng.random_range(0..period);
        // The earlier job of a task is released no later than the next.
        let mut last = 0;
        while arrival < horizon {
            last = last.max(arrival + rng.random_range(0..=jitter));
            releases.push(Release { task, arrival, at: last });
            let late = if rng.random_range(0..4) == 0 { rng.random_range(0..period) } else { 0 };
            arrival += period + late;
        }
    }
    releases
}

/// Servers that behave: they count what was used, and are given it late, by chance or at once.
#[test]
fn nothing_exceeds_its_bound_on_hosts_that_behave_as_they_like() {
    for seed in 0..2000 {
        let mut rng = rng(seed);
        let tasks = tasks(&mut rng);
        let period = rng.random_range(2..12_u64);
        let budget = rng.random_range(period.div_ceil(2)..=period);
        let deadline = rng.random_range(budget..=period);
        let mood = [Mood::Late, Mood::Coin, Mood::Soon][rng.random_range(0..3)];
        let mut releases = anywhere(&tasks, &mut rng, HORIZON);
        let own = rng.clone();
        let [p, q, d] = [period, budget, deadline].map(signed);
        let mut deferrable = |mood| Deferrable {
            budget: q,
            period: p,
            phase: rng.random_range(0..p),
            mood,
            rng: own.clone(),
            left: q,
        };
        let order = Order::Priority;
        let (made, seen) = match seed % 5 {
            0 => {
                let mut host = HardCbs::new([q, p, d], mood, own.clone());
                let made = server(period, budget, deadline);
                (made, run(&tasks, &mut releases, &mut host, order, 0, HORIZON))
            }
            1 => (
                server(period, budget, period),
                run(&tasks, &mut releases, &mut deferrable(mood), order, 0, HORIZON),
            ),
            2 => (
                quota(period, budget),
                run(&tasks, &mut releases, &mut deferrable(Mood::Soon), order, 0, HORIZON),
            ),
            3 => {
                let (quantum, others) = (rng.random_range(1..4), rng.random_range(0..2));
                let mut host = Turns::new(signed(quantum), signed(others));
                (turns(quantum, others), run(&tasks, &mut releases, &mut host, order, 0, HORIZON))
            }
            _ => {
                let made = table(&mut rng);
                let ticks = made.worst[rng.random_range(0..made.worst.len())].clone();
                let seen = run(&tasks, &mut releases, &mut |now| ticks.at(now), order, 0, HORIZON);
                (made, seen)
            }
        };
        below(&tasks, &made.supply, &seen, &made.what);
    }
}

/// Every offset of three tasks on a CPU and on a server: none is worse than the bound, one reaches it.
#[test]
fn of_all_offsets_of_small_sets_none_exceeds_the_bound_and_one_reaches_it() {
    let mut tally = Tally::default();
    for seed in 0..60 {
        let mut rng = rng(seed);
        let mut tasks: Vec<Task> = (1..4)
            .map(|priority| {
                let period = rng.random_range(3..8);
                let execution = rng.random_range(1..=(period / 3).max(1));
                Task::new(ns(execution), ns(period)).unwrap().with_priority(priority)
            })
            .collect();
        tasks.truncate(rng.random_range(2..4));
        let made = exact_supply(&mut rng);
        let bounds = fixed_priority::responses(&tasks, &made.supply);
        if bounds.iter().any(Result::is_err) {
            continue;
        }
        let mut longest = vec![0; tasks.len()];
        let periods: Vec<i64> = tasks.iter().map(|task| whole(task.period())).collect();
        let many: i64 = periods.iter().product();
        for ticks in &made.worst {
            for number in 0..many {
                let offsets: Vec<i64> = periods
                    .iter()
                    .scan(number, |rest, period| {
                        let offset = *rest % period;
                        *rest /= period;
                        Some(offset)
                    })
                    .collect();
                let mut releases = dense(&tasks, &offsets, 300);
                let seen = run(&tasks, &mut releases, &mut |now| ticks.at(now), Order::Priority, 0, 300);
                below(&tasks, &made.supply, &seen, &made.what);
                longest = longest.iter().zip(&seen.longest).map(|(a, b)| *a.max(b)).collect();
            }
        }
        for (bound, longest) in bounds.iter().zip(longest) {
            tally.count(bound.as_ref().unwrap().response.get() == longest);
        }
    }
    tally.holds(95, 60, "all offsets");
}

/// Work that nobody preempts comes first; the bound counts it.
#[test]
fn blocking_is_within_the_bound_and_can_reach_it() {
    let mut tally = Tally::default();
    for seed in 0..500 {
        let mut rng = rng(seed);
        let block = rng.random_range(1..6);
        let tasks: Vec<Task> =
            tasks(&mut rng).into_iter().map(|task| task.with_blocking(ns(block))).collect();
        let made = exact_supply(&mut rng);
        let mut longest = vec![0; tasks.len()];
        for ticks in &made.worst {
            let mut releases = dense(&tasks, &vec![0; tasks.len()], HORIZON);
            let mut host = |now| ticks.at(now);
            let seen = run(&tasks, &mut releases, &mut host, Order::Priority, signed(block), HORIZON);
            below(&tasks, &made.supply, &seen, &made.what);
            longest = longest.iter().zip(&seen.longest).map(|(a, b)| *a.max(b)).collect();
        }
        for (bound, longest) in fixed_priority::responses(&tasks, &made.supply).iter().zip(longest) {
            if let Ok(bound) = bound {
                assert!(!bound.is_reached, "with blocking it is a bound");
                tally.count(bound.response.get() == longest);
            }
        }
    }
    tally.holds(95, 1000, "blocking");
}

#[test]
fn tasks_of_one_priority_are_counted_against_each_other() {
    let tasks: Vec<Task> = (0..2).map(|_| Task::new(ns(2), ns(10)).unwrap()).collect();
    let bounds = fixed_priority::responses(&tasks, &Supply::whole_cpu());
    for bound in bounds {
        let bound = bound.unwrap();
        assert_eq!((bound.response, bound.is_reached), (ns(4), false));
    }
    assert_eq!(fixed_priority::test(&tasks, &Supply::whole_cpu()), Verdict::Schedulable);
}
