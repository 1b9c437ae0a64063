//! The runner: what breaks is recorded and the campaign goes on; instances are kept, parked, replaced, never leaked.

use crate::doubles;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use bulkhead::campaign::{CampaignError, Event, RunDir, Stop, conclude, run};
use bulkhead::model::classes::ClassSet;
use bulkhead::model::experiment::Experiment;
use bulkhead::model::journal::{FailureKind, Outcome};
use bulkhead::model::results::VerdictLevel;
use bulkhead::platforms::Broken;
use bulkhead::probes::ProbeKind;
use bulkhead::probes::params::{FwqParams, ProbeSpec};
use bulkhead::report::terminal::Style;
use bulkhead::units::names::LoadPlace;
use doubles::{Ask, Double, broken, contents, experiment, names_in, obedient, reply, report, set_of, setup};

const PROBES: &str = "[probe.fwq]\n[probe.gap]";

/// Runs two rounds of two probes on `a` (obedient) and `b` (scripted); returns what `b` recorded as failures.
fn failures_of_b(
    b: Double,
    rest: &str,
) -> (Vec<(u32, ProbeKind, FailureKind, String)>, bulkhead::model::results::RunResults) {
    let dir = tempfile::tempdir().unwrap();
    let experiment = experiment((4, 4), rest);
    let rundir = RunDir::create(dir.path(), &experiment, 1).unwrap();
    let host = Some(Double::obedient("host"));
    let (end, events) = doubles::run(&rundir, setup(&experiment, vec![Double::obedient("a"), b], host));
    // All rounds are made either way: what always breaks is known, and nothing has more than four.
    assert!(matches!(end.stop, Stop::RoundsUsedUp | Stop::Settled), "{:?}", end.stop);
    let contents = contents(dir.path());
    assert_eq!(set_of(&contents).len(), experiment.cells().len() * 4, "every measurement is recorded");
    let failures: Vec<_> = contents
        .measurements
        .iter()
        .filter_map(|m| match &m.outcome {
            Outcome::Failed(failure) => {
                assert_eq!(m.cell.platform, "b", "{failure:?}");
                Some((m.round, m.cell.probe, failure.kind, failure.reason.clone()))
            }
            Outcome::Done(_) => None,
        })
        .collect();
    let told = events.iter().filter(|event| matches!(event, Event::MeasurementFailed { .. })).count();
    assert_eq!(told, failures.len());
    let results = conclude(&rundir, &ClassSet::default()).unwrap();
    assert_eq!(results.failures.len(), failures.len());
    assert!(!names_in(dir.path()).contains(&"scratch".to_owned()));
    (failures, results)
}

#[test]
fn each_kind_of_failure_is_recorded_and_the_campaign_goes_on() {
    for kind in [FailureKind::Died, FailureKind::Hung, FailureKind::Garbage] {
        for ask in [Ask::Begin, Ask::Finish, Ask::Resume] {
            let once = AtomicU32::new(0);
            let b = Double::scripted("b", move |moment| {
                let hit = moment.ask == ask && once.fetch_add(1, Ordering::SeqCst) == 2;
                hit.then(|| Err(broken(kind, "guest panicked")))
            });
            let (failures, results) = failures_of_b(b, PROBES);
            assert_eq!(failures.len(), 1, "{kind:?} at {ask:?}: {failures:?}");
            assert_eq!((failures[0].2, failures[0].3.as_str()), (kind, "guest panicked"));
            let verdict = &results.verdicts[0];
            assert_eq!(verdict.level, VerdictLevel::Heavy);
            assert!(verdict.sentence.contains("1 of 8 measurements broke"), "{}", verdict.sentence);
            assert_eq!(results.failures[0].failure.console, ["last words"]);
        }
    }
}

#[test]
fn an_instance_that_broke_is_replaced_and_one_that_did_not_is_kept() {
    let starts = Arc::new(AtomicU32::new(0));
    let seen = starts.clone();
    let b = Double::scripted("b", move |moment| {
        seen.fetch_max(moment.start, Ordering::SeqCst);
        let breaks = moment.ask == Ask::Finish && moment.start == 1;
        breaks.then(|| Err(broken(FailureKind::Died, "killed")))
    });
    let (failures, _) = failures_of_b(b, PROBES);
    assert_eq!(failures.len(), 1);
    assert_eq!(starts.load(Ordering::SeqCst), 2);
}

