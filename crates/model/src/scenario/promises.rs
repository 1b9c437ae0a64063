//! What VMs are promised and asked for, against what the policy and the host can give: refused before it runs, because
//! what a policy does not know it would leave out without a word.

use std::collections::BTreeSet;

use super::host::{HostSpec, PolicySpec, VmSpec};
use super::program::ProgramSpec;
use super::reserved::{Crowd, ReservedDemand, allot, billionths};
use super::table::table;
use super::{Impossible, servers};
use crate::partition::NumberList;

/// Threads of all guests together: each takes some hundred bytes.
const MOST_THREADS: u64 = 4_000_000;
/// VMs that are named in a refusal.
const NAMED: usize = 4;

/// Checks all VMs together; each was checked by itself before.
pub(super) fn check(host: &HostSpec, vms: &[VmSpec]) -> Result<(), Impossible> {
    check_names(vms)?;
    check_dedicated(host, vms)?;
    vms.iter().enumerate().try_for_each(|(number, vm)| {
        check_keys(number, vm, &host.policy)?;
        check_backlog(number, vm, host)
    })?;
    check_reserved(host, vms)?;
    check_slots(&host.policy, vms)?;
    table(host, vms)?;
    check_gangs(host, vms)?;
    check_sharing(host, vms)?;
    let of = |vm: &VmSpec| -> u64 {
        vm.threads.iter().map(|thread| u64::from(thread.count.unwrap_or(vm.vcpus))).sum::<u64>()
    };
    let threads: u64 =
        vms.iter().map(|vm| of(vm).saturating_mul(vm.count.into())).fold(0, u64::saturating_add);
    if threads > MOST_THREADS {
        return Err(Impossible::new("vm", format!("{threads} threads in all; allowed are {MOST_THREADS}")));
    }
    Ok(())
}

/// Copies are named `NAME-1`, `NAME-2` …; nobody else may be.
fn check_names(vms: &[VmSpec]) -> Result<(), Impossible> {
    for (number, vm) in vms.iter().enumerate() {
        let is_copy_of = |other: &&VmSpec| {
            let copy = vm.name.strip_prefix(other.name.as_str()).and_then(|rest| rest.strip_prefix('-'));
            let copy = copy.and_then(|copy| copy.parse::<u32>().ok());
            other.count > 1 && copy.is_some_and(|copy| (1..=other.count).contains(&copy))
        };
        if let Some(other) = vms.iter().find(is_copy_of) {
            let problem = format!("one of the {} copies of \"{}\" has this name", other.count, other.name);
            return Err(Impossible::new(format!("vm.{number}.name"), problem));
        }
    }
    Ok(())
}

/// Dedicated CPUs belong to one VM, and leave some to the others.
fn check_dedicated(host: &HostSpec, vms: &[VmSpec]) -> Result<(), Impossible> {
    let refused = |number: usize, key: &str, problem: String| {
        Err(Impossible::new(format!("vm.{number}.{key}"), problem))
    };
    let taken: BTreeSet<u32> = vms.iter().flat_map(VmSpec::dedicated_cpus).copied().collect();
    for (number, vm) in vms.iter().enumerate().filter(|(_, vm)| vm.dedicated) {
        if vm.cpus.is_none() || vm.count > 1 {
            let problem = "dedicated CPUs are named with cpus, and belong to a single VM".to_owned();
            return refused(number, "dedicated", problem);
        }
        let others = vms.iter().enumerate().filter(|(other, _)| *other != number);
        let mut named = others.flat_map(|(_, other)| other.cpus.iter().flatten());
        if let Some(cpu) = named.find(|cpu| vm.dedicated_cpus().contains(cpu)) {
            let problem =
                format!("CPU {cpu} is named by another VM, too, and cannot be dedicated to this one");
            return refused(number, "dedicated", problem);
        }
    }
    match vms.iter().position(|vm| vm.cpus.is_none()) {
        Some(number) if taken.len() >= host.cpus as usize => refused(
            number,
            "name",
            "every CPU is dedicated to other VMs: none is left for this one".to_owned(),
        ),
        _ => Ok(()),
    }
}

