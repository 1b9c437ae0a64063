//! Shares of random hosts against what a fluid would give: water-filling by weight, a CPU at most for each virtual CPU.

use super::random::{Case, Kind};
use super::{ENDLESS, host, machine, run, shares, vm};
use crate::host::Limits;
use crate::time::{Span, Time};
use stats::water::{Claim, fill};

/// What each VM gets of the fluid.
fn fluid(kind: Kind, case: &Case) -> Vec<f64> {
    let claims = case.vms.iter().flat_map(|vm| {
        let (count, width) = (f64::from(vm.vcpus), f64::from(vm.vcpus.min(case.cpus)));
        match kind {
            Kind::Proportional => vec![Claim { need: count, weight: vm.weight * width }],
            Kind::PerThread => vec![Claim { need: count, weight: vm.weight * count }],
            Kind::Credit2 | Kind::Credit2Queues => vec![Claim { need: 1.0, weight: vm.weight }; vm.vcpus as usize],
            _ => vec![Claim { need: count, weight: vm.weight }],
        }
    });
    let mut filled = fill(&claims.collect::<Vec<_>>(), f64::from(case.cpus)).into_iter();
    let each = |vm: &super::random::VmCase| {
        let parts = if matches!(kind, Kind::Credit2 | Kind::Credit2Queues) { vm.vcpus as usize } else { 1 };
        filled.by_ref().take(parts).sum()
    };
    case.vms.iter().map(each).collect()
}

/// Part of the shares on a hundred random hosts that lie within 2 % of the fluid's.
fn within(kind: Kind, slice: Span, staggered: bool) -> f64 {
    let (mut good, mut all) = (0.0, 0.0);
    for number in 0..100 {
        let mut case = Case::random(kind, 3_000_000 + number, true);
        case.vms.iter_mut().for_each(|vm| vm.reserved = 0.0);
        (case.slice, case.staggered) = (slice, staggered);
        let mut machine = case.machine();
        let until = Time::ZERO + Span::from_secs(60);
        machine.run(&Limits { until, events: u64::MAX, when_done: false });
        for (got, right) in shares(&machine).iter().zip(fluid(kind, &case)) {
            all += 1.0;
            good += f64::from((got / right - 1.0).abs() <= 0.02);
        }
    }
    good / all
}

#[test]
fn shares_of_random_hosts_are_those_of_the_fluid() {
    // What is below 0.99 is said in the headers of these policies: so much was measured there.
    for (kind, slice, in_step, staggered) in [
        (Kind::EqualPerVm, 10, 0.99, 0.99),
        (Kind::Proportional, 10, 0.99, 0.99),
        (Kind::PerThread, 10, 0.99, 0.99),
        (Kind::Eevdf, 3, 0.99, 0.99),
        (Kind::Credit, 30, 0.86, 0.86),
        (Kind::Credit2, 10, 0.92, 0.97),
    ] {
        for (least, staggered) in [(in_step, false), (staggered, true)] {
            let part = within(kind, Span::from_millis(slice), staggered);
            assert!(part >= least, "{kind:?}, staggered {staggered}: {part:.3} within 2 %, not {least}");
        }
    }
}

#[test]
fn credits_weights_hold_for_who_needs_almost_all_of_a_cpu_where_cpus_are_out_of_step() {
    let with = |name, vcpus, weight: f64| vm(name, vcpus, &format!("weight = {weight:?}"), ENDLESS);
    let vms = with("A", 1, 8.0) + &with("B", 2, 8.0) + &with("C", 2, 1.0);
    let policy = "name = \"credit\", slice_us = 30000, boost = true, ratelimit_us = 1000";
    let of = |more: &str| {
        let mut machine = machine(&format!("{}{more}\n{vms}", host(2, policy)));
        run(&mut machine, Span::from_secs(60));
        shares(&machine)
    };
    let shares = of("staggered = true");
    for (got, right) in shares.iter().zip([16.0 / 17.0, 16.0 / 17.0, 2.0 / 17.0]) {
        assert!((got / right - 1.0).abs() < 0.02, "{shares:?}");
    }
    // In step, both of B take both CPUs at the same moments, and what A would earn meanwhile is beyond what it may save.
    let shares = of("");
    assert!((shares[0] - shares[2]).abs() < 0.01 && (shares[1] - 16.0 / 17.0).abs() < 0.01, "{shares:?}");
}

#[test]
fn explore() {
    for (kind, slice, width, per_vcpu) in [
        (Kind::Credit, 30, 1, false),
        (Kind::Credit2, 10, 1, false),
        (Kind::EevdfQueues, 3, 1, false),
    ] {
        for staggered in [false, true] {
            let mut off = Vec::new();
            for number in 0..40 {
                let mut case = Case::random(kind, 3_000_000 + number, true);
                case.vms.iter_mut().for_each(|vm| vm.reserved = 0.0);
                (case.slice, case.staggered, case.per_vcpu) = (Span::from_millis(slice), staggered, per_vcpu);
                case.width = width;
                let mut machine = case.machine();
                let until = Time::ZERO + Span::from_secs(30);
                machine.run(&Limits { until, events: u64::MAX, when_done: false });
                let mut weighed = case.clone();
                if per_vcpu {
                    weighed.vms.iter_mut().for_each(|vm| vm.weight *= f64::from(vm.vcpus));
                }
                let fluid = fluid(kind, &weighed);
                for (got, right) in shares(&machine).iter().zip(&fluid) {
                    off.push((got / right - 1.0).abs());
                }
                if number < 4 {
                    let vms: Vec<_> = case.vms.iter().map(|vm| (vm.vcpus, vm.weight)).collect();
                    println!("{} {vms:?} {:.3?} {fluid:.3?}", case.cpus, shares(&machine));
                }
            }
            off.sort_by(f64::total_cmp);
            let part = |most: f64| off.iter().filter(|off| **off <= most).count() as f64 / off.len() as f64;
            println!("{kind:?} {width} per_vcpu {per_vcpu} staggered {staggered}: {:.3} {:.3} max {}", part(0.02), part(0.05), off[off.len() - 1]);
        }
    }
}
