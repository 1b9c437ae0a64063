//! Files of schema 1, written by the program before layouts: they are read, and nothing in them changes its meaning.

use std::path::PathBuf;

use bulkhead::campaign::{RunDir, read_results, read_run};
use bulkhead::model::SCHEMA_VERSION;
use bulkhead::model::results::RunResults;

fn fixture() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schema1")
}

/// Every sample of every metric.
fn samples(results: &RunResults) -> Vec<(String, Vec<(u32, f64)>)> {
    let metrics = results.cells.iter().flat_map(|cell| cell.metrics.iter().map(move |m| (cell, m)));
    metrics.map(|(cell, metric)| (format!("{:?} {}", cell.cell, metric.id), metric.samples.clone())).collect()
}

#[test]
fn an_old_run_is_read_and_its_figures_stand() {
    let old = read_results(&fixture().join("results.json")).expect("old results are read");
    let again = read_run(&fixture()).expect("an old journal is read");
    assert_eq!((old.schema_version, again.schema_version), (1, SCHEMA_VERSION));
    assert!(again.complete && again.cells.iter().all(|cell| cell.cell.layout.is_none()));
    assert_eq!(again.cells.len(), 6);
    let (wanted, got) = (samples(&old), samples(&again));
    for (name, values) in &wanted {
        let found = got.iter().find(|(other, _)| other == name);
        assert_eq!(found.map(|(_, values)| values), Some(values), "{name}");
    }
    assert!(again.clocks.iter().all(|clock| clock.measurements == 0), "nobody asked the clock then");
}

#[test]
fn an_old_run_can_be_resumed() {
    let copy = tempfile::tempdir().expect("a folder");
    for name in ["experiment.toml", "journal.jsonl", "results.json"] {
        std::fs::copy(fixture().join(name), copy.path().join(name)).expect("copied");
    }
    let rundir = RunDir::resume(copy.path()).expect("it is resumed");
    assert_eq!(rundir.seed(), 5);
}
