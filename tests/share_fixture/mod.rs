//! Two real instances that share this machine's CPUs by settings that are known: for the test of the sharing policies
//! and for the bench that scores their names.

#![allow(dead_code, reason = "test and bench need a part each")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use bulkhead::cli::cache_folder;
use bulkhead::model::experiment::PlatformSpec;
use bulkhead::platforms::ledger::Ledger;
use bulkhead::platforms::{Cancel, Instance, InstanceSpec, Platform, PlatformContext, make};
use bulkhead::probes::detail::{Detail, ShareDetail};
use bulkhead::probes::job::{Job, Part};
use bulkhead::probes::params::{ProbeSpec, ShareParams};
use bulkhead::units::{Bytes, Millis, Nanos};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// CPUs of this machine.
pub fn cpus() -> u32 {
    u32::try_from(std::thread::available_parallelism().map_or(1, usize::from)).unwrap_or(1)
}

fn platform(spec: &PlatformSpec, run: &Path) -> Result<Box<dyn Platform>> {
    let context = PlatformContext {
        may_destroy: false,
        exe: env!("CARGO_BIN_EXE_bulkhead").into(),
        ledger: Ledger::open(run)?,
        cache: cache_folder(),
        counter_hz: None,
        seed: 1,
    };
    Ok(make(spec, &context))
}

/// Why such instances cannot be had here; none when they can.
pub fn unavailable(spec: &PlatformSpec) -> Result<Option<String>> {
    let run = tempfile::tempdir()?;
    Ok(platform(spec, run.path())?.survey(&Cancel::new()).unavailable)
}

fn start(platform: &mut dyn Platform, rank: u32, run: &Path) -> Result<Box<dyn Instance>> {
    let scratch = run.join(format!("scratch-{rank}"));
    std::fs::create_dir_all(&scratch)?;
    let memory_wanted = Bytes::from_bytes(64 << 20);
    let spec = InstanceSpec { number: rank, rank, memory_wanted, scratch, ..InstanceSpec::default() };
    platform.start(&spec, &Cancel::new()).map_err(|broken| anyhow!("instance {rank}: {broken:?}"))
}

/// One joint measurement of two instances that are there already.
fn measure(pair: &mut [Box<dyn Instance>; 2], id: u64, params: &ShareParams) -> Result<ShareDetail> {
    let job = |rank: u32| Job {
        id,
        probe: Some(ProbeSpec::Share(params.clone())),
        seed: 1,
        deadline_ms: Millis::from_millis(120_000),
        part: Some(Part { rank, ranks: 2, peers: vec![] }),
        ..Job::default()
    };
    let details: Vec<Result<ShareDetail>> = std::thread::scope(|scope| {
        let running: Vec<_> = pair
            .iter_mut()
            .zip(0..)
            .map(|(instance, rank)| {
                let job = job(rank);
                scope.spawn(move || share_of(&mut **instance, &job))
            })
            .collect();
        let joined = running.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.map(|detail| detail.unwrap_or_else(|_| Err(anyhow!("a thread broke")))).collect()
    });
    let mut details = details.into_iter().collect::<Result<Vec<_>>>()?.into_iter();
    let first = details.next().context("no instance")?;
    Ok(ShareDetail { others: details.collect(), ..first })
}

fn share_of(instance: &mut dyn Instance, job: &Job) -> Result<ShareDetail> {
    instance.begin(job, &Cancel::new()).map_err(|broken| anyhow!("it does not begin: {broken:?}"))?;
    instance.start_at(now()?).map_err(|broken| anyhow!("it does not start: {broken:?}"))?;
    let reply = instance.finish(&Cancel::new()).map_err(|broken| anyhow!("it does not end: {broken:?}"))?;
    let report = reply.report.context("no report")?.map_err(|failure| anyhow!("{failure:?}"))?;
    match report.detail {
        Detail::Share(detail) => Ok(detail),
        other => bail!("{} was answered", other.kind()),
    }
}

/// The host's monotonic clock: begin at once.
fn now() -> Result<Nanos> {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)?;
    Ok(Nanos::from_duration(Duration::from(time)))
}

