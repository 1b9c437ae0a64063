//! What every platform must do, in the order a campaign does it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bulkhead::analysis::outside::began_on_host;
use bulkhead::cli::cache_folder;
use bulkhead::model::experiment::PlatformSpec;
use bulkhead::platforms::instance::monotonic_now;
use bulkhead::platforms::ledger::Ledger;
use bulkhead::platforms::{Broken, Cancel, Instance, InstanceSpec, Platform, PlatformContext, make};
use bulkhead::probes::ProbeKind;
use bulkhead::probes::job::{Job, LoadSpec, Part};
use bulkhead::probes::params::{DiskParams, GapParams, PagesParams, ProbeSpec};
use bulkhead::units::names::{LoadKind, PlatformKind};
use bulkhead::units::{Bytes, Mebibytes, Millis, Nanos};
use skips::{Need, skip};

use crate::leftovers;

/// Names another copy of the program, for a test that runs as another user.
pub const BINARY: &str = "BULKHEAD_TEST_BINARY";

/// The program whose agent is run.
pub fn binary() -> PathBuf {
    std::env::var_os(BINARY).map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_bulkhead")), PathBuf::from)
}

/// Runs the whole body against the platform that `spec` describes.
pub fn conforms(spec: &PlatformSpec) {
    let run = tempfile::Builder::new().prefix("bulkhead-run-").tempdir().expect("a run directory");
    let context = PlatformContext {
        counter_hz: None,
        exe: binary(),
        ledger: Ledger::open(run.path()).expect("a ledger"),
        cache: cache_folder(),
        seed: 7,
        may_destroy: false,
    };
    let mut platform = make(spec, &context);
    let state = platform.survey(&Cancel::new());
    assert_eq!((state.label.as_str(), state.kind), (spec.label.as_str(), spec.kind));
    if let Some(reason) = state.unavailable {
        let need = Need::named(spec.kind.as_str()).expect("what can be missing");
        let need = match spec.label.as_str() {
            "container-runc" => Need::Runc,
            "vm-kvm" => Need::Kvm,
            _ => need,
        };
        return skip(need, reason);
    }
    assert!(!state.properties.is_empty());
    leftovers::assert_none(run.path(), "after the survey");

    measures(spec, platform.as_mut(), run.path());
    leftovers::assert_none(run.path(), "after measuring");
    two_at_once(spec, platform.as_mut(), run.path());
    leftovers::assert_none(run.path(), "after two instances");
    starts_together(spec, platform.as_mut(), run.path());
    leftovers::assert_none(run.path(), "after a common start");
    is_interrupted(platform.as_mut(), run.path());
    leftovers::assert_none(run.path(), "after an interruption");
    is_dropped(platform.as_mut(), run.path());
    leftovers::assert_none(run.path(), "after dropping an instance");
}

fn measures(spec: &PlatformSpec, platform: &mut dyn Platform, run: &Path) {
    let cancel = Cancel::new();
    let mut instance = start(platform, 0, run);
    assert!(!instance.facts().architecture.is_empty());
    assert!(instance.start_time().get() > 0);
    if let Some(cpus) = spec.cpus {
        assert_eq!(instance.facts().cpus, cpus, "held to the CPUs of its settings");
    }

    // Two in a row, with a neighbour in the same instance.
    for id in 1..=2 {
        let job = Job { loads: vec![load(LoadKind::Idle)], ..gap(id, 20) };
        instance.begin(&job, &cancel).expect("it begins");
        let reply = instance.finish(&cancel).expect("it replies");
        let report = reply.report.expect("a probe was asked for").expect("a gap can be measured");
        assert_eq!(report.detail.kind(), ProbeKind::Gap);
        assert_eq!(reply.doses.len(), 1);
    }

    // A neighbour for another instance: runs until it is told to stop.
    let loads = vec![load(LoadKind::Cpu), load(LoadKind::Memory)];
    let neighbour = Job {
        id: 3,
        probe: None,
        loads,
        seed: 1,
        deadline_ms: Millis::from_millis(60_000),
        ..Job::default()
    };
    instance.begin(&neighbour, &cancel).expect("the loads come up");
    let reply = instance.finish(&cancel).expect("it stops");
    assert_eq!(reply.report, None);
    let kinds: Vec<LoadKind> = reply.doses.iter().map(|dose| dose.kind).collect();
    assert_eq!(kinds, [LoadKind::Cpu, LoadKind::Memory]);

    // It comes back from a pause, whether asked to or simply given work.
    instance.pause().expect("it pauses");
    instance.pause().expect("twice");
    instance.resume().expect("it resumes");
    instance.pause().expect("it pauses again");
    let reply = measure(instance.as_mut(), &gap(4, 10)).expect("it replies");
    assert!(matches!(reply.report, Some(Ok(_))));

    // A probe that cannot be done is an answer, not a breakdown.
    let refused = measure(instance.as_mut(), &impossible(5)).expect("it replies");
    let reason = refused.report.expect("a probe was asked for").expect_err("no disk has a tebibyte to spare");
    assert!(!reason.to_string().is_empty());
    let reply = measure(instance.as_mut(), &gap(6, 10)).expect("it goes on");
    assert!(matches!(reply.report, Some(Ok(_))));

    instance.end();
    instance.end();
    assert!(matches!(instance.begin(&gap(7, 10), &cancel), Err(Broken::Failed(_))), "it has ended");
}

