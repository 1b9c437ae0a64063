//! What the host sees of an instance while it measures: CPU time, waiting for a CPU, page faults.
//!
//! ```text
//!  start ── totals ──┬── every 20 ms: a slice (VMs only) ──┬── totals ── stop ─► HostAccount
//!                    └─────────── one thread ──────────────┘
//! ```
//! Only a VM gets slices: there host and guest see different things, and side by side they tell who took the time. A
//! process or container sees itself as the host sees it; there a thread that looks would only disturb, so it looks only
//! when how CPU time went over time is asked for ([`Watch::closely`]).
//! Sources: `/proc/PID/task/TID/schedstat` (`Documentation/scheduler/sched-stats.rst`), `/proc/PID/stat` (proc(5)).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use nix::unistd::{SysconfVar, sysconf};

use super::cpu_log::CpuLog;
use units::Nanos;
use units::accounts::{HostAccount, HostSlice};
use units::names::PlatformKind;

/// Length of a slice at first; doubled whenever there are too many.
const SLICE: Duration = Duration::from_millis(20);
/// The same where how CPU time went over time is asked for.
const CLOSE_SLICE: Duration = Duration::from_millis(10);
/// Most slices that are kept.
pub const MOST_SLICES: usize = 4096;
/// Largest file of `/proc` that is read here.
const MAX_BYTES: usize = 4096;

/// Looks at an instance from the host until it is told to stop. Dropping it stops it, too.
#[derive(Debug)]
pub struct Watch {
    processes: Vec<u32>,
    before: Totals,
    /// What each thread had run before.
    threads: Known,
    sampler: Option<Sampler>,
}

#[derive(Debug)]
struct Sampler {
    stop: Sender<()>,
    thread: JoinHandle<Seen>,
}

/// What a sampler has seen.
#[derive(Debug, Default)]
struct Seen {
    began_ns: Nanos,
    slices: Vec<HostSlice>,
    own_cost_ns: Nanos,
}

impl Watch {
    /// Begins to look at `processes`, which carry an instance of a platform of this kind.
    pub fn start(processes: &[u32], kind: PlatformKind) -> Self {
        Self::looking(processes.to_vec(), (kind == PlatformKind::Vm).then_some(SLICE))
    }

    /// The same with a log of CPU time over time, whatever the kind; kernel threads that work for a VM count as its own.
    pub fn closely(processes: &[u32], kind: PlatformKind) -> Self {
        let helpers = if kind == PlatformKind::Vm { helpers(processes) } else { Vec::new() };
        Self::looking(processes.iter().copied().chain(helpers).collect(), Some(CLOSE_SLICE))
    }

    fn looking(processes: Vec<u32>, slice: Option<Duration>) -> Self {
        let slice = slice.filter(|_| !processes.is_empty());
        let mut threads = Known::default();
        let before = Totals::of(&processes, &mut threads);
        let sampler = slice.and_then(|slice| Sampler::start(processes.clone(), slice));
        Self { processes, before, threads, sampler }
    }

    /// What was seen; none when there is nothing to look at, or it has ended meanwhile.
    pub fn stop(self) -> Option<HostAccount> {
        self.stop_with_log().map(|(account, _)| account)
    }

    /// The same, and how CPU time went over time.
    pub fn stop_with_log(self) -> Option<(HostAccount, CpuLog)> {
        let seen = self.sampler.map(Sampler::stop).unwrap_or_default();
        if self.processes.is_empty() {
            return None;
        }
        let mut threads = Known::default();
        let after = Totals::of(&self.processes, &mut threads);
        if after.seen < self.before.seen || after.seen == 0 {
            return None;
        }
        let run = after.run_ns.saturating_sub(self.before.run_ns);
        let ticks = after.ticks_ns.saturating_sub(self.before.ticks_ns);
        let log = CpuLog::new(seen.began_ns, seen.slices.clone());
        let account = HostAccount {
            // Threads and children that have ended are only in the coarse figure.
            cpu_time_ns: Nanos::from_nanos(run.max(ticks)),
            wait_ns: Nanos::from_nanos(after.wait_ns.saturating_sub(self.before.wait_ns)),
            faults: after.faults.saturating_sub(self.before.faults),
            slices: seen.slices,
            own_cost_ns: seen.own_cost_ns,
            node: threads.busiest_since(&self.threads).and_then(|thread| node_of(&self.processes, thread)),
            memory: None,
        };
        Some((account, log))
    }
}

