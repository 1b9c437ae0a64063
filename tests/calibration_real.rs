//! A model calibrated from a real run, through the command line: two processes share this machine under a quota (per
//! thread without root), the simulator learns from all loads but the fullest and predicts that one.
//!
//! Whether the prediction holds depends on who else uses the machine; that it is made as an interval, and the same each time,
//! does not.

use crate::verdict;

use std::fs;
use std::path::{Path, PathBuf};
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
    for wanted in ["host.policy", "host.policy.quantum_us"] {
        let found = model["assumptions"].as_array().expect("a list");
        let is_it = |line: &Value| line["key"] == wanted && line["origin"] == "estimated";
        assert!(found.iter().any(is_it), "what was taken for {wanted} is said: {found:#?}");
    }
    assert_eq!(predict().stdout, predicted.stdout, "the same run gives the same bytes");

    let shown = bulkhead(folder.path(), &["simulate", "--from", "run", "--out", "model"]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(text.contains("held out") && text.contains("measured"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    // What was written is an ordinary scenario, which yields the same, and takes --set as the run itself does.
    let of_file = |more: &[&str]| {
        let words = [&["simulate", "model/scenario.toml", "--json"][..], more].concat();
        bulkhead(folder.path(), &words).stdout
    };
    assert_eq!(of_file(&[]), predicted.stdout, "the written scenario yields what the run yields");
    let set = ["--set", "host.cpus=1"];
    let of_run =
        bulkhead(folder.path(), &["simulate", "--from", "run", "--json", "--set", "host.cpus=1"]).stdout;
    assert!(!of_run.is_empty() && of_run != predicted.stdout, "a value is put in");
    assert_eq!(of_file(&set), of_run, "and in the same way");
    // Another policy has no quantum that could be estimated.
    assert!(!of_file(&["--set", "host.policy=credit2", "--no-sensitivity"]).is_empty(), "another policy");
    // What its first instance could not have is the noise of many nodes.
    let nodes = "name = \"n\"\n[nodes]\ncount = 8\nwork_us = 1000\nsteps = 10\nbarrier = { kind = \"maximum\" }\n\
                 noise = { kind = \"trace\", file = \"model\" }\n";
    fs::write(folder.path().join("nodes.toml"), nodes).expect("written");
    let noisy = bulkhead(folder.path(), &["simulate", "nodes.toml", "--json"]);
    assert_eq!(noisy.status.code(), Some(0), "{}", said(&noisy));
}

/// Processes and VMs, free, under a quota and in groups of different weights, in turn: rounds of each lie apart.
const SIX: &str = r#"
name = "six"
baseline = "native"
[repeat]
min = 5
max = 5
budget_s = 1800
[probe.share]
duration_ms = 800
settle_ms = 400
[[layout]]
size = "1x2"
probes = ["share"]
"#;

fn six() -> String {
    let settings = [
        ("", ""),
        ("-cap", "cpu_cap_percent = 60"),
        ("-weights", "cpu_weight = 300\nother_cpu_weight = 100"),
    ];
    let platforms = settings.map(|(ending, more)| {
        format!(
            "[[platform]]\nlabel = \"native{ending}\"\nkind = \"native\"\n{more}\n\
             [[platform]]\nlabel = \"vm{ending}\"\nkind = \"vm\"\naccelerator = \"tcg\"\n{more}\n"
        )
    });
    format!("{SIX}{}", platforms.concat())
}

/// What was predicted of a load that was held out.
struct Prediction {
    platform: String,
    /// Whether it is of CPUs; else of `bound_95`.
    is_cpus: bool,
    /// Whether what was measured lies in it.
    is_within: bool,
    width: f64,
}

/// Predictions of a run, each load held out in turn.
fn predictions(run: &Path) -> Vec<Prediction> {
    let mut all = Vec::new();
    for load in ["1+2", "2+2", "3+2", "4+2", "1+4", "2+4", "3+4", "4+4"] {
        let run = run.to_string_lossy();
        let words = ["simulate", "--from", &run, "--hold-out", load, "--json"];
        let predicted = bulkhead(Path::new("."), &words);
        assert!(matches!(predicted.status.code(), Some(0 | 1)), "{}", said(&predicted));
        let model: Value = serde_json::from_slice(&predicted.stdout).expect("it is JSON");
        for line in model["published"].as_array().expect("a list") {
            let (measured, ends) = (line["published"].as_f64(), &line["predicted"]);
            let (Some(low), Some(high), Some(measured)) = (ends[0].as_f64(), ends[1].as_f64(), measured)
            else {
                panic!("it is no prediction: {line}");
            };
            let (case, metric) =
                (line["case"].as_str().unwrap_or("?"), line["metrics"][0].as_str().unwrap_or("?"));
            let platform = case.split(' ').next().unwrap_or(case).to_owned();
            let (is_within, width) = ((low..=high).contains(&measured), 2.0 * (high - low) / (high + low));
            println!(
                "{case}, {metric}: measured {measured:.4}, predicted {low:.4} … {high:.4}, off by {:.2} of half, width {:.0} %{}",
                (2.0 * measured - low - high).abs() / (high - low),
                width * 100.0,
                if is_within { "" } else { ": MISSED" }
            );
            let is_cpus = metric.rsplit('.').next() == Some("cpus");
            all.push(Prediction { platform, is_cpus, is_within, width });
        }
    }
    all
}

/// Eight minutes, so only when asked for: `BULKHEAD_CALIBRATIONS=1`, or the folders of such runs, with colons between them.
#[test]
fn what_is_measured_of_a_load_held_out_lies_where_it_is_predicted() {
    let Some(asked) = std::env::var_os("BULKHEAD_CALIBRATIONS") else {
        return skip(Need::Long, "BULKHEAD_CALIBRATIONS is not set");
    };
    if !nix::unistd::geteuid().is_root() {
        return skip(Need::Root, "CPU groups need root");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut runs: Vec<PathBuf> = std::env::split_paths(&asked).filter(|path| path.is_dir()).collect();
    if runs.is_empty() {
        fs::write(folder.path().join("six.toml"), six()).expect("written");
        let mut command = Command::cargo_bin("bulkhead").expect("the program is built");
        command.args(["measure", "--experiment", "six.toml", "--out", "run"]).current_dir(folder.path());
        let measured = command.env("NO_COLOR", "1").timeout(HANGS * 8).output().expect("it runs");
        assert_eq!(measured.status.code(), Some(0), "{}", said(&measured));
        runs.push(folder.path().join("run"));
    }
    let all: Vec<_> = runs.iter().flat_map(|run| predictions(run)).collect();
    let mut judge = verdict::Judge::default();
    let mut of = |what: &str, these: fn(&Prediction) -> bool| {
        let these: Vec<_> = all.iter().filter(|one| these(one)).collect();
        let held = these.iter().filter(|one| one.is_within).count();
        let count = |count: usize| u32::try_from(count).expect("few");
        let words = format!("measured values within what is predicted, {what}");
        judge.share(&words, count(held), count(these.len()), verdict::Mark::AtLeast(0.9));
        let widths: Vec<f64> = these.iter().map(|one| one.width).collect();
        let width = bulkhead::stats::interval::median_interval(&widths, 0.95, 0);
        let words = format!("median width of what is predicted, {what}");
        judge.answer(&words, &width, widths.len(), verdict::Mark::AtMost(0.25));
    };
    of("CPUs", |one| one.is_cpus);
    of("CPUs of VMs in groups of different weights", |one| one.is_cpus && one.platform == "vm-weights");
    of("bound_95", |one| !one.is_cpus);
    of("CPUs and bound_95", |_| true);
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
