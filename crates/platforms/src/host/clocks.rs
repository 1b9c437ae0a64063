//! Can the clocks be trusted? Clock source, TSC flags, real-time throttling. Sources: the kernel's
//! `timers/timekeeping`, `scheduler/sched-rt-group`; Intel SDM vol. 3, 18.17 (invariant TSC).

use super::read::{check, not_visible};
use model::preflight::{Check, CheckLevel};

/// `current_clocksource` and `available_clocksource`.
pub(super) fn clock_source(current: Option<&str>, available: Option<&str>) -> Check {
    let Some(current) = current else { return not_visible("clock-source", "clock source") };
    let available = available.unwrap_or("unknown").split_whitespace().collect::<Vec<_>>().join(", ");
    let found = format!("clock source: {current} (available: {available})");
    match current {
        "tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page" => {
            check("clock-source", CheckLevel::Ok, found, "")
        }
        _ => check(
            "clock-source",
            CheckLevel::Note,
            format!("{found}: each read takes a system call or more"),
            "boot with a TSC the kernel trusts (tsc=reliable) when the hardware allows it",
        ),
    }
}

/// `/proc/cpuinfo`; on other machines than x86 there is nothing to check.
pub(super) fn tsc(architecture: &str, cpuinfo: Option<&str>) -> Check {
    if architecture != "x86_64" {
        return check("tsc", CheckLevel::Ok, "the counter of this architecture runs at a constant rate", "");
    }
    let flags = cpuinfo
        .and_then(|text| text.lines().find(|line| line.starts_with("flags")))
        .and_then(|line| line.split_once(':'))
        .map(|(_, flags)| flags.split_whitespace().collect::<Vec<_>>());
    let Some(flags) = flags else { return not_visible("tsc", "TSC flags") };
    let missing: Vec<&str> =
        ["constant_tsc", "nonstop_tsc"].into_iter().filter(|flag| !flags.contains(flag)).collect();
    if missing.is_empty() {
        return check("tsc", CheckLevel::Ok, "TSC is constant and never stops", "");
    }
    check(
        "tsc",
        CheckLevel::Note,
        format!("the CPU does not promise {}: ticks need not be proportional to time", missing.join(" and ")),
        "read the gap probe's times with care; the rate is measured in each run",
    )
}

/// `sched_rt_runtime_us` and `sched_rt_period_us`.
pub(super) fn realtime_throttle(runtime_us: Option<&str>, period_us: Option<&str>) -> Check {
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    match (number(runtime_us), number(period_us)) {
        (None, _) => not_visible("rt-throttle", "sched_rt_runtime_us"),
        (Some(-1), _) => check("rt-throttle", CheckLevel::Ok, "real-time threads are not throttled", ""),
        (Some(runtime), Some(period)) if runtime >= period => {
            check("rt-throttle", CheckLevel::Ok, "real-time threads are not throttled", "")
        }
        (Some(runtime), period) => {
            let period = period.unwrap_or(1_000_000);
            let taken_ms = (period - runtime) as f64 / 1000.0;
            check(
                "rt-throttle",
                CheckLevel::Note,
                format!(
                    "sched_rt_runtime_us = {runtime}: a busy real-time thread loses {taken_ms} ms in every {} ms",
                    period as f64 / 1000.0
                ),
                "for real-time programs that never sleep: sysctl kernel.sched_rt_runtime_us=-1",
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_clock_sources_are_noted() {
        assert_eq!(clock_source(Some("tsc"), Some("tsc kvm-clock ")).level, CheckLevel::Ok);
        assert_eq!(clock_source(Some("hpet"), None).level, CheckLevel::Note);
        assert!(clock_source(Some("tsc"), Some("tsc kvm-clock ")).found.contains("tsc, kvm-clock"));
        assert!(clock_source(None, None).found.contains("not visible"));
    }

    #[test]
    fn both_tsc_promises_are_wanted() {
        let good = "processor\t: 0\nflags\t\t: fpu tsc constant_tsc nonstop_tsc\n";
        assert_eq!(tsc("x86_64", Some(good)).level, CheckLevel::Ok);
        let half = tsc("x86_64", Some("flags : fpu tsc constant_tsc\n"));
        assert_eq!(half.level, CheckLevel::Note);
        assert!(half.found.contains("promise nonstop_tsc"), "{}", half.found);
        assert!(tsc("x86_64", Some("nothing")).found.contains("not visible"));
        assert_eq!(tsc("aarch64", None).level, CheckLevel::Ok);
    }

    #[test]
    fn throttling_is_said_in_milliseconds() {
        let found = realtime_throttle(Some("950000"), Some("1000000")).found;
        assert!(found.contains("loses 50 ms in every 1000 ms"), "{found}");
        assert_eq!(realtime_throttle(Some("-1"), Some("1000000")).level, CheckLevel::Ok);
        assert_eq!(realtime_throttle(Some("1000000"), Some("1000000")).level, CheckLevel::Ok);
        assert_eq!(realtime_throttle(Some("x"), None).level, CheckLevel::Note);
    }
}
