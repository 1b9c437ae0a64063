//! Who wakes, who is bound, who has a budget: what single policies promise beyond shares.

use super::random::{Case, Does, Kind, VmCase};
use super::*;
use crate::host::VcpuId;

fn one(kind: Kind, number: u64, cpus: u32, vms: Vec<(Vec<Vec<u32>>, Does)>) -> Case {
    let vm = |(places, does): (Vec<Vec<u32>>, Does)| VmCase {
        vcpus: u32::try_from(places.len()).unwrap_or(1),
        weight: 1.0,
        reserved: 0.0,
        limit: None,
        threads: vec![does; places.len()],
        places,
    };
    let vms = vms.into_iter().map(vm).collect();
    Case {
        kind,
        cpus,
        slice: Span::from_millis(4),
        switch: Span::ZERO,
        vms,
        seed: number,
        staggered: false,
        per_vcpu: false,
        width: 2,
    }
}

/// Mean wait for a CPU of one that naps beside two endless loops on one CPU.
fn wait(kind: Kind, number: u64) -> f64 {
    let naps = Does::Naps(Span::from_micros(100), Span::from_millis(8), 500);
    let alone = || vec![vec![0]];
    let case =
        one(kind, number, 1, vec![(alone(), naps), (alone(), Does::Endless), (alone(), Does::Endless)]);
    let mut machine = case.machine();
    finish(&mut machine, Span::from_secs(100));
    let it = machine.report().vcpus[0];
    it.steal.as_f64() / it.dispatches as f64 / 1e6
}

#[test]
fn who_wakes_with_credit_left_is_boosted() {
    // The rate limit is half of a slice of 4 ms: a wait of 0.5 ms on average with it. Without, what is left of a slice
    // and perhaps another.
    let (boosted, plain) = (wait(Kind::Credit, 2), wait(Kind::Credit, 1));
    assert!(boosted < 1.0 && plain > 2.0 * boosted, "{boosted} ms boosted, {plain} ms else");
}

#[test]
fn who_sleeps_much_does_not_wait_where_it_may_take_a_cpu() {
    // Credit2 leaves who runs alone for a millisecond. EEVDF with requests of one length lets who wakes wait for those whose requests are due before: two slices.
    for (kind, most) in [(Kind::Credit2, 0.6), (Kind::Rtds, 2.0), (Kind::Eevdf, 8.0)] {
        let wait = wait(kind, 1);
        assert!(wait < most, "{kind:?}: {wait} ms");
    }
}

#[test]
fn a_server_has_its_budget_in_every_period_and_no_more() {
    let policy = "name = \"rtds\"";
    let server = |name: &str, budget: u64, period: u64| {
        vm(name, 1, &format!("budget_us = {budget}\nperiod_us = {period}"), ENDLESS)
    };
    // The whole CPU, by three periods.
    let vms = server("A", 2_000, 4_000) + &server("B", 1_500, 6_000) + &server("C", 5_000, 20_000);
    let mut machine = machine(&(host(1, policy) + &vms));
    machine.keep_trace(10_000);
    run(&mut machine, Span::from_millis(600));
    assert_eq!(machine.trace().left_out, 0);
    for (vcpu, budget, period) in [(0u32, 2_000u64, 4_000u64), (1, 1_500, 6_000), (2, 5_000, 20_000)] {
        let mut by_period = vec![0; usize::try_from(600_000 / period).unwrap_or(1)];
        for stretch in machine.trace().stretches.iter().filter(|stretch| stretch.vcpu == VcpuId(vcpu)) {
            let (mut from, to) = (stretch.from.nanos(), stretch.to.nanos());
            while from < to {
                let number = from / (period * 1000);
                let end = to.min((number + 1) * period * 1000);
                by_period[usize::try_from(number).unwrap_or(0)] += end - from;
                from = end;
            }
        }
        assert!(by_period.iter().all(|used| *used == budget * 1000), "{vcpu}: {by_period:?}");
    }
}

#[test]
fn a_gang_runs_as_a_whole_or_not_at_all() {
    let vms = vm("A", 4, "", ENDLESS) + &vm("B", 3, "", ENDLESS) + &vm("C", 1, "weight = 2.0", ENDLESS);
    let mut machine = machine(&(host(4, "name = \"gang\", slice_us = 1000") + &vms));
    machine.keep_trace(10_000);
    run(&mut machine, Span::from_millis(400));
    let at = |millis: u64| {
        let moment = Time::from_nanos(millis * 1_000_000 + 500_000);
        let stretches = machine.trace().stretches.iter();
        let now = stretches.filter(move |stretch| stretch.from <= moment && moment < stretch.to);
        now.map(|stretch| machine.view().vm_of(stretch.vcpu).0).collect::<Vec<_>>()
    };
    for millis in 0..400 {
        let on = at(millis);
        let count = |vm: u32| on.iter().filter(|other| **other == vm).count();
        assert!(
            [0, 4].contains(&count(0)) && [0, 3].contains(&count(1)) && count(2) <= 1,
            "{millis}: {on:?}"
        );
    }
}