fn two_at_once(spec: &PlatformSpec, platform: &mut dyn Platform, run: &Path) {
    let cancel = Cancel::new();
    let mut measured = start(platform, 0, run);
    let mut neighbour = start(platform, 1, run);
    let loads = vec![load(LoadKind::Cpu)];
    let job = Job {
        id: 1,
        probe: None,
        loads,
        seed: 1,
        deadline_ms: Millis::from_millis(60_000),
        ..Job::default()
    };
    shows_its_memory(spec, measured.as_mut());
    neighbour.begin(&job, &cancel).expect("the load comes up");
    let reply = measure(measured.as_mut(), &gap(2, 20)).expect("it replies");
    assert!(matches!(reply.report, Some(Ok(_))));
    assert_eq!(neighbour.finish(&cancel).expect("it stops").doses.len(), 1);
    measured.end();
    neighbour.end();
}

/// Pages that a fresh guest touches appear on the host's nodes; who sees these nodes itself is not asked.
fn shows_its_memory(spec: &PlatformSpec, instance: &mut dyn Instance) {
    let present = |instance: &mut dyn Instance| {
        let all = instance.memory_by_node().filter(|_| Path::new("/proc/self/numa_maps").exists())?;
        Some(all.expect("the host's kernel says it").iter().map(|(_, bytes)| bytes.get()).sum::<u64>())
    };
    let before = present(instance);
    let size_mib = Mebibytes::from_mib(64);
    let size = size_mib.to_bytes().get();
    let params = PagesParams { size_mib, warm_passes: 1 };
    let job = Job { probe: Some(ProbeSpec::Pages(params)), ..gap(1, 20) };
    let reply = measure(instance, &job).expect("it replies");
    assert!(matches!(reply.report, Some(Ok(_))), "{:?}", reply.report);
    match (before, present(instance)) {
        (Some(before), Some(after)) => {
            assert_eq!(spec.kind, PlatformKind::Vm);
            assert!(before > 8 << 20, "a kernel runs in it: {before}");
            assert!(after > before + size / 2, "{before} before, {after} after {size} were touched");
        }
        other => {
            let asked = spec.kind == PlatformKind::Vm && Path::new("/proc/self/numa_maps").exists();
            assert!(!asked && other == (None, None), "{other:?}");
        }
    }
}

/// Two instances begin at one moment of the host's clock, and say when they began on it.
fn starts_together(spec: &PlatformSpec, platform: &mut dyn Platform, run: &Path) {
    let cancel = Cancel::new();
    let mut members = [start(platform, 2, run), start(platform, 3, run)];
    for (rank, member) in (0..).zip(&mut members) {
        let part = Some(Part { rank, ranks: 2, peers: Vec::new() });
        member.begin(&Job { part, ..gap(1, 20) }, &cancel).expect("it gets ready");
    }
    let at = monotonic_now().saturating_add(Nanos::from_nanos(300_000_000));
    for member in &mut members {
        member.start_at(at).expect("it is told");
    }
    for member in &mut members {
        let reply = member.finish(&cancel).expect("it replies");
        let report = reply.report.expect("a probe was asked for").expect("a gap can be measured");
        let outside = report.outside.expect("the host's clock answers");
        let (began, error) = began_on_host(&outside).expect("it knows when it began");
        // Fakes make up their times, and nothing of them runs.
        if spec.kind != PlatformKind::Fake {
            assert!(
                began + error >= at.as_f64(),
                "nobody begins early: {began} ± {error}, wanted {at:?}: {outside:?}, {:?}",
                report.notes
            );
            let carriers = member.processes();
            assert_eq!(
                carriers.is_empty(),
                spec.kind == PlatformKind::Ssh,
                "the host looks at what runs on it"
            );
            assert!(carriers.iter().all(|id| Path::new(&format!("/proc/{id}")).exists()), "{carriers:?}");
        }
        member.end();
        assert_eq!(member.processes(), Vec::<u32>::new(), "nothing is left to look at");
    }
}

