//! Programs against closed forms and counts by hand, on hosts that are written as scenarios.

use crate::guest::{Guest, Seen, ThreadReport};
use crate::host::{Limits, Stopped};
use crate::scenario::build;
use crate::time::{Span, Time};
use model::scenario::cases;

/// Runs one CPU (or so many) with these VMs until its programs are done, and gives each VM's threads.
fn run(cpus: u32, policy: &str, vms: &[(&str, u32)]) -> Vec<Vec<ThreadReport>> {
    let host = format!("name = \"test\"\n[host]\ncpus = {cpus}\npolicy = {policy}\n");
    let vms = vms.iter().zip(0..).map(|((program, vcpus), number)| {
        format!(
            "[[vm]]\nname = \"vm{number}\"\nvcpus = {vcpus}\nlocks = {{ count = 3 }}\nthread = [{{ run = {program} }}]\n"
        )
    });
    let text = host + &vms.collect::<String>();
    let scenario = cases(&text, &[]).unwrap().remove(0).scenario;
    let mut machine = build(&scenario, 7);
    let limits = Limits { until: Time::ZERO + Span::from_secs(100), events: u64::MAX, when_done: true };
    assert_eq!(machine.run(&limits), Stopped::Done);
    machine.guests().iter().map(Guest::threads).collect()
}

fn alone(program: &str) -> Seen {
    run(1, FAIR, &[(program, 1)]).remove(0).remove(0).seen
}