#[test]
fn an_instance_that_cannot_be_paused_is_replaced_and_its_measurement_kept() {
    let b = Double::scripted("b", |moment| {
        let breaks = moment.ask == Ask::Pause && moment.start == 1;
        breaks.then(|| Err(broken(FailureKind::Died, "killed while parking")))
    });
    assert_eq!(failures_of_b(b, PROBES).0, []);
}

#[test]
fn a_refusal_leaves_the_instance_alone() {
    let b = Double::scripted("b", |moment| {
        assert_eq!(moment.start, 1, "it is not started again");
        let job = moment.job?;
        let refuses = moment.ask == Ask::Finish && job.probe.as_ref()?.kind() == ProbeKind::Gap;
        refuses.then(|| {
            let mut reply = reply(job);
            reply.report = Some(Err("no cycle counter".into()));
            Ok(reply)
        })
    });
    let (failures, _) = failures_of_b(b, PROBES);
    assert_eq!(failures.len(), 4);
    assert!(failures.iter().all(|f| (f.1, f.2) == (ProbeKind::Gap, FailureKind::Refused)), "{failures:?}");
}

#[test]
fn replies_that_do_not_answer_the_job_are_garbage() {
    type Change = fn(&mut bulkhead::probes::job::JobReply);
    let changes: [(Change, &str); 4] = [
        (|reply| reply.report = None, "without a report"),
        (
            |reply| reply.report = Some(Ok(report(ProbeKind::Gap, 1))),
            "asked for probe fwq and answered with gap",
        ),
        (|reply| reply.doses.clear(), "asked for 1 loads and answered with 0 doses"),
        (
            |reply| reply.report.as_mut().unwrap().as_mut().unwrap().clock.read_ns = f64::NAN,
            "cannot be written down",
        ),
    ];
    for (change, reason) in changes {
        let b = Double::scripted("b", move |moment| {
            let job = moment.job.filter(|_| moment.ask == Ask::Finish && moment.start == 1)?;
            let mut reply = reply(job);
            change(&mut reply);
            (!job.loads.is_empty()).then_some(Ok(reply))
        });
        let rest = "[probe.fwq]\n[[load]]\nkind = \"cpu\"\nplace = \"same\"";
        let (failures, _) = failures_of_b(b, rest);
        assert!(!failures.is_empty(), "{reason}");
        assert!(failures.iter().all(|f| f.2 == FailureKind::Garbage && f.3.contains(reason)), "{failures:?}");
    }
}

#[test]
fn after_three_failed_starts_in_a_row_a_platform_is_not_tried_again() {
    let tries = Arc::new(AtomicU32::new(0));
    let counted = tries.clone();
    let b = Double::scripted("b", move |moment| {
        (moment.ask == Ask::Start).then(|| {
            counted.fetch_add(1, Ordering::SeqCst);
            Err(broken(FailureKind::Start, "no room"))
        })
    });
    let (failures, results) = failures_of_b(b, PROBES);
    assert_eq!(tries.load(Ordering::SeqCst), 3);
    assert_eq!(failures.len(), 8);
    assert!(failures[..3].iter().all(|f| f.3 == "no room"));
    let rest = "not tried: b could not be started 3 times in a row, the last time: no room";
    assert!(failures[3..].iter().all(|f| f.3 == rest), "{failures:?}");
    assert_eq!(results.verdicts[0].level, VerdictLevel::Heavy);
}

#[test]
fn two_failed_starts_and_a_good_one_count_from_zero_again() {
    let b = Double::scripted("b", |moment| match moment.ask {
        Ask::Start if moment.start % 3 != 0 => Some(Err(broken(FailureKind::Start, "not now"))),
        Ask::Finish => Some(Err(broken(FailureKind::Died, "gone"))),
        _ => None,
    });
    let (failures, _) = failures_of_b(b, PROBES);
    assert!(failures.iter().all(|f| !f.3.contains("not tried")), "{failures:?}");
}

