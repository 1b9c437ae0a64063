//! Many instances at once on few CPUs break nothing: real processes, sixteen of them, more than there are CPUs; what
//! that does to them is reported. Containers, too, where there is a runtime.

use crate::doubles;

use std::path::Path;

use bulkhead::analysis::joint::{MEMBER_SPREAD, START_SKEW};
use bulkhead::campaign::runner::Setup;
use bulkhead::campaign::{RunDir, conclude, run};
use bulkhead::model::classes::ClassSet;
use bulkhead::model::experiment::{Experiment, PlatformSpec};
use bulkhead::model::journal::{Measurement, Outcome};
use bulkhead::model::results::RunResults;
use bulkhead::platforms::ledger::{Ledger, sweep};
use bulkhead::platforms::{Cancel, PlatformContext, make};
use bulkhead::units::names::PlatformKind;
use skips::{Need, skip};

fn measure(dir: &Path, text: &str) -> (Vec<Measurement>, RunResults) {
    let experiment = Experiment::from_toml(text).unwrap();
    let rundir = RunDir::create(dir, &experiment, 1).unwrap();
    let context = PlatformContext {
        may_destroy: false,
        exe: env!("CARGO_BIN_EXE_bulkhead").into(),
        ledger: Ledger::open(dir).unwrap(),
        cache: dir.join("cache"),
        counter_hz: None,
        seed: 1,
    };
    let made = |spec: &PlatformSpec| (spec.clone(), make(spec, &context));
    let setup = Setup {
        platforms: experiment.platforms.iter().map(made).collect(),
        host: Some(make(&PlatformSpec::of_kind(PlatformKind::Native), &context)),
        header: doubles::header(),
        durations: None,
        classes: bulkhead::model::classes::ClassSet::default(),
        cancel: Cancel::new(),
    };
    run(&rundir, setup, &mut |_| {}).unwrap();
    assert_eq!(sweep(dir), Vec::<String>::new(), "nothing is left running");
    (doubles::contents(dir).measurements, conclude(&rundir, &ClassSet::default()).unwrap())
}

/// Every joint measurement is done by all, or failed with a reason; skew and spread are there or the reason is.
fn is_reported(measurements: &[Measurement], results: &RunResults, instances: usize) {
    let joint: Vec<&Measurement> = measurements.iter().filter(|m| m.cell.layout.is_some()).collect();
    assert!(!joint.is_empty());
    for measurement in &joint {
        match &measurement.outcome {
            Outcome::Done(_) => {
                assert_eq!(measurement.others.len(), instances - 1);
                let skew = measurement.start_skew_ns.expect("every instance asked the host's clock");
                eprintln!("{}: skew {} ± {}", measurement.cell.probe, skew.skew_ns, skew.error_ns);
            }
            Outcome::Failed(failure) => {
                assert!(failure.reason.starts_with("instance "), "it names who: {}", failure.reason);
            }
        }
    }
    for cell in results.cells.iter().filter(|cell| cell.cell.layout.is_some() && cell.done > 0) {
        for id in [MEMBER_SPREAD, START_SKEW] {
            let metric = cell.metrics.iter().find(|metric| metric.id == id).expect("it is a metric");
            assert_eq!(metric.samples.len(), cell.done as usize, "{id}");
        }
        let skews = &cell.metrics.iter().find(|metric| metric.id == START_SKEW).unwrap().samples;
        let apart = skews.iter().filter(|(_, skew)| *skew > 1e6).count();
        let said = cell.notes.iter().filter(|note| note.contains("more than 1 ms")).count();
        assert!(said >= apart.min(1), "{skews:?}: {:?}", cell.notes);
    }
}

#[test]
fn sixteen_processes_on_few_cpus() {
    let dir = tempfile::tempdir().unwrap();
    let (measurements, results) = measure(
        dir.path(),
        "seed = 1\n[repeat]\nmin = 2\nmax = 2\n[[platform]]\nlabel = \"native\"\nkind = \"native\"\n\
         [probe.fwq]\niterations = 20_000\nsamples = 100\n[probe.gap]\nduration_ms = 50\n\
         [[layout]]\nsize = \"1x16\"\nprobes = [\"fwq\", \"gap\"]\n\
         [[load]]\nkind = \"cpu\"\nplace = \"same\"\nprobes = [\"gap\"]\n",
    );
    // Four cells, gap beside the load among them (alone, because that is its first layout), twice.
    assert_eq!(measurements.len(), 10);
    is_reported(&measurements, &results, 16);
    assert!(results.failures.is_empty(), "{:?}", results.failures.first());
}

#[test]
fn eight_containers_on_few_cpus() {
    let dir = tempfile::tempdir().unwrap();
    let text = "seed = 1\n[repeat]\nmin = 1\nmax = 1\n[[platform]]\nlabel = \"native\"\nkind = \"native\"\n\
                [[platform]]\nlabel = \"box\"\nkind = \"container\"\n[probe.fwq]\niterations = 20_000\n\
                samples = 100\n[[layout]]\nsize = \"2x4\"\nprobes = [\"fwq\"]\n";
    let (measurements, results) = measure(dir.path(), text);
    if let Some(reason) = results.platforms.iter().find_map(|state| state.unavailable.clone()) {
        skip(Need::Container, format!("in part: {reason}"));
    }
    is_reported(&measurements, &results, 8);
}
