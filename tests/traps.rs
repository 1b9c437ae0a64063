//! The probes exit, lock and pages on this machine: fields consistent with each other, an end when told to, and a page
//! that shows them. No figure is compared with the clock, only with other figures of the same report.

use crate::doubles;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bulkhead::campaign::analysis::analyse;
use bulkhead::campaign::journal::Contents;
use bulkhead::model::journal::{Cell, Measurement, Outcome};
use bulkhead::platforms::fake::Fake;
use bulkhead::platforms::{Cancel, Platform as _};
use bulkhead::probes::check::check_report;
use bulkhead::probes::detail::Detail;
use bulkhead::probes::job::{Job, ProbeReport};
use bulkhead::probes::metrics_of;
use bulkhead::probes::params::{ExitParams, LockParams, PagesParams, ProbeSpec};
use bulkhead::probes::run::{Surroundings, run_job};
use bulkhead::report::page;
use bulkhead::units::{Mebibytes, Millis, Nanos};

fn job(probe: ProbeSpec, fresh: bool) -> Job {
    Job {
        id: 1,
        probe: Some(probe),
        seed: 3,
        deadline_ms: Millis::from_millis(120_000),
        fresh,
        ..Job::default()
    }
}

fn answer(job: &Job, stop: &AtomicBool) -> Result<ProbeReport, String> {
    let surroundings = Surroundings { scratch: None, exe: PathBuf::from("/bin/true") };
    run_job(job, &surroundings, stop, &mut || {}).report.unwrap().map_err(String::from)
}

