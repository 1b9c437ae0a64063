//! Calls of `bulkhead simulate` for tests, and what those are about that are long: interruptions, and what a folder keeps.

mod folders;
mod interruptions;
mod told;

use std::fs;
use std::process::Output;

use assert_cmd::Command;
use tempfile::TempDir;

/// Two VMs on one CPU; one ends, so that it takes no time.
pub const TWO: &str = r#"
name = "two"
about = "Two VMs share a CPU."
seed = 7
replications = 4

[host]
cpus = 1
policy = { name = "equal-per-vm", quantum_us = 1000 }

[[vm]]
name = "A"
vcpus = 1
thread = [{ run = { program = "fwq", work_us = 700, samples = 50, jitter_us = 5000 } }]

[[vm]]
name = "B"
vcpus = 1
thread = [{ run = { program = "endless" } }]

[[case]]
label = "short turns"
[[case]]
label = "long turns"
set = { "host.policy.quantum_us" = 4000 }

[[figure]]
title = "half of it"
metric = "vm.A.cpus"
case = { case = "long turns" }
published = 0.5
tolerance = 0.1
source = "arithmetic"
label = "predicted"

[[assumption]]
key = "vm.B.weight"
why = "Nobody says."
try_factors = [2.0]
"#;

/// Five seconds of work, of which one is simulated.
pub const STUCK: &str = r#"
name = "stuck"
limits = { simulated_s = 1 }
host = { cpus = 1, policy = { name = "per-thread", quantum_us = 1000 } }
[[vm]]
name = "A"
vcpus = 1
thread = [{ run = { program = "fixed", work_us = 5000000 } }]
"#;

/// Runs the program in this folder.
pub fn bulkhead(folder: &TempDir, arguments: &[&str]) -> Output {
    Command::cargo_bin("bulkhead")
        .unwrap()
        .args(arguments)
        .current_dir(folder.path())
        .env("NO_COLOR", "1")
        .timeout(std::time::Duration::from_secs(120))
        .output()
        .unwrap()
}

/// A folder with these files.
pub fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// What it printed.
pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What it said.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a call printed that must end well.
#[track_caller]
pub fn good(folder: &TempDir, arguments: &[&str]) -> String {
    let output = bulkhead(folder, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}{}", stdout(&output), stderr(&output));
    stdout(&output)
}

/// A scenario that is bad input, with this among what is said; nothing is printed or made.
#[track_caller]
pub fn refused(text: &str, more: &[&str], part: &str) {
    let folder = folder(&[("s.toml", text)]);
    let output = bulkhead(&folder, &[&["simulate", "s.toml"], more].concat());
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output));
    assert!(output.stdout.is_empty() && fs::read_dir(folder.path()).unwrap().count() == 1);
}
