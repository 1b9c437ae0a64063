//! Who pauses and looks gets the same end as who does not, and what is seen is what a run that ends there says.

use super::random::{Case, Does, Kind};
use crate::guest::{LockReport, ThreadReport};
use crate::host::{HostReport, Limits, Machine, Pause, State, Stopped, Stretch};
use crate::random::Stream;
use crate::time::{Span, Time};
use model::host_state::{HostState, VcpuPlace};

/// Cases of each policy.
const CASES: u64 = 40;
/// Stretches that are compared.
const STRETCHES: usize = 20_000;

/// All that a machine leaves behind.
type Left = (Time, HostReport, Vec<Stretch>, Vec<Vec<ThreadReport>>, Vec<Vec<LockReport>>);

fn left(machine: &Machine) -> Left {
    (
        machine.view().now,
        machine.report(),
        machine.trace().stretches.clone(),
        machine.guests().iter().map(crate::guest::Guest::threads).collect(),
        machine.guests().iter().map(crate::guest::Guest::locks).collect(),
    )
}

fn machine(case: &Case) -> Machine {
    let mut machine = case.machine();
    machine.keep_trace(STRETCHES);
    machine
}

/// Runs with pauses at random moments and after random numbers of events; answers what was seen at moments.
fn with_pauses(
    machine: &mut Machine,
    limits: &Limits,
    random: &mut Stream,
) -> (Stopped, Vec<(Time, HostState)>) {
    let (mut at, mut seen) = (Time::ZERO, Vec::new());
    loop {
        let is_at = random.below(2) == 0;
        let pause = if is_at {
            at = at.max(machine.view().now) + Span::from_nanos(random.below(4_000_000));
            Pause { at, ..Pause::NEVER }
        } else {
            Pause { events: machine.events() + random.below(20), ..Pause::NEVER }
        };
        let stopped = machine.run_to(limits, pause);
        let state = machine.state(at);
        let sum = |of: fn(&HostState) -> Vec<u64>| of(&state).iter().sum::<u64>();
        let given = sum(|it| it.cpus.iter().map(|cpu| cpu.run_ns.get() + cpu.switching_ns.get()).collect());
        assert_eq!(given, sum(|it| it.vcpus.iter().map(|vcpu| vcpu.run_ns.get()).collect()), "{state:?}");
        if let Some(stopped) = stopped {
            return (stopped, seen);
        }
        if is_at {
            seen.push((at, state));
        }
    }
}

/// Holds a state against the books of a machine that ended at that moment.
fn is_as_if_it_ended_there(case: &Case, limits: &Limits, at: Time, state: &HostState) {
    let mut other = machine(case);
    other.run(&Limits { until: at, ..*limits });
    let (report, view) = (other.report(), other.view());
    assert_eq!((state.at_ns, state.events), (report.wall.into(), report.events));
    for (cpu, (books, there)) in state.cpus.iter().zip(report.cpus.iter().zip(&view.cpus)) {
        let of_cpu = (books.run.into(), books.switching.into(), books.idle.into());
        assert_eq!((cpu.run_ns, cpu.switching_ns, cpu.idle_ns), of_cpu, "at {at}");
        assert_eq!(cpu.running.map(|(vcpu, _)| vcpu), there.running.map(|vcpu| vcpu.0));
    }
    for (vcpu, (books, there)) in state.vcpus.iter().zip(report.vcpus.iter().zip(&view.vcpus)) {
        let of_vcpu = (books.run.into(), books.steal.into(), books.halted.into());
        assert_eq!((vcpu.run_ns, vcpu.steal_ns, vcpu.halted_ns), of_vcpu, "at {at}");
        assert!(matches!(
            (vcpu.place, there.state),
            (VcpuPlace::On(_), State::Running(_))
                | (VcpuPlace::Waits(_), State::Ready)
                | (VcpuPlace::Halted(_), State::Halted)
        ));
    }
}

#[test]
fn pauses_change_nothing_and_show_what_is() {
    let mut looks = 0;
    for kind in Kind::ALL {
        for number in 0..CASES {
            let mut case = Case::random(kind, 3_000_000 + number, false);
            if number % 2 == 0 {
                case.vms[0].threads[0] = Does::Naps(Span::from_micros(300), Span::from_millis(2), 10);
            }
            let limits = Limits {
                until: Time::ZERO + Span::from_millis(20 + number),
                events: if number % 8 == 7 { 100 } else { 3_000_000 },
                when_done: number % 4 == 0,
            };
            let mut whole = machine(&case);
            let stopped = whole.run(&limits);
            let mut paused = machine(&case);
            let mut random = Stream::new(number, &[9]);
            let (stopped_too, seen) = with_pauses(&mut paused, &limits, &mut random);
            assert_eq!(stopped_too, stopped, "{case:?}");
            assert_eq!(left(&paused), left(&whole), "{case:?}");
            assert_eq!(paused.run(&limits), stopped, "what has ended stays so");
            assert_eq!(left(&paused), left(&whole));
            for (at, state) in &seen {
                is_as_if_it_ended_there(&case, &limits, *at, state);
            }
            looks += seen.len();
        }
    }
    assert!(looks > 1000, "{looks} states were looked at");
}
