//! Earliest deadline first: responses and verdicts against brute force.

use std::cmp::Ordering;

use bounds::{NoBound, Supply, Task, Verdict, edf};
use rand::RngExt;

use crate::hosts::{HardCbs, Mood};
use crate::made::{Made, Rng, Tally, exact_supply, load, ns, rng, server, signed, tasks};
use crate::simulator::{Order, dense, run, whole};

const HORIZON: i64 = 1200;

/// The longest responses seen: all other tasks released at once when waiting begins, each own offset up to its period.
fn longest_seen(tasks: &[Task], made: &Made) -> Vec<u64> {
    let one = |number: usize| {
        let mut longest = 0;
        for ticks in &made.worst {
            for offset in 0..whole(tasks[number].period()) {
                let mut offsets = vec![0; tasks.len()];
                offsets[number] = offset;
                let mut releases = dense(tasks, &offsets, HORIZON);
                let order = Order::Deadline { last: number };
                let seen = run(tasks, &mut releases, &mut |now| ticks.at(now), order, 0, HORIZON);
                longest = seen.longest[number].max(longest);
            }
        }
        longest
    };
    (0..tasks.len()).map(one).collect()
}

/// 1000 sets on CPUs and servers.
#[test]
fn bounds_are_reached_and_never_exceeded() {
    let mut tally = Tally::default();
    let mut endless = 0;
    for seed in 0..1000 {
        let mut rng = rng(seed);
        let tasks = tasks(&mut rng);
        let made = if seed % 2 == 0 { server(1, 1, 1) } else { exact_supply(&mut rng) };
        let bounds = edf::responses(&tasks, &made.supply);
        match bounds.first().unwrap() {
            Err(NoBound::Overload { .. }) => {
                assert_eq!(load(&tasks, &made), Ordering::Greater);
                continue;
            }
            Err(NoBound::EndlessBusyPeriod) => {
                assert_eq!(load(&tasks, &made), Ordering::Equal);
                endless += 1;
                continue;
            }
            _ => {}
        }
        for ((bound, seen), number) in bounds.iter().zip(longest_seen(&tasks, &made)).zip(0..) {
            let bound = bound.as_ref().unwrap();
            let response = bound.response.get();
            assert!(seen <= response, "task {number}: {seen} > {response} on {}: {tasks:#?}", made.what);
            assert!(bound.is_reached);
            tally.count(seen == response);
        }
        let bounds = bounds.into_iter().map(Result::unwrap);
        let is_on_time = bounds.zip(&tasks).all(|(bound, task)| bound.response <= task.deadline());
        let verdict = edf::test(&tasks, &made.supply);
        assert_eq!(verdict.is_schedulable(), is_on_time, "{verdict:?} on {}: {tasks:#?}", made.what);
    }
    tally.holds(95, 2000, "earliest deadline first");
    assert!(endless < 50, "{endless}");
}

/// The demand of every window up to one at which everything has repeated, against the least supply, both by counting.
fn by_counting(tasks: &[Task], made: &Made) -> bool {
    let horizon = 700;
    let mut due = vec![0_i64; 700];
    for task in tasks {
        let mut at = whole(task.deadline()) - whole(task.jitter());
        while at < horizon {
            due[usize::try_from(at.max(0)).unwrap()] += whole(task.execution());
            at += whole(task.period());
        }
    }
    made.worst.iter().all(|ticks| {
        let mut left = 0;
        let mut is_met = true;
        for window in 0..horizon {
            left += due[usize::try_from(window).unwrap()];
            is_met &= left <= 0;
            left -= i64::from(ticks.at(window));
        }
        is_met
    })
}