/// What VMs reserve must be there on the CPUs that they may use, all of it at once.
fn check_reserved(host: &HostSpec, vms: &[VmSpec]) -> Result<(), Impossible> {
    let dedicated: Vec<u32> = vms.iter().flat_map(VmSpec::dedicated_cpus).copied().collect();
    let mut owners: Vec<usize> = Vec::new();
    let mut demands: Vec<ReservedDemand> = Vec::new();
    for (number, vm) in vms.iter().enumerate() {
        let copies = u64::from(vm.count);
        let places = || vm.places(host.cpus, &dedicated);
        if vm.reserved_cpus > 0.0 {
            let billionths = billionths(vm.reserved_cpus).saturating_mul(copies);
            owners.push(number);
            demands.push(ReservedDemand { cpus: places().into_iter().collect(), billionths });
        }
        let (Some(budget), Some(period)) = (vm.budget_us, vm.period_us) else { continue };
        let each = billionths(budget.get() as f64 / period.get().max(1) as f64);
        // Pinned servers have a CPU each, others are alike.
        let servers: Vec<(Vec<u32>, u64)> = if vm.pinned {
            places().into_iter().map(|cpu| (vec![cpu], copies)).collect()
        } else {
            vec![(places(), u64::from(vm.vcpus).saturating_mul(copies))]
        };
        for (cpus, count) in servers {
            owners.push(number);
            demands.push(ReservedDemand {
                cpus: cpus.into_iter().collect(),
                billionths: each.saturating_mul(count),
            });
        }
    }
    servers::admit(host, vms)?;
    allot(&demands).map(|_| ()).map_err(|crowd| too_much(&crowd, &owners, vms))
}

/// The refusal, at the last of those who reserve too much.
fn too_much(crowd: &Crowd, owners: &[usize], vms: &[VmSpec]) -> Impossible {
    let mut members: Vec<usize> = crowd.members.iter().map(|member| owners[*member]).collect();
    members.dedup();
    let last = members.last().copied().unwrap_or(0);
    let quoted = |number: &usize| match vms[*number].count {
        1 => format!("\"{}\"", vms[*number].name),
        count => format!("\"{}\" ({count} times)", vms[*number].name),
    };
    let mut names: Vec<String> = members.iter().take(NAMED).map(quoted).collect();
    if members.len() > NAMED {
        names.push(format!("{} more", members.len() - NAMED));
    }
    let (key, promise) = match vms[last].budget_us {
        Some(_) => ("budget_us", "budgets over periods"),
        None => ("reserved_cpus", "reservations"),
    };
    let problem = format!(
        "{promise} of {} are {} CPUs in all, but all that they may use are {} of the host's CPUs ({}); wanted: less, or more CPUs",
        names.join(", "),
        crowd.billionths as f64 / 1e9,
        crowd.cpus.len(),
        NumberList::of(crowd.cpus.iter().copied()),
    );
    Impossible::new(format!("vm.{last}.{key}"), problem)
}

/// Weights, reservations and limits only where the policy has them.
fn check_keys(number: usize, vm: &VmSpec, policy: &PolicySpec) -> Result<(), Impossible> {
    let has_reservations = matches!(
        policy,
        PolicySpec::EqualPerVm { .. }
            | PolicySpec::Proportional { .. }
            | PolicySpec::PerThread { .. }
            | PolicySpec::Eevdf { .. }
            | PolicySpec::Table { .. }
    );
    // Who has a budget is no part of what the others share.
    let shares_rest = matches!(policy, PolicySpec::Deadline { .. }) && vm.budget_us.is_none();
    let has_limits = !matches!(
        policy,
        PolicySpec::Slots { .. }
            | PolicySpec::Rtds {}
            | PolicySpec::Deadline { .. }
            | PolicySpec::Table { .. }
    );
    let has_weights = has_limits || shares_rest;
    let refused = |key: &str, others: &str| {
        let problem = format!("the policy \"{}\" has none: {others}", policy.name());
        Err(Impossible::new(format!("vm.{number}.{key}"), problem))
    };
    if vm.reserved_cpus > 0.0 && !has_reservations {
        return refused(
            "reserved_cpus",
            "equal-per-vm, proportional, per-thread, eevdf and table have reservations",
        );
    }
    if vm.reserved_cpus > 0.0 && policy.is_per_cpu() {
        let problem = "there are no reservations with queues = \"per-cpu\": Linux has none; wanted: queues = \"single\"";
        return Err(Impossible::new(format!("vm.{number}.reserved_cpus"), problem));
    }
    if vm.limit_cpus.is_some() && !has_limits {
        return refused("limit_cpus", "all but slots, rtds, deadline and table have limits");
    }
    #[expect(clippy::float_cmp, reason = "1 is what stands there when nothing is given")]
    if vm.weight != 1.0 && !has_weights {
        return refused("weight", "all but slots, rtds, table and servers of deadline have weights");
    }
    Ok(())
}