#[test]
fn who_may_go_elsewhere_makes_room_for_who_may_not() {
    // VM 0 may use both CPUs, VM 1 only the first: with room for both nobody waits longer than a turn.
    for kind in [Kind::EqualPerVm, Kind::PerThread, Kind::Credit, Kind::Credit2, Kind::Eevdf] {
        let vms = vec![(vec![vec![0, 1]], Does::Endless), (vec![vec![0]], Does::Endless)];
        let mut machine = one(kind, 1, 2, vms).machine();
        machine.check_everything();
        run(&mut machine, Span::from_secs(1));
        assert!(shares(&machine).iter().all(|share| *share > 0.99), "{kind:?}: {:?}", shares(&machine));
    }
}

#[test]
fn what_a_vm_could_not_use_is_no_claim_for_later() {
    // A has one busy thread of four for ten seconds; then the others join. B must not starve meanwhile.
    use crate::guest::{Moment, Op, Program, Seen};
    #[derive(Debug)]
    struct Late(bool);
    impl Program for Late {
        fn next(&mut self, _: Moment<'_>) -> Op {
            if std::mem::replace(&mut self.0, false) {
                return Op::SleepUntil(Time::ZERO + Span::from_secs(1));
            }
            Op::Work(Span::from_secs(3600))
        }
        fn seen(&self) -> Seen {
            Seen::default()
        }
        fn is_finite(&self) -> bool {
            false
        }
    }
    for kind in [Kind::EqualPerVm, Kind::Eevdf] {
        let slice = Span::from_millis(1);
        let policy: Box<dyn crate::policy::Policy> = match kind {
            Kind::Eevdf => Box::new(crate::policy::Eevdf::new(slice, Span::from_millis(100))),
            _ => Box::new(crate::policy::equal_per_vm(slice)),
        };
        let count = std::cell::Cell::new(0);
        let program = |vm: u32| -> Box<dyn Program> {
            count.set(count.get() + 1);
            Box::new(Late(vm == 0 && count.get() > 1))
        };
        let mut machine =
            crate::host::tests::machine(4, &[4, 4], policy, crate::host::Habits::default(), program);
        run(&mut machine, Span::from_millis(1_200));
        // 1 and 3 CPUs for a second, then 2 each for 0.2 s.
        let got = shares(&machine);
        assert!((got[0] - 1.4 / 1.2).abs() < 0.03 && (got[1] - 3.4 / 1.2).abs() < 0.03, "{kind:?}: {got:?}");
    }
}

#[test]
fn what_a_vm_had_besides_its_reservation_is_no_debt() {
    // While B sleeps for a second A has everything; when B wakes, a hundred times as heavy, A still has its half.
    for policy in [
        "name = \"equal-per-vm\", quantum_us = 1000",
        "name = \"eevdf\", slice_us = 1000, period_us = 100000",
    ] {
        let sleeper = "program = \"io\", work_us = 100000, wait_us = 1000000, rounds = 1";
        let vms = vm("A", 1, "reserved_cpus = 0.5", ENDLESS) + &vm("B", 1, "weight = 100.0", sleeper);
        let mut machine = machine(&(host(1, policy) + &vms));
        finish(&mut machine, Span::from_secs(3));
        let answer = machine.guests()[1].threads()[0].seen.samples[0];
        assert!(answer >= Span::from_millis(180), "{policy}: {answer}");
    }
}

#[test]
fn a_policy_with_a_clock_hides_no_deadlock() {
    use crate::guest::{Guest, GuestPlan, LockKind, Moment, OnLongWait, Op, Program, Seen, ThreadPlan};
    use crate::host::{CpuSet, Habits, Vm, VmId};
    /// Takes two locks, the other one first than the other thread.
    #[derive(Debug)]
    struct Crossed(Vec<u32>, bool);
    impl Program for Crossed {
        fn next(&mut self, _: Moment<'_>) -> Op {
            self.1 = !self.1;
            if self.1 {
                return Op::Work(Span::from_micros(100));
            }
            self.0.pop().map_or(Op::Finish, Op::Acquire)
        }
        fn seen(&self) -> Seen {
            Seen::default()
        }
        fn is_finite(&self) -> bool {
            true
        }
    }
    let vm =
        Vm { first: VcpuId(0), count: 2, weight: 1.0, reserved_cpus: 0.0, limit_cpus: None, phase: None };
    let guest = Guest::new(GuestPlan {
        vm: VmId(0),
        first: VcpuId(0),
        vcpus: 2,
        quantum: Span::from_millis(1),
        threads: [vec![0, 1], vec![1, 0]]
            .map(|locks| ThreadPlan { program: Box::new(Crossed(locks, false)), priority: 0, bound: None })
            .into(),
        locks: 2,
        lock_kind: LockKind::Ticket,
        on_long_wait: OnLongWait::Halt(Span::from_micros(10)),
        mhz: 1000,
        seed: 1,
    });
    let slice = Span::from_millis(30);
    let keys = crate::policy::CreditKeys { slice, boost: true, rate_limit: Span::ZERO, per_vcpu: false };
    let policy = Box::new(crate::policy::Credit::new(keys));
    let mut machine =
        Machine::new(2, vec![vm], vec![CpuSet::first(2)], &[0, 0], vec![guest], policy, Habits::default());
    let limits = Limits { until: Time::NEVER, events: 1_000_000, when_done: true };
    assert_eq!(machine.run(&limits), Stopped::Deadlock);
}
