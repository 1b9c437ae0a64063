//! One test per fixed bug, named after what went wrong.

use std::process::Command;
use std::sync::atomic::AtomicBool;

use bulkhead::campaign::read_results;
use bulkhead::model::results::VerdictLevel;
use bulkhead::probes::job::Job;
use bulkhead::probes::params::{DiskParams, FwqParams, ProbeSpec};
use bulkhead::probes::run::{Surroundings, run_job};
use bulkhead::units::metric::Estimate;
use bulkhead::units::{Mebibytes, Millis};

/// The summary spelt such an interval out, digit by digit, over three lines.
#[test]
fn an_interval_over_hundreds_of_decades_was_printed_in_full() {
    let nonsense = Estimate { value: 3.28, low: 1e-190, high: 7.7e189, confidence: 0.95 };
    assert_eq!(nonsense.interval_text(), "[very wide]");
    let fine = Estimate { value: 1.12, low: 1.08, high: 1.16, confidence: 0.95 };
    assert_eq!(fine.interval_text(), "[1.08 … 1.16]");
}

fn refusal(probe: ProbeSpec, deadline_ms: u64) -> String {
    let scratch = tempfile::tempdir().expect("a folder");
    let surroundings = Surroundings { scratch: Some(scratch.path().to_owned()), exe: "/bin/true".into() };
    let deadline_ms = Millis::from_millis(deadline_ms);
    let job = Job { id: 1, probe: Some(probe), loads: vec![], seed: 1, deadline_ms, ..Job::default() };
    let reply = run_job(&job, &surroundings, &AtomicBool::new(false), &mut || {});
    reply.report.expect("a probe was asked for").expect_err("it cannot be done").into()
}

/// The disk probe began to fill the host's disk, and would have gone on until nothing was left.
#[test]
fn a_file_larger_than_the_disk_was_begun() {
    let params = DiskParams { file_size_mib: Mebibytes::from_mib(1 << 20), ..DiskParams::default() };
    let reason = refusal(ProbeSpec::Disk(params), 60_000);
    assert!(reason.contains("1 TiB") && reason.contains("are free"), "{reason}");
}

/// The agent ended itself at the deadline before the probe could say what was wrong, and the instance was lost.
#[test]
fn a_probe_that_was_late_took_its_agent_along() {
    let params = FwqParams { iterations: 1_000_000, samples: 1_000_000 };
    let reason = refusal(ProbeSpec::Fwq(params), 200);
    assert!(reason.contains("deadline of 200 ms"), "{reason}");
}

/// Two platforms drowned in noise were called "next to free" because no difference could be seen.
#[test]
fn not_finding_a_difference_in_the_dark_was_called_free() {
    let folder = tempfile::tempdir().expect("a folder");
    let experiment = r#"
        [repeat]
        min = 4
        max = 4
        [[platform]]
        label = "a"
        kind = "fake"
        script = { noise_percent = 100 }
        [[platform]]
        label = "b"
        kind = "fake"
        script = { noise_percent = 100 }
        [probe.fwq]
        samples = 100
        [probe.syscall]
        [probe.fork]
    "#;
    std::fs::write(folder.path().join("noise.toml"), experiment).expect("writable");
    let output = Command::new(env!("CARGO_BIN_EXE_bulkhead"))
        .args(["measure", "--experiment", "noise.toml", "--out", "run", "--seed", "3", "--json"])
        .current_dir(folder.path())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let results = read_results(&folder.path().join("run/results.json")).expect(&said);
    let verdict = results.verdicts.first().expect("a verdict on b");
    assert_ne!(verdict.level, VerdictLevel::Free, "{}", verdict.sentence);
    assert!(verdict.sentence.contains("would not have been seen"), "{}", verdict.sentence);
}
