//! Numbers that stand in books and papers, and what theorems say.

use bounds::{
    Scheduler, Server, Supply, Task, deadline_monotonic, edf, fixed_priority, global_edf, least_budget,
};

use crate::made::ns;

/// Tasks by urgency, the most urgent first.
fn by_urgency<const N: usize>(all: [(u64, u64); N]) -> Vec<Task> {
    let task = |((c, t), priority)| Task::new(ns(c), ns(t)).unwrap().with_priority(priority);
    all.into_iter().zip((0..).map(|place| 100 - place)).map(task).collect()
}

fn longest(tasks: &[Task], supply: &Supply) -> Vec<u64> {
    let all = fixed_priority::responses(tasks, supply);
    all.into_iter().map(|bound| bound.unwrap().response.get()).collect()
}

/// Burns and Wellings, "Real-Time Systems and Programming Languages", response-time analysis: two process sets.
#[test]
fn the_process_sets_of_burns_and_wellings() {
    let cpu = Supply::whole_cpu();
    assert_eq!(longest(&by_urgency([(3, 7), (3, 12), (5, 20)]), &cpu), [3, 6, 20]);
    assert_eq!(longest(&by_urgency([(5, 20), (10, 40), (40, 80)]), &cpu), [5, 15, 80]);
}

/// Lehoczky 1990: with deadlines beyond periods, the first job of a busy period is not the worst (114), the third is.
#[test]
fn the_busy_period_of_lehoczky() {
    assert_eq!(longest(&by_urgency([(26, 70), (62, 100)]), &Supply::whole_cpu()), [26, 118]);
}

/// Liu and Layland 1973: earliest deadline first uses the whole CPU, fixed priorities do not.
#[test]
fn earliest_deadline_first_uses_all_of_a_cpu() {
    let tasks = by_urgency([(2, 5), (4, 7)]);
    assert!(edf::test(&tasks, &Supply::whole_cpu()).is_schedulable(), "34/35");
    assert!(!fixed_priority::test(&tasks, &Supply::whole_cpu()).is_schedulable());
    let full = by_urgency([(2, 4), (3, 6)]);
    assert!(edf::test(&full, &Supply::whole_cpu()).is_schedulable(), "1");
    assert!(!edf::test(&full, &Supply::periodic(ns(1000), ns(999)).unwrap()).is_schedulable());
}

/// Shin and Lee 2003: nothing is supplied for up to 2(Π − Θ); a server of the whole period is a CPU.
#[test]
fn the_blackout_of_a_periodic_resource() {
    let supply = Supply::periodic(ns(5), ns(3)).unwrap();
    assert_eq!([0, 4, 5, 7, 9, 12].map(|window| supply.least_in(ns(window)).get()), [0, 0, 1, 3, 3, 6]);
    let whole = Supply::periodic(ns(5), ns(5)).unwrap();
    assert!((0..20).all(|window| whole.least_in(ns(window)) == ns(window)));
    // A period that divides by ever less wastes ever less: the least budget tends to the utilization.
    let tasks = by_urgency([(7_000, 50_000), (9_000, 75_000)]);
    let bandwidth =
        |period| least_budget(&tasks, Scheduler::Edf, Server::Periodic, ns(period)).unwrap().bandwidth();
    assert!((bandwidth(1) - 1.0).abs() < 1e-9, "a nanosecond cannot be divided");
    assert!((bandwidth(100) - 0.26).abs() < 0.015, "{}", bandwidth(100));
    assert!(bandwidth(10_000) > bandwidth(100));
}

/// Leung and Whitehead 1982: by deadline, not by period.
#[test]
fn deadline_monotonic_order() {
    let mut tasks = [(1, 10, 9), (1, 20, 3), (1, 5, 5)]
        .map(|(c, t, d)| Task::new(ns(c), ns(t)).unwrap().with_deadline(ns(d)));
    deadline_monotonic(&mut tasks);
    assert_eq!(tasks.map(|task| task.priority()), [1, 3, 2]);
}

/// Dhall and Liu 1978: light tasks beside a heavy one defeat global earliest deadline first, so the test may not accept them;
/// Goossens, Funk and Baruah's condition, on both sides of it.
#[test]
fn the_sufficient_test_of_global_edf() {
    let dhall = [(1, 10), (1, 10), (10, 11)].map(|(c, t)| Task::new(ns(c), ns(t)).unwrap());
    assert!(!global_edf(&dhall, 2).is_schedulable());
    let half = [(1, 2); 3].map(|(c, t)| Task::new(ns(c), ns(t)).unwrap());
    assert!(global_edf(&half, 2).is_schedulable(), "1.5 = 2 − 0.5");
    let more = [(1, 2), (1, 2), (51, 100)].map(|(c, t)| Task::new(ns(c), ns(t)).unwrap());
    assert!(!global_edf(&more, 2).is_schedulable());
    assert!(matches!(global_edf(&[half[0]; 5], 2), bounds::Verdict::NotSchedulable(_)));
}
