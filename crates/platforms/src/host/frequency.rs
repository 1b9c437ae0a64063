//! Does the CPU keep its speed? Governor, turbo, SMT. Sources: the kernel's admin guide, `pm/cpufreq`,
//! `pm/intel_pstate`, `hw-vuln/core-scheduling`, and `/sys/devices/system/cpu/smt`.

use std::collections::BTreeSet;

use super::read::{check, not_visible};
use model::preflight::{Check, CheckLevel};

/// `scaling_governor` of every CPU.
pub(super) fn governor(governors: &[String]) -> Check {
    let distinct: BTreeSet<&str> = governors.iter().map(String::as_str).collect();
    let names = distinct.iter().copied().collect::<Vec<_>>().join(", ");
    match names.as_str() {
        "" => not_visible("governor", "CPU frequency governor"),
        "performance" => check("governor", CheckLevel::Ok, "CPU frequency governor: performance", ""),
        _ => check(
            "governor",
            CheckLevel::Dirty,
            format!("CPU frequency governor is {names}: the clock rate changes while measuring"),
            "set it: echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        ),
    }
}

/// `intel_pstate/no_turbo` (1: off) and `cpufreq/boost` (0: off).
pub(super) fn turbo(no_turbo: Option<&str>, boost: Option<&str>) -> Check {
    let (on, file, off) = match (no_turbo, boost) {
        (Some("0"), _) => (true, "intel_pstate/no_turbo", "1"),
        (_, Some("1")) => (true, "cpufreq/boost", "0"),
        (Some("1"), _) | (_, Some("0")) => (false, "", ""),
        _ => return not_visible("turbo", "turbo"),
    };
    if on {
        check(
            "turbo",
            CheckLevel::Dirty,
            "turbo is on: the clock rate depends on heat and on what the other cores do",
            format!("switch it off while measuring: echo {off} > /sys/devices/system/cpu/{file}"),
        )
    } else {
        check("turbo", CheckLevel::Ok, "turbo is off", "")
    }
}

/// `smt/active` (1: siblings run).
pub(super) fn smt(active: Option<&str>) -> Check {
    match active {
        Some("0") => check("smt", CheckLevel::Ok, "no SMT siblings are active", ""),
        Some("1") => check(
            "smt",
            CheckLevel::Note,
            "SMT is on: two threads of a core slow each other down",
            "to leave it out: echo off > /sys/devices/system/cpu/smt/control",
        ),
        _ => not_visible("smt", "SMT"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(check: &Check) -> CheckLevel {
        check.level
    }

    #[test]
    fn a_governor_that_changes_the_clock_rate_is_dirty() {
        let of = |names: &[&str]| governor(&names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
        assert_eq!(level(&of(&["performance", "performance"])), CheckLevel::Ok);
        assert_eq!(level(&of(&[])), CheckLevel::Note);
        let mixed = of(&["performance", "powersave"]);
        assert_eq!(level(&mixed), CheckLevel::Dirty);
        assert!(mixed.found.contains("performance, powersave"), "{}", mixed.found);
    }

    #[test]
    fn turbo_is_read_from_either_driver() {
        assert_eq!(level(&turbo(Some("0"), None)), CheckLevel::Dirty);
        assert_eq!(level(&turbo(Some("1"), None)), CheckLevel::Ok);
        assert_eq!(level(&turbo(None, Some("1"))), CheckLevel::Dirty);
        assert_eq!(level(&turbo(None, Some("0"))), CheckLevel::Ok);
        assert_eq!(level(&turbo(None, None)), CheckLevel::Note);
        assert!(
            turbo(Some("0"), None).advice.contains("echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo")
        );
    }

    #[test]
    fn smt_is_a_fact_and_not_dirt() {
        assert_eq!(level(&smt(Some("1"))), CheckLevel::Note);
        assert_eq!(level(&smt(Some("0"))), CheckLevel::Ok);
        assert!(smt(None).found.contains("not visible"));
    }
}
