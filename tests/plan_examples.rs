//! The systems of `examples/plan`: each is planned by the program itself, has the answer that its head says, and passes both checks.

use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;
use bulkhead::model::plan::{Goal, GoalValue, Plan};
use tempfile::TempDir;

/// The longest that one may take; they take a second.
const DEADLINE: std::time::Duration = std::time::Duration::from_secs(120);

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/plan").join(format!("{name}.toml"))
}

fn bulkhead(folder: &Path, arguments: &[&str]) -> Output {
    Command::cargo_bin("bulkhead")
        .expect("the binary is built")
        .arg("plan")
        .args(arguments)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .timeout(DEADLINE)
        .output()
        .expect("it can be run")
}

/// Runs `plan` with these arguments and expects that all is well; what it says.
#[track_caller]
fn done(folder: &Path, arguments: &[&str]) -> String {
    let output = bulkhead(folder, arguments);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{arguments:?}\n{out}\n{err}");
    out.into_owned()
}

/// Plans a file of this folder with a proof, has both checked, and reads the plan.
#[track_caller]
fn planned(folder: &Path, file: &Path, more: &[&str]) -> Plan {
    let file = file.to_str().unwrap();
    let out = if more.is_empty() { "first" } else { "second" };
    let (plan, proof) = (format!("{out}/plan.json"), format!("{out}.proof"));
    done(folder, &[&[file, "--out", out, "--proof", &proof], more].concat());
    // A plan of more than the file is checked with the file that has all.
    if !more.contains(&"--add") {
        let checked = done(folder, &[file, "--check", &plan, "--check-proof", &proof]);
        assert!(checked.contains("keeps every rule") && checked.contains("the proof is right"), "{checked}");
    }
    let page = std::fs::read_to_string(folder.join(out).join("plan.html")).unwrap();
    let text = std::fs::read_to_string(folder.join(&plan)).unwrap();
    let plan: Plan = serde_json::from_str(&text).unwrap();
    assert!(plan.partitions.iter().all(|placed| page.contains(&placed.name)), "plan.html names everybody");
    plan
}

#[track_caller]
fn of(name: &str) -> (TempDir, Plan) {
    let folder = tempfile::tempdir().unwrap();
    let plan = planned(folder.path(), &example(name), &[]);
    (folder, plan)
}

/// What a plan is worth by a goal, which must be proven.
#[track_caller]
fn proven(plan: &Plan, goal: Goal) -> u64 {
    let GoalValue { value, least, .. } = *plan.goals.iter().find(|value| value.goal == goal).unwrap();
    assert_eq!(value, least, "{goal:?} is not proven");
    value
}

/// Nodes, and how many CPUs on each.
fn seats(plan: &Plan, name: &str) -> Vec<(u32, usize)> {
    let placed = plan.partitions.iter().find(|placed| placed.name == name).unwrap();
    placed.seats.iter().map(|seat| (seat.node, seat.cpus.numbers().len())).collect()
}

#[test]
fn kubernetes_141237_stays_on_one_socket() {
    let (_folder, plan) = of("kubernetes-141237");
    assert_eq!(proven(&plan, Goal::SocketsSpanned), 1);
    let seats = seats(&plan, "pod");
    assert!(seats.iter().all(|(_, cpus)| *cpus == 30), "{seats:?}");
    let nodes: Vec<u32> = seats.iter().map(|(node, _)| *node).collect();
    assert!(nodes == [0, 1, 2, 3] || nodes == [4, 5, 6, 7], "{nodes:?}");
}

#[test]
fn kubernetes_139430_has_its_cpus_on_all_four_nodes() {
    let (_folder, plan) = of("kubernetes-139430");
    assert_eq!(seats(&plan, "pod"), [(0, 44), (1, 44), (2, 44), (3, 44)]);
}

