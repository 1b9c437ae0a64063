//! What VMs were promised by a table, beside what they had: over all VMs, the worst, because a promise to many is kept when it is
//! kept to each.

use std::collections::BTreeMap;

use super::Figure;
use super::catalogue::Kind;
use super::names::Names;
use model::scenario::{PolicySpec, ProgramSpec, Scenario, VmSpec};
use probes::ProbeKind;
use units::metric::{Better, Unit};

pub(super) const LATENCY_WORST: Kind = Kind(
    "latency_worst_share",
    "the longest wait of a VM, of what it may be (latency_us); of all VMs the worst",
    Unit::Share,
    Better::Lower,
);
pub(super) const RESERVED_LEAST: Kind = Kind(
    "reserved_least_share",
    "CPU time of a VM that wants all it can get, of what it reserves; of all VMs the least",
    Unit::Share,
    Better::Higher,
);

/// Figures of what a table promised; none for other policies.
pub(super) fn of(figures: &[Figure], names: &Names, scenario: &Scenario) -> Vec<Figure> {
    if !is_table(scenario) {
        return Vec::new();
    }
    let values: BTreeMap<&str, f64> =
        figures.iter().map(|figure| (figure.id.as_str(), figure.value)).collect();
    let vms =
        || names.vms.iter().enumerate().filter_map(|(vm, name)| Some((name, names.spec(scenario, vm)?)));
    let got = |name: &str, what: &str| values.get(format!("vm.{name}.{what}").as_str()).copied();
    let waits = vms().filter_map(|(name, spec)| {
        let goal = spec.latency_us.filter(|_| watches(spec))?.get() as f64 * 1e3;
        Some(got(name, "sample_max_ns").unwrap_or(0.0) / goal)
    });
    let shares = vms().filter(|(_, spec)| spec.reserved_cpus > 0.0 && wants_all(spec));
    let shares = shares.filter_map(|(name, spec)| Some(got(name, "cpus")? / spec.reserved_cpus));
    let figure = |Kind(id, title, unit, better): &Kind, value: f64| Figure {
        id: format!("host.{id}"),
        title: format!("host: {title}"),
        unit: *unit,
        better: *better,
        probe: ProbeKind::Gap,
        is_exact: None,
        value,
    };
    let wait = waits.max_by(f64::total_cmp).map(|value| figure(&LATENCY_WORST, value));
    let share = shares.min_by(f64::total_cmp).map(|value| figure(&RESERVED_LEAST, value));
    wait.into_iter().chain(share).collect()
}

fn is_table(scenario: &Scenario) -> bool {
    scenario.host.as_ref().is_some_and(|host| matches!(host.policy, PolicySpec::Table { .. }))
}

/// Whether somebody's waits are held against what a table promised.
pub(super) fn of_waits(scenario: &Scenario) -> bool {
    is_table(scenario) && scenario.vms.iter().any(|vm| vm.latency_us.is_some() && watches(vm))
}

/// Whether somebody's CPU time is.
pub(super) fn of_shares(scenario: &Scenario) -> bool {
    is_table(scenario) && scenario.vms.iter().any(|vm| vm.reserved_cpus > 0.0 && wants_all(vm))
}

/// Whether all of its threads note when they did not run.
fn watches(spec: &VmSpec) -> bool {
    spec.threads.iter().all(|thread| matches!(thread.run, ProgramSpec::Gap { .. }))
}

/// Whether it works on all virtual CPUs all along.
fn wants_all(spec: &VmSpec) -> bool {
    let busy = spec
        .threads
        .iter()
        .filter(|thread| matches!(thread.run, ProgramSpec::Gap { .. } | ProgramSpec::Endless {}));
    busy.map(|thread| thread.count.unwrap_or(spec.vcpus)).sum::<u32>() >= spec.vcpus
}
