//! Our side: the event queue alone, and the machine with its policies and books.

use std::time::Instant;

use bulkhead::model::scenario::{Scenario, cases};
use bulkhead::sim::queue::Queue;
use bulkhead::sim::random::Stream;
use bulkhead::sim::scenario::run_host;
use bulkhead::sim::time::{Span, Time};

use super::Work;

/// Events that are timed.
const EVENTS: u64 = 4_000_000;
/// Longest sleep of a timer.
const LONGEST_NS: u64 = 1_000_000;

const SHARING: &str = r#"
name = "sharing"
limits = { simulated_s = 250, events = 10_000_000_000 }
host = { cpus = 16, policy = { name = "per-thread", quantum_us = 1000 } }
[[vm]]
name = "A"
vcpus = 16
thread = [{ run = { program = "endless" } }]
[[vm]]
name = "B"
vcpus = 16
thread = [{ run = { program = "endless" } }]
"#;

/// How many events per second.
pub fn events_per_second(work: Work) -> f64 {
    match work {
        Work::Timers(entities) => timers(entities),
        Work::Sharing => sharing(),
    }
}

fn timers(entities: u32) -> f64 {
    let mut random = Stream::new(7, &[]);
    let mut queue: Queue<u32> = Queue::with_capacity(entities as usize);
    for entity in 0..entities {
        queue.push(Time::from_nanos(random.below(LONGEST_NS)), entity);
    }
    let began = Instant::now();
    for _ in 0..EVENTS {
        let Some((now, entity)) = queue.pop() else { break };
        queue.push(now + Span::from_nanos(1 + random.below(LONGEST_NS)), entity);
    }
    EVENTS as f64 / began.elapsed().as_secs_f64()
}

fn scenario() -> Scenario {
    let cases = cases(SHARING, &[]).expect("it is a scenario");
    cases.into_iter().next().expect("it has a case").scenario
}

fn sharing() -> f64 {
    let scenario = scenario();
    let began = Instant::now();
    let outcome = run_host(&scenario, 1, 0);
    assert_eq!(outcome.trouble, None, "the machine ran to its end");
    outcome.events as f64 / began.elapsed().as_secs_f64()
}