const LOADS: &str = "[probe.fwq]\n[[load]]\nkind = \"cpu\"\nplace = \"same\"\n[[load]]\nkind = \"memory\"\n\
                     place = \"second\"\n[[load]]\nkind = \"idle\"\nplace = \"host\"";

#[test]
fn loads_run_where_they_belong_and_their_doses_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let experiment = experiment((2, 2), LOADS);
    let rundir = RunDir::create(dir.path(), &experiment, 1).unwrap();
    let (a, b, host) = (Double::obedient("a"), Double::obedient("b"), Double::obedient("host"));
    let logs = [a.log.clone(), b.log.clone(), host.log.clone()];
    doubles::run(&rundir, setup(&experiment, vec![a, b], Some(host)));
    for measurement in contents(dir.path()).measurements {
        let places: Vec<LoadPlace> = measurement.doses.iter().map(|dose| dose.place).collect();
        let wanted: Vec<LoadPlace> = measurement.cell.neighbour.iter().map(|n| n.place).collect();
        assert_eq!(places, wanted, "{:?}", measurement.cell);
        assert!(matches!(measurement.outcome, Outcome::Done(_)));
    }
    let count = |log: usize, line: &str| logs[log].lock().unwrap().iter().filter(|l| *l == line).count();
    // Four cells, two rounds; one instance each, started once.
    assert_eq!((count(0, "a.0 Start"), count(0, "a.0 Begin")), (1, 8));
    assert_eq!((count(0, "a.1 Start"), count(0, "a.1 Begin")), (1, 2));
    assert_eq!((count(1, "b.1 Start"), count(1, "b.1 Pause")), (1, 2));
    assert_eq!((count(2, "host.1 Start"), count(2, "host.1 Begin"), count(2, "host.1 Pause")), (1, 4, 4));
}

#[test]
fn a_neighbour_that_breaks_spoils_the_measurement_and_is_blamed() {
    for ask in [Ask::Start, Ask::Begin, Ask::Finish] {
        let b = Double::scripted("b", move |moment| {
            assert!(moment.instance == 1 || moment.ask != Ask::Start || moment.start == 1);
            let breaks = moment.instance == 1 && moment.ask == ask;
            breaks.then(|| Err(broken(FailureKind::Died, "load died")))
        });
        let rest = "[probe.fwq]\n[[load]]\nkind = \"cpu\"";
        let (failures, _) = failures_of_b(b, rest);
        assert_eq!(failures.len(), 4, "{ask:?}");
        assert!(
            failures
                .iter()
                .all(|f| f.2 == FailureKind::Neighbour && f.3.starts_with("the neighbour broke: ")),
            "{failures:?}"
        );
    }
}

#[test]
fn an_interrupted_measurement_is_not_recorded_and_made_after_the_resume() {
    let dir = tempfile::tempdir().unwrap();
    let experiment = experiment((3, 3), LOADS);
    let wanted = {
        let reference = tempfile::tempdir().unwrap();
        let rundir = RunDir::create(reference.path(), &experiment, 1).unwrap();
        doubles::run(&rundir, obedient(&experiment));
        contents(reference.path()).measurements
    };
    drop(RunDir::create(dir.path(), &experiment, 1).unwrap());
    let mut sessions = 0;
    loop {
        let rundir = RunDir::resume(dir.path()).unwrap();
        let asked = AtomicU32::new(0);
        let b = Double::scripted("b", move |moment| {
            let hit = moment.ask == Ask::Finish && asked.fetch_add(1, Ordering::SeqCst) == 2;
            hit.then_some(Err(Broken::Interrupted))
        });
        let host = Some(Double::obedient("host"));
        let (end, events) = doubles::run(&rundir, setup(&experiment, vec![Double::obedient("a"), b], host));
        assert!(matches!(events.last(), Some(Event::Finished { stop }) if *stop == end.stop));
        sessions += 1;
        let results = conclude(&rundir, &ClassSet::default()).unwrap();
        assert_eq!(results.complete, end.stop != Stop::Interrupted);
        if end.stop != Stop::Interrupted {
            break;
        }
    }
    assert!(sessions > 3);
    let made = contents(dir.path()).measurements;
    let key = |m: &bulkhead::model::journal::Measurement| (m.cell.clone(), m.round, m.outcome.clone());
    assert_eq!(made.iter().map(key).collect::<Vec<_>>(), wanted.iter().map(key).collect::<Vec<_>>());
}

