//! Hardware threads of a core: who wants to run goes to a core of which nobody uses any thread, as far as each system does that.

use super::random::{Case, Kind};
use super::{ENDLESS, host, machine, run, vm};
use crate::host::{CpuId, Limits, Machine, Pause, Sharing, VcpuId};
use crate::time::{Span, Time};

/// Cases of each policy.
const CASES: u64 = 60;
const SLOP: u64 = 50_000;

const POLICIES: [&str; 4] = [
    "name = \"credit\", queues = \"per-cpu\"",
    "name = \"credit2\", queues = \"per-cpu\"",
    "name = \"credit2\"",
    "name = \"eevdf\", queues = \"per-cpu\"",
];

fn smt(cpus: u32, policy: &str) -> String {
    format!("{}smt = 2\nsmt_speed = 0.5\n", host(cpus, policy))
}

/// How much of its CPU time each VM ran at full speed.
fn full_speed(machine: &Machine) -> Vec<f64> {
    let speeds = machine.speeds().expect("it shares cores");
    let of = |vcpu: VcpuId| (speeds.done(vcpu).time.as_f64(), speeds.done(vcpu).work.as_f64());
    let vms = machine.view().vms.iter();
    let sums = vms.map(|vm| vm.vcpus().map(of).fold((0.0, 0.0), |sum, it| (sum.0 + it.0, sum.1 + it.1)));
    sums.map(|(time, work)| 2.0 * work / time - 1.0).collect()
}

#[test]
fn two_vms_on_two_cores_have_a_core_each_also_after_sleep() {
    for policy in POLICIES {
        for run_of_b in [
            ENDLESS,
            "program = \"io\", work_us = 700, wait_us = 900",
            "program = \"io\", work_us = 40000, wait_us = 5000",
        ] {
            let vms = vm("A", 1, "", ENDLESS) + &vm("B", 1, "", run_of_b);
            let mut machine = machine(&(smt(4, policy) + &vms));
            run(&mut machine, Span::from_secs(2));
            assert_eq!(full_speed(&machine), [1.0, 1.0], "{policy}, {run_of_b}");
        }
    }
}

/// Three on two cores; when one is done, the others share a core beside an idle one, if it was the right one. Xen's credit2 leaves
/// them there: its queues only exchange work with each other, and who wakes finds its last CPU idle.
#[test]
fn who_shares_a_core_beside_an_idle_one_is_moved_where_the_real_one_does_it() {
    for (policy, is_moved) in POLICIES.into_iter().zip([true, false, false, true]) {
        let of = |short: usize| {
            let run_of = |at| if at == short { "program = \"fixed\", work_us = 100000" } else { ENDLESS };
            let vms: String =
                (0..3).zip(["A", "B", "C"]).map(|(at, name)| vm(name, 1, "", run_of(at))).collect();
            let mut machine = machine(&(smt(4, policy) + &vms));
            run(&mut machine, Span::from_secs(2));
            let got = full_speed(&machine);
            (0..3).filter(|at| *at != short).map(|at| got[at]).fold(1.0, f64::min)
        };
        let least = (0..3).map(of).fold(1.0, f64::min);
        assert!(if is_moved { (0.85..1.0).contains(&least) } else { least < 0.05 }, "{policy}: {least}");
    }
}

/// Two cores with two each beside two that are idle, and all clocks in step: nobody goes where another goes at the same moment.
#[test]
fn who_moves_at_the_same_moment_goes_to_another_core() {
    let run_of = |at| if [2, 3].contains(&at) { "program = \"fixed\", work_us = 100000" } else { ENDLESS };
    let vms: String = (0..6).map(|at| vm(&format!("V{at}"), 1, "", run_of(at))).collect();
    let mut machine = machine(&format!("{}staggered = false\n{vms}", smt(8, POLICIES[0])));
    run(&mut machine, Span::from_secs(1));
    assert_eq!(machine.report().cpus.iter().map(|cpu| cpu.migrations).sum::<u64>(), 2);
}