/// Periodic tasks that together want more than their VM can ever have pile up without bound.
fn check_backlog(number: usize, vm: &VmSpec, host: &HostSpec) -> Result<(), Impossible> {
    let wants = |thread: &super::program::ThreadSpec| match &thread.run {
        ProgramSpec::Periodic(task) => f64::from(thread.count.unwrap_or(vm.vcpus)) * task.wanted_cpus(),
        _ => 0.0,
    };
    let wanted: f64 = vm.threads.iter().map(wants).sum();
    let places = vm.cpus.as_ref().map_or(host.cpus as usize, Vec::len).min(vm.vcpus as usize) as f64;
    let most = vm.limit_cpus.map_or(places, |limit| limit.min(places));
    if wanted > most * (1.0 + 1e-9) {
        let problem = format!(
            "its periodic tasks want {wanted:.3} CPUs, it can have {most:.3} at most: the backlog grows without bound"
        );
        return Err(Impossible::new(format!("vm.{number}.thread"), problem));
    }
    Ok(())
}

/// Who owns no slot never runs, not even where idle slots are given away.
fn check_slots(policy: &PolicySpec, vms: &[VmSpec]) -> Result<(), Impossible> {
    let PolicySpec::Slots { round, .. } = policy else { return Ok(()) };
    let without = vms.iter().enumerate().find(|(_, vm)| !round.contains(&vm.name));
    let Some((number, vm)) = without else { return Ok(()) };
    let problem = format!("\"{}\" has no slot in host.policy.round, so it would never run", vm.name);
    Err(Impossible::new(format!("vm.{number}.name"), problem))
}

/// What says how CPUs slow each other only where they do.
fn check_sharing(host: &HostSpec, vms: &[VmSpec]) -> Result<(), Impossible> {
    if host.smt == 1 && host.smt_speed < 1.0 {
        let problem = "no core has two hardware threads: wanted host.smt = 2, too";
        return Err(Impossible::new("host.smt_speed", problem));
    }
    if host.memory_mb_s.is_some() {
        return Ok(());
    }
    if host.memory_nodes > 1 {
        return Err(Impossible::new(
            "host.memory_nodes",
            "their bandwidth is missing: wanted host.memory_mb_s, too",
        ));
    }
    let wants = |vm: &VmSpec| vm.threads.iter().position(|thread| thread.memory_mb_s > 0);
    let wanting = vms.iter().enumerate().find_map(|(vm, spec)| Some((vm, wants(spec)?)));
    wanting.map_or(Ok(()), |(vm, thread)| {
        let problem = "the host's bandwidth is not limited: wanted host.memory_mb_s, too";
        Err(Impossible::new(format!("vm.{vm}.thread.{thread}.memory_mb_s"), problem))
    })
}

