//! Classes of work on the command line: what is shipped names figures that exist, flags and files change the verdicts and
//! are kept, a requirement that is not met has an exit code of its own.

use crate::browser;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Output;

use assert_cmd::Command;
use bulkhead::campaign::read_results;
use bulkhead::model::classes::shipped;
use bulkhead::model::journal::Cell;
use bulkhead::model::results::RunResults;
use bulkhead::probes::ProbeKind;
use bulkhead::units::facts::ClockFacts;
use rand::SeedableRng as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::Value;
use tempfile::TempDir;

/// Ids of the figures that a probe yields; none when nobody makes its outcome up.
fn ids_of(probe: ProbeKind) -> Option<BTreeSet<String>> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let cell = Cell { probe, neighbour: None, platform: "native".to_owned(), layout: None };
    let detail = browser::sample_details::detail(&mut random, &cell)?;
    let clock = ClockFacts { name: "tsc".to_owned(), read_ns: 9.0, resolution_ns: 1.0 };
    Some(bulkhead::probes::metrics_of(&detail, &clock).into_iter().map(|metric| metric.id).collect())
}

#[test]
fn every_figure_that_a_shipped_class_names_is_yielded_by_its_probe() {
    let set = shipped().unwrap();
    let named = set.classes.iter().flat_map(|class| &class.conditions).flat_map(|condition| {
        condition.metric.iter().chain(condition.tail.iter().map(|entry| &entry.metric))
    });
    let mut wrong: BTreeMap<String, Option<BTreeSet<String>>> = BTreeMap::new();
    for metric in named {
        let known = ids_of(metric.probe);
        if !known.as_ref().is_some_and(|known| known.contains(&metric.id)) {
            wrong.insert(metric.to_string(), known);
        }
    }
    assert!(wrong.is_empty(), "no probe yields these; known are: {wrong:#?}");
}

fn bulkhead(folder: &TempDir, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bulkhead"));
    command.current_dir(folder.path()).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A run on the fake platform with a neighbour.
fn run(folder: &TempDir, more: &[&str]) -> Output {
    let arguments = ["measure", "fake", "--quick", "--rounds", "5", "--seed", "7", "--out", "run"];
    bulkhead(folder, &[&arguments, more].concat())
}

fn results(folder: &TempDir) -> RunResults {
    read_results(&folder.path().join("run/results.json")).unwrap()
}

const MINE: &str = "
[[class]]
name = \"mine\"
title = \"Mine\"
about = \"What I do.\"
[class.deadline]
deadline_us = 1000000
miss_rate = 1e-2
[[class.condition]]
title = \"gaps fit\"
why = \"because\"
neighbours = \"all\"
tail = [{ miss_rate = 1e-2, metric = \"gap.bound_99_ns\" }, { miss_rate = 0.0, metric = \"gap.max_gap_ns\" }]
";

#[test]
fn a_requirement_decides_the_exit_code_and_what_was_asked_for_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine.toml"), MINE).unwrap();
    let met = run(&folder, &["--classes", "mine.toml", "--require", "mine"]);
    assert_eq!(met.status.code(), Some(0), "{}", text(&met.stderr));
    assert!(text(&met.stdout).contains("Fit for what?"), "{}", text(&met.stdout));
    let names: BTreeSet<String> = results(&folder).classes.into_iter().map(|verdict| verdict.class).collect();
    assert!(names.contains("mine") && names.contains("hpc"), "{names:?}");

    // A deadline that nothing meets; without --require it is only said.
    let said = bulkhead(&folder, &["report", "run", "--deadline", "1us", "--miss-rate", "0"]);
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    // Both the class and the deadline are remembered.
    let required = bulkhead(&folder, &["report", "run", "--require", "mine"]);
    assert_eq!(required.status.code(), Some(1), "{}", text(&required.stderr));
    assert!(
        text(&required.stderr).contains("--require mine: fake, mine: unsuited"),
        "{}",
        text(&required.stderr)
    );
    let verdict = results(&folder).classes.into_iter().find(|verdict| verdict.class == "mine").unwrap();
    assert!(verdict.conditions[0].bound.starts_with("at most 1 µs"), "{}", verdict.conditions[0].bound);
    assert!(verdict.would_change.contains("a deadline of"), "{}", verdict.would_change);
    let page = fs::read_to_string(folder.path().join("run/report.html")).unwrap();
    assert!(page.contains("id=\"fit\"") && page.contains("id=\"isolation\""));
}

#[test]
fn what_was_not_measured_is_not_suited_for_a_requirement() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(&folder, &["--probe", "gap", "--require", "interactive"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("add [probe.frames]"), "{}", text(&output.stderr));
}

#[test]
fn bad_input_is_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("bad.toml"), MINE.replace("neighbours", "neighbors")).unwrap();
    for (arguments, part) in [
        (vec!["--require", "real-tme"], "did you mean \"real-time\"?"),
        (vec!["--deadline", "5"], "wanted a time"),
        (vec!["--miss-rate", "2"], "out of bounds"),
        (vec!["--classes", "bad.toml"], "did you mean \"neighbours\"?"),
        (vec!["--classes", "none.toml"], "cannot be read"),
    ] {
        let output = run(&folder, &arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(part), "{arguments:?}: {}", text(&output.stderr));
        assert!(!folder.path().join("run").exists(), "{arguments:?}: nothing is measured");
    }
}

#[test]
fn shipped_classes_print_and_check() {
    let folder = tempfile::tempdir().unwrap();
    let names = text(&bulkhead(&folder, &["classes"]).stdout);
    assert_eq!(names.lines().collect::<Vec<_>>(), ["real-time", "hpc", "htc", "interactive"]);
    for name in names.lines() {
        fs::write(folder.path().join("mine.toml"), bulkhead(&folder, &["classes", name]).stdout).unwrap();
        let checked = bulkhead(&folder, &["classes", "mine.toml"]);
        assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
        assert!(text(&checked.stdout).contains("good. 1 class ("), "{}", text(&checked.stdout));
        let json: Value =
            serde_json::from_slice(&bulkhead(&folder, &["classes", name, "--json"]).stdout).unwrap();
        assert_eq!(json["class"][0]["name"], *name);
    }
    let unknown = bulkhead(&folder, &["classes", "hpcc"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("did you mean \"hpc\"?"), "{}", text(&unknown.stderr));
    let schema: Value = serde_json::from_slice(&bulkhead(&folder, &["schema", "classes"]).stdout).unwrap();
    assert!(schema["$defs"]["Condition"].is_object());
}
