//! Layouts: all members are ready before any is told to start, each failure names its member, instances are kept and
//! replaced, loads and networks go where they belong. On doubles and fakes, so that every case can be had.

use crate::doubles;

use std::sync::{Arc, Mutex};

use bulkhead::analysis::joint::{MEMBER_SPREAD, START_SKEW};
use bulkhead::campaign::runner::Setup;
use bulkhead::campaign::{Event, RunDir, conclude};
use bulkhead::model::classes::ClassSet;
use bulkhead::model::clocks::ClockLevel;
use bulkhead::model::experiment::Experiment;
use bulkhead::model::journal::{FailureKind, Measurement, Outcome};
use bulkhead::model::results::{CellResult, RunResults};
use bulkhead::platforms::fake::Fake;
use bulkhead::platforms::{Cancel, Platform};
use bulkhead::probes::job::Job;
use bulkhead::units::Nanos;
use bulkhead::units::layout::Layout;
use bulkhead::units::names::LoadPlace;
use doubles::{Ask, Double, Log, broken, contents, experiment, header, obedient, set_of, setup};

const PAIR: &str = "[probe.fwq]\n[[layout]]\nsize = \"1x2\"\nprobes = [\"fwq\"]\n";

/// Runs so many rounds with `b` as said and returns the journal's measurements, the results and what `b` was asked.
fn run_with(b: Double, rounds: u32, rest: &str) -> (Vec<Measurement>, RunResults, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let experiment = experiment((rounds, rounds), rest);
    let rundir = RunDir::create(dir.path(), &experiment, 1).unwrap();
    let log: Log = b.log.clone();
    let host = Some(Double::obedient("host"));
    doubles::run(&rundir, setup(&experiment, vec![Double::obedient("a"), b], host));
    let measurements = contents(dir.path()).measurements;
    assert_eq!(measurements.len(), experiment.cells().len() * rounds as usize, "every one is recorded");
    let asked = log.lock().unwrap().clone();
    (measurements, conclude(&rundir, &ClassSet::default()).unwrap(), asked)
}

fn joint_of_b(measurements: &[Measurement]) -> Vec<&Measurement> {
    measurements.iter().filter(|m| m.cell.platform == "b" && m.cell.layout.is_some()).collect()
}

#[test]
fn all_are_ready_before_any_is_told_to_start_and_all_are_told_before_any_is_heard_out() {
    let (measurements, _, asked) = run_with(Double::obedient("b"), 3, PAIR);
    let joint = joint_of_b(&measurements);
    assert_eq!(joint.len(), 3);
    assert!(joint.iter().all(|m| matches!(m.outcome, Outcome::Done(_)) && m.others.len() == 1));
    let members = ["b.2", "b.3"];
    let places = |what: &str| -> Vec<usize> {
        let is_wanted = |line: &str| members.iter().any(|member| *line == format!("{member} {what}"));
        asked.iter().enumerate().filter(|(_, line)| is_wanted(line)).map(|(at, _)| at).collect()
    };
    let (begins, starts, ends) = (places("Begin"), places("StartAt"), places("Finish"));
    assert_eq!((begins.len(), starts.len(), ends.len()), (6, 6, 6), "{asked:?}");
    for round in 0..3 {
        let pair = |all: &[usize]| (all[2 * round], all[2 * round + 1]);
        assert!(pair(&begins).1 < pair(&starts).0 && pair(&starts).1 < pair(&ends).0, "{asked:?}");
    }
    let started = |member: &str| asked.iter().filter(|line| **line == format!("{member} Start")).count();
    assert_eq!(["b.0", "b.2", "b.3"].map(started), [1, 1, 1], "started once, kept: {asked:?}");
    let paused = asked.iter().filter(|line| **line == "b.2 Pause").count();
    assert_eq!(paused, 3, "parked after each measurement: {asked:?}");
}