/// All of a gang runs or none does: a limit that leaves each of its virtual CPUs less than the policy deals out is never used,
/// and whoever waits for one of its locks would wait for ever.
fn check_gangs(host: &HostSpec, vms: &[VmSpec]) -> Result<(), Impossible> {
    let PolicySpec::Gang { slice_us } = &host.policy else { return Ok(()) };
    let dedicated: Vec<u32> = vms.iter().flat_map(VmSpec::dedicated_cpus).copied().collect();
    // As in `sim::policy::gang`: limits hold for ten slices or this long, and a gang that may run for less is left out.
    let period_us = slice_us.get().saturating_mul(10).max(100_000);
    for (number, vm) in vms.iter().enumerate() {
        let Some(limit) = vm.limit_cpus else { continue };
        let places: BTreeSet<u32> = vm.places(host.cpus, &dedicated).into_iter().collect();
        let together = places.len().min(vm.vcpus as usize);
        let each_us = limit * period_us as f64 / together.max(1) as f64;
        if each_us < 1.0 {
            let problem = format!(
                "{limit} CPUs are {each_us:.3} µs in each {} ms for each of the {together} virtual CPUs that run together, and less \
                 than 1 µs is never dealt out: it would never run",
                period_us / 1000
            );
            return Err(Impossible::new(format!("vm.{number}.limit_cpus"), problem));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;
    use units::Reason;

    /// What is said of two VMs on two CPUs, A with these keys, under this policy.
    fn said(policy: &str, keys: &str, run: &str) -> Result<(), Reason> {
        let vm = |name: &str, keys: &str, run: &str| {
            format!("[[vm]]\nname = \"{name}\"\nvcpus = 1\n{keys}\n[[vm.thread]]\n{run}\n")
        };
        let rest = if policy.contains("rtds") { "budget_us = 6000\nperiod_us = 10000" } else { "" };
        let endless = "run = { program = \"endless\" }";
        let text = format!(
            "name = \"test\"\n[host]\ncpus = 2\npolicy = {{ {policy} }}\n{}{}",
            vm("A", keys, if run.is_empty() { endless } else { run }),
            vm("B-1", rest, endless)
        );
        let scenario: Scenario = toml::from_str(&text).expect("it is a scenario");
        scenario.check().map_err(|impossible| impossible.to_string().into())
    }

    #[test]
    fn what_a_policy_does_not_know_is_refused() {
        let slots = "name = \"slots\", slot_us = 1000, round = [\"A\", \"B-1\"]";
        let fair = "name = \"per-thread\", quantum_us = 1000";
        let credit2 = "name = \"credit2\", slice_us = 1000";
        for (policy, keys, key) in [
            (slots, "reserved_cpus = 0.5", "reserved_cpus"),
            (slots, "limit_cpus = 0.5", "limit_cpus"),
            (slots, "weight = 2.0", "weight"),
            (credit2, "reserved_cpus = 0.5", "reserved_cpus"),
            (credit2, "phase_us = 10", "phase_us"),
            (fair, "phase_us = 10", "phase_us"),
            ("name = \"rtds\"", "budget_us = 1000\nperiod_us = 2000\nlimit_cpus = 0.5", "limit_cpus"),
        ] {
            let problem = said(policy, keys, "").unwrap_err();
            assert!(
                problem.to_string().contains(key)
                    && ["has none", "has no period"].iter().any(|why| problem.to_string().contains(why)),
                "{policy} {keys}: {problem}"
            );
        }
        for (policy, keys) in [
            (slots, ""),
            (fair, "reserved_cpus = 0.5\nlimit_cpus = 0.5\nweight = 2.0"),
            (credit2, "weight = 2.0"),
            (fair, "limit_cpus = 0.5\nphase_us = 10"),
        ] {
            assert_eq!(said(policy, keys, ""), Ok(()), "{policy} {keys}");
        }
    }

    #[test]
    fn what_can_never_be_kept_is_refused() {
        let tasks = |count: u32| {
            format!(
                "count = {count}\nrun = {{ program = \"periodic\", period_us = 10000, work_us = 4000, jobs = 10 }}"
            )
        };
        let fair = "name = \"per-thread\", quantum_us = 1000";
        let rtds = "name = \"rtds\"";
        let server = |budget: u32| format!("budget_us = {budget}\nperiod_us = 10000");
        assert_eq!(said(fair, "", &tasks(2)), Ok(()));
        assert!(said(fair, "", &tasks(3)).unwrap_err().to_string().contains("1.200 CPUs, it can have 1.000"));
        assert!(
            said(fair, "limit_cpus = 0.5", &tasks(2)).unwrap_err().to_string().contains("it can have 0.500")
        );
        assert_eq!(said(rtds, &server(10_000), ""), Ok(()));
        assert!(
            said(rtds, &format!("count = 2\n{}", server(10_000)), "")
                .unwrap_err()
                .to_string()
                .contains("are 2.6 CPUs in all")
        );
        let unowned = "name = \"slots\", slot_us = 1000, round = [\"A\", \"\"]";
        assert!(said(unowned, "", "").unwrap_err().to_string().contains("\"B-1\" has no slot"));
        assert!(said(fair, "", "count = 100000\nrun = { program = \"endless\" }").is_ok());
        let many = said(fair, "count = 1000", "count = 100000\nrun = { program = \"endless\" }");
        assert!(many.unwrap_err().to_string().contains("threads in all"));
    }

    #[test]
    fn a_gang_whose_limit_would_never_let_it_run_is_refused() {
        let limited = |limit: &str| {
            let text = format!(
                "name = \"test\"\n[host]\ncpus = 200\npolicy = {{ name = \"gang\", slice_us = 1000 }}\n[[vm]]\nname = \"A\"\n\
                 vcpus = 150\nlimit_cpus = {limit}\n[[vm.thread]]\nrun = {{ program = \"endless\" }}\n"
            );
            toml::from_str::<Scenario>(&text).expect("a scenario").check()
        };
        assert_eq!(limited("0.0016"), Ok(()));
        let problem = limited("0.0014").unwrap_err().to_string();
        assert!(problem.starts_with("vm.0.limit_cpus: 0.0014 CPUs are 0.933 µs in each 100 ms"), "{problem}");
        assert!(limited("0.0").unwrap_err().to_string().contains("out of bounds"));
    }

    #[test]
    fn dedicated_cpus_are_one_vms_and_leave_some_to_the_others() {
        let fair = "name = \"per-thread\", quantum_us = 1000";
        assert_eq!(said(fair, "cpus = [1]\ndedicated = true", ""), Ok(()));
        for (keys, part) in [
            ("dedicated = true", "are named with cpus"),
            ("cpus = [1]\ncount = 2\ndedicated = true", "belong to a single VM"),
            ("cpus = [0, 1]\ndedicated = true", "none is left"),
        ] {
            let problem = said(fair, keys, "").unwrap_err();
            assert!(problem.to_string().contains(part), "{keys}: {problem}");
        }
    }

    /// A host of 8 CPUs with these VMs, a virtual CPU on each of their CPUs.
    fn said_of(vms: &[(&str, &str)]) -> Result<(), Reason> {
        let vm = |(name, keys): &(&str, &str)| {
            format!(
                "[[vm]]\nname = \"{name}\"\nvcpus = 2\n{keys}\n[[vm.thread]]\nrun = {{ program = \"endless\" }}\n"
            )
        };
        let host =
            "name = \"test\"\n[host]\ncpus = 8\npolicy = { name = \"per-thread\", quantum_us = 1000 }\n";
        let text = host.to_owned() + &vms.iter().map(vm).collect::<String>();
        toml::from_str::<Scenario>(&text)
            .expect("a scenario")
            .check()
            .map_err(|impossible| impossible.to_string().into())
    }

    #[test]
    fn reservations_have_room_on_the_cpus_they_may_use() {
        let pinned = "cpus = [0, 1]\npinned = true\nreserved_cpus = 0.8";
        let free = "reserved_cpus = 1.5";
        assert_eq!(said_of(&[("A", pinned), ("B", pinned), ("C", free)]), Ok(()));
        let crowd = said_of(&[("A", pinned), ("C", free), ("B", pinned), ("D", pinned)]).unwrap_err();
        assert!(
            crowd
                .to_string()
                .starts_with("vm.3.reserved_cpus: reservations of \"A\", \"B\", \"D\" are 2.4 CPUs"),
            "{crowd}"
        );
        assert!(crowd.to_string().contains("2 of the host's CPUs (0-1)"), "{crowd}");
        // Thirds add up to a whole; dedicated CPUs are nobody else's; a pinned VM uses no more than it has virtual CPUs.
        let third = "count = 3\ncpus = [3]\nreserved_cpus = 0.3333333333333333";
        assert_eq!(said_of(&[("A", third)]), Ok(()));
        let most = "count = 4\nreserved_cpus = 1.7";
        let own = "cpus = [6, 7]\ndedicated = true";
        assert_eq!(said_of(&[("A", most)]), Ok(()));
        assert!(
            said_of(&[("A", most), ("B", own)])
                .unwrap_err()
                .to_string()
                .contains("\"A\" (4 times) are 6.8 CPUs in all")
        );
        let two = "cpus = [0, 1, 2]\npinned = true\nreserved_cpus = 1.2";
        let crowd = said_of(&[("A", two), ("B", two)]).unwrap_err();
        assert!(crowd.to_string().contains("2.4 CPUs") && crowd.to_string().contains("(0-1)"), "{crowd}");
    }

    #[test]
    fn nobody_is_named_like_a_copy() {
        let fair = "name = \"per-thread\", quantum_us = 1000";
        let text = |count: u32| {
            format!(
                "name = \"test\"\n[host]\ncpus = 2\npolicy = {{ {fair} }}\n\
                 [[vm]]\nname = \"B\"\ncount = {count}\nvcpus = 1\n[[vm.thread]]\nrun = {{ program = \"endless\" }}\n\
                 [[vm]]\nname = \"B-2\"\nvcpus = 1\n[[vm.thread]]\nrun = {{ program = \"endless\" }}\n"
            )
        };
        let check = |count| toml::from_str::<Scenario>(&text(count)).expect("a scenario").check();
        assert!(check(1).is_ok());
        assert!(check(2).unwrap_err().to_string().contains("copies of \"B\""));
    }
}
