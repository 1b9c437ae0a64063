//! Queues of their own: nobody idles for long beside who waits, work is stolen, migrations cost what they are said to.

use super::random::{Case, Kind};
use super::{ENDLESS, host, machine, run, shares, vm};
use crate::host::{HostReport, Limits, Machine, Mode, Pause, State};
use crate::time::{Span, Time};

/// Cases of each policy.
const CASES: u64 = 60;

/// After this nobody waits beside an idle CPU, where all may use all CPUs: at once where idle CPUs pull; with credit some
/// ticks, the first of which makes who runs count as active, and the second moves him.
fn interval(kind: Kind) -> Option<Span> {
    match kind {
        // A slice of 3 ms is three ticks; timers are late by 50 us at most.
        Kind::CreditQueues => Some(Span::from_micros(3_200)),
        Kind::EevdfQueues => Some(Span::ZERO),
        // Its queues give work away when everybody has used up his credit, and only by load: no bound is stated.
        _ => None,
    }
}

/// The longest that a CPU idled in one go while the same virtual CPU waited that may use it.
fn longest_for_nothing(machine: &mut Machine, until: Span, step: Span) -> Span {
    let no_end = Limits { until: Time::NEVER, events: u64::MAX, when_done: false };
    let (mut longest, mut at) = (Span::ZERO, Time::ZERO);
    while at < Time::ZERO + until {
        at = at + step;
        machine.run_to(&no_end, Pause { at, ..Pause::NEVER });
        let view = machine.view();
        for vcpu in view.vcpus.iter().filter(|vcpu| vcpu.state == State::Ready) {
            let idle = view.idle.common(&view.affinities[vcpu.affinity as usize]);
            for cpu in idle {
                let since = view.cpus[cpu as usize].since.max(vcpu.since);
                longest = longest.max(at.since(since.min(at)));
            }
        }
    }
    longest
}

