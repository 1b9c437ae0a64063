//! Numbers that nobody means: nothing panics, nothing hangs.

use bounds::{
    Cap, NoBound, Scheduler, Server, Supply, Task, Verdict, Window, edf, fixed_priority, global_edf,
    least_budget,
};
use proptest::prelude::*;
use units::Nanos;

use crate::made::ns;

/// Small, odd and as large as can be.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..4_u64,
        Just(u64::MAX),
        (0..3_u64).prop_map(|less| u64::MAX - less),
        Just(1 << 63),
        Just(1 << 32),
        Just(999_983),
        any::<u64>()
    ]
}

fn task() -> impl Strategy<Value = Task> {
    (prop::array::uniform5(number()), 0..3_u32).prop_filter_map("a task", |([c, t, d, j, b], priority)| {
        let task = Task::new(ns(c), ns(t)).ok()?;
        Some(task.with_deadline(ns(d)).with_jitter(ns(j)).with_blocking(ns(b)).with_priority(priority))
    })
}

fn supply() -> impl Strategy<Value = Supply> {
    prop::array::uniform3(number()).prop_flat_map(|[a, b, c]| {
        let window = Window { start: ns(b), length: ns(c) };
        let all = [
            Supply::periodic(ns(a), ns(b)),
            Supply::explicit_deadline(ns(a), ns(b), ns(c)),
            Supply::quota(ns(b), ns(a)),
            Supply::round_robin(ns(a), b),
            Supply::table(ns(a), &[window]),
            Supply::slots(ns(a), &[true, false, b % 2 == 0]),
            Supply::proportional(b, a, ns(c)),
            Supply::share(b, a, ns(c)),
            Ok(Supply::whole_cpu()),
        ];
        prop::sample::select(all.into_iter().filter_map(Result::ok).collect::<Vec<_>>())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn no_numbers_make_an_analysis_panic_or_hang(
        tasks in prop::collection::vec(task(), 0..4), supply in supply(), a in number(), b in number()
    ) {
        let fixed = fixed_priority::responses(&tasks, &supply);
        let early = edf::responses(&tasks, &supply);
        for (task, bound) in tasks.iter().zip(fixed.iter().chain(&early)) {
            if let Ok(bound) = bound {
                prop_assert!(bound.response >= task.execution());
            }
        }
        let _ = (fixed_priority::test(&tasks, &supply), edf::test(&tasks, &supply), global_edf(&tasks, a));
        let _ = (edf::demand(&tasks, ns(a)), supply.least_in(ns(a)), supply.longest_for(ns(b)));
        if let Ok(cap) = Cap::new(ns(a), ns(b), a) {
            let _ = (cap.most_in(ns(b)), cap.supply());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_numbers_make_a_search_panic_or_hang(
        tasks in prop::collection::vec(task(), 0..3), period in number(), deadline in number()
    ) {
        for server in
            [Server::Periodic, Server::Quota, Server::ExplicitDeadline { deadline: ns(deadline) }]
        {
            for scheduler in [Scheduler::Edf, Scheduler::FixedPriority] {
                let _ = least_budget(&tasks, scheduler, server, ns(period));
            }
        }
    }
}

/// A full load of periods without a short common multiple ends with a reason.
#[test]
fn what_takes_too_long_says_so() {
    // Half and half, of two large primes: after jitter the busy period is endless, and what repeats is very long.
    let tasks = [(999_999_937, 1_999_999_874, 1), (1_000_000_007, 2_000_000_014, 2)]
        .map(|(c, t, priority)| Task::new(ns(c), ns(t)).unwrap().with_priority(priority));
    let supply = Supply::table(ns(7), &[Window { start: ns(0), length: ns(7) }]).unwrap();
    assert!(fixed_priority::responses(&tasks, &supply).iter().all(|bound| match bound {
        Ok(_) | Err(NoBound::TooLong) => true,
        Err(_) => false,
    }));
    let jitter = tasks.map(|task| task.with_jitter(ns(1)));
    let bound = fixed_priority::responses(&jitter, &supply);
    assert!(matches!(bound[0], Err(NoBound::TooLong)), "{bound:?}");
    assert!(matches!(
        edf::responses(&jitter, &supply)[0],
        Err(NoBound::EndlessBusyPeriod | NoBound::TooLong)
    ));
}

#[test]
fn overloads_say_by_how_much() {
    let tasks = [Task::new(ns(3), ns(4)).unwrap(), Task::new(ns(1), ns(2)).unwrap()];
    let supply = Supply::periodic(ns(10), ns(7)).unwrap();
    let why = edf::responses(&tasks, &supply)[0].clone().unwrap_err();
    assert_eq!(why, NoBound::Overload { needs_ppm: 1_250_000, gives_ppm: 700_000 });
    assert!(why.to_string().starts_with("unbounded: 1250000 ppm of a CPU are asked for"), "{why}");
    assert!(matches!(edf::test(&tasks, &supply), Verdict::NotSchedulable(_)));
    let none: [Task; 0] = [];
    assert!(edf::test(&none, &supply).is_schedulable() && edf::responses(&none, &supply).is_empty());
    assert_eq!(edf::demand(&tasks, Nanos::ZERO), ns(0));
}
