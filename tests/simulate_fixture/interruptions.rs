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
    let out = folder.path().join("o");
    // Once the folder is there, interruptions are listened for.
    let is_due = |_: u64| out.exists() && fs::read_dir(&out).map_or(0, Iterator::count) >= files;
    let (said, _, code) = interrupted_while(folder, more, &is_due);
    (said, code)
}

/// The same once `is_due`, which is given the CPU time so far in milliseconds; what it said, what it printed, and how it ended.
fn interrupted_while(
    folder: &TempDir,
    more: &[&str],
    is_due: &dyn Fn(u64) -> bool,
) -> (String, String, Option<i32>) {
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("bulkhead"))
        .args([&["simulate", "s.toml", "--out", "o"], more].concat())
        .current_dir(folder.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    while !is_due(cpu_ms(child.id())) {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let pid = nix::unistd::Pid::from_raw(child.id().try_into().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let code = child.wait().unwrap().code();
    let read = |stream: &mut dyn std::io::Read| {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let (said, shown) = (read(&mut child.stderr.take().unwrap()), read(&mut child.stdout.take().unwrap()));
    (said, shown, code)
}

/// CPU time that a process has used, in milliseconds; ticks are hundredths of a second.
fn cpu_ms(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    after_name.split(' ').nth(11).and_then(|ticks| ticks.parse::<u64>().ok()).unwrap_or(0) * 10
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

/// The first case is done in no time, the other one never is.
#[test]
fn an_interruption_keeps_and_shows_what_was_done() {
    let text = format!(
        "{}limits = {{ simulated_s = 300000000, events = 1000000000000 }}\n{}[[case]]\nlabel = \"never\"\nset = {{ \"vm.A.thread.0.run.work_us\" \
         = 31536000000000, \"host.policy.quantum_us\" = 1 }}\n",
        "name = \"partly\"\nreplications = 3\n",
        "host = { cpus = 1, staggered = true, policy = { name = \"per-thread\", quantum_us = 1000 } }\n[[vm]]\nname = \"A\"\nvcpus = 2\n\
         thread = [{ run = { program = \"fixed\", work_us = 5000 } }]\n[[figure]]\ntitle = \"ten\"\nmetric = \"vm.A.wall_ns\"\n\
         published = 1e7\ntolerance = 1e6\nlabel = \"predicted\"\nsource = \"arithmetic\"\n[[case]]\nlabel = \"soon\"\n"
    );
    let folder = folder(&[("s.toml", &text)]);
    let (said, shown, code) =
        interrupted_while(&folder, &["--no-sensitivity", "--threads", "2"], &|cpu_ms| cpu_ms > 1000);
    assert_eq!(code, Some(130), "{said}");
    assert!(
        said.contains("3 of 6 simulations were done") && said.contains("never, replication 1: "),
        "{said}"
    );
    let words = "! INTERRUPTED: 3 of 6 simulations were done; all figures are of those";
    assert!(
        shown.contains(words) && shown.contains("soon (3 of 3)") && shown.contains("never (0 of 3)"),
        "{shown}"
    );
    assert!(shown.contains("1 of 1 predictions hold"), "{shown}");
    // What is written says so, too, and is read.
    let again = good(&folder, &["report", "o"]);
    assert!(again.contains(words), "{again}");
    let results: serde_json::Value =
        serde_json::from_str(&good(&folder, &["report", "o", "--json"])).unwrap();
    assert_eq!(results["complete"], false);
    assert_eq!(results["simulation"]["unfinished"]["done"], 3);
    let page = fs::read_to_string(folder.path().join("o/report.html")).unwrap();
    assert!(page.contains("Interrupted.") && page.contains("3 of 6 simulations were done"));
    assert!(good(&folder, &["compare", "o", "o"]).contains("interrupted"));
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
