//! Policies against closed forms, and against what must hold whatever they are given.

mod caps;
mod cores;
mod deadline;
mod latency;
mod pauses;
mod per_cpu;
mod properties;
mod random;
mod shares;
mod sleepers;
mod slots;
mod table;

use crate::host::{Limits, Machine, Stopped};
use crate::scenario::build;
use crate::time::{Span, Time};
use model::scenario::Scenario;

/// The machine of a scenario that was written down, and must be right.
fn machine(text: &str) -> Machine {
    let scenario: Scenario = toml::from_str(&format!("name = \"test\"\n{text}")).expect("a scenario");
    scenario.check().expect("a scenario that can be simulated");
    let mut machine = build(&scenario, 7);
    machine.check_everything();
    machine
}

/// Runs for so long.
fn run(machine: &mut Machine, span: Span) {
    let limits = Limits { until: Time::ZERO + span, events: 10_000_000, when_done: false };
    assert_eq!(machine.run(&limits), Stopped::Time);
}

/// Runs until all programs that have an end have reached it.
fn finish(machine: &mut Machine, within: Span) {
    let limits = Limits { until: Time::ZERO + within, events: 10_000_000, when_done: true };
    assert_eq!(machine.run(&limits), Stopped::Done);
}

/// CPUs that each VM had on average.
fn shares(machine: &Machine) -> Vec<f64> {
    let report = machine.report();
    let of =
        |vm: &crate::host::Vm| vm.vcpus().map(|vcpu| report.vcpus[vcpu.index()].run.as_f64()).sum::<f64>();
    machine.view().vms.iter().map(|vm| of(vm) / report.wall.as_f64()).collect()
}

/// A VM with so many virtual CPUs, more keys and one thread per virtual CPU that runs this.
fn vm(name: &str, vcpus: u32, more: &str, run: &str) -> String {
    format!("[[vm]]\nname = \"{name}\"\nvcpus = {vcpus}\n{more}\n[[vm.thread]]\nrun = {{ {run} }}\n")
}

/// A host with so many CPUs and this policy.
fn host(cpus: u32, policy: &str) -> String {
    format!("[host]\ncpus = {cpus}\npolicy = {{ {policy} }}\n")
}

const ENDLESS: &str = "program = \"endless\"";

#[test]
fn dedicated_cpus_are_used_by_nobody_else() {
    for policy in
        ["name = \"per-thread\", quantum_us = 1000", "name = \"eevdf\", slice_us = 1000, period_us = 100000"]
    {
        let vms = vm("A", 1, "cpus = [1]\ndedicated = true", ENDLESS) + &vm("B", 3, "", ENDLESS);
        let mut machine = machine(&(host(2, policy) + &vms));
        run(&mut machine, Span::from_secs(1));
        assert!(shares(&machine).iter().all(|share| (share - 1.0).abs() < 1e-9), "{:?}", shares(&machine));
    }
}

#[test]
fn every_policy_that_a_scenario_can_name_is_made_and_is_that_policy() {
    let server = "budget_us = 1000\nperiod_us = 4000";
    // CPU time of A (weight 3, one virtual CPU) and of B (weight 1, two) on one CPU.
    for (policy, more, right) in [
        ("name = \"equal-per-vm\", quantum_us = 1000", "", [0.75, 0.25]),
        ("name = \"proportional\", quantum_us = 1000", "", [0.75, 0.25]),
        ("name = \"per-thread\", quantum_us = 1000", "", [0.6, 0.4]),
        ("name = \"slots\", slot_us = 1000, round = [\"A\", \"B\", \"\", \"B\"]", "", [0.25, 0.5]),
        ("name = \"credit\", slice_us = 1000, boost = true, ratelimit_us = 100", "", [0.75, 0.25]),
        ("name = \"credit2\", slice_us = 1000", "", [0.6, 0.4]),
        ("name = \"credit2\", queues = \"per-cpu\"", "", [0.6, 0.4]),
        ("name = \"eevdf\", queues = \"per-cpu\"", "", [0.75, 0.25]),
        ("name = \"rtds\"", server, [0.25, 0.5]),
        ("name = \"deadline\"", server, [0.25, 0.5]),
        ("name = \"table\"", "reserved_cpus = 0.4", [0.4, 0.4]),
        ("name = \"eevdf\", slice_us = 1000, period_us = 100000", "", [0.75, 0.25]),
        ("name = \"gang\", slice_us = 1000", "", [0.75, 0.25]),
    ] {
        let has_weights = !["slots", "rtds", "deadline", "table"].iter().any(|name| policy.contains(name));
        let heavy = if has_weights { "weight = 3.0" } else { "" };
        let vms = vm("A", 1, &format!("{heavy}\n{more}"), ENDLESS) + &vm("B", 2, more, ENDLESS);
        let mut machine = machine(&(host(1, policy) + &vms));
        run(&mut machine, Span::from_secs(2));
        for (got, right) in shares(&machine).iter().zip(right) {
            assert!((got - right).abs() < 0.02, "{policy}: {got}, not {right}");
        }
    }
}
