//! What `plan` says on a terminal of 80 columns: a plan, one from another plan, needs that cannot hold together, a mistake.

use std::path::Path;

use assert_cmd::Command;
use tempfile::TempDir;

const PLANT: &str = r#"[host.a]
switch = "s1"
reserve_cpus = 1
[[host.a.node]]
number = 0
cpus = "0-7"
memory_mib = 16384
caches = ["0-3", "4-7"]
[[host.a.node]]
number = 1
cpus = "8-15"
memory_mib = 16384
[[host.a.disk]]
name = "sda"
node = 0
bytes_per_s = 150000000
[[host.a.nic]]
name = "eth0"
bytes_per_s = 125000000

[host.b]
switch = "s2"
[[host.b.node]]
number = 0
cpus = "0-7"
memory_mib = 16384
[[host.b.disk]]
name = "sda"
bytes_per_s = 150000000
[[host.b.nic]]
name = "eth0"
bytes_per_s = 125000000

[partition.db]
program = ["/usr/bin/env"]
cpus = 2
memory_mib = 4096
[partition.db.needs]
replicas = 2
isolation = "cache"
disk = { bytes_per_s = 30000000, longest_stall_ms = 1000 }

[partition.plc]
program = ["/usr/bin/env"]
cpus = 2
memory_mib = 2048
realtime = 50
needs = { isolation = "core", talks_to = { db = { bytes_per_s = 1000000, latency_us = 600 } } }

[partition.web]
program = ["/usr/bin/env"]
cpus = 4
memory_mib = 2048
[partition.web.needs]
cpu = "shared"
share_percent = 25
network = { bytes_per_s = 20000000, receives = true }
talks_to.db = { bytes_per_s = 5000000 }
max_downtime_ms = 90000

[partition.batch]
program = ["/usr/bin/env"]
cpus = 4
memory_mib = 6000
needs = { cpu = "shared", share_percent = 50 }
"#;

/// Runs `plan` in this folder; all it says. Data must fit 80 columns, the exit code be this one.
#[track_caller]
fn said(folder: &Path, arguments: &[&str], code: i32) -> String {
    let output = Command::cargo_bin("bulkhead")
        .expect("the binary is built")
        .arg("plan")
        .args(arguments)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .timeout(std::time::Duration::from_secs(120))
        .output()
        .expect("it can be run");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "wider than 80 columns:\n{text}");
    let text = text + &String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

/// A folder with this system.
fn folder(text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plant.toml"), text).unwrap();
    folder
}

#[test]
fn a_plan_reads_like_this() {
    insta::assert_snapshot!(said(folder(PLANT).path(), &["plant.toml"], 0));
}

#[test]
fn why_each_is_there_reads_like_this() {
    // A third node with room, which costs something, and a partition that may be on it only.
    let more =
        "[[host.a.node]]\nnumber = 2\nsocket = 1\ncpus = \"16-19\"\nmemory_mib = 3000\n[[host.a.disk]]";
    let folder = folder(&PLANT.replacen("[[host.a.disk]]", more, 1));
    let all = said(folder.path(), &["plant.toml", "--full"], 0);
    let (_, why) = all.split_once("Why there").expect("it says why");
    insta::assert_snapshot!(why.split_once("\n\n").expect("and more").0);
    // What a plan says of other places is checked, too.
    let path = folder.path().join("plant-plan/plan.json");
    let check = ["plant.toml", "--check", "plant-plan/plan.json"];
    said(folder.path(), &check, 0);
    let plan = std::fs::read_to_string(&path).unwrap();
    let fullest = plan.rfind("fullest_node").expect("somewhere it would cost room");
    let value = plan[fullest..].find("\"value\": ").map(|at| fullest + at + 9).unwrap();
    std::fs::write(&path, format!("{}1{}", &plan[..value], &plan[value..])).unwrap();
    let told = said(folder.path(), &check, 1);
    assert!(told.contains("would cost is not so"), "{told}");
}

#[test]
fn a_plan_from_another_reads_like_this() {
    // Both replicas fit on hosts that are left.
    let two = PLANT.replace("[host.b]\n", "[host.b]\ncount = 2\n");
    let folder =
        folder(&two.replace("cpus = \"0-7\"\n", "cpus = \"0-7\"\ncaches = [\"0-3\", \"4-7\"]\n").replacen(
            "caches = [\"0-3\", \"4-7\"]\nmemory_mib = 16384\ncaches",
            "memory_mib = 16384\ncaches",
            1,
        ));
    said(folder.path(), &["plant.toml"], 0);
    let from = ["plant.toml", "--from", "plant-plan/plan.json", "--drain", "a", "--out", "new"];
    insta::assert_snapshot!(said(folder.path(), &from, 0));
}

#[test]
fn needs_that_cannot_hold_together_read_like_this() {
    let folder = folder(&PLANT.replace("memory_mib = 6000", "memory_mib = 15000"));
    let lost = ["plant.toml", "--what-if", "host.b=lost"];
    insta::assert_snapshot!(said(folder.path(), &lost, 1));
}

#[test]
fn a_mistake_in_the_file_reads_like_this() {
    let folder = folder(&PLANT.replace("reserve_cpus", "reserve_cpsu"));
    insta::assert_snapshot!(said(folder.path(), &["plant.toml"], 2));
}