#[test]
fn cancelled_before_the_survey_it_ends_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let experiment = experiment((1, 1), PROBES);
    let rundir = RunDir::create(dir.path(), &experiment, 1).unwrap();
    let setup = obedient(&experiment);
    setup.cancel.cancel();
    let (end, _) = doubles::run(&rundir, setup);
    assert_eq!((end.stop, end.measurements), (Stop::Interrupted, 0));
    assert!(!conclude(&rundir, &ClassSet::default()).unwrap().complete);
}

#[test]
fn an_unavailable_platform_is_skipped_and_said() {
    let dir = tempfile::tempdir().unwrap();
    let experiment = experiment((3, 3), PROBES);
    let rundir = RunDir::create(dir.path(), &experiment, 1).unwrap();
    let doubles = vec![Double::obedient("a"), Double::absent("b", "no OCI runtime: install crun")];
    doubles::run(&rundir, setup(&experiment, doubles, None));
    let results = conclude(&rundir, &ClassSet::default()).unwrap();
    assert!(results.cells.iter().all(|cell| cell.cell.platform == "a"));
    assert_eq!(results.verdicts[0].level, VerdictLevel::Unknown);
    assert_eq!(results.verdicts[0].sentence, "b: not available here: no OCI runtime: install crun");
    assert!(results.complete);
    assert!(results.platforms[0].facts.is_some() && results.platforms[0].start_ns.is_some());
}

#[test]
fn an_unavailable_baseline_is_replaced_and_said() {
    let dir = tempfile::tempdir().unwrap();
    let experiment = experiment((3, 3), PROBES);
    let rundir = RunDir::create(dir.path(), &experiment, 1).unwrap();
    let doubles = vec![Double::absent("a", "gone fishing"), Double::obedient("b")];
    let (_, events) = doubles::run(&rundir, setup(&experiment, doubles, None));
    let replaced = Event::BaselineReplaced {
        wanted: "a".to_owned(),
        used: "b".to_owned(),
        reason: "gone fishing".to_owned(),
    };
    assert!(events.contains(&replaced));
    let results = conclude(&rundir, &ClassSet::default()).unwrap();
    assert_eq!(results.experiment.baseline_label(), "b");
    assert!(results.verdicts[0].sentence.contains("the others are compared with b instead"));
}

#[test]
fn with_nothing_available_it_says_why_and_can_be_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let experiment = experiment((1, 1), PROBES);
    let rundir = RunDir::create(dir.path(), &experiment, 1).unwrap();
    let absent = || vec![Double::absent("a", "install x"), Double::absent("b", "install y")];
    let error = run(&rundir, setup(&experiment, absent(), None), &mut |_| {}).unwrap_err();
    assert!(matches!(&error, CampaignError::NothingAvailable(reasons) if reasons.len() == 2));
    assert!(error.to_string().contains("a: install x\nb: install y"), "{error}");
    drop(rundir);
    let rundir = RunDir::resume(dir.path()).unwrap();
    let (end, _) = doubles::run(&rundir, obedient(&experiment));
    assert_eq!(end.measurements, 4);
}

