//! Our side: the event queue alone, and the machine with its policies and books.

use std::fs;
use std::time::Instant;

use bulkhead::model::scenario::{Scenario, cases};
use bulkhead::sim::nodes;
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

/// Interruptions of a partition that has nine slots of ten, at another moment on each node.
const BARRIERS: &str = r#"
name = "barriers"
[nodes]
count = 1000000
work_us = 100000
steps = 2
noise = { kind = "periodic", period_us = 200000, length_us = 20000 }
barrier = { kind = "dissemination", latency_ns = 35000, overhead_ns = 5000, gap_ns = 5000, per_byte_ps = 9091, bytes = 8 }
"#;

/// Barriers by messages, or as the maximum over so many nodes: events (messages or nodes' steps) per second, and the most
/// memory that this process has had meanwhile, in bytes, if the kernel says it.
pub fn barriers(nodes: u32, by_messages: bool) -> (f64, Option<u64>) {
    let cases = cases(BARRIERS, &[]).expect("it is a scenario");
    let mut spec = cases.into_iter().next().and_then(|case| case.scenario.nodes).expect("it has nodes");
    spec.count = nodes;
    if !by_messages {
        spec.barrier = bulkhead::model::scenario::BarrierSpec::Maximum;
    }
    // The mark of the most memory goes back to what is in use now (proc(5)).
    let is_reset = fs::write("/proc/self/clear_refs", "5").is_ok();
    let began = Instant::now();
    let outcome = nodes::run(&spec, None, 1);
    let speed = outcome.events as f64 / began.elapsed().as_secs_f64();
    assert_eq!(outcome.trouble, None, "the program ran to its end");
    (speed, most_memory().filter(|_| is_reset))
}

fn most_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

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
