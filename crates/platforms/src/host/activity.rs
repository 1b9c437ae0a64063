//! Is the host quiet? Load average, steal, swapping. Sources: proc(5), `/proc/loadavg`, `/proc/stat`, `/proc/vmstat`.

use super::read::{check, not_visible};
use model::preflight::{Check, CheckLevel};
use units::Bytes;

/// A host is not quiet when its load average over the last minute exceeds this share of its CPUs.
const QUIET_LOAD: f64 = 0.5;
/// A host is not quiet when more than this share of its CPUs' time is stolen while we look.
const QUIET_STEAL: f64 = 0.01;
/// Steal since boot that is worth a remark.
const NOTED_STEAL: f64 = 0.001;

/// A deadline is stretched by this at most.
const MOST_CROWDED: f64 = 5.0;

/// The first figure of `/proc/loadavg`: tasks that ran or could have, on average over the last minute.
fn average(loadavg: &str) -> Option<f64> {
    let first = loadavg.split_whitespace().next().and_then(|text| text.parse().ok());
    first.filter(|load: &f64| load.is_finite())
}

/// How many times longer than on an idle host something may take: tasks per CPU, 1 to 5.
pub(super) fn crowding(loadavg: Option<&str>, cpus: u32) -> f64 {
    let load = loadavg.and_then(average).unwrap_or(0.0);
    (load / f64::from(cpus.max(1))).clamp(1.0, MOST_CROWDED)
}

/// `/proc/loadavg` against the number of CPUs.
pub(super) fn load(loadavg: Option<&str>, cpus: u32) -> Check {
    let Some(load) = loadavg.and_then(average) else {
        return not_visible("load", "load average");
    };
    let limit = QUIET_LOAD * f64::from(cpus);
    if load > limit {
        check(
            "load",
            CheckLevel::Dirty,
            format!(
                "load average is {load:.2} on {cpus} CPUs: quiet is at most {limit:.2} (half of the CPUs)"
            ),
            "end what else is running, wait a minute, measure again",
        )
    } else {
        check("load", CheckLevel::Ok, format!("load average is {load:.2} on {cpus} CPUs"), "")
    }
}

/// CPU time of all CPUs together, in the kernel's ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CpuTime {
    all: u64,
    idle: u64,
    stolen: u64,
}

/// First line of `/proc/stat`: user nice system idle iowait irq softirq steal; guest time is within user's.
pub(super) fn cpu_time(stat: &str) -> Option<CpuTime> {
    let line = stat.lines().find(|line| line.starts_with("cpu "))?;
    let fields: Vec<u64> =
        line.split_whitespace().skip(1).take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    let (idle, stolen) = (fields.get(3)?.saturating_add(*fields.get(4)?), *fields.get(7)?);
    Some(CpuTime { all: fields.iter().fold(0, |sum, ticks| sum.saturating_add(*ticks)), idle, stolen })
}

/// Which share of all CPUs' time was idle between two looks; none where there was no time between them.
pub(super) fn idle(first: CpuTime, second: CpuTime) -> Option<f64> {
    let all = second.all.saturating_sub(first.all);
    (all > 0).then(|| share(second.idle.saturating_sub(first.idle), all))
}

fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

/// Steal since boot and between two looks.
pub(super) fn steal(first: Option<CpuTime>, second: Option<CpuTime>) -> Check {
    let (Some(first), Some(second)) = (first, second) else { return not_visible("steal", "stolen time") };
    let now = share(second.stolen.saturating_sub(first.stolen), second.all.saturating_sub(first.all));
    let ever = share(second.stolen, second.all);
    let found =
        format!("stolen by a hypervisor: {:.2} % just now, {:.2} % since boot", now * 100.0, ever * 100.0);
    if now > QUIET_STEAL {
        let advice =
            "another guest of this machine's hypervisor is busy: measure when it is not, or elsewhere";
        check("steal", CheckLevel::Dirty, found, advice)
    } else if ever > NOTED_STEAL {
        check(
            "steal",
            CheckLevel::Note,
            found,
            "this machine shares its CPUs with others; expect gaps it cannot explain",
        )
    } else {
        check("steal", CheckLevel::Ok, found, "")
    }
}

/// Pages swapped in and out so far, from `/proc/vmstat`.
pub(super) fn swapped(vmstat: &str) -> Option<u64> {
    let of = |name: &str| {
        vmstat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok())
    };
    Some(of("pswpin")?.saturating_add(of("pswpout")?))
}

