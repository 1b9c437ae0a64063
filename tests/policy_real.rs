//! Real processes and virtual machines that share this machine's CPUs: the policy behind it is named.
//!
//! Without CPU groups the kernel shares per thread; groups of equal weight share per instance; other weights and caps
//! are found with their value. Needs root for the groups and two CPUs to share.

#![expect(clippy::print_stdout, reason = "the verdicts are worth a look, and what is left out says why")]

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bulkhead::model::detail::{Detail, ShareDetail};
use bulkhead::model::experiment::PlatformSpec;
use bulkhead::model::job::{Job, Part};
use bulkhead::model::layout::Layout;
use bulkhead::model::names::PlatformKind;
use bulkhead::model::params::{ProbeSpec, ShareParams};
use bulkhead::model::policy::{PolicyVerdict, SharingPolicy};
use bulkhead::model::units::{Bytes, Millis};
use bulkhead::platforms::ledger::Ledger;
use bulkhead::platforms::{Cancel, Instance, InstanceSpec, Platform, PlatformContext, make};
use bulkhead::stats::shares::verdict;
use skips::{Need, skip};
/// Two of these tests at once would share with each other, too.
static ALONE: Mutex<()> = Mutex::new(());

fn cpus() -> u32 {
    u32::try_from(std::thread::available_parallelism().map_or(1, usize::from)).unwrap_or(1)
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// How often each policy is to be named, every time right; unset means once in at most three attempts, because what
/// others do on a shared machine between two looks at it is not seen.
fn strict_runs() -> Option<usize> {
    std::env::var("BULKHEAD_POLICY_RUNS").ok().and_then(|runs| runs.parse().ok())
}

/// How long a quiet moment is waited for.
fn patience() -> std::time::Duration {
    std::time::Duration::from_secs(if strict_runs().is_some() { 300 } else { 20 })
}

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn platform(spec: &PlatformSpec, run: &Path) -> Box<dyn Platform> {
    let context = PlatformContext {
        may_destroy: false,
        exe: env!("CARGO_BIN_EXE_bulkhead").into(),
        ledger: Ledger::open(run).expect("a ledger"),
        cache: std::env::var_os("HOME")
            .map_or_else(|| "/tmp".into(), |home| Path::new(&home).join(".cache/bulkhead")),
        counter_hz: None,
        seed: 1,
    };
    make(spec, &context)
}

fn start(platform: &mut dyn Platform, rank: u32, run: &Path) -> Box<dyn Instance> {
    let scratch = run.join(format!("scratch-{rank}"));
    std::fs::create_dir_all(&scratch).expect("a folder");
    let memory_wanted = Bytes::from_bytes(64 << 20);
    let spec = InstanceSpec { number: rank, rank, memory_wanted, scratch, ..InstanceSpec::default() };
    platform.start(&spec, &Cancel::new()).unwrap_or_else(|broken| panic!("instance {rank}: {broken:?}"))
}

/// One joint measurement of two instances that are there already.
fn measure(pair: &mut [Box<dyn Instance>; 2], id: u64, millis: u64) -> ShareDetail {
    let job = |rank: u32| Job {
        id,
        probe: Some(ProbeSpec::Share(ShareParams {
            duration_ms: Millis::from_millis(millis),
            settle_ms: Millis::from_millis(if strict_runs().is_some() { 500 } else { 200 }),
        })),
        seed: 1,
        deadline_ms: Millis::from_millis(120_000),
        part: Some(Part { rank, ranks: 2, peers: vec![] }),
        ..Job::default()
    };
    let details: Vec<ShareDetail> = std::thread::scope(|scope| {
        let running: Vec<_> = pair
            .iter_mut()
            .zip(0..)
            .map(|(instance, rank)| {
                let job = job(rank);
                scope.spawn(move || {
                    instance.begin(&job, &Cancel::new()).expect("it begins");
                    instance.start_at(now()).expect("it starts");
                    let reply = instance.finish(&Cancel::new()).expect("it ends");
                    match reply.report.expect("a report").expect("a result").detail {
                        Detail::Share(detail) => detail,
                        other => panic!("{}", other.kind()),
                    }
                })
            })
            .collect();
        running.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let mut details = details.into_iter();
    let first = details.next().expect("two");
    ShareDetail { others: details.collect(), ..first }
}

/// The host's monotonic clock: begin at once.
fn now() -> bulkhead::model::units::Nanos {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).expect("a clock");
    bulkhead::model::units::Nanos::from_duration(std::time::Duration::from(time))
}

/// So many rounds of two instances, as far as quiet moments were found.
fn measured(spec: &PlatformSpec, runs: usize, millis: u64) -> Vec<ShareDetail> {
    let run = tempfile::tempdir().expect("a folder");
    let mut platform = platform(spec, run.path());
    let state = platform.survey(&Cancel::new());
    assert_eq!(state.unavailable, None, "{}", spec.label);
    let mut pair = [start(&mut *platform, 0, run.path()), start(&mut *platform, 1, run.path())];
    let details = (1..=runs as u64).filter_map(|id| measured_in_quiet(&mut pair, id * 100, millis)).collect();
    for mut instance in pair {
        instance.end();
    }
    drop(platform);
    assert_eq!(leftover_groups(run.path()), Vec::<String>::new(), "left behind");
    details
}

/// What these rounds together say, as a run of `bulkhead measure` that made them.
fn named(spec: &PlatformSpec, rounds: &[ShareDetail]) -> PolicyVerdict {
    let rounds: Vec<_> = rounds.iter().map(|round| (Layout::PAIR, round)).collect();
    verdict(&spec.label, &rounds, cpus())
}

fn print(verdict: &PolicyVerdict) {
    println!("{}", verdict.sentence);
    for point in &verdict.points {
        let threads = format!("{}+{}", point.first_threads, point.other_threads);
        println!("  {threads}: {:.3} {:.3}", point.first_cpus, point.other_cpus);
    }
}

/// What others leave of this machine: the CPU time that a spinning thread per CPU gets, as a share of all.
fn left_by_others() -> f64 {
    let spin = || {
        let began = std::time::Instant::now();
        let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
        let cpu = || std::time::Duration::from(nix::time::clock_gettime(clock).expect("a clock"));
        let before = cpu();
        while began.elapsed() < std::time::Duration::from_millis(100) {
            std::hint::spin_loop();
        }
        cpu().saturating_sub(before).as_secs_f64() / began.elapsed().as_secs_f64()
    };
    let shares: Vec<f64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cpus()).map(|_| scope.spawn(spin)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    shares.iter().sum::<f64>() / shares.len() as f64
}

/// A policy shows only when nobody else takes the CPUs: measurements with somebody else's work before or after them are
/// made again, as long as [`patience`] lasts; then there is none.
fn measured_in_quiet(pair: &mut [Box<dyn Instance>; 2], id: u64, millis: u64) -> Option<ShareDetail> {
    let (began, patience) = (std::time::Instant::now(), patience());
    for attempt in 0..10 {
        while left_by_others() < 0.95 && began.elapsed() < patience {
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        if began.elapsed() >= patience {
            break;
        }
        let detail = measure(pair, id + attempt, millis);
        if left_by_others() >= 0.95 {
            return Some(detail);
        }
    }
    skip(Need::Quiet, "others use the CPUs of this machine all the time");
    None
}

/// Groups of this run that are still there: the ledger names every one that was made.
fn leftover_groups(run: &Path) -> Vec<String> {
    let ledger = std::fs::read_to_string(run.join("started.jsonl")).expect("the ledger");
    let lines = ledger.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let paths = lines.filter(|line| line["thing"]["kind"] == "cgroup");
    paths
        .filter_map(|line| line["thing"]["path"].as_str().map(str::to_owned))
        .filter(|path| Path::new(path).exists())
        .collect()
}

fn native(label: &str) -> PlatformSpec {
    PlatformSpec { label: label.to_owned(), ..PlatformSpec::of_kind(PlatformKind::Native) }
}

/// How long the instances run in each phase. A cap is paid out once per period of 100 ms, so a phase may hold the pay of one
/// period more than it has.
fn phase_ms(spec: &PlatformSpec) -> u64 {
    if spec.cpu_cap_percent.is_some() { 1000 } else { 500 }
}

/// Rounds of a run, from which together a policy is named. Processes and caps show it in one. Translated machines that share
/// freely need the three that the full experiment makes at least: busy threads lie on the CPUs in one way or the other
/// for a while, and the translator has threads of its own. Where not every run must be right, one is tried three times.
fn rounds_per_run(spec: &PlatformSpec) -> usize {
    let shares_freely = spec.kind == PlatformKind::Vm && spec.cpu_cap_percent.is_none();
    if shares_freely && strict_runs().is_some() { 3 } else { 1 }
}

/// Adds to `wrong` what was not named as it should be; each platform is looked at, whatever became of the others.
fn expect(
    spec: &PlatformSpec,
    wanted: SharingPolicy,
    value: Option<&std::ops::Range<f64>>,
    wrong: &mut Vec<String>,
) {
    let is_right = |verdict: &PolicyVerdict| {
        let parameter = verdict.fits.first().and_then(|fit| fit.parameter);
        let fits = value.is_none_or(|range| parameter.is_some_and(|got| range.contains(&got)));
        verdict.policy == Some(wanted) && fits
    };
    let per_run = rounds_per_run(spec);
    if let Some(runs) = strict_runs() {
        let rounds = measured(spec, runs * per_run, phase_ms(spec));
        let verdicts: Vec<_> = rounds.chunks_exact(per_run).map(|run| named(spec, run)).collect();
        verdicts.iter().for_each(print);
        let missed: Vec<_> = verdicts.iter().filter(|verdict| !is_right(verdict)).collect();
        let (all, right) = (verdicts.len(), verdicts.len() - missed.len());
        let kind = spec.kind;
        println!("{}, {kind}: {right} of {all} runs of {per_run} rounds name {wanted:?}", spec.label);
        wrong.extend(missed.iter().map(|verdict| format!("{wanted:?} was wanted: {}", verdict.sentence)));
        return;
    }
    let mut said = Vec::new();
    for _ in 0..3 {
        let rounds = measured(spec, per_run, phase_ms(spec));
        // No quiet moment: nothing was learned.
        if rounds.len() < per_run {
            return;
        }
        let verdict = named(spec, &rounds);
        print(&verdict);
        if is_right(&verdict) {
            return;
        }
        said.push(verdict.sentence);
    }
    wrong.push(format!("{wanted:?} was wanted three times: {said:?}"));
}

/// What is missing for any of this, which is said.
fn left_out(needs_root: bool) -> bool {
    let (need, reason) = if cpus() < 2 {
        (Need::Cpu, "one CPU cannot be shared in more than one way")
    } else if needs_root && !is_root() {
        (Need::Root, "CPU groups need root")
    } else {
        return false;
    };
    skip(need, reason);
    true
}

fn verify(wrong: &[String]) {
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_policy_of_plain_processes_is_named() {
    let _alone = alone();
    if left_out(false) {
        return;
    }
    let mut wrong = Vec::new();
    expect(&native("plain"), SharingPolicy::EqualPerThread, None, &mut wrong);
    verify(&wrong);
}

#[test]
fn the_policy_of_processes_in_groups_is_named() {
    let _alone = alone();
    if left_out(true) {
        return;
    }
    let mut wrong = Vec::new();
    let equal = PlatformSpec { cpu_weight: Some(100), ..native("equal") };
    expect(&equal, SharingPolicy::EqualPerInstance, None, &mut wrong);
    let weighted = PlatformSpec { cpu_weight: Some(300), other_cpu_weight: Some(100), ..native("weighted") };
    expect(&weighted, SharingPolicy::Weighted, Some(&(2.0..4.5)), &mut wrong);
    let capped = PlatformSpec { cpu_cap_percent: Some(60), ..native("capped") };
    expect(&capped, SharingPolicy::Capped, Some(&(0.5..0.72)), &mut wrong);
    verify(&wrong);
}

fn machine(label: &str) -> PlatformSpec {
    PlatformSpec { label: label.to_owned(), ..PlatformSpec::of_kind(PlatformKind::Vm) }
}

/// Whether there are no virtual machines here, which is said.
fn without_machines() -> bool {
    let run = tempfile::tempdir().expect("a folder");
    let unavailable = platform(&machine("plain"), run.path()).survey(&Cancel::new()).unavailable;
    if let Some(reason) = &unavailable {
        skip(Need::Vm, reason);
    }
    unavailable.is_some()
}

/// Looks at one kind of machines.
fn expect_of_machines(spec: &PlatformSpec, wanted: SharingPolicy, value: Option<&std::ops::Range<f64>>) {
    let _alone = alone();
    if left_out(true) || without_machines() {
        return;
    }
    let mut wrong = Vec::new();
    expect(spec, wanted, value, &mut wrong);
    verify(&wrong);
}

/// Needs many rounds and a quiet machine, so only where every run is to be right.
fn is_strict() -> bool {
    let is_strict = strict_runs().is_some();
    if !is_strict {
        skip(Need::Long, "BULKHEAD_POLICY_RUNS is not set");
    }
    is_strict
}

/// The host shares equally among its threads, and those of a machine are its virtual CPUs, not the threads inside: so a
/// machine gets in proportion to the CPUs it needs.
#[test]
fn the_policy_of_plain_machines_is_named() {
    expect_of_machines(&machine("plain"), SharingPolicy::ProportionalToNeed, None);
}

#[test]
fn the_policy_of_capped_machines_is_named() {
    let capped = PlatformSpec { cpu_cap_percent: Some(60), ..machine("capped") };
    expect_of_machines(&capped, SharingPolicy::Capped, Some(&(0.5..0.72)));
}

#[test]
fn the_policy_of_machines_of_equal_weight_is_named() {
    let equal = PlatformSpec { cpu_weight: Some(100), ..machine("equal") };
    if is_strict() {
        expect_of_machines(&equal, SharingPolicy::EqualPerInstance, None);
    }
}

/// The weight is what the kernel gives in effect: of 3 : 1 it gives translated machines 1.4 and more, because it leaves both
/// threads of the heavier one on the same CPU again and again.
#[test]
fn the_policy_of_machines_of_other_weights_is_named() {
    let weighted = PlatformSpec { cpu_weight: Some(300), other_cpu_weight: Some(100), ..machine("weighted") };
    if is_strict() {
        expect_of_machines(&weighted, SharingPolicy::Weighted, Some(&(1.3..6.0)));
    }
}
