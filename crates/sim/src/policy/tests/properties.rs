//! What must hold of every policy in every scenario: the books balance, no CPU idles for nothing, no wake-up is lost,
//! limits are never exceeded, reservations are honoured, and shares are those of the closed forms.

use super::random::{Case, Does, Kind};
use super::shares;
use crate::host::{Limits, Machine, Stopped};
use crate::time::{Span, Time};
use stats::water::{Claim, fill};

/// Cases of each of the eleven policies and each property.
const CASES: u64 = 120;

fn run(case: &Case, machine: &mut Machine, span: Span, when_done: bool) -> Stopped {
    // Debug builds check after every event that nobody waits beside an idle CPU.
    machine.check_everything();
    let stopped = machine.run(&Limits { until: Time::ZERO + span, events: 3_000_000, when_done });
    let is_right = matches!(stopped, Stopped::Time | Stopped::Done);
    assert!(is_right, "{stopped:?} at {} in {case:?}", machine.view().now);
    stopped
}

/// CPU time of each VM in each of its periods, the first of which is cut where they are out of step.
fn by_period(machine: &Machine, period: Span, in_step: bool) -> Vec<Vec<Span>> {
    assert_eq!(machine.trace().left_out, 0);
    let count = usize::try_from(machine.report().wall.nanos() / period.nanos()).unwrap_or(0) + 2;
    let vms = machine.view().vms.len();
    let mut used = vec![vec![Span::ZERO; count]; vms];
    for stretch in &machine.trace().stretches {
        let vm = machine.view().vm_of(stretch.vcpu).index();
        let parts = if in_step { vms } else { vm + 1 };
        let late = period.nanos() - period.nanos() * parts as u64 / vms as u64;
        let mut from = stretch.from;
        while from < stretch.to {
            let number = (from.nanos() + late) / period.nanos();
            let end = Time::from_nanos((number + 1) * period.nanos() - late).min(stretch.to);
            used[vm][usize::try_from(number).unwrap_or(0)] += end.since(from);
            from = end;
        }
    }
    used
}

#[test]
fn books_balance_nobody_waits_for_nothing_and_limits_are_kept() {
    let mut limited = 0;
    for kind in Kind::ALL {
        for number in 0..CASES {
            let mut case = Case::random(kind, number, false);
            case.staggered = number % 2 == 1;
            let mut machine = case.machine();
            machine.keep_trace(100_000);
            let span = Span::from_millis(50 + number * 2);
            run(&case, &mut machine, span, false);
            // Xen's credit accounts for everybody at once.
            let in_step = !case.staggered || kind == Kind::Credit;
            let period = if kind == Kind::Credit { Span::from_millis(30) } else { Span::from_millis(100) };
            for (vm, used) in case.vms.iter().zip(by_period(&machine, period, in_step)) {
                let Some(limit) = vm.limit else { continue };
                limited += 1;
                let budget = limit * period.as_f64();
                let width = f64::from(vm.vcpus.min(case.cpus));
                // Switches at its expense may come on top of a slice that was paid for.
                let more = width * (case.slice + case.switch).as_f64();
                let mut all = 0.0;
                for (count, span) in (1u32..).zip(used) {
                    all += span.as_f64();
                    assert!(span.as_f64() <= budget + more + 10.0, "{span} of {limit} CPUs: {case:?}");
                    let most = f64::from(count) * budget + width * case.switch.as_f64() + 10.0;
                    assert!(all <= most, "{all} of {most} after {count} periods: {case:?}");
                }
            }
        }
    }
    assert!(limited > 300, "{limited} limits were looked at");
}