#[test]
fn a_member_that_breaks_is_named_the_others_are_kept_and_it_is_replaced() {
    for ask in [Ask::Begin, Ask::StartAt, Ask::Finish] {
        let b = Double::scripted("b", move |moment| {
            let breaks = moment.ask == ask && moment.instance == 3 && moment.start <= 3;
            breaks.then(|| Err(broken(FailureKind::Died, "guest panicked")))
        });
        let (measurements, results, asked) = run_with(b, 2, PAIR);
        let failed: Vec<&Measurement> =
            joint_of_b(&measurements).into_iter().filter(|m| m.broken_instances().count() > 0).collect();
        assert_eq!(failed.len(), 1, "{ask:?}");
        assert!(matches!(failed[0].outcome, Outcome::Done(_)), "{ask:?}: the other one measured for itself");
        let [Outcome::Failed(failure)] = &failed[0].others[..] else { panic!("it failed") };
        assert_eq!(failure.kind, FailureKind::Died);
        assert_eq!(failure.reason, "instance 2 of 2: guest panicked");
        assert_eq!(failure.console, ["last words"]);
        let started = |member: &str| asked.iter().filter(|line| **line == format!("{member} Start")).count();
        assert_eq!((started("b.2"), started("b.3")), (1, 2), "{ask:?}: {asked:?}");
        let told: Vec<&str> = results.failures.iter().map(|failed| failed.failure.reason.as_str()).collect();
        assert_eq!(told, ["instance 2 of 2: guest panicked"], "{ask:?}: it alone");
        let joint = |cell: &&CellResult| cell.cell.platform == "b" && cell.cell.layout.is_some();
        let joint = results.cells.iter().find(joint).unwrap();
        assert_eq!((joint.done, joint.failed), (2, 0), "{ask:?}: the others' figures count");
        assert!(joint.notes.iter().any(|note| note.contains("instance 2 of 2 broke")), "{:?}", joint.notes);
    }
}

#[test]
fn a_member_that_refuses_is_a_refusal_with_its_number() {
    let b = Double::scripted("b", |moment| {
        let refuses = moment.ask == Ask::Finish && moment.instance == 2;
        refuses.then(|| {
            Ok(bulkhead::probes::job::JobReply { report: Some(Err("no network".into())), doses: vec![] })
        })
    });
    let (measurements, _, asked) = run_with(b, 2, PAIR);
    for joint in joint_of_b(&measurements) {
        let Outcome::Failed(failure) = &joint.outcome else { panic!("it refused") };
        assert_eq!(
            (failure.kind, failure.reason.as_str()),
            (FailureKind::Refused, "instance 1 of 2: no network")
        );
        assert!(matches!(joint.others[..], [Outcome::Done(_)]));
    }
    let started = asked.iter().filter(|line| line.ends_with("Start")).count();
    assert_eq!(started, 3, "nobody is replaced: {asked:?}");
}

/// Every job with a part that `b` got.
fn jobs_of(rest: &str, rounds: u32) -> (Vec<(u32, Job)>, Vec<Measurement>) {
    let jobs = Arc::new(Mutex::new(Vec::new()));
    let seen = jobs.clone();
    let b = Double::scripted("b", move |moment| {
        if let (Ask::Begin, Some(job)) = (moment.ask, moment.job) {
            seen.lock().unwrap().push((moment.instance, job.clone()));
        }
        None
    });
    let (measurements, _, _) = run_with(b, rounds, rest);
    let jobs = jobs.lock().unwrap().clone();
    (jobs, measurements)
}

#[test]
fn loads_go_where_they_belong() {
    let loads =
        "[[load]]\nkind = \"cpu\"\nplace = \"same\"\n[[load]]\nkind = \"memory\"\nplace = \"second\"\n";
    let share = format!("[probe.share]\n[[layout]]\nsize = \"1x3\"\n{loads}");
    let (jobs, measurements) = jobs_of(&share, 1);
    let with_part: Vec<&(u32, Job)> = jobs.iter().filter(|(_, job)| job.part.is_some()).collect();
    assert_eq!(with_part.len(), 9, "alone, beside the one, beside the other, three each");
    for (instance, job) in &with_part {
        let part = job.part.as_ref().unwrap();
        assert_eq!((part.rank + 2, part.ranks), (*instance, 3));
        assert!(part.peers.is_empty() && job.clock.is_none(), "this platform has no network");
    }
    let same = with_part.iter().filter(|(_, job)| !job.loads.is_empty()).count();
    assert_eq!(same, 3, "a load in the same instance is in every member");
    let second: Vec<_> = jobs.iter().filter(|(_, job)| job.probe.is_none()).collect();
    assert_eq!(second.iter().map(|(instance, _)| *instance).collect::<Vec<_>>(), [1], "one more instance");
    // The doubles answer every probe with another one's report, so only what was asked counts here.
    let places = measurements.iter().filter_map(|m| m.cell.neighbour).map(|n| n.place);
    assert_eq!(places.filter(|place| *place == LoadPlace::Same).count(), 2);
}

#[test]
fn a_layout_with_more_hosts_than_there_are_is_refused_with_the_reason_and_the_rest_runs() {
    let layouts =
        "[[layout]]\nsize = \"3x1\"\nprobes = [\"fwq\"]\n[[layout]]\nsize = \"2x2\"\nprobes = [\"fwq\"]\n";
    let b = Double { hosts: 2, ..Double::obedient("b") };
    let (measurements, _, asked) = run_with(b, 2, &format!("[probe.fwq]\n{layouts}"));
    for joint in joint_of_b(&measurements) {
        match &joint.outcome {
            Outcome::Failed(failure) => {
                assert_eq!(joint.cell.layout, Layout::new(3, 1));
                assert!(failure.reason.contains("layout 3x1 needs 3 hosts, platform b has 2"), "{failure:?}");
            }
            Outcome::Done(_) => assert_eq!(joint.cell.layout, Layout::new(2, 2)),
        }
    }
    // Members of the first layout would have been 2, 3, 4.
    let members: Vec<&String> = asked.iter().filter(|line| line.ends_with(" Start")).collect();
    assert_eq!(members.len(), 5, "{members:?}");
}

