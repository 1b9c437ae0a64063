//! All counters of the kernel at one moment, and what was added between two of them.
//!
//! Reading takes well under 5 ms and lies outside of what is measured; what interrupts the reading itself is counted
//! all the same, which is some interrupts among those of the whole probe.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};

use super::scheduler_statistics::{self, SchedulerStatistics};
use super::table::{self, Row};
use super::{devices, files, steal};
use crate::pin::allowed_cpus;
use units::accounts::{
    Accounts, CpuAccount, InterruptCount, MOST_CPU_ACCOUNTS, MOST_INTERRUPTS, MOST_SOFT_INTERRUPTS,
    RtThrottle,
};
use units::{Hertz, Micros, Nanos, Reason};

/// Most threads whose waiting time is read; reading one takes some microseconds.
const MOST_THREADS: usize = 512;
/// So much of `/proc/cpuinfo` holds the first CPU.
const CPUINFO_BYTES: u64 = 8192;

/// How old what was read of the kernel's settings may be: reading one takes a guest that is translated half a millisecond.
const LATELY: Duration = Duration::from_secs(10);

/// Settings of the kernel that say what its counters mean.
#[derive(Debug, Clone)]
struct Settings {
    rt_throttle: Result<Option<RtThrottle>, Reason>,
    delays: Result<(), Reason>,
}

impl Settings {
    fn lately() -> Self {
        static READ: Mutex<Option<(Instant, Settings)>> = Mutex::new(None);
        let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = read.as_ref().filter(|(at, _)| at.elapsed() < LATELY);
        if let Some((_, settings)) = fresh {
            return settings.clone();
        }
        let file = |name: &str| files::read(&Path::new("/proc/sys/kernel").join(name));
        let settings = Self { rt_throttle: rt_throttle(&file), delays: delays(&file("task_delayacct")) };
        *read = Some((Instant::now(), settings.clone()));
        settings
    }
}

/// All counters at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    began: Instant,
    cpus: Vec<u32>,
    stat: Result<String, Reason>,
    interrupts: Result<String, Reason>,
    soft_interrupts: Result<String, Reason>,
    waits: Result<BTreeMap<u32, Nanos>, Reason>,
    switches: Result<(u64, u64), Reason>,
    disks: Result<String, Reason>,
    settings: Settings,
    statistics: SchedulerStatistics,
    ended: Instant,
}

impl Snapshot {
    /// Reads all counters.
    pub fn take() -> Self {
        let began = Instant::now();
        let proc = |name: &str| files::read(&Path::new("/proc").join(name));
        Self {
            began,
            cpus: allowed_cpus().into_iter().filter_map(|cpu| u32::try_from(cpu).ok()).collect(),
            stat: proc("stat"),
            interrupts: proc("interrupts"),
            soft_interrupts: proc("softirqs"),
            waits: waits(Path::new("/proc/self/task")),
            switches: switches(),
            disks: proc("diskstats"),
            settings: Settings::lately(),
            statistics: SchedulerStatistics::so_far(),
            ended: Instant::now(),
        }
    }

    /// Numbers of the threads that have worked for the calling thread, itself among them.
    pub fn own_threads(&self) -> &[i32] {
        &self.statistics.threads
    }

    /// What was added between `before` and now.
    pub fn accounts_since(&self, before: &Self) -> Accounts {
        let mut unknown = Vec::new();
        let elapsed_ns = Nanos::from_duration(self.began.saturating_duration_since(before.ended));
        let steal = self.steal_since(before, &mut unknown);
        let interrupts = added("interrupts", &before.interrupts, &self.interrupts, &self.cpus, &mut unknown);
        let soft = added(
            "soft interrupts",
            &before.soft_interrupts,
            &self.soft_interrupts,
            &self.cpus,
            &mut unknown,
        );
        let switches = both("switches", &before.switches, &self.switches, &mut unknown);
        let statistics = self.statistics.clone().since(&before.statistics);
        let per_cpu = per_cpu(&self.cpus, steal.as_ref(), interrupts.as_deref());
        Accounts {
            elapsed_ns,
            steal_ns: steal.map(|all| all.into_values().fold(Nanos::ZERO, Nanos::saturating_add)),
            voluntary_switches: switches.map(|(then, now)| now.0.saturating_sub(then.0)),
            involuntary_switches: switches.map(|(then, now)| now.1.saturating_sub(then.1)),
            run_delay_ns: self.run_delay_since(before, &statistics, &mut unknown),
            probe_involuntary_switches: statistics.involuntary,
            probe_run_delay_ns: statistics.run_delay,
            probe_block_delay_ns: statistics
                .block_delay
                .filter(|_| noted("block delay", &self.settings.delays, &mut unknown).is_some()),
            devices: both("devices", &before.disks, &self.disks, &mut unknown)
                .map(|(then, now)| devices::added(then, now))
                .unwrap_or_default(),
            tick_hz: tick_hz(&per_cpu, elapsed_ns),
            per_cpu,
            interrupts: counts(interrupts.unwrap_or_default(), MOST_INTERRUPTS),
            soft_interrupts: counts(soft.unwrap_or_default(), MOST_SOFT_INTERRUPTS),
            rt_throttle: noted("throttling", &self.settings.rt_throttle, &mut unknown).copied().flatten(),
            traced: Vec::new(),
            traced_late: Vec::new(),
            unknown,
        }
    }