impl Sampler {
    fn start(processes: Vec<u32>, slice: Duration) -> Option<Self> {
        let (stop, stopped) = channel();
        let work = move || {
            let mut slices = Slices::of(slice);
            let mut known = Known::default();
            let mut last = Totals::of(&processes, &mut known);
            let began_ns = Nanos::from_nanos(last.at_ns);
            let mut next = Instant::now() + slices.length();
            let wait = |until: Instant| stopped.recv_timeout(until.saturating_duration_since(Instant::now()));
            while wait(next) == Err(RecvTimeoutError::Timeout) {
                let now = Totals::of(&processes, &mut known);
                slices.add(now.since(&last));
                last = now;
                // A look that came late makes one long slice and no row of short ones.
                next = (next + slices.length()).max(Instant::now());
            }
            slices.add(Totals::of(&processes, &mut known).since(&last));
            Seen { began_ns, slices: slices.kept, own_cost_ns: own_cpu_time() }
        };
        let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(work).ok()?;
        Some(Self { stop, thread })
    }

    fn stop(self) -> Seen {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

fn own_cpu_time() -> Nanos {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map_or(Nanos::ZERO, |time| Nanos::from_duration(time.into()))
}

/// At most [`MOST_SLICES`]: when there are more, two become one, and every further one is twice as long.
#[derive(Debug)]
struct Slices {
    kept: Vec<HostSlice>,
    first: Duration,
    doublings: u32,
}

impl Slices {
    const fn of(first: Duration) -> Self {
        Self { kept: Vec::new(), first, doublings: 0 }
    }

    fn length(&self) -> Duration {
        self.first * 2u32.saturating_pow(self.doublings)
    }

    fn add(&mut self, slice: HostSlice) {
        if self.kept.len() >= MOST_SLICES {
            self.kept = self.kept.chunks(2).filter_map(merged).collect();
            self.doublings += 1;
        }
        self.kept.push(slice);
    }
}

fn merged(slices: &[HostSlice]) -> Option<HostSlice> {
    let last = slices.last()?;
    let sum = |of: fn(&HostSlice) -> u64| slices.iter().map(of).fold(0, u64::saturating_add);
    Some(HostSlice {
        at_ns: last.at_ns,
        run_ns: Nanos::from_nanos(sum(|slice| slice.run_ns.get())),
        wait_ns: Nanos::from_nanos(sum(|slice| slice.wait_ns.get())),
        faults: sum(|slice| slice.faults),
    })
}

/// Run and wait time of threads, those that have ended included.
#[derive(Debug, Default)]
struct Known(BTreeMap<u32, (u64, u64)>);

impl Known {
    /// The thread that has run most since `before`; none when none has.
    fn busiest_since(&self, before: &Self) -> Option<u32> {
        let ran = |(thread, (run, _)): (&u32, &(u64, u64))| {
            let earlier = before.0.get(thread).map_or(0, |(run, _)| *run);
            (run.saturating_sub(earlier), *thread)
        };
        self.0.iter().map(ran).max().filter(|(run, _)| *run > 0).map(|(_, thread)| thread)
    }
}

/// Everything so far, of all processes together.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    at_ns: u64,
    /// Processes that could be looked at.
    seen: usize,
    run_ns: u64,
    wait_ns: u64,
    /// CPU time in the kernel's coarse unit, ended threads and children included.
    ticks_ns: u64,
    faults: u64,
}

impl Totals {
    fn of(processes: &[u32], known: &mut Known) -> Self {
        let mut totals = Self { at_ns: now(), ..Self::default() };
        for process in processes {
            let folder = format!("/proc/{process}");
            if let Some(stat) = read(&format!("{folder}/stat")).as_deref().and_then(stat) {
                totals.seen += 1;
                totals.ticks_ns += stat.ticks.saturating_mul(tick_ns());
                totals.faults += stat.faults;
            }
            for thread in threads(Path::new(&format!("{folder}/task"))) {
                let path = format!("{folder}/task/{thread}/schedstat");
                if let Some(times) = read(&path).as_deref().and_then(schedstat) {
                    known.0.insert(thread, times);
                }
            }
        }
        for (run, wait) in known.0.values() {
            totals.run_ns += run;
            totals.wait_ns += wait;
        }
        totals
    }