#[test]
fn a_probe_that_wants_a_fresh_instance_gets_one_each_time() {
    let fresh_jobs =
        |probes: &str| -> Vec<bool> { jobs_of(probes, 3).0.iter().map(|(_, job)| job.fresh).collect() };
    let pages = "[probe.pages]\n[[layout]]\nsize = \"1x2\"\nprobes = [\"pages\"]\n";
    assert_eq!(fresh_jobs(pages), [true; 9], "one alone and two together, three rounds");
    assert_eq!(fresh_jobs("[probe.gap]"), [true, false, false], "others keep theirs");
}

#[test]
fn members_of_another_layout_make_room_when_memory_gets_short() {
    // 16 × n² bytes, four times over: more than any machine of these tests has.
    let large = "[probe.linpack]\nn = 8000\n[[layout]]\nsize = \"1x64\"\nprobes = [\"linpack\"]\n\
                 [[layout]]\nsize = \"1x63\"\nprobes = [\"linpack\"]\n";
    let starts = |rest: &str| {
        let (_, _, asked) = run_with(Double::obedient("b"), 2, rest);
        asked.iter().filter(|line| line.ends_with(" Start") && !line.starts_with("b.0 ")).count()
    };
    assert_eq!(starts(large), 2 * (64 + 63), "each layout is started anew each time");
    let small = "[probe.fwq]\n[[layout]]\nsize = \"1x2\"\nprobes = [\"fwq\"]\n\
                 [[layout]]\nsize = \"1x3\"\nprobes = [\"fwq\"]\n";
    assert_eq!(starts(small), 2 + 3, "where there is room both stay");
}

#[test]
fn an_interrupted_run_with_layouts_resumes_to_the_same_set() {
    let dir = tempfile::tempdir().unwrap();
    let experiment = experiment((3, 3), PAIR);
    let rundir = RunDir::create(dir.path(), &experiment, 1).unwrap();
    let mut interrupted = obedient(&experiment);
    interrupted.cancel = Cancel::new();
    let (cancel, mut seen) = (interrupted.cancel.clone(), 0);
    bulkhead::campaign::run(&rundir, interrupted, &mut |event| {
        if matches!(event, Event::MeasurementDone { .. }) {
            seen += 1;
            if seen == 5 {
                cancel.cancel();
            }
        }
    })
    .unwrap();
    assert_eq!(contents(dir.path()).measurements.len(), 5);
    drop(rundir);
    let rundir = RunDir::resume(dir.path()).unwrap();
    doubles::run(&rundir, obedient(&experiment));
    let set = set_of(&contents(dir.path()));
    assert_eq!(set.len(), experiment.cells().len() * 3);
    assert_eq!(set.iter().filter(|(cell, _)| cell.layout.is_some()).count(), 6);
}

fn fakes(experiment: &Experiment) -> Setup {
    let fake = |spec: &bulkhead::model::experiment::PlatformSpec| {
        (spec.clone(), Box::new(Fake::new(spec, 7)) as Box<dyn Platform>)
    };
    Setup {
        platforms: experiment.platforms.iter().map(fake).collect(),
        host: Some(Box::new(Double::obedient("host"))),
        header: header(),
        durations: None,
        classes: bulkhead::model::classes::ClassSet::default(),
        cancel: Cancel::new(),
    }
}

fn run_fakes(text: &str) -> (Vec<Measurement>, RunResults) {
    let dir = tempfile::tempdir().unwrap();
    let experiment = Experiment::from_toml(text).unwrap();
    let rundir = RunDir::create(dir.path(), &experiment, 1).unwrap();
    doubles::run(&rundir, fakes(&experiment));
    (contents(dir.path()).measurements, conclude(&rundir, &ClassSet::default()).unwrap())
}