#[test]
fn a_platform_that_is_gone_after_a_resume_has_its_cells_recorded_as_failed() {
    let dir = tempfile::tempdir().unwrap();
    let experiment = experiment((2, 2), PROBES);
    let rundir = RunDir::create(dir.path(), &experiment, 1).unwrap();
    let mut interrupted = obedient(&experiment);
    let cancel = interrupted.cancel.clone();
    interrupted.header = doubles::header();
    let mut done = 0;
    run(&rundir, interrupted, &mut |event| {
        done += usize::from(matches!(event, Event::MeasurementDone { .. }));
        if done == 3 {
            cancel.cancel();
        }
    })
    .unwrap();
    drop(rundir);
    let rundir = RunDir::resume(dir.path()).unwrap();
    let doubles = vec![Double::obedient("a"), Double::absent("b", "qemu was removed")];
    let (end, _) = doubles::run(&rundir, setup(&experiment, doubles, None));
    assert_eq!(end.measurements, 8);
    let results = conclude(&rundir, &ClassSet::default()).unwrap();
    assert!(!results.failures.is_empty());
    let reason = "not available after the resume: qemu was removed";
    assert!(results.failures.iter().all(|f| f.failure.reason == reason), "{:?}", results.failures);
    assert_eq!(results.platforms[1].unavailable, None);
}

#[test]
fn what_is_handed_in_must_fit_the_experiment() {
    let dir = tempfile::tempdir().unwrap();
    let experiment = experiment((1, 1), LOADS);
    let rundir = RunDir::create(dir.path(), &experiment, 1).unwrap();
    let doubles = || vec![Double::obedient("a"), Double::obedient("b")];
    let no_host = run(&rundir, setup(&experiment, doubles(), None), &mut |_| {}).unwrap_err();
    assert!(matches!(no_host, CampaignError::NoHostPlatform));
    let mut too_few = setup(&experiment, doubles(), Some(Double::obedient("host")));
    too_few.platforms.pop();
    let error = run(&rundir, too_few, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("has the platforms a, b, but a were set up"), "{error}");
}

#[test]
fn progress_counts_up_to_what_was_planned() {
    let dir = tempfile::tempdir().unwrap();
    let experiment = experiment((3, 3), PROBES);
    let rundir = RunDir::create(dir.path(), &experiment, 1).unwrap();
    let (_, events) = doubles::run(&rundir, obedient(&experiment));
    let progress: Vec<(usize, usize)> = events
        .iter()
        .filter_map(|event| match event {
            Event::MeasurementStarted { index, planned_total, .. } => Some((*index, *planned_total)),
            _ => None,
        })
        .collect();
    assert_eq!(progress, (1..=12).map(|index| (index, 12)).collect::<Vec<_>>());
}

#[test]
fn a_platform_made_slower_on_purpose_is_asked_for_more_work_and_everybody_is_told() {
    let experiment = Experiment::from_toml(
        "seed = 1\n[repeat]\nmin = 4\nmax = 4\n[[platform]]\nlabel = \"native\"\nkind = \"native\"\n\
         [[platform]]\nlabel = \"native-5\"\nkind = \"native\"\nmore_work_percent = 5.0\n[probe.fwq]\niterations = 2000",
    )
    .unwrap();
    let asked = Arc::new(Mutex::new(BTreeSet::new()));
    let double = |label: &'static str| {
        let asked = asked.clone();
        Double::scripted(label, move |moment| {
            if let Some(ProbeSpec::Fwq(fwq)) = moment.job.and_then(|job| job.probe.as_ref()) {
                // The pilot has work of its own.
                if fwq.samples == FwqParams::default().samples {
                    asked.lock().unwrap().insert((label, fwq.iterations));
                }
            }
            None
        })
    };
    let dir = tempfile::tempdir().unwrap();
    let rundir = RunDir::create(dir.path(), &experiment, 1).unwrap();
    doubles::run(&rundir, setup(&experiment, vec![double("native"), double("native-5")], None));
    assert_eq!(*asked.lock().unwrap(), BTreeSet::from([("native", 2000), ("native-5", 2100)]));
    let results = conclude(&rundir, &ClassSet::default()).unwrap();
    let words = "native-5 was made 5 % slower on purpose: fwq, cpu and frames did that much more work there";
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for text in [
        bulkhead::report::brief::screen(&results, Style { width: 80, colour: false }),
        bulkhead::report::terminal::summary(&results, Style { width: 80, colour: false }),
        bulkhead::report::page::html(&results),
    ] {
        assert!(flat(&text).contains(words), "{text}");
    }
}