    fn since(&self, last: &Self) -> HostSlice {
        HostSlice {
            at_ns: Nanos::from_nanos(self.at_ns),
            run_ns: Nanos::from_nanos(self.run_ns.saturating_sub(last.run_ns)),
            wait_ns: Nanos::from_nanos(self.wait_ns.saturating_sub(last.wait_ns)),
            faults: self.faults.saturating_sub(last.faults),
        }
    }
}

fn now() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| Nanos::from_duration(time.into()).get())
}

fn tick_ns() -> u64 {
    let per_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().and_then(|hz| u64::try_from(hz).ok());
    1_000_000_000 / per_second.filter(|hz| *hz > 0).unwrap_or(100)
}

/// Threads of the kernel that carry packets for these processes: `vhost-PID`. Since Linux 6.4 they are threads of the
/// process itself.
fn helpers(processes: &[u32]) -> Vec<u32> {
    let names: Vec<String> = processes.iter().map(|process| format!("vhost-{process}")).collect();
    let is_helper = |candidate: &u32| {
        read(&format!("/proc/{candidate}/comm"))
            .is_some_and(|comm| names.iter().any(|name| name == comm.trim_end()))
    };
    threads(Path::new("/proc")).into_iter().filter(is_helper).collect()
}

/// Entries of a folder that are numbers.
fn threads(folder: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().filter(|text| text.len() <= MAX_BYTES)
}

/// Memory node of the CPU on which a thread of one of these processes ran last.
fn node_of(processes: &[u32], thread: u32) -> Option<u32> {
    let stat = |process: &u32| read(&format!("/proc/{process}/task/{thread}/stat"));
    let cpu = last_cpu(&processes.iter().find_map(stat)?)?;
    let entries = fs::read_dir(format!("/sys/devices/system/cpu/cpu{cpu}")).ok()?;
    entries.flatten().find_map(|entry| entry.file_name().to_str()?.strip_prefix("node")?.parse().ok())
}

/// Field 39 of `stat`.
fn last_cpu(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(39 - 3)?.parse().ok()
}

