//! Every load on every real platform, in the measured instance and in a second one: it has an effect, says how it was
//! done, and ends when it is told to. The second one has a network where there can be one, and what floods leaves it there.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bulkhead::cli::cache_folder;
use bulkhead::model::experiment::PlatformSpec;
use bulkhead::platforms::lab::{Lab, Port};
use bulkhead::platforms::ledger::Ledger;
use bulkhead::platforms::{Cancel, Instance, InstanceSpec, Platform, PlatformContext, make};
use bulkhead::probes::clock::Anchor;
use bulkhead::probes::job::{Dose, Job, JobReply, Line, LoadSpec};
use bulkhead::probes::params::{GapParams, ProbeSpec};
use bulkhead::units::names::{LoadKind, PlatformKind};
use bulkhead::units::{Bytes, Millis};
use skips::{Need, skip};

/// A load that is told to stop must have stopped then: far beyond any round, far below any deadline.
const PROMPTLY: Duration = Duration::from_secs(20);

#[test]
fn loads_have_an_effect_natively() {
    every_load_on(PlatformKind::Native);
}

#[test]
fn loads_have_an_effect_in_containers() {
    every_load_on(PlatformKind::Container);
}

#[test]
fn loads_have_an_effect_in_virtual_machines() {
    every_load_on(PlatformKind::Vm);
}

/// A platform that can be had here. Asked before anything is done with it: what breaks after that is broken.
fn available(kind: PlatformKind, run: &Path) -> Option<Box<dyn Platform>> {
    let context = PlatformContext {
        counter_hz: Anchor::take().and_then(|anchor| anchor.rate_since()).ok(),
        exe: PathBuf::from(env!("CARGO_BIN_EXE_bulkhead")),
        ledger: Ledger::open(run).expect("a ledger"),
        cache: cache_folder(),
        seed: 7,
        may_destroy: false,
    };
    let mut platform = make(&PlatformSpec::of_kind(kind), &context);
    if let Some(reason) = platform.survey(&Cancel::new()).unavailable {
        skip(Need::named(kind.as_str()).expect("what can be missing"), reason);
        return None;
    }
    Some(platform)
}

fn every_load_on(kind: PlatformKind) {
    let run = tempfile::Builder::new().prefix("bulkhead-run-").tempdir().expect("a run directory");
    let Some(mut platform) = available(kind, run.path()) else { return };
    let mut lab = (kind != PlatformKind::Native && nix::unistd::geteuid().is_root())
        .then(|| Lab::build(1).expect("a network"));
    let port = lab.as_mut().map(|lab| lab.port(0, false).expect("a place in it"));
    let line = port.as_ref().map(|port| Line {
        sink: port.sink.expect("its host takes floods"),
        way: "the line".to_owned(),
        has_card: kind == PlatformKind::Vm,
    });
    let mut measured = start(platform.as_mut(), 0, run.path(), None);
    let mut second = start(platform.as_mut(), 1, run.path(), port);
    for (id, load) in (1..).zip(LoadKind::ALL) {
        same(measured.as_mut(), id, *load);
        beside(measured.as_mut(), second.as_mut(), id + 100, *load, line.as_ref());
    }
    measured.end();
    second.end();
}

fn start(platform: &mut dyn Platform, number: u32, run: &Path, port: Option<Port>) -> Box<dyn Instance> {
    let scratch = run.join(format!("scratch-{number}"));
    std::fs::create_dir_all(&scratch).expect("a scratch folder");
    let spec = InstanceSpec {
        number,
        memory_wanted: Bytes::from_bytes(512 << 20),
        disk_wanted: Bytes::from_bytes(320 << 20),
        scratch,
        port,
        ..InstanceSpec::default()
    };
    platform.start(&spec, &Cancel::new()).unwrap_or_else(|broken| panic!("no instance {number}: {broken:?}"))
}

/// The load in the measured instance.
fn same(instance: &mut dyn Instance, id: u64, load: LoadKind) {
    let cancel = Cancel::new();
    instance.begin(&Job { loads: loads(load), ..gap(id, load) }, &cancel).expect("it begins");
    let reply = instance.finish(&cancel).expect("it replies");
    check(load, &reply, None);
}

/// The load in a second instance, while the first one measures.
fn beside(
    measured: &mut dyn Instance,
    second: &mut dyn Instance,
    id: u64,
    load: LoadKind,
    line: Option<&Line>,
) {
    let cancel = Cancel::new();
    let job = Job { probe: None, loads: loads(load), line: line.cloned(), ..gap(id, load) };
    second.begin(&job, &cancel).unwrap_or_else(|broken| panic!("{load}: {broken:?}"));
    measured.begin(&gap(id, load), &cancel).expect("it begins");
    assert!(matches!(measured.finish(&cancel).expect("it replies").report, Some(Ok(_))));
    let asked = Instant::now();
    let reply = second.finish(&cancel).unwrap_or_else(|broken| panic!("{load}: {broken:?}"));
    assert!(asked.elapsed() < PROMPTLY, "{load} took {:?} to stop", asked.elapsed());
    assert_eq!(reply.report, None, "{load}");
    check(load, &reply, line);
}