#[test]
fn nobody_waits_beside_an_idle_cpu_for_longer_than_the_balancing_interval() {
    for kind in Kind::PER_CPU {
        let Some(interval) = interval(kind) else { continue };
        for number in 0..CASES {
            let mut case = Case::random(kind, 4_000_000 + number, false);
            let all: Vec<u32> = (0..case.cpus).collect();
            for vm in &mut case.vms {
                vm.limit = None;
                vm.places = vec![all.clone(); vm.places.len()];
            }
            (case.slice, case.staggered) = (Span::from_millis(3), number % 2 == 1);
            let step = Span::from_micros(103);
            let longest = longest_for_nothing(&mut case.machine(), Span::from_millis(60), step);
            // What is about to be switched at the end of a step is no wait.
            assert!(longest <= interval + step, "{kind:?}: {longest} in {case:?}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_books() {
    for kind in Kind::PER_CPU {
        for number in 0..CASES {
            let mut case = Case::random(kind, 5_000_000 + number, false);
            case.staggered = true;
            let books = |case: &Case| -> HostReport {
                let mut machine = case.machine();
                let until = Time::ZERO + Span::from_millis(100);
                machine.run(&Limits { until, events: u64::MAX, when_done: false });
                machine.report()
            };
            assert_eq!(books(&case), books(&case), "{case:?}");
        }
    }
}

const QUEUES: [&str; 3] = [
    "name = \"credit\", queues = \"per-cpu\"",
    "name = \"credit2\", queues = \"per-cpu\", queue_cpus = 1",
    "name = \"eevdf\", queues = \"per-cpu\"",
];

#[test]
fn who_has_nothing_to_do_takes_work_from_who_has_too_much() {
    // A, B, C and D begin two to a CPU; A and C share one and are done after a second. Then B and D have a CPU each.
    for policy in QUEUES {
        let short = "program = \"fixed\", work_us = 500000";
        let vms = vm("A", 1, "", short)
            + &vm("B", 1, "", ENDLESS)
            + &vm("C", 1, "", short)
            + &vm("D", 1, "", ENDLESS);
        let mut machine = machine(&(host(2, policy) + &vms));
        run(&mut machine, Span::from_secs(10));
        let shares = shares(&machine);
        assert!((shares[1] - 0.95).abs() < 0.12 && (shares[3] - 0.95).abs() < 0.12, "{policy}: {shares:?}");
        let idle: f64 = machine.report().cpus.iter().map(|cpu| cpu.idle.as_f64() / 1e9).sum();
        assert!(idle < 2.1, "{policy}: {idle} s idle of 20");
    }
}

#[test]
fn three_on_two_cpus_have_the_same_however_work_is_moved() {
    for policy in [QUEUES[0], QUEUES[2], "name = \"credit2\", queues = \"per-cpu\""] {
        let vms: String = ["A", "B", "C"].map(|name| vm(name, 1, "", ENDLESS)).concat();
        let mut machine = machine(&(host(2, policy) + &vms));
        run(&mut machine, Span::from_secs(60));
        let got = shares(&machine);
        assert!(got.iter().all(|share| (share - 2.0 / 3.0).abs() < 0.02), "{policy}: {got:?}");
        let migrations: u64 = machine.report().cpus.iter().map(|cpu| cpu.migrations).sum();
        assert!(migrations > 100, "{policy}: {migrations} migrations");
    }
}

#[test]
fn a_migration_costs_what_it_is_said_to_and_the_books_balance() {
    let vms: String = ["A", "B", "C"].map(|name| vm(name, 1, "", ENDLESS)).concat();
    let of = |keys: &str, policy: &str| {
        let mut machine = machine(&(format!("[host]\ncpus = 2\n{keys}\npolicy = {{ {policy} }}\n{vms}")));
        machine.keep_trace(100_000);
        run(&mut machine, Span::from_secs(10));
        let report = machine.report();
        let migrations: u64 = report.cpus.iter().map(|cpu| cpu.migrations).sum();
        let switching: u64 = report.cpus.iter().map(|cpu| cpu.switching.nanos()).sum();
        let seen = machine.trace().stretches.iter().filter(|stretch| stretch.mode == Mode::Switch).count();
        (migrations, switching, seen as u64)
    };
    for policy in [QUEUES[0], QUEUES[2], "name = \"per-thread\"", "name = \"credit2\""] {
        assert_eq!(of("", policy).1, 0, "{policy}: free unless said otherwise");
        let cost = 200_000;
        let (migrations, switching, seen) = of("migrate_ns = 200000", policy);
        // The last ones may be under way.
        assert!(
            switching <= migrations * cost && switching + 2 * cost >= migrations * cost,
            "{policy}: {switching}"
        );
        assert!(
            migrations > 10 && seen <= migrations && seen + 2 >= migrations,
            "{policy}: {seen} of {migrations}"
        );
        let (migrations, switching, _) =
            of("migrate_ns = 200000\ncache_cpus = 2\nmigrate_near_share = 0.25", policy);
        let cost = cost / 4;
        assert!(
            switching <= migrations * cost && switching + 2 * cost >= migrations * cost,
            "{policy}: near {switching}"
        );
    }
}

/// Each search of credit2 for whom to take is compared with a look at all CPUs, in `runners.rs`.
#[test]
fn credit2_takes_the_cpu_that_a_look_at_all_of_them_finds() {
    for number in 0..CASES {
        let kind = if number % 2 == 0 { Kind::Credit2 } else { Kind::Credit2Queues };
        let mut case = Case::random(kind, 7_000_000 + 10 * number, false);
        (case.cpus, case.width, case.staggered) = (12, 5, number % 3 > 0);
        let more = (1..8).flat_map(|more| Case::random(kind, 7_000_000 + 10 * number + more, false).vms);
        case.vms.extend(more);
        for (at, vm) in case.vms.iter_mut().enumerate() {
            vm.weight *= [1.0, 1.7, 16.0][at % 3];
            // Of some VMs each virtual CPU may use a part of the CPUs.
            let first = u32::try_from(at % 8).unwrap();
            vm.places = vec![
                if at % 4 == 3 { (first..first + 5).collect() } else { (0..12).collect() };
                vm.places.len()
            ];
        }
        let mut machine = case.machine();
        run(&mut machine, Span::from_millis(100));
    }
    // Who stands in for who spins runs where credit2 did not choose.
    let compile = "program = \"compile\", work_us = 9000000, between_ns = 5000000, kernel_ns = 600000, hold_ns = 500000, locks_per_entry = 1, \
                   hot_share = 1.0";
    let locks =
        "locks = { count = 1, kind = \"ticket\", on_long_wait = \"tell-host\", long_wait_cycles = 4096 }";
    let vms = vm("A", 12, locks, compile)
        + &vm("B", 12, &format!("weight = 9.0\n{locks}"), compile)
        + &vm("C", 12, "", NAPS);
    for help in ["kernel-first", "anyone"] {
        let text = host(8, "name = \"credit2\"") + &format!("help = \"{help}\"\n{vms}");
        run(&mut machine(&text), Span::from_secs(1));
    }
}

const NAPS: &str = "program = \"io\", work_us = 300, wait_us = 400";

#[test]
fn a_vm_may_have_a_cost_of_its_own() {
    let vms = vm("A", 1, "migrate_ns = 1000000", ENDLESS) + &vm("B", 2, "", ENDLESS);
    let mut machine = machine(&(host(2, "name = \"per-thread\"") + &vms));
    run(&mut machine, Span::from_secs(1));
    let report = machine.report();
    let switching: u64 = report.cpus.iter().map(|cpu| cpu.switching.nanos()).sum();
    let migrations: u64 = report.cpus.iter().map(|cpu| cpu.migrations).sum();
    assert!(switching > 0 && switching < migrations * 1_000_000, "{switching} in {migrations}");
}