#[test]
fn sixteen_fakes_have_medians_spread_skew_and_a_comparison_with_one_alone() {
    let (measurements, results) = run_fakes(
        "seed = 3\n[repeat]\nmin = 6\nmax = 6\n[[platform]]\nlabel = \"a\"\nkind = \"fake\"\n\
         script = { noise_percent = 10 }\n[probe.fwq]\n[probe.syscall]\n\
         [[layout]]\nsize = \"1x16\"\nprobes = [\"fwq\", \"syscall\"]\n",
    );
    let joint: Vec<&Measurement> = measurements.iter().filter(|m| m.cell.layout.is_some()).collect();
    assert!(joint.iter().all(|m| m.others.len() == 15));
    // Fakes begin one microsecond after the other.
    assert!(
        joint.iter().all(|m| m.start_skew_ns.unwrap().skew_ns.get() == 15_000),
        "{:?}",
        joint[0].start_skew_ns
    );
    for cell in results.cells.iter().filter(|cell| cell.cell.layout.is_some()) {
        let metric = |id: &str| cell.metrics.iter().find(|metric| metric.id == id).unwrap();
        assert!(metric(MEMBER_SPREAD).samples.iter().all(|(_, ratio)| (1.0..1.2).contains(ratio)));
        assert!((metric(START_SKEW).samples[0].1 - 15_000.0).abs() < 1e-9);
        let main = cell.metrics.iter().find(|metric| metric.headline).unwrap();
        let ratio = main.against_alone.as_ref().unwrap().ratio.estimate().unwrap().value;
        // The made-up machine does not slow down: 16 × its fair share in throughput, once the time alone in latency.
        let wanted = if main.better == bulkhead::units::metric::Better::Higher { 16.0 } else { 1.0 };
        assert!((ratio / wanted - 1.0).abs() < 0.1, "{}: {ratio} of {wanted}", main.id);
        assert!(metric(START_SKEW).against_alone.is_none());
    }
    let alone = results.cells.iter().filter(|cell| cell.cell.layout.is_none());
    assert!(alone.flat_map(|cell| &cell.metrics).all(|metric| metric.against_alone.is_none()));
}

#[test]
fn a_scripted_wrong_clock_is_a_result_and_nothing_else_changes() {
    let text = |clock: &str| {
        format!(
            "seed = 3\n[repeat]\nmin = 4\nmax = 4\n[[platform]]\nlabel = \"a\"\nkind = \"fake\"\n\
             [[platform]]\nlabel = \"wrong\"\nkind = \"fake\"\nscript = {{ noise_percent = 2{clock} }}\n[probe.fwq]\n"
        )
    };
    let (_, honest) = run_fakes(&text(""));
    let (_, results) =
        run_fakes(&text(", clock_ppm = -2500, clock_step_ms = 3000, clock_step_between_ms = -500"));
    let clock = |results: &RunResults, label: &str| {
        results.clocks.iter().find(|clock| clock.platform == label).unwrap().clone()
    };
    assert_eq!(clock(&results, "a").level, ClockLevel::Agrees);
    assert_eq!(clock(&honest, "wrong").level, ClockLevel::Agrees);
    let wrong = clock(&results, "wrong");
    assert_eq!((wrong.level, wrong.measurements, wrong.step_count), (ClockLevel::Lies, 4, 7));
    let drift = wrong.drift_ppm.unwrap();
    assert!(drift.low <= -2500.0 && -2500.0 <= drift.high && drift.high - drift.low < 100.0, "{drift:?}");
    assert!(wrong.steps[0].step_ns.abs_diff(3_000_000_000) < 100_000, "{:?}", wrong.steps[0]);
    assert!(wrong.sentence.contains("its clock runs slow"), "{}", wrong.sentence);
    for words in [
        "set 4 times during measurements, at most 3 s forward (± 20 µs)",
        "set 3 times between measurements, at most 500 ms back (± 20 µs), after fwq of round 1 and before fwq of round 2",
    ] {
        assert!(wrong.sentence.contains(words), "{}", wrong.sentence);
    }
    for step in wrong.steps.iter().filter_map(|step| Some((step, step.since.as_ref()?))) {
        let (step, since) = step;
        assert_eq!((step.step_ns, step.error_ns, since.round + 1), (-500_000_000, 20_000, step.round));
    }
    let spans = |label: &str| {
        let cell = results.cells.iter().find(|cell| cell.cell.platform == label).unwrap();
        cell.outside.iter().map(|span| (span.round, span.ratio().unwrap(), span.error_ns)).collect::<Vec<_>>()
    };
    assert_eq!(
        (spans("a").len(), spans("wrong").len()),
        (4, 4),
        "every measurement carries its outside time"
    );
    assert!(spans("wrong").iter().all(|(_, ratio, _)| (ratio - 0.9975).abs() < 1e-6), "{:?}", spans("wrong"));
    assert!(spans("a").iter().all(|(_, _, error)| *error == Nanos::from_nanos(20_000)), "{:?}", spans("a"));
    let figures = |results: &RunResults| -> Vec<CellResult> {
        results
            .cells
            .iter()
            .map(|cell| CellResult { outside: Vec::new(), took_ns: None, ..cell.clone() })
            .collect()
    };
    assert_eq!(
        figures(&results),
        figures(&honest),
        "figures are what the probes say, whatever the clocks do"
    );
    assert!(results.failures.is_empty());
}