fn report(probe: ProbeSpec, fresh: bool) -> ProbeReport {
    let report = answer(&job(probe, fresh), &AtomicBool::new(false)).unwrap();
    assert_eq!(check_report(&report), Ok(()));
    assert!(report.cost.per_sample_ns > 0.0 && report.cost.cpu_time_ns.get() > 0, "{:?}", report.cost);
    let metrics = metrics_of(&report.detail, &report.clock);
    assert!(metrics[0].headline && metrics[0].figure.value().is_some(), "{:?}", metrics[0]);
    report
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_trap_takes_longer_than_nothing_and_the_hypervisor_is_named() {
    let report = report(ProbeSpec::Exit(ExitParams { duration_ms: Millis::from_millis(60) }), false);
    let Detail::Exit(exit) = &report.detail else { panic!("not an exit detail") };
    assert_eq!(exit.trap_ticks.count(), exit.empty_ticks.count());
    assert!(exit.trap_ticks.sum() > exit.empty_ticks.sum(), "cpuid is slower than nothing everywhere");
    let flagged = std::fs::read_to_string("/proc/cpuinfo").unwrap().contains(" hypervisor");
    assert_eq!(exit.hypervisor.is_some(), flagged);
    assert!(report.notes.iter().any(|note| note.contains("hypervisor")), "{:?}", report.notes);
}

#[test]
fn every_turn_of_a_lock_is_waited_for_once() {
    let params =
        LockParams { duration_ms: Millis::from_millis(40), threads: Some(3), ..LockParams::default() };
    let Detail::Lock(lock) = report(ProbeSpec::Lock(params), false).detail else {
        panic!("not a lock detail")
    };
    assert_eq!((lock.threads, lock.points.len()), (3, 2));
    for point in &lock.points {
        assert!(point.elapsed_ns.get() >= 40_000_000, "{}", point.elapsed_ns);
        assert!(point.turns.iter().all(|turns| *turns > 0), "{:?}", point.turns);
        let waited: u64 = point.wait_ticks.iter().sum();
        let waited_ns = u128::from(waited) * 1_000_000_000 / u128::from(lock.counter_hz.get());
        let most = u128::from(point.thread_time_ns.get()) * 101 / 100;
        assert!(waited_ns <= most, "waited {waited_ns} of {}", point.thread_time_ns);
    }
}

#[test]
fn more_threads_than_cpus_end_by_the_deadline_and_by_the_stop() {
    let long = Millis::from_millis(600_000);
    let params =
        LockParams { duration_ms: long, threads: Some(12), held_iterations: 5000, free_iterations: 0 };
    let short = Job { deadline_ms: Millis::from_millis(300), ..job(ProbeSpec::Lock(params.clone()), false) };
    let began = Instant::now();
    let reason = answer(&short, &AtomicBool::new(false)).unwrap_err();
    assert!(reason.contains("deadline of 300 ms"), "{reason}");

    let stop = AtomicBool::new(false);
    let reason = thread::scope(|scope| {
        let running = scope.spawn(|| answer(&job(ProbeSpec::Lock(params.clone()), false), &stop));
        thread::sleep(Duration::from_millis(100));
        stop.store(true, Ordering::Relaxed);
        running.join().unwrap()
    });
    assert_eq!(reason.unwrap_err(), "stopped");
    assert!(began.elapsed() < Duration::from_secs(60), "generous, but an end");
}

#[test]
fn every_page_is_touched_once_per_pass_and_counted_as_a_fault() {
    let params = PagesParams { size_mib: Mebibytes::from_mib(8), warm_passes: 2 };
    let report = report(ProbeSpec::Pages(params), true);
    let Detail::Pages(pages) = &report.detail else { panic!("not a pages detail") };
    let wanted = pages.size_bytes.get() / pages.page_bytes.get();
    assert!(pages.fresh && pages.passes.len() == 3);
    for pass in &pages.passes {
        assert_eq!(pass.touch_ns.count(), wanted);
        assert!(
            pass.minor_faults >= wanted,
            "{} faults of {wanted} pages: were they huge?",
            pass.minor_faults
        );
        assert!(pass.touch_ns.sum() <= u128::from(pass.elapsed_ns.get()) * 101 / 100);
        assert!(pass.nodes.is_empty() || pass.nodes.iter().map(|node| node.1).sum::<u64>() == wanted);
    }
    let ends = |index: usize| pages.passes[index].start_ns.saturating_add(pages.passes[index].elapsed_ns);
    assert!(
        ends(0) <= pages.passes[1].start_ns && ends(1) <= pages.passes[2].start_ns,
        "one after the other"
    );
    let end = ends(2);
    assert!(report.accounts.unwrap().elapsed_ns >= end, "the passes lie inside of what was watched");
}

/// The results of one round on two platforms: as measured here on `a`, forged on `b`.
fn page_of(reports: &[(ProbeReport, ProbeReport)]) -> String {
    let experiment = doubles::experiment((1, 1), "[probe.exit]\n[probe.lock]\n[probe.pages]\n");
    let fakes = experiment.platforms.iter().map(|spec| Fake::new(spec, 1).survey(&Cancel::new()));
    let mut contents = Contents {
        headers: vec![doubles::header()],
        platforms: Some(fakes.collect()),
        ..Contents::default()
    };
    for (a, b) in reports {
        for (platform, report) in [("a", a), ("b", b)] {
            let probe = report.detail.kind();
            contents.measurements.push(Measurement {
                cell: Cell { probe, neighbour: None, platform: platform.to_owned(), layout: None },
                round: 0,
                started_unix_ns: Nanos::ZERO,
                duration_ns: Nanos::from_nanos(1_000_000),
                doses: vec![],
                outcome: Outcome::Done(Box::new(report.clone())),
                others: Vec::new(),
                start_skew_ns: None,
                host: None,
                instances: Vec::new(),
            });
        }
    }
    page::html(&analyse(&experiment, &contents).unwrap())
}

fn measured() -> Vec<ProbeReport> {
    let lock = LockParams { duration_ms: Millis::from_millis(20), ..LockParams::default() };
    let pages = PagesParams { size_mib: Mebibytes::from_mib(2), warm_passes: 1 };
    let mut probes = vec![ProbeSpec::Lock(lock), ProbeSpec::Pages(pages)];
    if cfg!(target_arch = "x86_64") {
        probes.push(ProbeSpec::Exit(ExitParams { duration_ms: Millis::from_millis(20) }));
    }
    probes.into_iter().map(|probe| report(probe, true)).collect()
}

#[test]
fn the_page_draws_what_was_measured_and_survives_what_was_forged() {
    let reports: Vec<(ProbeReport, ProbeReport)> =
        measured().into_iter().map(|report| (report.clone(), forged(report))).collect();
    let html = page_of(&reports);
    for wanted in [
        "Waiting for locks",
        "Ticket lock: how many waits of which length",
        "Test-and-set lock: how much time went into waits of which length",
        "First touch of each page, first pass",
        "first, cold",
    ] {
        assert!(html.contains(wanted), "{wanted}");
    }
    assert!(html.matches("<svg viewBox=\"0 0 1520").count() >= 6, "four pictures of locks, two of pages");
    assert!(!html.contains("<script>alert"), "texts of guests are escaped");
    assert!(!html.contains("NaN") && !html.contains(">inf"), "figures without sense are not shown");
}

/// What a hostile guest could send if nobody had checked it.
fn forged(mut report: ProbeReport) -> ProbeReport {
    let broken: bulkhead::units::histogram::Histogram = serde_json::from_str("[[7000,1,5],[3,0,0]]").unwrap();
    match &mut report.detail {
        Detail::Exit(exit) => {
            exit.counter_hz = bulkhead::units::Hertz::from_hz(0);
            exit.hypervisor = Some("<script>alert(1)</script>".to_owned());
        }
        Detail::Lock(lock) => {
            lock.counter_hz = bulkhead::units::Hertz::from_hz(0);
            lock.points.iter_mut().for_each(|point| {
                point.waits = vec![u64::MAX; 5000];
                point.turns.clear();
            });
        }
        Detail::Pages(pages) => pages.passes.iter_mut().for_each(|pass| pass.touch_ns = broken.clone()),
        _ => {}
    }
    report
}