/// `run_ns wait_ns timeslices`.
fn schedstat(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[derive(Debug, PartialEq, Eq)]
struct Stat {
    faults: u64,
    ticks: u64,
}

/// Fields after the name, which may hold anything, a closing parenthesis included: state is 3, minflt 10, cminflt 11,
/// majflt 12, cmajflt 13, utime 14, stime 15, cutime 16, cstime 17.
fn stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let sum = |numbers: std::ops::RangeInclusive<usize>| -> Option<u64> {
        let wanted = fields.get(numbers.start() - 3..=numbers.end() - 3)?;
        wanted.iter().map(|field| field.parse::<u64>().ok()).sum()
    };
    Some(Stat { faults: sum(10..=13)?, ticks: sum(14..=17)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_read_whatever_a_process_is_called() {
        let line = "7 (a b) c) S 1 7 7 0 -1 4194560 100 20 3 4 50 60 7 8 20 0 4 0 77 1 2";
        assert_eq!(stat(line), Some(Stat { faults: 127, ticks: 125 }));
        assert_eq!((stat("7 (x) S 1"), stat("")), (None, None));
        assert_eq!(schedstat("12 34 5\n"), Some((12, 34)));
        assert_eq!((schedstat("12"), schedstat("x y z")), (None, None));
    }

    #[test]
    fn the_busiest_thread_is_the_one_that_ran_most_meanwhile_and_its_cpu_is_told() {
        let known =
            |all: &[(u32, u64)]| Known(all.iter().map(|(thread, run)| (*thread, (*run, 0))).collect());
        let before = known(&[(1, 900), (2, 5)]);
        assert_eq!(known(&[(1, 910), (2, 50), (3, 20)]).busiest_since(&before), Some(2));
        assert_eq!(known(&[(1, 900), (2, 5)]).busiest_since(&before), None);
        let fields: Vec<String> = (3..=52).map(|number| number.to_string()).collect();
        assert_eq!(last_cpu(&format!("7 (a b) c) {}", fields.join(" "))), Some(39));
        assert_eq!((last_cpu("7 (x) S 1"), last_cpu("")), (None, None));
    }

    #[test]
    fn slices_are_bounded_and_merging_loses_nothing() {
        let mut slices = Slices::of(SLICE);
        let count = MOST_SLICES as u64 * 5;
        for at in 0..count {
            let (at_ns, run_ns) = (Nanos::from_nanos(at), Nanos::from_nanos(3));
            slices.add(HostSlice { at_ns, run_ns, wait_ns: Nanos::from_nanos(1), faults: 2 });
        }
        assert!(slices.kept.len() <= MOST_SLICES);
        let all = merged(&slices.kept).unwrap();
        assert_eq!(all.run_ns.get() + all.wait_ns.get() + all.faults, count * 6);
        assert_eq!(all.at_ns.get(), count - 1);
        assert!(slices.kept.windows(2).all(|pair| pair[0].at_ns < pair[1].at_ns));
        assert!(slices.length() > SLICE);
    }

    #[test]
    fn work_of_this_process_is_seen_in_slices_that_add_up() {
        let watch = Watch::start(&[std::process::id()], PlatformKind::Vm);
        let until = Instant::now() + Duration::from_millis(300);
        let mut pages: Vec<Vec<u8>> = Vec::new();
        while Instant::now() < until {
            if pages.len() < 1000 {
                pages.push(vec![1; 8192]);
            }
            std::hint::black_box(&pages);
        }
        let account = watch.stop().unwrap();
        assert!(account.cpu_time_ns.get() > 1_000_000, "{:?}", account.cpu_time_ns);
        assert!(account.faults > 0 && !account.slices.is_empty());
        let sum: u64 = account.slices.iter().map(|slice| slice.run_ns.get()).sum();
        assert!(sum > 0 && sum <= account.cpu_time_ns.get() * 2, "{sum} of {:?}", account.cpu_time_ns);
        assert!(account.own_cost_ns < account.cpu_time_ns, "looking costs less than what is looked at");
        if std::path::Path::new("/sys/devices/system/cpu/cpu0/node0").exists() {
            assert!(account.node.is_some(), "a thread ran, so it ran on a node");
        }
        let cheap = Watch::start(&[std::process::id()], PlatformKind::Native);
        assert!(cheap.sampler.is_none(), "no thread where it would only disturb");
        assert!(cheap.stop().unwrap().slices.is_empty());
    }

    #[test]
    fn a_close_look_tells_when_cpu_time_was_taken_without_holes() {
        let watch = Watch::closely(&[std::process::id()], PlatformKind::Native);
        let from = now();
        let until = Instant::now() + Duration::from_millis(400);
        while Instant::now() < until {
            std::hint::black_box(now());
        }
        let to = now();
        let (account, log) = watch.stop_with_log().unwrap();
        let (from, to) = (Nanos::from_nanos(from), Nanos::from_nanos(to));
        let during = log.between(from, to);
        // A look that came very late leaves no answer, which is allowed; a wrong one is not.
        assert!(during.is_none_or(|during| during > Nanos::ZERO), "{during:?}");
        assert!(account.slices.first().is_some_and(|first| first.at_ns > from));
        assert!(account.slices.last().is_some_and(|last| last.at_ns >= to), "the last look is at the end");
        assert_eq!(Watch::closely(&[], PlatformKind::Vm).stop_with_log(), None);
    }

    #[test]
    fn who_is_gone_has_no_account() {
        assert_eq!(Watch::start(&[], PlatformKind::Vm).stop(), None);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let watch = Watch::start(&[child.id()], PlatformKind::Vm);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(watch.stop(), None);
    }
}
