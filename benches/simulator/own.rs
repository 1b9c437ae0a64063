//! Our side: the event queue alone, and the machine with its policies and books.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use bulkhead::model::scenario::{Scenario, cases};
use bulkhead::sim::host::Pause;
use bulkhead::sim::nodes;
use bulkhead::sim::queue::Queue;
use bulkhead::sim::random::Stream;
use bulkhead::sim::scenario::{Watch, run_host};
use bulkhead::sim::time::{Span, Time};

use super::{TIMER_EVENTS, TURNS, Work};

/// Longest sleep of a timer.
const LONGEST_NS: u64 = 1_000_000;

/// Policies as their documentation sets them, turns of 1 ms where that is free.
pub const POLICIES: [(&str, &str); 15] = [
    ("per-thread", PER_THREAD),
    ("equal-per-vm", r#"{ name = "equal-per-vm", quantum_us = 1000 }"#),
    ("proportional", r#"{ name = "proportional", quantum_us = 1000 }"#),
    ("eevdf", r#"{ name = "eevdf", slice_us = 1000, period_us = 100000 }"#),
    ("credit", r#"{ name = "credit", slice_us = 30000, boost = true, ratelimit_us = 1000 }"#),
    ("credit2", r#"{ name = "credit2", slice_us = 1000 }"#),
    ("credit, per-cpu", r#"{ name = "credit", queues = "per-cpu" }"#),
    ("credit2, per-cpu", r#"{ name = "credit2", queues = "per-cpu", slice_us = 1000 }"#),
    ("eevdf, per-cpu", r#"{ name = "eevdf", queues = "per-cpu", slice_us = 1000 }"#),
    ("rtds", r#"{ name = "rtds" }"#),
    ("deadline", r#"{ name = "deadline" }"#),
    ("table", r#"{ name = "table" }"#),
    ("slots", r#"{ name = "slots", slot_us = 1000, round = ["A", "B"] }"#),
    ("gang", r#"{ name = "gang", slice_us = 1000 }"#),
    ("gang, 30 ms", r#"{ name = "gang", slice_us = 30000 }"#),
];
const PER_THREAD: &str = r#"{ name = "per-thread", quantum_us = 1000 }"#;

/// Two VMs that want all of the host, 400 000 turns of 1 ms in all; the host's line comes first.
const SHARING: &str = r#"
name = "sharing"
limits = { simulated_s = 25, events = 10_000_000_000 }
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

/// Barriers by messages, or as the maximum over so many nodes: events (messages or nodes' steps) per second.
pub fn barriers(nodes: u32, by_messages: bool) -> f64 {
    let cases = cases(BARRIERS, &[]).expect("it is a scenario");
    let mut spec = cases.into_iter().next().and_then(|case| case.scenario.nodes).expect("it has nodes");
    spec.count = nodes;
    if !by_messages {
        spec.barrier = bulkhead::model::scenario::BarrierSpec::Maximum {};
    }
    let began = Instant::now();
    let outcome = nodes::run(&spec, None, 1);
    let speed = outcome.events as f64 / began.elapsed().as_secs_f64();
    assert_eq!(outcome.trouble, None, "the program ran to its end");
    speed
}

/// The most memory that this process ever had.
fn most_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// How many events per second.
pub fn events_per_second(work: Work) -> f64 {
    match work {
        Work::Timers(entities) => timers(entities),
        Work::Sharing => turns_per_second(),
    }
}

/// Somebody who sleeps again and again: its own randomness, and the books of its waits.
struct Sleeper {
    random: Stream,
    asleep_since: Time,
    slept: Span,
    waits: u64,
}

impl Sleeper {
    /// It is awake; answers when it is to be woken next.
    fn wake(&mut self, now: Time) -> Time {
        self.slept += now.since(self.asleep_since);
        self.waits += 1;
        self.asleep_since = now;
        now + Span::from_nanos(1 + self.random.below(LONGEST_NS))
    }
}

fn timers(entities: u32) -> f64 {
    let sleeper = |number: u32| Sleeper {
        random: Stream::new(7, &[u64::from(number)]),
        asleep_since: Time::ZERO,
        slept: Span::ZERO,
        waits: 0,
    };
    let mut sleepers: Vec<Sleeper> = (0..entities).map(sleeper).collect();
    let mut queue: Queue<u32> = Queue::with_capacity(entities as usize);
    for (number, sleeper) in (0..).zip(&mut sleepers) {
        queue.push(Time::from_nanos(sleeper.random.below(LONGEST_NS)), number);
    }
    let began = Instant::now();
    for _ in 0..TIMER_EVENTS {
        let Some((now, number)) = queue.pop() else { break };
        queue.push(sleepers[number as usize].wake(now), number);
    }
    let speed = TIMER_EVENTS as f64 / began.elapsed().as_secs_f64();
    assert_eq!(
        sleepers.iter().map(|sleeper| sleeper.waits).sum::<u64>(),
        TIMER_EVENTS,
        "each event woke somebody"
    );
    speed
}

fn scenario(text: &str) -> Scenario {
    let cases = cases(text, &[]).expect("it is a scenario");
    cases.into_iter().next().expect("it has a case").scenario
}

/// Turns per second of the work that the peers do, too: each brings a task onto a core.
fn turns_per_second() -> f64 {
    let (_, dispatches, turns) = sharing_counted(PER_THREAD);
    // The first turn of a core begins, the last one ends with the time.
    assert!(turns.abs_diff(TURNS) <= 32, "{turns} turns, where the peers make {TURNS}");
    dispatches
}

/// Events and dispatches per second.
pub fn sharing(policy: &str) -> (f64, f64) {
    let (events, dispatches, _) = sharing_counted(policy);
    (events, dispatches)
}

/// The same, and how many dispatches there were.
fn sharing_counted(policy: &str) -> (f64, f64, u64) {
    // Servers of 5 ms every 10 ms, which only this policy knows.
    let vms = if policy.contains("table") {
        SHARING.replace("vcpus = 16", "vcpus = 16\nreserved_cpus = 8.0\nlatency_us = 20000")
    } else if policy.contains("rtds") {
        SHARING.replace("vcpus = 16", "vcpus = 16\nbudget_us = 5000\nperiod_us = 10000")
    } else {
        SHARING.to_owned()
    };
    let scenario = scenario(&format!("host = {{ cpus = 16, policy = {policy} }}\n{vms}"));
    let began = Instant::now();
    let outcome = run_host(&scenario, 1, 0);
    let seconds = began.elapsed().as_secs_f64();
    assert_eq!(outcome.trouble, None, "the machine ran to its end");
    let dispatches = outcome.figures.iter().filter(|figure| figure.id.ends_with(".dispatches"));
    let turns = dispatches.map(|figure| figure.value).sum::<f64>();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    let counted = turns as u64;
    (outcome.events as f64 / seconds, turns / seconds, counted)
}

/// Policies at scale, as they come; turns of 1 ms where that is free.
pub const AT_SCALE: [&str; 14] = [
    "per-thread",
    "equal-per-vm",
    "proportional",
    "eevdf",
    "credit",
    "credit2",
    "credit, per-cpu",
    "credit2, per-cpu",
    "eevdf, per-cpu",
    "rtds",
    "slots",
    "gang",
    "deadline",
    "table",
];

/// A host of so many virtual CPUs in VMs of so many each that want all they can get.
fn host_of(policy: &str, cpus: u32, vcpus: u32, per_vm: u32, seconds: u64) -> Scenario {
    let spec = POLICIES.iter().find(|(name, _)| *name == policy).map_or(PER_THREAD, |(_, spec)| *spec);
    let more = match policy {
        "rtds" => "budget_us = 100\nperiod_us = 10000".to_owned(),
        // As much as is admitted.
        "deadline" => {
            let budget_us = 9400 * u64::from(cpus) / u64::from(vcpus);
            format!("budget_us = {budget_us}\nperiod_us = 10000")
        }
        "table" => {
            let each = 0.9 * f64::from(cpus) / f64::from(vcpus);
            format!("reserved_cpus = {}\nlatency_us = 100000", each.min(1.0) * f64::from(per_vm))
        }
        _ => String::new(),
    };
    // A round of slots names VMs one by one, so there they are few and wide.
    let (names, per_vm) = if policy == "slots" {
        (slots_of(vcpus), 1000.min(vcpus / 2))
    } else {
        (vec!["A".to_owned()], per_vm)
    };
    let count = vcpus / per_vm / u32::try_from(names.len()).unwrap_or(1);
    let spec = if policy == "slots" {
        let round: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
        format!("{{ name = \"slots\", slot_us = 1000, round = [{}] }}", round.join(", "))
    } else {
        spec.to_owned()
    };
    let vm = |name: &String| {
        format!(
            "[[vm]]\nname = \"{name}\"\nvcpus = {per_vm}\ncount = {count}\n{more}\n\
             thread = [{{ run = {{ program = \"endless\" }} }}]\n"
        )
    };
    let vms: String = names.iter().map(vm).collect();
    scenario(&format!(
        "name = \"scale\"\nlimits = {{ simulated_s = {seconds}, events = 10_000_000_000 }}\n\
         host = {{ cpus = {cpus}, policy = {spec} }}\n{vms}"
    ))
}

/// Names of VMs of a thousand virtual CPUs, or of two halves.
fn slots_of(vcpus: u32) -> Vec<String> {
    (0..(vcpus / 1000).max(2)).map(|number| format!("A{number}")).collect()
}

/// CPU time that this thread has had, which others' work on the machine does not lengthen.
fn cpu_seconds() -> f64 {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    nix::time::clock_gettime(clock).map(Duration::from).expect("every thread has this clock").as_secs_f64()
}

/// CPU seconds that one simulated second of a host takes, from its description to its figures.
pub fn seconds_of(policy: &str, cpus: u32, vcpus: u32, per_vm: u32) -> f64 {
    let scenario = host_of(policy, cpus, vcpus, per_vm, 1);
    let began = cpu_seconds();
    let outcome = run_host(&scenario, 1, 0);
    assert_eq!(outcome.trouble, None, "the machine ran to its end");
    cpu_seconds() - began
}

/// CPU nanoseconds per event of a host once everybody has come up, over some 200 000 CPU milliseconds.
pub fn cost_per_event(policy: &str, cpus: u32, vcpus: u32, per_vm: u32) -> f64 {
    let seconds = u64::from(205 / cpus).max(1);
    let scenario = host_of(policy, cpus, vcpus, per_vm, seconds);
    let mut watch = Watch::new(&scenario, 1, 0);
    let to = |nanos| Pause { at: Time::from_nanos(nanos), events: u64::MAX };
    watch.go_on(to(20_000_000));
    let (began, before) = (cpu_seconds(), watch.events());
    watch.go_on(to(20_000_000 + (205_000_000_000 / u64::from(cpus)).min(980_000_000 * seconds)));
    (cpu_seconds() - began) * 1e9 / (watch.events() - before) as f64
}

/// VMs of a hundred virtual CPUs each; how many comes after it.
const MANY: &str = r#"
name = "many"
limits = { simulated_s = 1, events = 2_000_000 }
host = { cpus = 1024, policy = { name = "per-thread", quantum_us = 100000 } }
[[vm]]
name = "A"
vcpus = 100
thread = [{ run = { program = "endless" } }]
"#;
/// Virtual CPUs of a VM.
const PER_VM: u64 = 100;
/// Word on the command line of a process that does one thing and says how much memory it had at most.
const CHILD: &str = "--memory-of";

/// Does what the command line asks of such a process, if this is one.
pub fn is_child() -> bool {
    let mut words = std::env::args().skip_while(|word| word != CHILD).skip(1);
    let (Some(what), Some(count)) = (words.next(), words.next().and_then(|count| count.parse().ok())) else {
        return false;
    };
    if what == "vcpus" {
        let outcome = run_host(&scenario(&format!("{MANY}count = {}", u64::from(count) / PER_VM)), 1, 0);
        assert!(outcome.events > 0, "somebody ran");
    } else {
        barriers(count, true);
    }
    crate::verdict::say(&most_memory().unwrap_or(0).to_string());
    true
}

/// The most memory of a process of its own that does this and nothing else.
fn memory_of(what: &str, count: u32) -> Option<f64> {
    let myself = std::env::current_exe().ok()?;
    let output = Command::new(myself).args([CHILD, what, &count.to_string()]).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout);
    said.trim().parse().ok().filter(|bytes: &f64| *bytes > 0.0)
}

/// Bytes for each virtual CPU of a host with a million of them: what a process with it has at most, less what one with a
/// single VM has.
pub fn bytes_per_vcpu() -> Option<f64> {
    let (many, few) = (1_000_000, 100);
    Some((memory_of("vcpus", many)? - memory_of("vcpus", few)?) / f64::from(many - few))
}

/// Bytes that a process has at most in which so many nodes have barriers by messages.
pub fn bytes_of_barriers(nodes: u32) -> Option<f64> {
    memory_of("barriers", nodes)
}