#[test]
fn no_wake_up_is_lost_and_every_program_that_has_an_end_comes_to_it() {
    let (mut finite, mut wrong) = (0, Vec::new());
    for kind in Kind::ALL {
        for number in 0..CASES {
            let mut case = Case::random(kind, 1_000_000 + number, false);
            for vm in &mut case.vms {
                vm.threads[0] = Does::Naps(Span::from_micros(300), Span::from_millis(2), 10);
                finite += 1;
            }
            let mut machine = case.machine();
            let stopped = run(&case, &mut machine, Span::from_secs(60), true);
            let waiting: Vec<_> = machine.guests().iter().map(crate::guest::Guest::waiting).collect();
            if stopped != Stopped::Done {
                wrong.push(format!("{waiting:?} {:?}: {case:?}", machine.view().vcpus));
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(finite > 1000);
}

/// Looks at the reservations of a case over three periods; how many there are.
fn reservations_hold(case: &Case, wrong: &mut Vec<String>) -> usize {
    let mut machine = case.machine();
    let span = Span::from_millis(300);
    run(case, &mut machine, span, false);
    for (vm, got) in case.vms.iter().zip(shares(&machine)) {
        // In each period, what a slice on each CPU may delay at its end.
        let bound = 3.0 * f64::from(case.cpus) * case.slice.as_f64() / span.as_f64();
        if got < vm.reserved - bound {
            wrong.push(format!("{got} of {}: {case:?}", vm.reserved));
        }
    }
    case.vms.iter().filter(|vm| vm.reserved > 0.0).count()
}

#[test]
fn reservations_are_honoured() {
    let (mut cases, mut wrong) = (0, Vec::new());
    for kind in Kind::ALL.into_iter().filter(|kind| kind.knows_reservations()) {
        for number in 0..2 * CASES {
            let case = Case::random(kind, number, true);
            cases += usize::from(reservations_hold(&case, &mut wrong) > 0);
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(cases > 400, "{cases} cases had reservations");
}

#[test]
fn reservations_are_honoured_where_vms_are_kept_to_some_cpus_and_pinned() {
    let (mut cases, mut wrong) = (0, Vec::new());
    for kind in Kind::ALL.into_iter().filter(|kind| kind.knows_reservations()) {
        for number in 0..3 * CASES {
            let case = Case::bound(kind, number);
            cases += usize::from(reservations_hold(&case, &mut wrong) > 0);
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(cases > 1000, "{cases} cases had reservations");
}

#[test]
fn shares_are_those_of_the_closed_forms() {
    let kinds =
        [Kind::EqualPerVm, Kind::Proportional, Kind::PerThread, Kind::Credit, Kind::Credit2, Kind::Eevdf];
    let (mut looked_at, mut wrong) = (0, Vec::new());
    for kind in kinds {
        for number in 0..100 {
            let mut case = Case::random(kind, 2_000_000 + number, true);
            case.vms.iter_mut().for_each(|vm| vm.reserved = 0.0);
            let each = |weight: f64, need: f64| Claim { need, weight };
            let claims = case.vms.iter().flat_map(|vm| {
                let (count, width) = (f64::from(vm.vcpus), f64::from(vm.vcpus.min(case.cpus)));
                match kind {
                    Kind::Proportional => vec![each(vm.weight * width, count)],
                    Kind::PerThread => vec![each(vm.weight * count, count)],
                    Kind::Credit2 => vec![each(vm.weight, 1.0); vm.vcpus as usize],
                    _ => vec![each(vm.weight, count)],
                }
            });
            let claims: Vec<Claim> = claims.collect();
            let filled = fill(&claims, f64::from(case.cpus));
            // Xen's credits are by weight only for those who want twice their share.
            let mut parts = filled.iter().zip(&claims);
            if kind == Kind::Credit && !parts.all(|(got, claim)| *got < 0.5 * claim.need) {
                continue;
            }
            looked_at += 1;
            let mut machine = case.machine();
            let span = Span::from_secs(if kind == Kind::Credit { 2 } else { 1 });
            run(&case, &mut machine, span, false);
            let mut filled = filled.into_iter();
            for (vm, got) in case.vms.iter().zip(shares(&machine)) {
                let parts = if kind == Kind::Credit2 { vm.vcpus as usize } else { 1 };
                let right: f64 = filled.by_ref().take(parts).sum();
                // Credits come in ticks of 10 ms and resets of 10 ms, whatever the slice.
                let turn = match kind {
                    Kind::Credit | Kind::Credit2 => case.slice + Span::from_millis(10),
                    _ => case.slice,
                };
                let bound = 2.0 * f64::from(case.cpus + vm.vcpus) * turn.as_f64() / span.as_f64();
                if (got - right).abs() > bound {
                    wrong.push(format!("{got}, not {right} within {bound}: {case:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(looked_at > 200, "{looked_at}");
}
