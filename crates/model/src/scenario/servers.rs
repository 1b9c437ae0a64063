//! Budgets and periods of virtual CPUs, and latencies, for the policies that have them.

use super::host::{HOUR_US, HostSpec, PolicySpec, VmSpec};
use super::reserved::billionths;
use super::{Impossible, bounded};

/// Budgets and periods, for the policies that have them.
pub(super) fn check(number: usize, vm: &VmSpec, host: &HostSpec) -> Result<(), Impossible> {
    check_phase(number, vm, host)?;
    let path = |key: &str| format!("vm.{number}.{key}");
    let (is_rtds, is_deadline) =
        (host.policy == PolicySpec::Rtds {}, matches!(host.policy, PolicySpec::Deadline { .. }));
    let is_table = matches!(host.policy, PolicySpec::Table { .. });
    if (vm.latency_us.is_some() || vm.capped) && !is_table {
        return Err(Impossible::new(
            path("latency_us"),
            "latency_us and capped are for the policy \"table\" only",
        ));
    }
    if let Some(latency) = vm.latency_us {
        bounded(path("latency_us"), latency.get(), 1, HOUR_US)?;
    }
    if vm.deadline_us.is_some() && !is_deadline {
        return Err(Impossible::new(path("deadline_us"), "it is for the policy \"deadline\" only"));
    }
    let (budget, period) = match (vm.budget_us, vm.period_us) {
        (Some(budget), Some(period)) if is_rtds || is_deadline => (budget, period),
        (None, None) if !is_rtds && vm.deadline_us.is_none() => return Ok(()),
        _ if is_rtds => {
            let problem = "the policy \"rtds\" wants budget_us and period_us at every VM";
            return Err(Impossible::new(path("name"), problem));
        }
        _ if is_deadline => {
            let problem = "wanted budget_us and period_us, or neither: a VM without them shares what is left";
            return Err(Impossible::new(path("budget_us"), problem));
        }
        _ => {
            let problem = "budget_us and period_us are for the policies \"rtds\" and \"deadline\" only";
            return Err(Impossible::new(path("budget_us"), problem));
        }
    };
    bounded(path("period_us"), period.get(), 100, HOUR_US)?;
    if let Some(deadline) = vm.deadline_us {
        bounded(path("deadline_us"), deadline.get(), 1, period.get())?;
    }
    bounded(path("budget_us"), budget.get(), 1, vm.deadline_us.unwrap_or(period).get())
}

fn check_phase(number: usize, vm: &VmSpec, host: &HostSpec) -> Result<(), Impossible> {
    let path = format!("vm.{number}.phase_us");
    match vm.phase_us {
        None => Ok(()),
        Some(phase) if vm.has_period(&host.policy) => bounded(path, phase.get(), 0, HOUR_US),
        Some(_) => {
            let problem = format!(
                "with the policy \"{}\" this VM has no period that could begin at another moment: wanted a limit_cpus or \
                 a reserved_cpus (equal-per-vm, proportional, per-thread, eevdf), a limit_cpus (gang), or the policy rtds",
                host.policy.name()
            );
            Err(Impossible::new(path, problem))
        }
    }
}

/// The kernel admits reservations up to 95 % of the CPUs (`sched_rt_runtime_us` over `sched_rt_period_us`), and leaves the
/// rest to who has none: Documentation/scheduler/sched-deadline.rst.
pub(super) fn admit(host: &HostSpec, vms: &[VmSpec]) -> Result<(), Impossible> {
    if !matches!(host.policy, PolicySpec::Deadline { .. }) {
        return Ok(());
    }
    let most = u64::from(host.cpus) * 950_000_000;
    let mut sum = 0u64;
    for (number, vm) in vms.iter().enumerate() {
        let (Some(budget), Some(period)) = (vm.budget_us, vm.period_us) else { continue };
        let each = billionths(budget.get() as f64 / period.get().max(1) as f64);
        sum = sum.saturating_add(each.saturating_mul(u64::from(vm.vcpus) * u64::from(vm.count)));
        if sum > most {
            let problem = format!(
                "budgets over periods up to here are {:.3} CPUs, and Linux admits 95 % of {} CPUs, {:.2}; wanted: less, longer \
                 periods, or more CPUs",
                sum as f64 / 1e9,
                host.cpus,
                most as f64 / 1e9
            );
            return Err(Impossible::new(format!("vm.{number}.budget_us"), problem));
        }
    }
    Ok(())
}
