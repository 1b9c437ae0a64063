//! The machine against closed forms.

use super::*;
use crate::guest::{Guest, GuestPlan, LockKind, OnLongWait, Program, ThreadPlan};
use crate::policy::{Policy, equal_per_vm, per_thread, proportional};
use crate::programs::{Endless, Fixed};
use crate::time::{Span, Time};
use stats::water::{Claim, fill};

/// One thread per virtual CPU in each VM.
pub(crate) fn machine(
    cpus: u32,
    threads: &[u32],
    policy: Box<dyn Policy>,
    habits: Habits,
    program: impl Fn(u32) -> Box<dyn Program>,
) -> Machine {
    let mut first = 0;
    let (mut vms, mut guests) = (Vec::new(), Vec::new());
    for (number, count) in (0u32..).zip(threads) {
        vms.push(Vm {
            first: VcpuId(first),
            count: *count,
            weight: 1.0,
            reserved_cpus: 0.0,
            limit_cpus: None,
            phase: None,
        });
        guests.push(Guest::new(GuestPlan {
            vm: VmId(number),
            first: VcpuId(first),
            vcpus: *count,
            quantum: Span::from_millis(4),
            threads: (0..*count)
                .map(|_| ThreadPlan { program: program(number), priority: 0, bound: None })
                .collect(),
            locks: 0,
            lock_kind: LockKind::Ticket,
            on_long_wait: OnLongWait::Spin,
            mhz: 1000,
            seed: 1,
        }));
        first += count;
    }
    let affinity_of = vec![0; first as usize];
    Machine::new(cpus, vms, vec![CpuSet::first(cpus)], &affinity_of, guests, policy, habits)
}

fn until(span: Span) -> Limits {
    Limits { until: Time::ZERO + span, events: u64::MAX, when_done: false }
}

fn shares(machine: &Machine) -> Vec<f64> {
    let report = machine.report();
    let of = |vm: &Vm| vm.vcpus().map(|vcpu| report.vcpus[vcpu.index()].run.as_f64()).sum::<f64>();
    machine.view().vms.iter().map(|vm| of(vm) / report.wall.as_f64()).collect()
}

/// A policy, and what a VM weighs in it by its threads.
type Weighed = (Box<dyn Policy>, fn(u32) -> f64);

#[test]
fn shares_are_those_of_the_closed_forms_within_a_quantum() {
    let quantum = Span::from_millis(1);
    let wall = Span::from_secs(20);
    for threads in [&[8u32, 16][..], &[4, 16], &[4, 8], &[1, 2, 30], &[3]] {
        let policies: [Weighed; 3] = [
            (Box::new(equal_per_vm(quantum)), |_| 1.0),
            (Box::new(proportional(quantum)), |count| f64::from(count.min(8))),
            (Box::new(per_thread(quantum)), f64::from),
        ];
        for (policy, weight) in policies {
            let mut machine = machine(8, threads, policy, Habits::default(), |_| Box::new(Endless));
            assert_eq!(machine.run(&until(wall)), Stopped::Time);
            let claims: Vec<Claim> = threads
                .iter()
                .map(|count| Claim { need: f64::from(*count), weight: weight(*count) })
                .collect();
            for (got, right) in shares(&machine).iter().zip(fill(&claims, 8.0)) {
                let bound = 16.0 * quantum.as_f64() / wall.as_f64();
                assert!((got - right).abs() <= bound, "{threads:?}: {got} instead of {right}");
            }
        }
    }
}

#[test]
fn two_vms_take_as_long_as_the_thesis_says() {
    // u_B / u_A: per VM 1.5, 2.5, 1.5; proportional 1.5, 5/3, 1; per thread 1.
    let work = Span::from_secs(4);
    let quantum = Span::from_millis(1);
    for (threads, equal, by_need) in [([8, 16], 1.5, 1.5), ([4, 16], 2.5, 5.0 / 3.0), ([4, 8], 1.5, 1.0)] {
        let policies: [(Box<dyn Policy>, f64); 3] = [
            (Box::new(equal_per_vm(quantum)), equal),
            (Box::new(proportional(quantum)), by_need),
            (Box::new(per_thread(quantum)), 1.0),
        ];
        for (policy, right) in policies {
            let mut machine = machine(8, &threads, policy, Habits::default(), |_| Box::new(Fixed::new(work)));
            let limits = Limits { until: Time::NEVER, events: u64::MAX, when_done: true };
            assert_eq!(machine.run(&limits), Stopped::Done);
            let ended = |vm: usize| {
                let ends = machine.guests()[vm].threads().into_iter().map(|thread| thread.ended.unwrap());
                ends.max().unwrap().nanos() as f64
            };
            let ratio = ended(1) / ended(0);
            assert!((ratio - right).abs() < 0.01, "{threads:?}: {ratio} instead of {right}");
        }
    }
}

#[test]
fn switches_cost_and_the_books_balance() {
    let habits = Habits { switch: Span::from_micros(100), ..Habits::default() };
    let policy = Box::new(equal_per_vm(Span::from_millis(1)));
    let mut machine = machine(2, &[2, 2], policy, habits, |_| Box::new(Endless));
    machine.keep_trace(1000);
    assert_eq!(machine.run(&until(Span::from_secs(1))), Stopped::Time);
    let report = machine.report();
    for cpu in &report.cpus {
        let right = cpu.switches * 100_000;
        assert!(cpu.switches > 100 && (right - 100_000..=right).contains(&cpu.switching.nanos()), "{cpu:?}");
    }
    assert!(machine.trace().stretches.iter().any(|stretch| stretch.mode == Mode::Switch));
    let mut last = std::collections::BTreeMap::new();
    for stretch in &machine.trace().stretches {
        let end = last.insert(stretch.cpu, stretch.to).unwrap_or_default();
        assert!(stretch.from >= end, "stretches of a CPU do not overlap: {stretch:?}");
    }
}
