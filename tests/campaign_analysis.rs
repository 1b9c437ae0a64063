//! From journal to verdict on made-up data with known truth: a slowdown is found, and nothing is found in an A/A run.

use crate::doubles;

use bulkhead::campaign::analysis::analyse;
use bulkhead::campaign::journal::Contents;
use bulkhead::campaign::plan::Plan;
use bulkhead::model::experiment::Experiment;
use bulkhead::model::journal::{Cell, Measurement, Outcome};
use bulkhead::model::results::{CellResult, RunResults, VerdictLevel};
use bulkhead::platforms::fake::Fake;
use bulkhead::platforms::{Cancel, Instance, InstanceSpec, Platform};
use bulkhead::probes::ProbeKind;
use bulkhead::probes::detail::Detail;
use bulkhead::probes::job::{Job, LoadSpec, PlacedDose};
use bulkhead::units::metric::Difference;
use bulkhead::units::names::LoadPlace;
use bulkhead::units::{Bytes, Millis, Nanos};

const PROBES: &str = "[probe.gap]\nbatches = 8\n[probe.fwq]\nsamples = 100\n[probe.cpu]\nsamples = 3\n\
                      [probe.syscall]\n[probe.fork]\n[probe.mem-latency]\n";

fn experiment(seed: u64, slowdown: u32, rounds: u32, rest: &str) -> Experiment {
    let text = format!(
        "seed = {seed}\n[repeat]\nmin = {rounds}\nmax = {rounds}\n\
         [[platform]]\nlabel = \"native\"\nkind = \"fake\"\nscript = {{ noise_percent = 5 }}\n\
         [[platform]]\nlabel = \"other\"\nkind = \"fake\"\n\
         script = {{ slowdown_percent = {slowdown}, noise_percent = 5 }}\n{rest}"
    );
    Experiment::from_toml(&text).unwrap()
}

/// What a run would write, without the disk.
fn measured(experiment: &Experiment) -> Contents {
    let seed = experiment.seed.unwrap();
    let mut fakes: Vec<Fake> = experiment.platforms.iter().map(|spec| Fake::new(spec, seed)).collect();
    let spec = InstanceSpec {
        number: 0,
        memory_wanted: Bytes::from_bytes(0),
        disk_wanted: Bytes::from_bytes(0),
        scratch: std::env::temp_dir(),
        ..InstanceSpec::default()
    };
    let cancel = Cancel::new();
    let platforms = fakes.iter_mut().map(|fake| fake.survey(&cancel)).collect();
    let mut instances: Vec<(String, Box<dyn Instance>)> = fakes
        .iter_mut()
        .zip(&experiment.platforms)
        .map(|(fake, platform)| (platform.label.clone(), fake.start(&spec, &cancel).unwrap()))
        .collect();
    let labels: Vec<String> = instances.iter().map(|(label, _)| label.clone()).collect();
    let plan = Plan::new(experiment, &labels, "native");
    let mut measurements = Vec::new();
    for round in 0..experiment.repeat.max {
        for (number, cell) in plan.order(round).into_iter().enumerate() {
            let (_, instance) = instances.iter_mut().find(|(label, _)| *label == cell.platform).unwrap();
            let job_seed = seed.wrapping_mul(1000).wrapping_add(u64::from(round) * 100 + number as u64);
            measurements.push(measure(experiment, instance.as_mut(), cell, round, job_seed));
        }
    }
    Contents {
        headers: vec![doubles::header()],
        platforms: Some(platforms),
        measurements,
        ..Contents::default()
    }
}

fn measure(experiment: &Experiment, on: &mut dyn Instance, cell: Cell, round: u32, seed: u64) -> Measurement {
    let probe = experiment.probes.specs().into_iter().find(|spec| spec.kind() == cell.probe);
    let loads: Vec<LoadSpec> =
        cell.neighbour.iter().map(|n| LoadSpec { kind: n.kind, threads: None }).collect();
    let job = Job { id: 1, probe, loads, seed, deadline_ms: Millis::from_millis(1000), ..Job::default() };
    on.begin(&job, &Cancel::new()).unwrap();
    let reply = on.finish(&Cancel::new()).unwrap();
    let placed = |dose| PlacedDose { place: LoadPlace::Same, dose };
    Measurement {
        cell,
        round,
        started_unix_ns: Nanos::ZERO,
        duration_ns: Nanos::from_nanos(1_000_000),
        doses: reply.doses.into_iter().map(placed).collect(),
        outcome: Outcome::Done(Box::new(reply.report.unwrap().unwrap())),
        others: Vec::new(),
        start_skew_ns: None,
        host: None,
        instances: Vec::new(),
    }
}