/// Where all of the supply is asked for, too.
#[test]
fn verdicts_are_those_of_counting_every_window() {
    let (mut met, mut missed, mut equal) = (0, 0, 0);
    for seed in 0..4000 {
        let mut rng = rng(seed);
        let mut tasks = tasks(&mut rng);
        if seed % 4 == 0 {
            // Harmonic periods, so that a full load is common.
            let some = [4, 8, 12, 24];
            tasks = (0..3)
                .map(|_| {
                    let period = some[rng.random_range(0..4)];
                    let task = Task::new(ns(period / 4), ns(period)).unwrap();
                    task.with_deadline(ns(rng.random_range(period / 2..=3 * period)))
                })
                .collect();
        }
        if seed % 4 == 1 {
            // A full load whose first late window can be any of the hyperperiod of 420.
            tasks = [(6, 12), (5, 20), (7, 28)]
                .map(|(c, t)| {
                    let deadline = ns(rng.random_range(t - 1..=t + 3));
                    Task::new(ns(c), ns(t)).unwrap().with_deadline(deadline)
                })
                .to_vec();
        }
        let made = match seed % 8 {
            0 => server(4, 3, 4),
            1 | 5 => server(1, 1, 1),
            _ => exact_supply(&mut rng),
        };
        let expected = by_counting(&tasks, &made) && load(&tasks, &made) != Ordering::Greater;
        let verdict = edf::test(&tasks, &made.supply);
        assert!(!matches!(verdict, Verdict::Undecided(_)), "{verdict:?}");
        assert_eq!(verdict.is_schedulable(), expected, "{verdict:?} {}: {tasks:#?}", made.what);
        equal += u32::from(load(&tasks, &made) == Ordering::Equal && expected);
        *(if expected { &mut met } else { &mut missed }) += 1;
    }
    assert!(met > 400 && missed > 400 && equal > 20, "{met} met, {missed} missed, {equal} at full load");
}

/// Releases at random on a server that wakes and sleeps.
#[test]
fn nothing_exceeds_its_bound_on_a_server_that_behaves() {
    for seed in 0..1000 {
        let mut rng: Rng = rng(seed);
        let tasks = tasks(&mut rng);
        let period = rng.random_range(2..12_u64);
        let budget = rng.random_range(period.div_ceil(2)..=period);
        let deadline = rng.random_range(budget..=period);
        let made = server(period, budget, deadline);
        let mood = [Mood::Late, Mood::Coin, Mood::Soon][rng.random_range(0..3)];
        let offsets: Vec<i64> = tasks.iter().map(|task| rng.random_range(0..whole(task.period()))).collect();
        let mut releases = dense(&tasks, &offsets, HORIZON);
        let [p, q, d] = [period, budget, deadline].map(signed);
        let mut host = HardCbs::new([q, p, d], mood, rng.clone());
        let order = Order::Deadline { last: rng.random_range(0..tasks.len()) };
        let seen = run(&tasks, &mut releases, &mut host, order, 0, HORIZON);
        for (bound, seen) in edf::responses(&tasks, &made.supply).iter().zip(seen.longest) {
            if let Ok(bound) = bound {
                assert!(seen <= bound.response.get(), "{seen} > {bound:?} on {}: {tasks:#?}", made.what);
            }
        }
    }
}

/// Blocking of the tasks that can be blocked comes first.
#[test]
fn blocking_is_within_the_bound() {
    let mut tally = Tally::default();
    for seed in 0..400 {
        let mut rng = rng(seed);
        let block = rng.random_range(1..5);
        let tasks: Vec<Task> =
            tasks(&mut rng).into_iter().map(|task| task.with_blocking(ns(block))).collect();
        let bounds = edf::responses(&tasks, &Supply::whole_cpu());
        for (number, bound) in bounds.iter().enumerate() {
            let Ok(bound) = bound else { continue };
            let mut longest = 0;
            for offset in 0..whole(tasks[number].period()) {
                let mut offsets = vec![0; tasks.len()];
                offsets[number] = offset;
                let mut releases = dense(&tasks, &offsets, HORIZON);
                let order = Order::Deadline { last: number };
                let seen = run(&tasks, &mut releases, &mut |_| true, order, signed(block), HORIZON);
                longest = seen.longest[number].max(longest);
            }
            assert!(longest <= bound.response.get() && !bound.is_reached, "{longest} > {bound:?}");
            tally.count(longest == bound.response.get());
        }
    }
    tally.holds(90, 500, "blocking under earliest deadline first");
}

#[test]
fn a_deadline_within_the_jitter_is_missed_at_once() {
    let task = Task::new(ns(1), ns(10)).unwrap().with_deadline(ns(3)).with_jitter(ns(3));
    let verdict = edf::test(&[task], &Supply::whole_cpu());
    assert!(matches!(verdict, Verdict::NotSchedulable(_)), "{verdict:?}");
}