    fn steal_since(&self, before: &Self, unknown: &mut Vec<String>) -> Option<BTreeMap<u32, Nanos>> {
        let (then, now) = both("steal", &before.stat, &self.stat, unknown)?;
        let (then, now) = (steal::by_cpu(then), steal::by_cpu(now));
        let each =
            self.cpus.iter().filter_map(|cpu| Some((*cpu, now.get(cpu)?.saturating_sub(*then.get(cpu)?))));
        let all: BTreeMap<u32, Nanos> = each.collect();
        if all.is_empty() {
            unknown.push("steal: /proc/stat says nothing about the CPUs that are granted".to_owned());
            return None;
        }
        if now.values().all(|stolen| *stolen == Nanos::ZERO) && is_guest() {
            unknown.push(
                "steal: this guest has counted none since it began; a hypervisor that does not tell its guests \
                 looks the same"
                    .to_owned(),
            );
        }
        Some(all)
    }

    /// Of threads that live, what was added; of the probe's threads that have ended, what they banked.
    fn run_delay_since(
        &self,
        before: &Self,
        statistics: &SchedulerStatistics,
        unknown: &mut Vec<String>,
    ) -> Option<Nanos> {
        let (then, now) = both("run delay", &before.waits, &self.waits, unknown)?;
        let own = nix::unistd::gettid().as_raw();
        let others = now.iter().filter(|(thread, _)| i32::try_from(**thread) != Ok(own));
        let lived = others
            .map(|(thread, wait)| wait.saturating_sub(then.get(thread).copied().unwrap_or(Nanos::ZERO)));
        // The calling thread is in its own statistics already.
        Some(lived.fold(statistics.run_delay.unwrap_or(Nanos::ZERO), Nanos::saturating_add))
    }
}

/// Whether the CPU says that it is a virtual one (x86 alone does).
fn is_guest() -> bool {
    static IS_GUEST: OnceLock<bool> = OnceLock::new();
    *IS_GUEST.get_or_init(|| {
        let told = files::head(Path::new("/proc/cpuinfo"), CPUINFO_BYTES);
        let flags = told.lines().find(|line| line.starts_with("flags"));
        flags.is_some_and(|flags| flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"))
    })
}

/// Whether waiting for block devices is counted, from the switch of that accounting (Linux 5.14).
fn delays(switch: &Result<String, Reason>) -> Result<(), Reason> {
    match switch.as_deref().map(str::trim) {
        Ok("0") => {
            Err("the kernel counts it only while kernel.task_delayacct = 1 (sysctl), which it is not".into())
        }
        Ok(_) => Ok(()),
        Err(reason) => Err(reason.clone()),
    }
}

/// What was read, or none and the reason noted down.
fn noted<'a, T>(what: &str, read: &'a Result<T, Reason>, unknown: &mut Vec<String>) -> Option<&'a T> {
    read.as_ref().inspect_err(|reason| unknown.push(table::tamed(&format!("{what}: {reason}"), 400))).ok()
}

/// Both readings, or none and the reason noted down once.
fn both<'a, T>(
    what: &str,
    before: &'a Result<T, Reason>,
    after: &'a Result<T, Reason>,
    unknown: &mut Vec<String>,
) -> Option<(&'a T, &'a T)> {
    let before = noted(what, before, unknown)?;
    Some((before, noted(what, after, unknown)?))
}