fn results(experiment: &Experiment) -> RunResults {
    analyse(experiment, &measured(experiment)).unwrap()
}

fn headline_differences(results: &RunResults) -> Vec<(ProbeKind, String, Difference)> {
    results
        .cells
        .iter()
        .flat_map(|cell| cell.metrics.iter().map(move |metric| (cell, metric)))
        .filter(|(_, metric)| metric.headline)
        .filter_map(|(cell, metric)| {
            let difference = metric.against_baseline.as_ref()?.difference;
            (!matches!(difference, Difference::NotFound | Difference::Unknown))
                .then(|| (cell.cell.probe, metric.id.clone(), difference))
        })
        .collect()
}

#[test]
fn a_slowdown_of_thirty_percent_is_reported_as_such() {
    let experiment = experiment(11, 130, 8, PROBES);
    let results = results(&experiment);
    for probe in [ProbeKind::Fwq, ProbeKind::Cpu, ProbeKind::Syscall, ProbeKind::Fork, ProbeKind::MemLatency]
    {
        let of_other = |cell: &&CellResult| cell.cell.platform == "other" && cell.cell.probe == probe;
        let cell = results.cells.iter().find(of_other).unwrap();
        let main = cell.metrics.iter().find(|metric| metric.headline).unwrap();
        let comparison = main.against_baseline.as_ref().unwrap();
        let ratio = comparison.ratio.estimate().unwrap();
        let truth = if main.better == bulkhead::units::metric::Better::Higher { 1.0 / 1.3 } else { 1.3 };
        assert!(ratio.contains(truth), "{probe} {}: {ratio}", main.id);
        assert!((ratio.value / truth - 1.0).abs() < 0.1, "{probe} {}: {ratio}", main.id);
        assert_eq!(comparison.difference, Difference::Worse, "{probe} {}: {ratio}", main.id);
        assert_eq!(comparison.pairs, 8);
    }
    let verdict = &results.verdicts[0];
    assert_eq!((results.verdicts.len(), verdict.level), (1, VerdictLevel::Costly), "{}", verdict.sentence);
    assert!(verdict.sentence.contains("as long"), "{}", verdict.sentence);
    assert!(verdict.because.iter().any(|line| line.contains("× native [")), "{:?}", verdict.because);
    assert!(
        results
            .cells
            .iter()
            .filter(|cell| cell.cell.platform == "native")
            .all(|cell| { cell.metrics.iter().all(|metric| metric.against_baseline.is_none()) })
    );
}

#[test]
fn equal_platforms_show_no_difference_in_at_least_95_of_100_runs() {
    let found: Vec<_> =
        (0..100).map(|seed| headline_differences(&results(&experiment(seed, 100, 6, PROBES)))).collect();
    let false_alarms: Vec<_> = found.iter().filter(|differences| !differences.is_empty()).collect();
    println!("A/A: {} of 100 runs without a difference", 100 - false_alarms.len());
    assert!(false_alarms.len() <= 5, "{false_alarms:?}");
}

#[test]
fn a_doubling_is_heavy_and_no_difference_is_free() {
    let level = |slowdown| results(&experiment(5, slowdown, 8, PROBES)).verdicts[0].level;
    assert_eq!(level(250), VerdictLevel::Heavy);
    assert_eq!(level(100), VerdictLevel::Free);
}

#[test]
fn where_none_was_found_it_is_said_which_difference_would_have_been_seen() {
    let results = results(&experiment(5, 100, 8, PROBES));
    let verdict = &results.verdicts[0];
    let main = |cell: &CellResult| {
        let main = cell.metrics.iter().find(|metric| metric.headline)?;
        main.against_baseline.as_ref()?.detectable_percent
    };
    let alone = results.cells.iter().filter(|cell| cell.cell.neighbour.is_none());
    let largest = alone.filter_map(main).fold(0.0, f64::max);
    assert!((0.5..25.0).contains(&largest), "{largest}");
    let words = format!("; one of {} would have been seen", bulkhead::units::metric::percent_up(largest));
    assert!(verdict.sentence.ends_with(&words), "{}, wanted {words}", verdict.sentence);
}