#[test]
fn kubernetes_84597_makes_room_with_one_move() {
    let (folder, plan) = of("kubernetes-84597");
    assert_eq!(proven(&plan, Goal::FullestNode), 50, "they are spread");
    let more = example("kubernetes-84597-more");
    let add = ["--from", "first/plan.json", "--add", more.to_str().unwrap()];
    let plan = planned(folder.path(), &example("kubernetes-84597"), &add);
    assert_eq!(proven(&plan, Goal::Moves), 1);
    assert_eq!(plan.partitions.len(), 4);
    assert!(plan.partitions.iter().all(|placed| placed.seats.len() == 1), "each on one node");
    let all = folder.path().join("kubernetes-84597.toml");
    let text = |name: &str| std::fs::read_to_string(example(name)).unwrap();
    std::fs::write(&all, text("kubernetes-84597") + &text("kubernetes-84597-more")).unwrap();
    let checked = done(
        folder.path(),
        &[
            "kubernetes-84597.toml",
            "--from",
            "first/plan.json",
            "--check",
            "second/plan.json",
            "--check-proof",
            "second.proof",
        ],
    );
    assert!(checked.contains("the proof is right"), "{checked}");
}

#[test]
fn the_message_switch_has_no_single_point_of_failure() {
    let (_folder, plan) = of("message-switch");
    assert_eq!(plan.partitions.len(), 8);
    for name in ["switch", "terminals", "information", "database"] {
        let hosts: Vec<&str> = plan
            .partitions
            .iter()
            .filter(|placed| placed.of == name)
            .map(|placed| placed.host.as_str())
            .collect();
        assert_eq!(hosts.len(), 2);
        assert_ne!(hosts[0], hosts[1], "{name}");
    }
    for part in ["host one", "host two", "disk one/raid", "disk two/raid", "nic one/lan", "nic two/lan"] {
        assert!(plan.failures.iter().any(|failure| failure.part == part), "{part}: {:?}", plan.failures);
    }
    let singles: Vec<&str> = plan
        .failures
        .iter()
        .filter(|failure| !failure.lost.is_empty())
        .map(|failure| failure.part.as_str())
        .collect();
    assert_eq!(singles, Vec::<&str>::new());
    assert!(plan.failures.iter().flat_map(|failure| &failure.survive).all(|one| one.away_ms.get() <= 10_000));
    assert!(plan.talks.iter().all(|talk| talk.latency_us.get() <= 1_000_000));
}

#[test]
fn a_program_that_passes_messages_has_a_part_on_each_node_and_one_with_threads_is_whole() {
    let (folder, plan) = of("manycore-mpi");
    let all = |plan: &Plan| seats(plan, "solver");
    assert_eq!(all(&plan), [(0, 4), (1, 4), (2, 4), (3, 4)]);
    let set = |folder: &TempDir| -> toml::Table {
        std::fs::read_to_string(folder.path().join("first/opteron.set.toml")).unwrap().parse().unwrap()
    };
    let partitions = |set: &toml::Table| set["partition"].as_table().unwrap().len();
    assert_eq!(partitions(&set(&folder)), 4, "one VM per node");
    let (folder, plan) = of("manycore-openmp");
    assert_eq!(all(&plan), [(0, 4), (1, 4), (2, 4), (3, 4)]);
    assert_eq!(partitions(&set(&folder)), 1, "it is not split");
    assert!(plan.notes.iter().any(|note| note.contains("solver")), "{:?}", plan.notes);
}

#[test]
fn tableaus_configurations_fill_the_host_and_one_more_is_too_much() {
    for (name, vms) in [("20ms-capped", 48), ("20ms-capped-full", 48), ("example", 12)] {
        let name = format!("tableau-{name}");
        let (folder, plan) = of(&name);
        assert_eq!(plan.partitions.len(), vms, "{name}");
        assert_eq!(proven(&plan, Goal::FullestNode), 100, "{name}");
        let text = std::fs::read_to_string(example(&name)).unwrap();
        let more = "more = { program = [\"/usr/bin/env\"], memory_mib = 128, needs = { cpu = \"shared\", share_percent = 1 } }\n";
        std::fs::write(folder.path().join("more.toml"), text + more).unwrap();
        let output = bulkhead(folder.path(), &["more.toml", "--out", "more", "--proof", "more.proof"]);
        assert_eq!(output.status.code(), Some(1), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let checked = done(folder.path(), &["more.toml", "--check-proof", "more.proof"]);
        assert!(checked.contains("the needs cannot hold together"), "{checked}");
    }
}