fn check(load: LoadKind, reply: &JobReply, line: Option<&Line>) {
    assert!(!matches!(reply.report, Some(Err(_))), "{load}: {:?}", reply.report.as_ref().map(Result::is_err));
    let [dose] = reply.doses.as_slice() else { panic!("{load}: {} doses", reply.doses.len()) };
    assert_eq!((dose.kind, dose.unit.as_str()), (load, load.unit()));
    if load == LoadKind::Idle {
        assert_eq!((dose.threads, dose.rate_per_s.to_bits()), (0, 0));
        return;
    }
    assert!(dose.rate_per_s > 0.0, "the {load} load did nothing");
    assert!(dose.cpu_time_ns.get() > 0 && dose.elapsed_ns.get() > 0, "{dose:?}");
    let way = dose.way.as_deref().unwrap_or_default();
    let wanted = match (load.sends_packets(), line) {
        (false, _) => "",
        (true, None) => "loopback",
        (true, Some(_)) => "the line (eth0)",
    };
    assert!(dose.way.is_some() == load.sends_packets() && way.contains(wanted), "{dose:?}");
    check_parts(dose);
    check_interrupts(dose, line.is_some_and(|line| line.has_card));
    show(dose);
}

/// Both kinds are measured and told apart: without a card there are soft ones only.
fn check_interrupts(dose: &Dose, has_card: bool) {
    let sends = dose.kind.sends_packets();
    assert_eq!(dose.interrupts_per_s.is_some(), sends && has_card, "{dose:?}");
    assert_eq!(dose.soft_interrupts_per_s.is_some(), sends, "{dose:?}");
    if dose.kind == LoadKind::Interrupt {
        assert!(dose.interrupts_per_s.is_none_or(|rate| rate > 0.0), "{dose:?}");
        assert!(dose.soft_interrupts_per_s.is_some_and(|rate| rate > 0.0), "{dose:?}");
    }
}

#[expect(clippy::print_stdout, reason = "the doses are worth a look")]
fn show(dose: &Dose) {
    let way = dose.way.as_deref().unwrap_or_default();
    let per_second = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}"));
    let (hard, soft) = (per_second(dose.interrupts_per_s), per_second(dose.soft_interrupts_per_s));
    println!("{:<10} {:>16.0} {}/s {way} {hard} {soft}", dose.kind, dose.rate_per_s, dose.unit);
}

fn check_parts(dose: &Dose) {
    let parts: Vec<(LoadKind, &str)> =
        dose.parts.iter().map(|part| (part.kind, part.unit.as_str())).collect();
    assert_eq!(parts, dose.kind.parts());
    for part in &dose.parts {
        assert!(part.rate_per_s > 0.0, "the {} part of the {} load did nothing", part.kind, dose.kind);
    }
}

/// Long enough that each part of a mixed load works, in a translated guest on a busy host as well.
fn gap(id: u64, beside: LoadKind) -> Job {
    let duration_ms = Millis::from_millis(if beside == LoadKind::Mixed { 2000 } else { 300 });
    let params = GapParams { duration_ms, ..GapParams::default() };
    Job {
        id,
        probe: Some(ProbeSpec::Gap(params)),
        seed: id,
        deadline_ms: Millis::from_millis(120_000),
        ..Job::default()
    }
}

fn loads(kind: LoadKind) -> Vec<LoadSpec> {
    vec![LoadSpec { kind, threads: Some(if kind == LoadKind::Mixed { 4 } else { 2 }) }]
}

const EXPERIMENT: &str = r#"
name = "flood"
seed = 3

[repeat]
min = 2
max = 2
budget_s = 60

[[platform]]
label = "box"
kind = "container"

[probe.gap]
duration_ms = 100

[[load]]
kind = "network"
place = "second"

[[load]]
kind = "interrupt"
place = "same"
"#;

#[test]
fn in_a_run_floods_leave_the_instance_and_the_results_say_on_which_way() {
    if !nix::unistd::geteuid().is_root() {
        skip(Need::Root, "a network between instances needs root");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    if available(PlatformKind::Container, folder.path()).is_none() {
        return;
    }
    let file = folder.path().join("flood.toml");
    std::fs::write(&file, EXPERIMENT).expect("written");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_bulkhead"))
        .args(["measure", "--json", "--out", "run", "--experiment"])
        .arg(&file)
        .current_dir(folder.path())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {said}", output.status);
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).expect(&said);
    let ways: Vec<&str> = results["cells"]
        .as_array()
        .expect("a list")
        .iter()
        .flat_map(|cell| cell["doses"].as_array().into_iter().flatten())
        .map(|dose| dose["dose"]["way"].as_str().expect("it says how"))
        .collect();
    let [network, interrupt] = ways.as_slice() else { panic!("{ways:?}: {said}") };
    assert_eq!(*network, "veth to the host (eth0)");
    assert!(
        interrupt.starts_with("ICMP echo") && interrupt.contains("veth to the host (eth0)"),
        "{interrupt}"
    );
    let page = std::fs::read_to_string(folder.path().join("run/report.html")).expect("a report");
    assert!(page.contains("veth to the host (eth0)"), "the table of doses has it");
}