#[test]
fn two_rounds_are_too_little_for_a_verdict() {
    let results = results(&experiment(5, 200, 2, PROBES));
    assert_eq!(results.verdicts[0].level, VerdictLevel::Unknown);
    assert!(results.verdicts[0].sentence.contains("too little data"), "{}", results.verdicts[0].sentence);
}

#[test]
fn gap_details_pool_every_round() {
    let experiment = experiment(3, 100, 4, "[probe.gap]\nbatches = 8");
    let contents = measured(&experiment);
    let results = analyse(&experiment, &contents).unwrap();
    let native = results.cells.iter().find(|cell| cell.cell.platform == "native").unwrap();
    let Some(Detail::Gap(pooled)) = &native.detail else { panic!("a gap detail") };
    let parts: Vec<_> = contents
        .measurements
        .iter()
        .filter(|m| m.cell.platform == "native")
        .filter_map(|m| match &m.outcome {
            Outcome::Done(report) => match &report.detail {
                Detail::Gap(gap) => Some(gap),
                _ => None,
            },
            Outcome::Failed(_) => None,
        })
        .collect();
    assert_eq!((pooled.batches.len(), parts.len()), (4, 4));
    let count = |batches: &[bulkhead::units::histogram::Histogram]| -> u64 {
        batches.iter().map(bulkhead::units::histogram::Histogram::count).sum()
    };
    assert_eq!(count(&pooled.batches), parts.iter().map(|gap| count(&gap.batches)).sum::<u64>());
    assert_eq!(pooled.observed_ns.get(), parts.iter().map(|gap| gap.observed_ns.get()).sum::<u64>());
    let longest = parts.iter().flat_map(|gap| &gap.worst).map(|stretch| stretch.length_ns).max();
    assert_eq!(pooled.worst.first().map(|stretch| stretch.length_ns), longest);
    assert!(pooled.worst.is_sorted_by(|a, b| a.length_ns >= b.length_ns) && pooled.worst.len() <= 64);
    let bound = native.metrics.iter().find(|metric| metric.id == "bound_95_ns").unwrap();
    let estimate = bound.estimate.estimate().expect("32 batches support the bound");
    let median = bound.samples.iter().map(|(_, value)| *value).sum::<f64>() / 4.0;
    assert!((estimate.value / median - 1.0).abs() < 0.2, "{estimate} in nanoseconds, against {median}");
    assert_eq!(native.notes, ["made up: nothing was measured"]);
}

#[test]
fn a_cell_beside_a_load_is_compared_with_itself_undisturbed() {
    let rest = "[probe.fwq]\nsamples = 100\n[[load]]\nkind = \"cpu\"\nplace = \"same\"";
    let results = results(&experiment(3, 130, 6, rest));
    assert_eq!(results.cells.len(), 4);
    for cell in &results.cells {
        let disturbed = cell.cell.neighbour.is_some();
        assert_eq!(cell.doses.len(), usize::from(disturbed));
        for metric in &cell.metrics {
            assert_eq!(metric.against_undisturbed.is_some(), disturbed);
        }
        let main = cell.metrics.iter().find(|metric| metric.headline).unwrap();
        if let Some(against) = &main.against_undisturbed {
            assert_eq!(against.difference, Difference::NotFound, "fake loads disturb nothing: {against:?}");
        }
    }
}

#[test]
fn dirt_of_every_session_and_another_host_are_shown() {
    use bulkhead::model::preflight::{Check, CheckLevel};
    let experiment = experiment(3, 100, 2, "[probe.fwq]\nsamples = 100");
    let mut contents = measured(&experiment);
    let busy = Check {
        id: "load".to_owned(),
        level: CheckLevel::Dirty,
        found: "load average is 9".to_owned(),
        advice: String::new(),
    };
    let mut second = doubles::header();
    second.preflight.checks.push(busy);
    second.host.kernel = Some("7.0".to_owned());
    contents.headers.push(second);
    let dirty = analyse(&experiment, &contents).unwrap().dirty;
    assert_eq!(dirty.len(), 2);
    assert_eq!(dirty[0], "load average is 9 (after resume 1)");
    assert!(dirty[1].contains("another CPU, kernel"), "{}", dirty[1]);
}