/// Swap in use, from `/proc/meminfo`.
pub(super) fn swap_used(meminfo: &str) -> Option<Bytes> {
    let kib = |name| super::memory::meminfo_kib(meminfo, name);
    let used = kib("SwapTotal")?.saturating_sub(kib("SwapFree")?);
    Some(Bytes::from_bytes(used.saturating_mul(1024)))
}

/// Swap in use (`/proc/meminfo`) and swapping between two looks.
pub(super) fn swap(meminfo: Option<&str>, first: Option<u64>, second: Option<u64>) -> Check {
    let Some(used) = meminfo.and_then(swap_used) else { return not_visible("swap", "swap") };
    let used_mib = used.get() / (1 << 20);
    let moved = first.zip(second).map_or(0, |(first, second)| second.saturating_sub(first));
    if moved > 0 {
        return check(
            "swap",
            CheckLevel::Dirty,
            format!("the host is swapping: {moved} pages just now"),
            "end what takes the memory, or swapoff -a when it all fits",
        );
    }
    if used_mib > 0 {
        let advice = "what was swapped out comes back at a bad moment: swapoff -a && swapon -a";
        return check("swap", CheckLevel::Note, format!("{used_mib} MiB of swap are in use"), advice);
    }
    check("swap", CheckLevel::Ok, "no swap is in use", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_above_half_of_the_cpus_is_dirty() {
        assert_eq!(load(Some("1.00 0.5 0.1 1/99 1"), 2).level, CheckLevel::Ok);
        let busy = load(Some("1.01 0.5 0.1 1/99 1"), 2);
        assert_eq!(busy.level, CheckLevel::Dirty);
        assert!(busy.found.contains("at most 1.00"), "{}", busy.found);
        assert_eq!(load(Some("NaN"), 2).level, CheckLevel::Note);
        assert_eq!(load(None, 2).level, CheckLevel::Note);
    }

    #[test]
    fn deadlines_are_stretched_where_tasks_wait_for_cpus_and_not_without_end() {
        for (said, longer) in
            [("0.40", 1.0), ("2.0 1 1", 1.0), ("5.0 1 1", 2.5), ("90 1 1", 5.0), ("inf", 1.0), ("", 1.0)]
        {
            assert!((crowding(Some(said), 2) - longer).abs() < 1e-9, "{said}");
        }
        assert!((crowding(None, 0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn steal_is_judged_while_we_look_and_noted_since_boot() {
        let at = |user: u64, steal: u64| cpu_time(&format!("cpu  {user} 0 0 0 0 0 0 {steal} 7 7\ncpu0 1 2"));
        assert_eq!(at(90, 10), Some(CpuTime { all: 100, idle: 0, stolen: 10 }));
        let [first, second] = [[30, 40, 30], [60, 90, 50]].map(|[user, idle, wait]| {
            cpu_time(&format!("cpu  {user} 0 0 {idle} {wait} 0 0 0")).expect("right")
        });
        assert_eq!((idle(first, second), idle(first, first)), (Some(0.7), None));
        assert_eq!(cpu_time("cpu  1 2 3"), None);
        assert_eq!(steal(at(10_000, 0), at(11_000, 0)).level, CheckLevel::Ok);
        assert_eq!(steal(at(10_000, 100), at(11_000, 100)).level, CheckLevel::Note);
        let busy = steal(at(10_000, 0), at(10_090, 10));
        assert_eq!(busy.level, CheckLevel::Dirty);
        assert!(busy.found.contains("10.00 % just now"), "{}", busy.found);
        assert_eq!(steal(None, at(1, 1)).level, CheckLevel::Note);
    }

    #[test]
    fn swapping_is_dirty_and_used_swap_a_note() {
        let meminfo = "SwapTotal:  2097152 kB\nSwapFree:  1048576 kB\n";
        assert_eq!(swapped("pgpgin 1\npswpin 3\npswpout 4\n"), Some(7));
        assert_eq!(swap(Some(meminfo), Some(7), Some(8)).level, CheckLevel::Dirty);
        let used = swap(Some(meminfo), Some(7), Some(7));
        assert_eq!((used.level, used.found.as_str()), (CheckLevel::Note, "1024 MiB of swap are in use"));
        assert_eq!(swap(Some("SwapTotal: 0 kB\nSwapFree: 0 kB"), None, None).level, CheckLevel::Ok);
        assert_eq!(swap(Some("MemTotal: 1 kB"), None, None).level, CheckLevel::Note);
    }
}
