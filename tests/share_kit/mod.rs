//! Two real instances that share this machine's CPUs by settings that are known: for the test of the sharing policies
//! and for the bench that scores their names.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bulkhead::model::detail::{Detail, ShareDetail};
use bulkhead::model::experiment::PlatformSpec;
use bulkhead::model::job::{Job, Part};
use bulkhead::model::params::{ProbeSpec, ShareParams};
use bulkhead::model::units::{Bytes, Millis, Nanos};
use bulkhead::platforms::ledger::Ledger;
use bulkhead::platforms::{Cancel, Instance, InstanceSpec, Platform, PlatformContext, make};

/// CPUs of this machine.
pub fn cpus() -> u32 {
    u32::try_from(std::thread::available_parallelism().map_or(1, usize::from)).unwrap_or(1)
}

fn platform(spec: &PlatformSpec, run: &Path) -> Result<Box<dyn Platform>> {
    let context = PlatformContext {
        may_destroy: false,
        exe: env!("CARGO_BIN_EXE_bulkhead").into(),
        ledger: Ledger::open(run)?,
        cache: std::env::var_os("HOME")
            .map_or_else(|| "/tmp".into(), |home| Path::new(&home).join(".cache/bulkhead")),
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
    let run = tempfile::tempdir()?;
    let mut platform = platform(spec, run.path())?;
    let state = platform.survey(&Cancel::new());
    if let Some(reason) = state.unavailable {
        bail!("{}: {reason}", spec.label);
    }
    let mut pair = [start(&mut *platform, 0, run.path())?, start(&mut *platform, 1, run.path())?];
    let details = (1..=count as u64).map(|id| measure(&mut pair, id, params)).collect();
    for mut instance in pair {
        instance.end();
    }
    drop(platform);
    let left = leftover_groups(run.path())?;
    if !left.is_empty() {
        bail!("groups are left behind: {left:?}");
    }
    details
}

/// Groups of this run that are still there: the ledger names every one that was made.
fn leftover_groups(run: &Path) -> Result<Vec<String>> {
    let ledger = std::fs::read_to_string(run.join("started.jsonl"))?;
    let lines = ledger.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let paths = lines.filter(|line| line["thing"]["kind"] == "cgroup");
    Ok(paths
        .filter_map(|line| line["thing"]["path"].as_str().map(str::to_owned))
        .filter(|path| Path::new(path).exists())
        .collect())
}
