//! The program as scripts and people meet it: exit codes, help, bad input, files it leaves.

use std::fs;
use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use bulkhead::model::system::{HostFacts, HostShape};
use tempfile::TempDir;

fn bulkhead(folder: &TempDir, arguments: &[&str]) -> Output {
    Command::cargo_bin("bulkhead")
        .expect("the binary is built")
        .args(arguments)
        .current_dir(folder.path())
        .env("NO_COLOR", "1")
        .timeout(std::time::Duration::from_secs(120))
        .output()
        .expect("it can be run")
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("stdout is UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs, expects this exit code and this text on stderr.
#[track_caller]
fn refused(arguments: &[&str], code: i32, part: &str) {
    let output = bulkhead(&folder(), arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
    assert!(stderr(&output).contains(part), "{arguments:?}: {}", stderr(&output));
    assert!(output.stdout.is_empty(), "data goes to stdout, errors do not: {}", stdout(&output));
}

#[test]
fn help_fits_a_terminal_and_shows_examples() {
    for verb in [
        "measure",
        "exec",
        "mpirun",
        "simulate",
        "doctor",
        "plan",
        "compare",
        "report",
        "experiment",
        "schema",
        "completions",
        "man",
    ] {
        let output = bulkhead(&folder(), &[verb, "--help"]);
        assert_eq!(output.status.code(), Some(0), "{verb}");
        let text = stdout(&output);
        assert!(text.contains("Examples:"), "{verb}: {text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{verb}: {text}");
    }
}

#[test]
fn unknown_names_are_answered_with_the_nearest() {
    refused(&["measure", "natve"], 2, "did you mean \"native\"?");
    refused(&["measure", "fake", "--probe", "gapp"], 2, "did you mean \"gap\"?");
    refused(&["measure", "--experiment", "defalt"], 2, "did you mean \"default\"?");
    refused(&["mesure"], 2, "measure");
    refused(&["measure", "--qick"], 2, "--quick");
}

#[test]
fn a_bad_experiment_is_refused_with_the_place() {
    let folder = folder();
    fs::write(folder.path().join("bad.toml"), "[probe.gap]\nduraton_ms = 5\n").expect("writable");
    let output = bulkhead(&folder, &["measure", "--experiment", "bad.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(text.contains("line 2") && text.contains("did you mean \"duration_ms\"?"), "{text}");
    assert_eq!(
        fs::read_dir(folder.path()).expect("readable").count(),
        1,
        "nothing but the experiment is there"
    );
}

#[test]
fn directories_that_cannot_be_used_are_refused() {
    let folder = folder();
    fs::write(folder.path().join("file"), "x").expect("writable");
    let through_a_file = bulkhead(&folder, &["measure", "fake", "--out", "file/run"]);
    assert_eq!(through_a_file.status.code(), Some(2), "{}", stderr(&through_a_file));
    fs::create_dir(folder.path().join("full")).expect("writable");
    fs::write(folder.path().join("full/thing"), "x").expect("writable");
    let used = bulkhead(&folder, &["measure", "fake", "--out", "full"]);
    assert_eq!(used.status.code(), Some(2));
    assert!(stderr(&used).contains("not empty"), "{}", stderr(&used));
    assert!(folder.path().join("full/thing").exists(), "what was there is still there");
    let nothing = bulkhead(&folder, &["measure", "--resume", "full"]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(stderr(&nothing).contains("holds no run"), "{}", stderr(&nothing));
}

fn quick_fake(folder: &TempDir, out: &str) -> Output {
    bulkhead(folder, &["measure", "fake", "fake", "--quick", "--rounds", "3", "--seed", "7", "--out", out])
}

fn names_in(path: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(path)
        .expect("readable")
        .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_run_leaves_exactly_the_files_of_the_contract() {
    let folder = folder();
    let output = quick_fake(&folder, "run");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(
        names_in(&folder.path().join("run")),
        ["experiment.toml", "journal.jsonl", "report.html", "results.json"]
    );
    let text = stdout(&output);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "80 columns:\n{text}");
    assert!(!text.contains('\u{1b}'), "no colour when stdout is no terminal");
    let again = quick_fake(&folder, "run");
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("--resume run"), "{}", stderr(&again));
    let resumed = bulkhead(&folder, &["measure", "--resume", "run"]);
    assert_eq!(resumed.status.code(), Some(0), "{}", stderr(&resumed));
}

#[test]
fn the_same_seed_measures_in_the_same_order() {
    let folder = folder();
    let order = |out: &str| -> Vec<serde_json::Value> {
        assert_eq!(quick_fake(&folder, out).status.code(), Some(0));
        fs::read_to_string(folder.path().join(out).join("journal.jsonl"))
            .expect("readable")
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
            .filter(|line| line["line"] == "measurement")
            .map(|line| serde_json::json!([line["cell"], line["round"], line["outcome"]]))
            .collect()
    };
    assert_eq!(order("a"), order("b"));
}

#[test]
fn results_are_as_the_published_schema_says() {
    let folder = folder();
    assert_eq!(quick_fake(&folder, "run").status.code(), Some(0));
    let text = fs::read_to_string(folder.path().join("run/results.json")).expect("readable");
    let results: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let schema = bulkhead(&folder, &["schema", "results"]);
    let schema: serde_json::Value = serde_json::from_str(&stdout(&schema)).expect("JSON");
    let required = schema["required"].as_array().expect("a list");
    assert!(required.len() > 8);
    for key in required {
        assert!(results.get(key.as_str().expect("a name")).is_some(), "{key}");
    }
    for format in ["journal", "experiment", "preflight", "power"] {
        let text = stdout(&bulkhead(&folder, &["schema", format]));
        serde_json::from_str::<serde_json::Value>(&text).unwrap_or_else(|error| panic!("{format}: {error}"));
    }
}

#[test]
fn a_host_is_written_with_what_was_measured_on_it() {
    let folder = folder();
    assert_eq!(quick_fake(&folder, "run").status.code(), Some(0));
    let written = bulkhead(&folder, &["doctor", "--host-file", "here.toml", "--run", "run"]);
    assert_eq!(written.status.code(), Some(0), "{}", String::from_utf8_lossy(&written.stderr));
    let text = fs::read_to_string(folder.path().join("here.toml")).expect("it was written");
    // Nothing of a fake platform is a fact.
    assert!(text.contains("# note: figures of fake, fake#2 are made up"), "{text}");
    let shape = HostShape::from_toml(&text).expect("a host");
    assert_eq!(shape.facts, HostFacts::default());
    let printed = stdout(&bulkhead(&folder, &["doctor", "--host-file", "-"]));
    assert_eq!(HostShape::from_toml(&printed).expect("a host").nodes, shape.nodes);
    for (run, wanted) in [("nothing", "nothing"), ("here.toml", "wanted the folder of a run")] {
        let refused = bulkhead(&folder, &["doctor", "--host-file", "-", "--run", run]);
        assert_eq!(refused.status.code(), Some(2));
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains(wanted), "{said}");
    }
}

#[test]
fn results_of_another_version_are_refused() {
    let folder = folder();
    assert_eq!(quick_fake(&folder, "run").status.code(), Some(0));
    let path = folder.path().join("run/results.json");
    let text = fs::read_to_string(&path).expect("readable");
    fs::write(&path, text.replacen("\"schema_version\":2", "\"schema_version\":99", 1)).expect("writable");
    let output = bulkhead(&folder, &["compare", "run", "run"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("99"), "{}", stderr(&output));
}

#[test]
fn two_runs_compare() {
    let folder = folder();
    assert_eq!(quick_fake(&folder, "a").status.code(), Some(0));
    assert_eq!(quick_fake(&folder, "b").status.code(), Some(0));
    let output = bulkhead(&folder, &["compare", "a", "b", "--html", "changes.html"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).lines().all(|line| line.chars().count() <= 80), "{}", stdout(&output));
    assert!(fs::read_to_string(folder.path().join("changes.html")).expect("written").contains("</html>"));
    let json = stdout(&bulkhead(&folder, &["compare", "a", "b", "--json"]));
    assert!(serde_json::from_str::<serde_json::Value>(&json).expect("JSON").is_array());
}

#[test]
fn a_missing_runtime_or_kernel_is_named_and_the_others_run() {
    let folder = folder();
    let arguments = [
        "measure",
        "fake",
        "container:/no/such/runtime",
        "vm",
        "--qemu",
        "/no/such/qemu",
        "--quick",
        "--rounds",
        "2",
        "--probe",
        "gap",
        "--out",
        "run",
    ];
    let output = bulkhead(&folder, &arguments);
    assert_eq!(output.status.code(), Some(3), "asked for by name and not there: {}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("not available"), "{text}");
    let results = fs::read_to_string(folder.path().join("run/results.json")).expect("readable");
    let results: serde_json::Value = serde_json::from_str(&results).expect("JSON");
    let done = results["cells"]
        .as_array()
        .expect("cells")
        .iter()
        .filter(|cell| cell["done"].as_u64() > Some(0))
        .count();
    assert!(done > 0, "the fake platform was measured");
}

#[test]
fn completions_and_man_pages_are_made() {
    let folder = folder();
    for shell in ["bash", "zsh", "fish"] {
        let text = stdout(&bulkhead(&folder, &["completions", shell]));
        assert!(text.contains("measure") && text.contains("resume"), "{shell}");
    }
    assert!(stdout(&bulkhead(&folder, &["man"])).contains(".TH"));
    let output = bulkhead(&folder, &["man", "--out", "man1"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(names_in(&folder.path().join("man1")).contains(&"bulkhead-measure.1".to_owned()));
}

#[test]
fn shipped_experiments_print_and_check() {
    let folder = folder();
    let names = stdout(&bulkhead(&folder, &["experiment"]));
    assert!(names.contains("default") && names.contains("quick"), "{names}");
    for name in names.lines() {
        fs::write(folder.path().join("mine.toml"), stdout(&bulkhead(&folder, &["experiment", name])))
            .expect("writable");
        let checked = bulkhead(&folder, &["experiment", "mine.toml"]);
        assert_eq!(checked.status.code(), Some(0), "{}", stderr(&checked));
        assert!(stdout(&checked).contains("good"), "{}", stdout(&checked));
    }
}

/// What `doctor --power` prints, and its exit code; `meanwhile` is done to it.
fn power(folder: &TempDir, arguments: &[&str], meanwhile: impl Fn(u32)) -> (serde_json::Value, Option<i32>) {
    let temporary = folder.path().join("temporary");
    fs::create_dir_all(&temporary).expect("writable");
    let child = std::process::Command::new(env!("CARGO_BIN_EXE_bulkhead"))
        .args(["doctor", "--power", "--json"])
        .args(arguments)
        .env("TMPDIR", &temporary)
        .current_dir(folder.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    meanwhile(child.id());
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(fs::read_dir(&temporary).expect("readable").count(), 0, "nothing is left: {said}");
    (serde_json::from_slice(&output.stdout).expect(&said), output.status.code())
}

#[test]
fn power_is_measured_and_nothing_is_lost_or_left_when_it_is_interrupted() {
    let folder = folder();
    let (all, code) = power(&folder, &["--runs", "1"], |_| ());
    assert_eq!((code, &all["interrupted"]), (Some(0), &serde_json::json!(false)), "{all}");
    let percents: Vec<_> =
        all["slowdowns"].as_array().expect("a list").iter().map(|one| &one["more_work_percent"]).collect();
    assert_eq!(percents, [0.0, 2.0, 5.0, 10.0]);
    for one in all["slowdowns"].as_array().expect("a list") {
        assert!(one["runs"] == 1 && one["found"].as_u64() <= Some(1), "{one}");
    }
    assert_eq!(all["probes"].as_array().map(Vec::len), Some(2), "{all}");
    let (some, code) = power(&folder, &["--runs", "1000", "--budget-s", "1000"], |id| {
        std::thread::sleep(std::time::Duration::from_secs(6));
        let id = nix::unistd::Pid::from_raw(i32::try_from(id).expect("a number"));
        nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGINT).expect("sent");
    });
    assert_eq!((code, &some["interrupted"]), (Some(130), &serde_json::json!(true)), "{some}");
    assert!(some["slowdowns"][0]["share_high"].is_number(), "{some}");
    for wrong in [&["doctor", "--runs", "3"][..], &["doctor", "--power", "--runs", "0"]] {
        assert_eq!(bulkhead(&folder, wrong).status.code(), Some(2), "{wrong:?}");
    }
}
