//! Interruptions at any moment, and limits: what was still waiting is told, and nothing half done stays.

use std::fs;

use tempfile::TempDir;

use super::{STUCK, TWO, bulkhead, folder, good, stderr};

/// A program that nobody can wait for.
const STEPS: &str = r#"
name = "steps"
limits = { simulated_s = 300000000, events = 1000000000000 }
nodes = { count = 100000, work_us = 1000, steps = 10000000, barrier = { kind = "maximum" }, noise = { kind = "exponential", mean_us = 9 } }
"#;

/// Simulates in the background, and interrupts once there are so many files in the folder; what it said, and how it ended.
fn interrupted(folder: &TempDir, more: &[&str], files: usize) -> (String, Option<i32>) {
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("bulkhead"))
        .args([&["simulate", "s.toml", "--out", "o"], more].concat())
        .current_dir(folder.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Once the folder is there, interruptions are listened for.
    while fs::read_dir(folder.path().join("o")).map_or(0, Iterator::count) < files
        || !folder.path().join("o").exists()
    {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let pid = nix::unistd::Pid::from_raw(child.id().try_into().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let code = child.wait().unwrap().code();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    (said, code)
}

#[test]
fn an_interruption_ends_it_at_once_says_who_waited_and_leaves_nothing() {
    let endless = STUCK.replace("simulated_s = 1", "simulated_s = 300000000, events = 1000000000000");
    let endless = endless.replace("quantum_us = 1000", "quantum_us = 1");
    let endless = endless.replace("work_us = 5000000", "work_us = 31536000000000");
    for (text, waiting) in [
        (endless.replace("vcpus = 1", "vcpus = 2"), "A: thread 0 has "),
        (STEPS.to_owned(), "100000 nodes have their next step before them"),
    ] {
        let folder = folder(&[("s.toml", &text)]);
        let (said, code) =
            interrupted(&folder, &["--trace", "o/t.json"][..if text == STEPS { 0 } else { 2 }], 0);
        assert_eq!(code, Some(130), "{said}");
        assert!(said.contains("0 of 1 simulations were done") && said.contains(waiting), "{said}");
        assert!(said.contains("nothing is written"), "{said}");
        assert_eq!(fs::read_dir(folder.path().join("o")).unwrap().count(), 0);
    }
}

#[test]
fn an_interruption_of_the_largest_hosts_is_answered_with_what_there_is() {
    let text = r#"
name = "large"
limits = { simulated_s = 300000000, events = 1000000000000 }
host = { cpus = 1024, policy = { name = "eevdf", slice_us = 1000, period_us = 100000 } }
[[vm]]
name = "A"
count = 1000
vcpus = 100
thread = [{ run = { program = "endless" } }]
"#;
    let folder = folder(&[("s.toml", text)]);
    let began = std::time::Instant::now();
    let (said, code) = interrupted(&folder, &[], 0);
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("CPUs had so far: A-1 ") && said.contains("996 more VMs"), "{said}");
    // A second is promised, and others' work may take all CPUs.
    assert!(began.elapsed().as_secs() < 30, "{said}");
}

#[test]
fn an_interruption_while_results_are_shown_ends_it_too_and_what_is_there_is_whole() {
    let folder = folder(&[("s.toml", TWO)]);
    // Nobody reads what it prints, which is more than a pipe holds.
    let (said, code) = interrupted(&folder, &["--json"], 4);
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("o is complete"), "{said}");
    good(&folder, &["report", "o"]);
}

#[test]
fn a_trace_that_cannot_be_written_is_told_before_anything_is_simulated() {
    let folder = folder(&[("s.toml", STUCK), ("n.toml", STEPS)]);
    for (file, part) in [("no/such/t.json", "No such file"), (".", "it is a folder")] {
        let output = bulkhead(&folder, &["simulate", "s.toml", "--trace", file]);
        assert_eq!(output.status.code(), Some(2));
        let said = stderr(&output);
        assert!(said.contains(&format!("--trace {file} cannot be written")) && said.contains(part), "{said}");
        assert!(output.stdout.is_empty() && !said.contains("limits.simulated_s"), "{said}");
    }
    let output = bulkhead(&folder, &["simulate", "n.toml", "--trace", "t.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no CPUs on which something runs"), "{}", stderr(&output));
    assert!(!folder.path().join("t.json").exists());
}

#[test]
fn a_lock_whose_holder_gets_no_cpu_is_told_with_who_waits_for_whom() {
    // A millisecond in an hour for each virtual CPU, and locks that are held for a second.
    let text = r#"
name = "starved"
limits = { simulated_s = 2 }
host = { cpus = 1, policy = { name = "rtds" } }
[[vm]]
name = "A"
vcpus = 2
budget_us = 1000
period_us = 3600000000
locks = { count = 1, kind = "ticket" }
[[vm.thread]]
run = { program = "compile", work_us = 5000000, between_ns = 1000, kernel_ns = 0, hold_ns = 1000000000, locks_per_entry = 1, hot_share = 1.0 }
"#;
    let folder = folder(&[("s.toml", text)]);
    let output = bulkhead(&folder, &["simulate", "s.toml", "--out", "o"]);
    assert_eq!(output.status.code(), Some(4));
    let said = stderr(&output);
    for part in [
        "limits.simulated_s) was over",
        "spins for lock 0 (held by thread ",
        "has no CPU) since",
        "wait for a CPU",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // Shown again it is what it was; only the verb that simulated it fails.
    assert!(good(&folder, &["report", "o"]).contains("TROUBLE"));
}
