//! A model calibrated from a real run, through the command line: two processes share this machine under a quota (per
//! thread without root), the simulator learns from all phases but the fullest and predicts that one.
//!
//! Whether the prediction holds depends on who else uses the machine; that it is made, said with its error, and the same
//! each time does not.

use crate::verdict;

use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use assert_cmd::Command;
use serde_json::Value;
use skips::{Need, skip};

/// A hang must not hang the test.
const HANGS: Duration = Duration::from_secs(180);

fn bulkhead(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::cargo_bin("bulkhead").expect("the program is built");
    command.args(arguments).current_dir(folder).env("NO_COLOR", "1").timeout(HANGS);
    command.output().expect("it runs")
}

fn experiment() -> String {
    let quota = if nix::unistd::geteuid().is_root() { "cpu_cap_percent = 60" } else { "" };
    format!(
        r#"
name = "shared"
baseline = "native"
[repeat]
min = 1
max = 1
target_percent = 10.0
budget_s = 120
[[platform]]
label = "native"
kind = "native"
{quota}
[probe.share]
duration_ms = 400
settle_ms = 100
[[layout]]
size = "1x2"
probes = ["share"]
"#
    )
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_measured_run_calibrates_a_model_that_predicts_what_it_was_not_given() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("shared.toml"), experiment()).expect("written");
    let measured = bulkhead(folder.path(), &["measure", "--experiment", "shared.toml", "--out", "run"]);
    assert_eq!(measured.status.code(), Some(0), "{}", said(&measured));

    let predict = || bulkhead(folder.path(), &["simulate", "--from", "run", "--json"]);
    let predicted = predict();
    // 1: a prediction does not hold, which is a finding and no failure.
    assert!(matches!(predicted.status.code(), Some(0 | 1)), "{}", said(&predicted));
    let model: Value = serde_json::from_slice(&predicted.stdout).expect("it is JSON");
    assert_eq!(model["calibrated"], true);
    let beside = model["published"].as_array().expect("a list");
    for wanted in ["vm.first.cpus", "vm.other.cpus", "vm.first.bound_95_ns"] {
        let line = beside.iter().find(|line| line["metrics"][0] == wanted);
        let line = line.unwrap_or_else(|| panic!("{wanted} is predicted: {beside:#?}"));
        for side in ["published", "simulated"] {
            assert!(line[side].as_f64().is_some_and(|value| value > 0.0), "{wanted}, {side}: {line}");
        }
    }
    for wanted in ["policy", "quantum"] {
        let found = model["assumptions"].as_array().expect("a list");
        let key = |line: &Value| line["key"].as_str().is_some_and(|key| key.contains(wanted));
        assert!(found.iter().any(key), "what was taken for the {wanted} is said: {found:#?}");
    }
    assert_eq!(predict().stdout, predicted.stdout, "the same run gives the same bytes");

    let shown = bulkhead(folder.path(), &["simulate", "--from", "run"]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(text.contains("held out") && text.contains("measured"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

/// Two and three instances of this kind, quiet enough rounds of long enough phases that predictions are held against.
fn several(kind: &str, cap: &str) -> String {
    format!(
        r#"
name = "several"
baseline = "{kind}"
[repeat]
min = 3
max = 3
budget_s = 1200
[[platform]]
label = "{kind}"
kind = "{kind}"
{cap}
[probe.share]
duration_ms = 1500
[[layout]]
size = "1x2"
probes = ["share"]
[[layout]]
size = "1x3"
probes = ["share"]
"#
    )
}

/// How many predictions hold, and how many there are.
fn demands(predicted: &Output) -> (u64, u64) {
    let model: Value = serde_json::from_slice(&predicted.stdout).expect("it is JSON");
    let all = model["published"].as_array().expect("a list");
    let held = all.iter().filter(|line| line["holds"] == true).count();
    (held as u64, all.len() as u64)
}

/// Ten minutes of a quiet machine, so only when asked for: `BULKHEAD_CALIBRATIONS=1`.
#[test]
fn every_prediction_holds_on_a_quiet_machine_when_that_is_asked_for() {
    if std::env::var_os("BULKHEAD_CALIBRATIONS").is_none() {
        return skip(Need::Long, "BULKHEAD_CALIBRATIONS is not set");
    }
    if !nix::unistd::geteuid().is_root() {
        return skip(Need::Root, "CPU groups need root");
    }
    let cap = "cpu_cap_percent = 60";
    let weights = "cpu_weight = 300\nother_cpu_weight = 100";
    let (mut missed, mut judge) = (Vec::new(), verdict::Judge::default());
    for (kind, cap) in [("native", cap), ("vm", cap), ("vm", ""), ("native", weights), ("vm", weights)] {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("several.toml"), several(kind, cap)).expect("written");
        let words = ["measure", "--experiment", "several.toml", "--out", "run"];
        let mut command = Command::cargo_bin("bulkhead").expect("the program is built");
        command.args(words).current_dir(folder.path()).env("NO_COLOR", "1").timeout(HANGS * 4);
        let measured = command.output().expect("it runs");
        assert_eq!(measured.status.code(), Some(0), "{}", said(&measured));
        let predicted = bulkhead(folder.path(), &["simulate", "--from", "run"]);
        let text = String::from_utf8_lossy(&predicted.stdout).into_owned();
        let figures = text.split("Estimated from").next().unwrap_or_default();
        println!("{kind} {cap}\n{figures}");
        let (held, of) = demands(&bulkhead(folder.path(), &["simulate", "--from", "run", "--json"]));
        let what = format!("predictions of a held-out load that miss, {kind} {}", cap.replace('\n', ", "));
        judge.never(&what, of - held, of);
        // Groups of different weights are a figure that was missed and stays one: see docs/figures.md.
        if cap != weights && (held, of) != (6, 6) {
            missed.push(format!("{kind} {cap}"));
        }
    }
    assert!(missed.is_empty(), "predictions that do not hold: {missed:?}");
}

#[test]
fn a_run_without_shares_says_what_to_measure() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = ["measure", "native", "--quick", "--probe", "syscall", "--rounds", "1", "--out", "run"];
    let measured = bulkhead(folder.path(), &words);
    assert_eq!(measured.status.code(), Some(0), "{}", said(&measured));
    let refused = bulkhead(folder.path(), &["simulate", "--from", "run"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(said(&refused).contains("share"), "{}", said(&refused));
}
