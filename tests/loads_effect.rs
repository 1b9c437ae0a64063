//! A neighbour that does nothing makes a measurement a recorded failure: it was not made beside a neighbour.

use std::process::Command;

use serde_json::Value;

const EXPERIMENT: &str = r#"
name = "powerless"
seed = 3

[repeat]
min = 3
max = 3
target_percent = 10.0
budget_s = 60

[[platform]]
label = "a"
kind = "fake"
script = { powerless = ["memory"] }

[[platform]]
label = "b"
kind = "fake"

[probe.fwq]

[[load]]
kind = "memory"
place = "second"

[[load]]
kind = "cpu"
place = "same"
"#;

#[test]
fn a_load_without_effect_is_a_recorded_failure_of_the_neighbour() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("powerless.toml");
    std::fs::write(&file, EXPERIMENT).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_bulkhead"))
        .args(["measure", "--json", "--out", "run", "--experiment"])
        .arg(&file)
        .current_dir(folder.path())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "something that was measured broke: {said}");
    let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let failures = results["failures"].as_array().expect("a list");
    assert_eq!(failures.len(), 3, "one per round: {said}");
    for failed in failures {
        assert_eq!(failed["cell"]["platform"], "a");
        assert_eq!(failed["cell"]["neighbour"]["kind"], "memory");
        assert_eq!(failed["failure"]["kind"], "neighbour");
        let reason = failed["failure"]["reason"].as_str().expect("a text");
        assert!(reason.contains("the memory load in a second instance did nothing: 0 bytes"), "{reason}");
    }
    // The dose that shows it is kept.
    let journal = std::fs::read_to_string(folder.path().join("run/journal.jsonl")).expect("a journal");
    assert!(journal.lines().any(|line| line.contains("did nothing") && line.contains("\"rate_per_s\":0.0")));
}