/// So many rounds of two instances, each as it came out, whatever else ran on this machine.
pub fn rounds(spec: &PlatformSpec, count: usize, params: &ShareParams) -> Result<Vec<ShareDetail>> {
    Ok(watched(spec, count, params)?.0)
}

/// A CPU group of an instance, as the kernel says, while the instance measured.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    /// Weight: `cpu.shares` of version 1, `cpu.weight` of version 2.
    pub weight: String,
    /// Quota and period: `cpu.cfs_quota_us` and `cpu.cfs_period_us`, or `cpu.max`.
    pub max: String,
    /// Whether it is one of version 2.
    pub is_second: bool,
    /// CPU time of its processes from before the first round to after the last one.
    pub used: Duration,
    /// How long that was.
    pub elapsed: Duration,
}

impl Group {
    /// What the kernel says of a group; none where it shares out no CPUs.
    fn read(path: &Path) -> Option<Self> {
        let said = |name: &str| Some(std::fs::read_to_string(path.join(name)).ok()?.trim().to_owned());
        let first = || {
            let max = format!("{} {}", said("cpu.cfs_quota_us")?, said("cpu.cfs_period_us")?);
            Some((said("cpu.shares")?, max, false))
        };
        let second = || Some((said("cpu.weight")?, said("cpu.max")?, true));
        let (weight, max, is_second) = first().or_else(second)?;
        let (used, elapsed) = (Duration::ZERO, Duration::ZERO);
        Some(Self { path: path.to_owned(), weight, max, is_second, used, elapsed })
    }

    /// CPU time of the processes that are in it now.
    fn cpu_time(&self) -> Result<Duration> {
        let processes = std::fs::read_to_string(self.path.join("cgroup.procs"))?;
        let mut sum = Duration::ZERO;
        for process in processes.lines() {
            let clock = clock_getcpuclockid(Pid::from_raw(process.parse()?))?;
            sum += Duration::from(clock_gettime(clock)?);
        }
        anyhow::ensure!(!processes.is_empty(), "{}: nobody is in the group", self.path.display());
        Ok(sum)
    }
}

/// The same, and what the kernel said of the instances' CPU groups meanwhile, first instance first.
pub fn watched(
    spec: &PlatformSpec,
    count: usize,
    params: &ShareParams,
) -> Result<(Vec<ShareDetail>, Vec<Group>)> {
    let run = tempfile::tempdir()?;
    let mut platform = platform(spec, run.path())?;
    let state = platform.survey(&Cancel::new());
    if let Some(reason) = state.unavailable {
        bail!("{}: {reason}", spec.label);
    }
    let mut pair = [start(&mut *platform, 0, run.path())?, start(&mut *platform, 1, run.path())?];
    let mut groups: Vec<Group> = groups(run.path())?.iter().filter_map(|path| Group::read(path)).collect();
    let before = groups.iter().map(Group::cpu_time).collect::<Result<Vec<_>>>()?;
    let begun = Instant::now();
    let details: Result<Vec<ShareDetail>> =
        (1..=count as u64).map(|id| measure(&mut pair, id, params)).collect();
    for (group, before) in groups.iter_mut().zip(before) {
        group.used = group.cpu_time()?.saturating_sub(before);
        group.elapsed = begun.elapsed();
    }
    for mut instance in pair {
        instance.end();
    }
    drop(platform);
    let mut left = self::groups(run.path())?;
    left.retain(|path| path.exists());
    if !left.is_empty() {
        bail!("groups are left behind: {left:?}");
    }
    Ok((details?, groups))
}

/// Every group that this run has made: the ledger names them.
fn groups(run: &Path) -> Result<Vec<PathBuf>> {
    let ledger = std::fs::read_to_string(run.join("started.jsonl"))?;
    let lines = ledger.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let made = lines.filter(|line| line["thing"]["kind"] == "cgroup");
    Ok(made.filter_map(|line| line["thing"]["path"].as_str().map(PathBuf::from)).collect())
}