fn added(
    what: &str,
    before: &Result<String, Reason>,
    after: &Result<String, Reason>,
    cpus: &[u32],
    unknown: &mut Vec<String>,
) -> Option<Vec<Row>> {
    let (before, after) = both(what, before, after, unknown)?;
    let after = table::rows(after, cpus);
    if after.is_empty() {
        unknown.push(format!("{what}: the kernel's table is empty, or not in a form that is known"));
        return None;
    }
    Some(table::added(&table::rows(before, cpus), after))
}

fn counts(rows: Vec<Row>, most: usize) -> Vec<InterruptCount> {
    let count = |row: Row| InterruptCount { count: row.total(), name: row.name, about: row.about };
    rows.into_iter().take(most).map(count).collect()
}

fn per_cpu(
    cpus: &[u32],
    steal: Option<&BTreeMap<u32, Nanos>>,
    interrupts: Option<&[Row]>,
) -> Vec<CpuAccount> {
    let sum = |cpu: u32, wanted: &dyn Fn(&Row) -> bool| {
        let counted = |rows: &[Row]| {
            let here = rows.iter().filter(|row| wanted(row)).filter_map(|row| row.counts.get(&cpu));
            here.fold(0, |sum: u64, count| sum.saturating_add(*count))
        };
        interrupts.map(counted)
    };
    cpus.iter()
        .take(MOST_CPU_ACCOUNTS)
        .map(|cpu| CpuAccount {
            cpu: *cpu,
            steal_ns: steal.and_then(|steal| steal.get(cpu).copied()),
            ticks: sum(*cpu, &Row::is_timer),
            interrupts: sum(*cpu, &|_| true),
        })
        .collect()
}

/// Rate of the timer on the CPU on which it ticked most.
fn tick_hz(per_cpu: &[CpuAccount], elapsed: Nanos) -> Option<Hertz> {
    let most = per_cpu.iter().filter_map(|cpu| cpu.ticks).max()?;
    let hz = most as f64 / elapsed.as_secs_f64();
    (hz.is_finite() && hz >= 0.5).then(|| Hertz::from_hz(units::metric::saturate(hz)))
}

/// Waiting time of every thread that lives.
fn waits(folder: &Path) -> Result<BTreeMap<u32, Nanos>, Reason> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let numbers: Vec<u32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .take(MOST_THREADS + 1)
        .collect();
    if numbers.len() > MOST_THREADS {
        return Err(format!("more than {MOST_THREADS} threads run").into());
    }
    let mut refused = None;
    let mut waits = BTreeMap::new();
    for number in numbers {
        // A thread may end meanwhile.
        match files::read(&folder.join(number.to_string()).join("schedstat")) {
            Ok(text) => waits.extend(scheduler_statistics::run_delay(&text).map(|wait| (number, wait))),
            Err(reason) => refused = Some(reason),
        }
    }
    match refused {
        Some(reason) if waits.is_empty() => Err(reason),
        _ if waits.is_empty() => Err("the kernel does not count the time that threads wait".into()),
        _ => Ok(waits),
    }
}

/// Voluntary and involuntary switches of the whole process.
fn switches() -> Result<(u64, u64), Reason> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).map_err(|error| error.to_string())?;
    let count = |switches: i64| u64::try_from(switches).unwrap_or(0);
    Ok((count(usage.voluntary_context_switches()), count(usage.involuntary_context_switches())))
}

