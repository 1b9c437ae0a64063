//! What a folder keeps, so that it can be simulated again, and what is told of its figures.

use std::fs;

use serde_json::Value;

use super::{bulkhead, folder, good, stderr};

/// One node that is interrupted for 100 µs of each millisecond, as a recording says.
const NOISY: &str = r#"
name = "noisy"
nodes = { count = 3, work_us = 1000, steps = 50, barrier = { kind = "maximum" }, noise = { kind = "trace", file = "rec/quiet host.tsv" } }
"#;

#[test]
fn recorded_noise_is_kept_so_that_the_folder_can_be_simulated_again() {
    let folder = folder(&[("s.toml", NOISY)]);
    let recording = folder.path().join("rec");
    fs::create_dir(&recording).unwrap();
    fs::write(recording.join("quiet host.tsv"), "length_ns\t1000000\n0\t100000\n").unwrap();
    let before = good(&folder, &["simulate", "s.toml", "--json", "--out", "o"]);
    // What the recording says is what periodic noise of the same kind costs.
    let periodic = "nodes.noise={ kind = \"periodic\", period_us = 1000, length_us = 100 }";
    let slowdown = |text: &str| {
        let value: Value = serde_json::from_str(text).unwrap();
        let figures = value["cases"][0]["figures"].as_array().unwrap();
        let found = figures.iter().find(|figure| figure["id"] == "nodes.slowdown").unwrap();
        found["values"][0][1].as_f64().unwrap()
    };
    let same = good(&folder, &["simulate", "s.toml", "--json", "--set", periodic]);
    assert!((slowdown(&before) - slowdown(&same)).abs() < 1e-12 && slowdown(&before) > 1.1);
    // Nothing but the folder is needed, wherever it is.
    fs::remove_dir_all(&recording).unwrap();
    assert_eq!(bulkhead(&folder, &["simulate", "s.toml"]).status.code(), Some(2));
    fs::rename(folder.path().join("o"), folder.path().join("moved")).unwrap();
    assert_eq!(before, good(&folder, &["simulate", "moved/scenario.toml", "--json", "--out", "again"]));
    assert_eq!(before, good(&folder, &["simulate", "again/scenario.toml", "--json"]));
}

#[test]
fn noise_of_a_run_is_kept_as_well_and_a_wrong_line_is_told() {
    let folder = folder(&[
        ("s.toml", &NOISY.replace("rec/quiet host.tsv\"", "m\", platform = \"fake\"")),
        ("w.toml", &NOISY.replace("rec/quiet host.tsv", "w.tsv")),
        ("w.tsv", "start_ns\tduration_ns\n1000\t10\n2000 10\n"),
    ]);
    good(&folder, &["measure", "fake", "--probe", "fwq", "--rounds", "2", "--out", "m"]);
    let before = good(&folder, &["simulate", "s.toml", "--json", "--out", "o"]);
    fs::remove_dir_all(folder.path().join("m")).unwrap();
    assert_eq!(before, good(&folder, &["simulate", "o/scenario.toml", "--json"]));
    let output = bulkhead(&folder, &["simulate", "w.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(
        said.contains("nodes.noise.file") && said.contains("w.tsv: line 3: wanted start_ns, a tab"),
        "{said}"
    );
}

#[test]
fn samples_without_room_are_counted_and_told() {
    // All threads of a host share the room, and a hundred thousand leave each 159 samples.
    let text = r#"
name = "x"
host = { cpus = 2, policy = { name = "per-thread", quantum_us = 1000 } }
[[vm]]
name = "A"
vcpus = 1
cpus = [0]
thread = [{ run = { program = "io", work_us = 2, wait_us = 3, rounds = 200 } }]
[[vm]]
name = "B"
vcpus = 1
cpus = [1]
thread = [{ count = 100000, run = { program = "endless" } }]
"#;
    let folder = folder(&[("s.toml", text)]);
    let shown = good(&folder, &["simulate", "s.toml", "--out", "o"]);
    assert!(
        shown.contains("note: x: vm.A: not all samples had room") && !shown.contains("vm.B: not"),
        "{shown}"
    );
    let results: Value = serde_json::from_str(&good(&folder, &["report", "o", "--json"])).unwrap();
    let figures = results["simulation"]["cases"][0]["figures"].as_array().unwrap();
    let value = |id: &str| figures.iter().find(|figure| figure["id"] == id).unwrap()["values"][0][1].as_f64();
    assert_eq!((value("vm.A.done"), value("vm.A.samples_left_out")), (Some(200.0), Some(41.0)));
    let page = fs::read_to_string(folder.path().join("o/report.html")).unwrap();
    assert!(page.contains("not all samples had room"));
}