/// The longest that two shared a core while others were idle whole and all who wanted to run could have had one each.
fn longest_shared(machine: &mut Machine, until: Span) -> Span {
    let limits = Limits { until: Time::NEVER, events: u64::MAX, when_done: false };
    let cpus = machine.view().cpus.len();
    // Since when who runs there runs there, or nobody does.
    let mut since: Vec<(Option<VcpuId>, Time)> = vec![(None, Time::ZERO); cpus];
    let mut longest = Span::ZERO;
    while machine.view().now < Time::ZERO + until {
        let events = machine.events() + 1;
        if machine.run_to(&limits, Pause { at: Time::NEVER, events }).is_some() {
            break;
        }
        let view = machine.view();
        let cores: Vec<[(Option<VcpuId>, Time); 2]> =
            since.chunks(2).map(|core| [core[0], core[1]]).collect();
        let is_full = |core: &&[(Option<VcpuId>, Time); 2]| core.iter().all(|(who, _)| who.is_some());
        let is_idle = |core: &&[(Option<VcpuId>, Time); 2]| core.iter().all(|(who, _)| who.is_none());
        let last = |core: &[(Option<VcpuId>, Time); 2]| core[0].1.max(core[1].1);
        // What was so since the last event was so until now.
        let idle = cores.iter().filter(is_idle).map(last).max();
        let waits = since.iter().filter(|(who, _)| who.is_some()).count() > cores.len();
        if let Some(idle) = idle.filter(|_| !waits && !somebody_waits(machine)) {
            let shared = cores.iter().filter(is_full).map(last).map(|pair| view.now.since(pair.max(idle)));
            longest = longest.max(shared.max().unwrap_or(Span::ZERO));
        }
        for (known, cpu) in since.iter_mut().zip((0u32..).map(CpuId)) {
            let runs = view.cpus[cpu.index()].running;
            if known.0 != runs {
                *known = (runs, view.now);
            }
        }
    }
    longest
}

fn somebody_waits(machine: &Machine) -> bool {
    machine.view().vcpus.iter().any(|vcpu| vcpu.state == crate::host::State::Ready)
}

/// A random host whose CPUs are threads, without pins and limits.
fn case(kind: Kind, number: u64) -> Case {
    let mut case = Case::random(kind, 6_000_000 + number, false);
    case.cpus = 2 * case.cpus.max(2);
    let all: Vec<u32> = (0..case.cpus).collect();
    for vm in &mut case.vms {
        vm.limit = None;
        vm.places = vec![all.clone(); vm.places.len()];
    }
    (case.slice, case.staggered, case.width) = (Span::from_millis(3), number % 2 == 1, 16);
    case
}

fn with_cores(case: &Case) -> Machine {
    let mut machine = case.machine();
    machine.share(Sharing { smt: true, ..Sharing::default() });
    machine.check_everything();
    machine
}

#[test]
fn nobody_shares_a_core_beside_an_idle_one_for_longer_than_balancing_takes() {
    for kind in [Kind::CreditQueues, Kind::EevdfQueues] {
        let mut most = Span::ZERO;
        for number in 0..CASES {
            let case = case(kind, number);
            let bound = match kind {
                // Three ticks, of which the first makes who runs active and accounting may undo that once.
                Kind::CreditQueues => Span::from_nanos(3 * (1_000_000 + SLOP)),
                // Four looks of an idle CPU, each a millisecond per CPU after the last.
                _ => Span::from_nanos(4 * (1_000_000 * u64::from(case.cpus) + SLOP)),
            };
            let longest = longest_shared(&mut with_cores(&case), Span::from_millis(200));
            assert!(longest <= bound, "{kind:?}: {longest}, not {bound} at most in {case:?}");
            most = most.max(longest);
        }
        assert!(most > Span::from_millis(1), "{kind:?}: nobody ever shared");
    }
}

#[test]
fn credit2_brings_nobody_onto_a_core_that_is_used_where_there_are_enough() {
    for kind in [Kind::Credit2, Kind::Credit2Queues] {
        for number in 0..CASES {
            let mut case = case(kind, number);
            let vcpus: u32 = case.vms.iter().map(|vm| vm.vcpus).sum();
            case.cpus = 2 * vcpus;
            case.width = case.cpus;
            let all: Vec<u32> = (0..case.cpus).collect();
            case.vms.iter_mut().for_each(|vm| vm.places = vec![all.clone(); vm.places.len()]);
            let longest = longest_shared(&mut with_cores(&case), Span::from_millis(200));
            assert_eq!(longest, Span::ZERO, "{kind:?}: {case:?}");
        }
    }
}