/// None when throttling is switched off.
fn rt_throttle(read: &dyn Fn(&str) -> Result<String, Reason>) -> Result<Option<RtThrottle>, Reason> {
    let number = |name: &str| {
        let text = read(name)?;
        text.trim()
            .parse::<i64>()
            .map_err(|_| format!("{name} is \"{}\", not a number", table::tamed(text.trim(), 40)))
    };
    let (runtime, period) = (number("sched_rt_runtime_us")?, number("sched_rt_period_us")?);
    let throttle = u64::try_from(runtime).ok().zip(u64::try_from(period).ok());
    Ok(throttle.filter(|(runtime, period)| runtime < period).map(|(runtime, period)| RtThrottle {
        runtime_us: Micros::from_micros(runtime),
        period_us: Micros::from_micros(period),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_up(stat: &str, interrupts: &str) -> Snapshot {
        Snapshot {
            cpus: vec![0, 1],
            stat: Ok(stat.to_owned()),
            interrupts: Ok(interrupts.to_owned()),
            soft_interrupts: Err("/proc/softirqs: hidden".into()),
            settings: Settings { delays: Err("off".into()), ..Settings::lately() },
            ..Snapshot::take()
        }
    }

    #[test]
    fn differences_are_kept_and_what_is_hidden_is_named() {
        let before = made_up(
            "cpu0 0 0 0 0 0 0 0 1\ncpu1 0 0 0 0 0 0 0 5\n",
            "CPU0 CPU1\nLOC: 100 200 timer\n9: 1 1 acpi\n",
        );
        std::thread::sleep(std::time::Duration::from_millis(2));
        let after = made_up(
            "cpu0 0 0 0 0 0 0 0 1\ncpu1 0 0 0 0 0 0 0 8\n",
            "CPU0 CPU1\nLOC: 101 210 timer\n9: 1 4 acpi\n",
        );
        let accounts = after.accounts_since(&before);
        assert_eq!(accounts.steal_ns, Some(Nanos::from_nanos(30_000_000)));
        let named: Vec<(&str, u64)> =
            accounts.interrupts.iter().map(|row| (row.name.as_str(), row.count)).collect();
        assert_eq!(named, [("LOC", 11), ("9", 3)]);
        assert_eq!(
            accounts.per_cpu[1],
            CpuAccount {
                cpu: 1,
                steal_ns: Some(Nanos::from_nanos(30_000_000)),
                ticks: Some(10),
                interrupts: Some(13)
            }
        );
        let hz = accounts.tick_hz.unwrap().as_f64();
        assert!((hz * accounts.elapsed_ns.as_secs_f64() / 10.0 - 1.0).abs() < 0.1, "{hz}");
        let unknown: Vec<&str> = accounts.unknown.iter().map(String::as_str).collect();
        assert_eq!(unknown, ["soft interrupts: /proc/softirqs: hidden", "block delay: off"]);
        assert_eq!(accounts.probe_block_delay_ns, None);
    }

    #[test]
    fn a_guest_that_was_never_stolen_from_is_told_that_this_may_mean_nothing() {
        let quiet = || made_up("cpu0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0\n", "CPU0 CPU1\nLOC: 1 2 timer\n");
        let accounts = quiet().accounts_since(&quiet());
        assert_eq!(accounts.steal_ns, Some(Nanos::ZERO));
        assert_eq!(accounts.unknown.iter().any(|why| why.starts_with("steal: this guest")), is_guest());
    }

    #[test]
    fn waiting_for_devices_is_known_only_while_it_is_counted() {
        assert_eq!(delays(&Ok("1\n".to_owned())), Ok(()));
        assert!(delays(&Ok("0\n".to_owned())).unwrap_err().to_string().contains("kernel.task_delayacct = 1"));
        assert_eq!(delays(&Err("hidden".into())), Err("hidden".into()));
    }

    #[test]
    fn throttling_that_is_off_is_none_and_nonsense_is_named() {
        let files = |runtime: &'static str| {
            move |name: &str| {
                Ok(if name.contains("runtime") { runtime.to_owned() } else { "1000000\n".to_owned() })
            }
        };
        let on = rt_throttle(&files("950000\n")).unwrap().unwrap();
        assert_eq!((on.runtime_us.get(), on.period_us.get()), (950_000, 1_000_000));
        assert_eq!(rt_throttle(&files("-1\n")), Ok(None));
        assert_eq!(rt_throttle(&files("1000000\n")), Ok(None));
        assert!(rt_throttle(&files("lots")).unwrap_err().to_string().contains("\"lots\""));
        assert!(rt_throttle(&|_| Err("hidden".into())).is_err());
    }

    #[test]
    fn this_machine_counts_what_its_threads_do() {
        let before = Snapshot::take();
        std::thread::sleep(std::time::Duration::from_millis(5));
        let accounts = Snapshot::take().accounts_since(&before);
        assert!(accounts.voluntary_switches.unwrap() > 0, "sleeping gives up the CPU");
        assert!(accounts.elapsed_ns.get() >= 5_000_000);
        assert!(!accounts.per_cpu.is_empty());
    }
}