fn is_interrupted(platform: &mut dyn Platform, run: &Path) {
    let mut instance = start(platform, 0, run);
    let cancel = Cancel::new();
    instance.begin(&gap(1, 600_000), &cancel).expect("it begins");
    let canceller = cancel.clone();
    let asked = Instant::now();
    let outcome = std::thread::scope(|scope| {
        scope.spawn(move || canceller.cancel());
        instance.finish(&cancel)
    });
    assert_eq!(outcome.err(), Some(Broken::Interrupted));
    assert!(asked.elapsed() < Duration::from_secs(30), "promptly, not at the end of the job");
    instance.end();
    let outcome = platform.start(&instance_spec(0, run), &cancel);
    assert_eq!(outcome.err(), Some(Broken::Interrupted), "nothing is started after an interruption");
}

fn is_dropped(platform: &mut dyn Platform, run: &Path) {
    let mut instance = start(platform, 0, run);
    instance.begin(&gap(1, 600_000), &Cancel::new()).expect("it begins");
    drop(instance);
}

fn start(platform: &mut dyn Platform, number: u32, run: &Path) -> Box<dyn Instance> {
    platform
        .start(&instance_spec(number, run), &Cancel::new())
        .unwrap_or_else(|broken| panic!("instance {number} does not start: {broken:?}"))
}

fn instance_spec(number: u32, run: &Path) -> InstanceSpec {
    let scratch = run.join(format!("scratch-{number}"));
    std::fs::create_dir_all(&scratch).expect("a scratch folder");
    InstanceSpec {
        number,
        memory_wanted: Bytes::from_bytes(64 << 20),
        disk_wanted: Bytes::from_bytes(16 << 20),
        scratch,
        ..InstanceSpec::default()
    }
}

fn measure(instance: &mut dyn Instance, job: &Job) -> Result<bulkhead::probes::job::JobReply, Broken> {
    instance.begin(job, &Cancel::new())?;
    instance.finish(&Cancel::new())
}

fn gap(id: u64, millis: u64) -> Job {
    let params = GapParams { duration_ms: Millis::from_millis(millis), ..GapParams::default() };
    Job {
        id,
        probe: Some(ProbeSpec::Gap(params)),
        loads: vec![],
        seed: id,
        deadline_ms: Millis::from_millis(millis + 60_000),
        ..Job::default()
    }
}

fn impossible(id: u64) -> Job {
    let params = DiskParams { file_size_mib: Mebibytes::from_mib(1 << 20), ..DiskParams::default() };
    Job { probe: Some(ProbeSpec::Disk(params)), ..gap(id, 10) }
}

const fn load(kind: LoadKind) -> LoadSpec {
    LoadSpec { kind, threads: Some(1) }
}

#[test]
fn an_unavailable_platform_says_what_to_do() {
    let run = tempfile::tempdir().expect("a run directory");
    let context = PlatformContext {
        counter_hz: None,
        exe: binary(),
        ledger: Ledger::open(run.path()).expect("a ledger"),
        cache: run.path().join("cache"),
        seed: 7,
        may_destroy: false,
    };
    let runtime = Some("no-such-runtime".to_owned());
    let spec = PlatformSpec { runtime, ..PlatformSpec::of_kind(PlatformKind::Container) };
    let mut platform = make(&spec, &context);
    let reason = platform.survey(&Cancel::new()).unavailable.expect("it is not there");
    assert!(reason.contains("install"), "{reason}");
    assert!(platform.start(&instance_spec(0, run.path()), &Cancel::new()).is_err());
}