/// Beside an endless loop, which takes turns of a millisecond with it.
fn beside_a_loop(program: &str) -> Seen {
    run(1, FAIR, &[(program, 1), (r#"{ program = "endless" }"#, 1)]).remove(0).remove(0).seen
}

const FAIR: &str = r#"{ name = "equal-per-vm", quantum_us = 1000 }"#;

fn micros(samples: &[Span]) -> Vec<u64> {
    samples.iter().map(|sample| sample.nanos() / 1000).collect()
}

fn mean(samples: &[Span]) -> f64 {
    samples.iter().map(|sample| sample.as_f64()).sum::<f64>() / samples.len() as f64
}

#[test]
fn a_quantum_alone_is_full_and_beside_a_loop_its_half() {
    let seen = alone(r#"{ program = "ftq", quantum_us = 1000, samples = 50 }"#);
    assert_eq!((micros(&seen.samples), seen.done, seen.missed), (vec![1000; 50], 50, 0));
    // Turns of 1 ms in quanta of 1 ms: every other one is empty.
    let seen = beside_a_loop(r#"{ program = "ftq", quantum_us = 1000, samples = 40 }"#);
    assert_eq!((seen.done, seen.missed), (40, 20));
    let sum: u64 = micros(&seen.samples).iter().sum();
    assert!((19_990..=20_010).contains(&sum), "{:?}", micros(&seen.samples));
    // Longer quanta hold several turns.
    let seen = beside_a_loop(r#"{ program = "ftq", quantum_us = 10000, samples = 10 }"#);
    assert!(micros(&seen.samples).iter().all(|sample| (4980..=5020).contains(sample)), "{seen:?}");
    assert_eq!(seen.missed, 0);
}

#[test]
fn a_unit_that_a_pause_cuts_counts_where_it_ends() {
    // Quanta of 3 ms, turns of 1 ms: 2, 1, 2, 1 …
    let seen = beside_a_loop(r#"{ program = "ftq", quantum_us = 3000, samples = 6 }"#);
    let rounded: Vec<u64> = micros(&seen.samples).iter().map(|sample| (sample + 500) / 1000).collect();
    assert!(rounded == [2, 1, 2, 1, 2, 1] || rounded == [1, 2, 1, 2, 1, 2], "{rounded:?}");
}

#[test]
fn a_task_alone_answers_after_its_work() {
    let seen = alone(r#"{ program = "periodic", period_us = 10000, work_us = 3000, jobs = 20 }"#);
    assert_eq!((micros(&seen.samples), seen.done, seen.missed), (vec![3000; 20], 20, 0));
    let seen =
        alone(r#"{ program = "periodic", period_us = 10000, work_us = 3000, deadline_us = 2999, jobs = 5 }"#);
    assert_eq!(seen.missed, 5);
    // As much work as time: each job begins when the last one ends, on the grid.
    let seen = alone(r#"{ program = "periodic", period_us = 1000, work_us = 1000, jobs = 9 }"#);
    assert_eq!((micros(&seen.samples), seen.missed), (vec![1000; 9], 0));
}

#[test]
fn releases_stay_on_the_grid_however_late_a_job_is() {
    // 3 ms of work in each 4 ms, half of a CPU in turns of 1 ms: job k ends after 6 (k + 1) − 1 ms, was due at 4 (k + 1).
    let seen = beside_a_loop(r#"{ program = "periodic", period_us = 4000, work_us = 3000, jobs = 8 }"#);
    let expected: Vec<u64> = (0..8).map(|job| 6000 * (job + 1) - 1000 - 4000 * job).collect();
    assert_eq!(micros(&seen.samples), expected);
    let late = expected.iter().filter(|response| **response > 4000).count() as u64;
    assert_eq!((seen.missed, late), (late, 8));
}

#[test]
fn a_task_begins_at_its_offset_and_is_released_late_by_its_jitter_at_most() {
    let seen = alone(
        r#"{ program = "periodic", period_us = 10000, work_us = 3000, offset_us = 4000, jitter_us = 2000, jobs = 400 }"#,
    );
    let (least, most) = (micros(&seen.samples).into_iter().min(), micros(&seen.samples).into_iter().max());
    assert!(
        (3000..3050).contains(&least.unwrap()) && (4950..=5000).contains(&most.unwrap()),
        "{least:?} {most:?}"
    );
    // The last job ends in its 400th period, counted from the offset.
    let program =
        r#"{ program = "periodic", period_us = 10000, work_us = 3000, offset_us = 4000, jobs = 400 }"#;
    let ended = run(1, FAIR, &[(program, 1)]).remove(0).remove(0).ended.unwrap();
    assert_eq!(ended.nanos(), (4000 + 399 * 10_000 + 3000) * 1000);
}

#[test]
fn a_sporadic_task_comes_a_period_apart_and_more() {
    let program =
        r#"{ program = "periodic", period_us = 5000, work_us = 3000, apart_us = 2000, jobs = 2000 }"#;
    let thread = run(1, FAIR, &[(program, 1)]).remove(0).remove(0);
    assert_eq!(micros(&thread.seen.samples), vec![3000; 2000], "jobs are never on top of each other");
    // Exponential with a mean of 2 ms, 1999 times.
    let apart = (thread.ended.unwrap().nanos() as f64 / 1e3 - 3000.0) / 1999.0 - 5000.0;
    assert!((apart - 2000.0).abs() < 4.0 * 2000.0 / 2000.0_f64.sqrt(), "{apart}");
}

#[test]
fn a_job_that_is_aborted_takes_no_more_time_and_the_next_one_is_its_own() {
    // 3 ms of work in each 4 ms, half of a CPU in turns of 1 ms: none is done after 4 ms, each is aborted with 2 ms of work.
    let program = r#"{ program = "periodic", period_us = 4000, work_us = 3000, abort = true, jobs = 8 }"#;
    let seen = beside_a_loop(program);
    assert_eq!((seen.done, seen.missed, seen.aborted), (0, 8, 8));
    // 2 ms of work: done in time from the turn that begins with the release on.
    let program = r#"{ program = "periodic", period_us = 4000, work_us = 2000, abort = true, jobs = 8 }"#;
    let seen = beside_a_loop(program);
    assert_eq!((seen.done, seen.missed, seen.aborted), (8, 0, 0), "{:?}", micros(&seen.samples));
    // Alone, more work than time: each is stopped at its deadline, to the nanosecond.
    let program = r#"{ program = "periodic", period_us = 1000, work_us = 1500, abort = true, jobs = 8 }"#;
    let thread = run(1, FAIR, &[(program, 1)]).remove(0).remove(0);
    assert_eq!(
        (thread.seen.aborted, thread.cpu, thread.ended.unwrap().nanos()),
        (8, Span::from_millis(8), 8_000_000)
    );
}

#[test]
fn two_tasks_of_one_guest_follow_response_time_analysis() {
    // Joseph and Pandya 1986: the less important one answers after 3 + 2·2 = 7 ms at worst, at the common release.
    let text = r#"
name = "two"
[host]
cpus = 1
policy = { name = "per-thread", quantum_us = 1000 }
[[vm]]
name = "A"
vcpus = 1
thread = [
    { priority = 2, run = { program = "periodic", period_us = 5000, work_us = 2000, jobs = 40 } },
    { priority = 1, run = { program = "periodic", period_us = 10000, work_us = 3000, jobs = 20 } },
]
"#;
    let scenario = cases(text, &[]).unwrap().remove(0).scenario;
    let mut machine = build(&scenario, 1);
    let limits = Limits { until: Time::ZERO + Span::from_secs(1), events: u64::MAX, when_done: true };
    assert_eq!(machine.run(&limits), Stopped::Done);
    let threads = machine.guests()[0].threads();
    assert_eq!(micros(&threads[0].seen.samples), vec![2000; 40]);
    // The first piece is 3 ms from 2 to 5 ms, before the next release: 5 ms. No job is preempted twice.
    assert_eq!(micros(&threads[1].seen.samples), vec![5000; 20]);
}

#[test]
fn an_answer_is_computed_at_once_on_an_idle_cpu_and_later_on_a_busy_one() {
    let seen = alone(r#"{ program = "io", work_us = 200, wait_us = 1000, rounds = 30 }"#);
    assert_eq!((micros(&seen.samples), seen.done, seen.missed), (vec![200; 30], 30, 0));
    // Beside a loop it waits for the end of the turn: the answer comes 1.3 ms after the turns began, 0.7 ms before one
    // ends.
    let seen = beside_a_loop(r#"{ program = "io", work_us = 200, wait_us = 1300, rounds = 30 }"#);
    assert_eq!(micros(&seen.samples), vec![900; 30]);
    let seen = alone(r#"{ program = "io", work_us = 200, wait_us = 1000, random = true, rounds = 5000 }"#);
    let error = 200_000.0 / (5000.0f64).sqrt();
    assert!((mean(&seen.samples) - 200_000.0).abs() < 4.0 * error, "{}", mean(&seen.samples));
}

#[test]
fn a_compile_job_does_its_work_and_no_more() {
    let program = r#"{ program = "compile", work_us = 500000, between_ns = 70000, kernel_ns = 20000, hold_ns = 5000, locks_per_entry = 2, hot_share = 0.5 }"#;
    let threads = run(4, FAIR, &[(program, 4)]).remove(0);
    for thread in &threads {
        assert_eq!(thread.cpu, Span::from_millis(500) + thread.spin);
        assert_eq!(thread.seen.samples, vec![thread.ended.unwrap().since(Time::ZERO)]);
        // 100 µs per entry, exponential pieces.
        let entries = thread.seen.done as f64;
        assert!((entries - 5000.0).abs() < 4.0 * 5000.0f64.sqrt(), "{entries}");
        let kernel = thread.kernel.as_f64() / 500e6;
        assert!((kernel - 0.3).abs() < 0.02, "{kernel}");
    }
    // Alone on its CPU nobody ever waits.
    let thread = run(1, FAIR, &[(program, 1)]).remove(0).remove(0);
    assert_eq!((thread.spin, thread.cpu), (Span::ZERO, Span::from_millis(500)));
}

#[test]
fn so_many_locks_are_taken_and_the_hot_one_has_its_share() {
    let program = r#"{ program = "compile", work_us = 1000000, between_ns = 70000, kernel_ns = 20000, hold_ns = 5000, locks_per_entry = 2, hot_share = 0.5 }"#;
    let text = format!(
        "name = \"locks\"\n[host]\ncpus = 1\npolicy = {FAIR}\n[[vm]]\nname = \"A\"\nvcpus = 1\nlocks = {{ count = 3 }}\n\
         thread = [{{ run = {program} }}]\n"
    );
    let scenario = cases(&text, &[]).unwrap().remove(0).scenario;
    let mut machine = build(&scenario, 3);
    let limits = Limits { until: Time::ZERO + Span::from_secs(9), events: u64::MAX, when_done: true };
    assert_eq!(machine.run(&limits), Stopped::Done);
    let taken: Vec<u64> = machine.guests()[0].locks().iter().map(|lock| lock.taken).collect();
    let entries = machine.guests()[0].threads()[0].seen.done;
    assert!((2 * entries - 2..=2 * entries).contains(&taken.iter().sum()), "{taken:?} in {entries}");
    for (taken, share) in taken.iter().zip([0.5, 0.25, 0.25]) {
        let expected = 2.0 * entries as f64 * share;
        assert!((*taken as f64 - expected).abs() < 5.0 * expected.sqrt(), "{taken} instead of {expected}");
    }
}
