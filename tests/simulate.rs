//! `bulkhead simulate` as scripts and people meet it: exit codes, bad input with its line, the same bytes on any number of
//! threads, and what it leaves in a folder for `report` and `compare`.

use crate::simulate_fixture;

use std::fs;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

use simulate_fixture::{STUCK, TWO, bulkhead, folder, good, refused, stderr, stdout};

#[test]
fn shipped_scenarios_are_listed_each_with_what_it_shows() {
    let text = good(&folder(&[]), &["simulate", "--list"]);
    for name in ["cpu-share", "rhype-fwq", "share-curve", "three-on-two"] {
        assert!(
            text.lines().any(|line| line.starts_with(name) && line.len() > name.len() + 20),
            "{name}: {text}"
        );
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let listed: Value = serde_json::from_str(&good(&folder(&[]), &["simulate", "--list", "--json"])).unwrap();
    assert!(listed.as_array().unwrap().iter().all(|one| one["about"].as_str().unwrap().len() > 20));
}

#[test]
fn what_is_wrong_is_told_with_file_and_line() {
    let wrong = TWO.replace("name = \"B\"\nvcpus = 1", "name = \"B\"\nvcpus = 1\ncpus = [0, 9]");
    refused(&wrong, &[], "s.toml: line 19: vm.1.cpus: there is no CPU 9: the host has 0 to 0");
    refused(
        &TWO.replace("quantum_us = 1000 }", "quantum_us = 0 }"),
        &[],
        "s.toml: line 9: host.policy.quantum_us: 0",
    );
    refused(&TWO.replace("vcpus = 1", "vcpu = 1"), &[], "s.toml: ");
    refused(
        &TWO.replace("vm.B.weight", "vm.B.height"),
        &[],
        "line 37: assumption.0.key: no case has a value at",
    );
    refused(
        &TWO.replace("{ case = \"long turns\" }", "{ case = \"long\" }"),
        &[],
        "line 30: figure.0.case: no case",
    );
    refused(TWO, &["--set", "vm.C.weight=2"], "--set vm.C.weight: there is no \"C\" on the way");
    refused(TWO, &["--set", "vm.1.cpus=[9]"], "s.toml: --set vm.1.cpus: there is no CPU 9");
    refused(TWO, &["--set", "weight"], "wanted PATH=VALUE");
    refused(TWO, &["--replications", "0"], "--replications: 0 is out of bounds");
    refused(TWO, &["--out", "."], "is not empty");
    refused(TWO, &["--threads", "0"], "--threads");
    for (name, part) in [("cpu-shar", "did you mean \"cpu-share\"?"), ("no/such.toml", "cannot be read")] {
        let output = bulkhead(&folder(&[]), &["simulate", name]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
    let fake = "[[platform]]\nlabel = \"x\"\nkind = \"sim\"\n[probe.gap]\n";
    let output = bulkhead(&folder(&[("e.toml", fake)]), &["measure", "--experiment", "e.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("cannot be measured: use bulkhead simulate"), "{}", stderr(&output));
    assert_eq!(bulkhead(&folder(&[]), &["measure", "sim"]).status.code(), Some(2));
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let folder = folder(&[("s.toml", TWO)]);
    let one = good(&folder, &["simulate", "s.toml", "--json", "--threads", "1"]);
    assert_eq!(one, good(&folder, &["simulate", "s.toml", "--json", "--threads", "4"]));
    let other = good(&folder, &["simulate", "s.toml", "--json", "--seed", "8"]);
    let (one, other): (Value, Value) =
        (serde_json::from_str(&one).unwrap(), serde_json::from_str(&other).unwrap());
    assert_eq!((&one["seed"], &other["seed"]), (&Value::from(7), &Value::from(8)));
    assert_ne!(one["cases"][0]["figures"], other["cases"][0]["figures"]);
    assert_eq!(one["cases"].as_array().unwrap().len(), 2);
}

#[test]
fn a_published_figure_that_does_not_hold_and_a_simulation_in_trouble_have_codes_of_their_own() {
    let dir = folder(&[("s.toml", TWO), ("stuck.toml", STUCK)]);
    let output = bulkhead(&dir, &["simulate", "s.toml", "--set", "vm.B.weight=9.0"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("0 of 1 predictions hold"), "{}", stdout(&output));
    let output = bulkhead(&dir, &["simulate", "stuck.toml"]);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("limits.simulated_s") && stderr(&output).contains("A: "),
        "{}",
        stderr(&output)
    );
    assert!(stdout(&output).contains("TROUBLE"), "{}", stdout(&output));
}

/// Half of the time comes out, whatever the label; only what was predicted is counted as held.
#[test]
fn only_what_is_predicted_counts_as_held_and_the_interval_decides() {
    let of = |change: (&str, &str), more: &[&str]| {
        let dir = folder(&[("s.toml", &TWO.replace(change.0, change.1))]);
        let output = bulkhead(&dir, &[&["simulate", "s.toml"], more].concat());
        (output.status.code(), stdout(&output))
    };
    let label = "label = \"predicted\"\n";
    for (instead, counted) in [
        ("label = \"fitted\"\n", "no predictions; of those that prove nothing come out 1 of 1 fitted"),
        ("label = \"set\"\n", "no predictions; of those that prove nothing come out 1 of 1 set"),
        ("bound = \"at-least\"\nlabel = \"bound\"\n", "come out 1 of 1 bound"),
        // Whoever says nothing has fitted it.
        ("", "no predictions; of those that prove nothing come out 1 of 1 fitted"),
        ("set_from = true\n", "no predictions; of those that prove nothing come out 1 of 1 fitted"),
    ] {
        let (code, text) = of((label, instead), &[]);
        assert!(code == Some(0) && text.contains(counted), "{instead}: {text}");
    }
    // The mean lies on one side of what is demanded, a part of the interval on the other.
    let (code, text) = of(("published = 0.5\ntolerance = 0.1", "published = 0.6\ntolerance = 0.1"), &[]);
    let undecided = "0 of 1 predictions hold, 1 not decided";
    assert!(code == Some(0) && text.contains("not decided") && text.contains(undecided), "{text}");
    // One replication has no interval.
    let (code, text) = of(("", ""), &["--replications", "1"]);
    assert!(
        code == Some(0) && text.contains(undecided) && text.contains("one replication has no interval"),
        "{text}"
    );
    // What was fitted and does not come out is as wrong as what was predicted.
    let fitted = TWO.replace(label, "label = \"fitted\"\n").replace("published = 0.5", "published = 0.9");
    let output = bulkhead(&folder(&[("s.toml", &fitted)]), &["simulate", "s.toml"]);
    assert!(
        output.status.code() == Some(1) && stdout(&output).contains("0 of 1 fitted"),
        "{}",
        stdout(&output)
    );
    refused(
        &TWO.replace("tolerance = 0.1", "bound = \"at-least\""),
        &[],
        "it is one-sided, so it is not predicted",
    );
    refused(
        &TWO.replace(label, "label = \"bound\"\n"),
        &[],
        "wanted bound, \"at-least\" or \"at-most\", too",
    );
    refused(
        &TWO.replace(label, "label = \"predicted\"\nset_from = true\n"),
        &[],
        "parameters were set from it",
    );
}

#[test]
fn the_summary_fits_a_terminal_and_says_what_was_published_and_assumed() {
    let text = good(&folder(&[("s.toml", TWO)]), &["simulate", "s.toml"]);
    for part in [
        "Two VMs share a CPU.",
        "short turns",
        "half of it [1]",
        "± 0.100 predicted   yes",
        "[1] arithmetic",
        "vm.B.weight = 1.0",
        "times 2: half of it 0.5",
        "host.switch_ns = 0: the default",
        "Set by the scenario without a word on them: host.cpus = 1",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn a_folder_can_be_shown_again_and_compared() {
    let folder = folder(&[("s.toml", TWO)]);
    good(&folder, &["simulate", "s.toml", "--out", "a"]);
    good(
        &folder,
        &["simulate", "s.toml", "--out", "b", "--set", "host.mhz=1000", "--set", "vm.B.weight=1.2"],
    );
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(read("a/scenario.toml").starts_with(TWO.trim_end()));
    assert!(read("b/scenario.toml").contains("--set 'vm.B.weight=1.2'"));
    let before = read("a/results.json");
    let shown = good(&folder, &["report", "a"]);
    assert!(shown.contains("scenario two") && shown.contains("1 of 1 predictions hold"), "{shown}");
    assert_eq!(before, read("a/results.json"), "report must not touch what it cannot make again");
    for (flag, value) in
        [("--require", "real-time"), ("--deadline", "5ms"), ("--miss-rate", "0.1"), ("--classes", "s.toml")]
    {
        let refused = bulkhead(&folder, &["report", "a", flag, value]);
        assert_eq!(refused.status.code(), Some(2), "{flag}");
        assert!(stderr(&refused).contains(&format!("{flag}: a was simulated")), "{}", stderr(&refused));
    }
    let page = read("a/report.html");
    assert!(
        page.contains("What would happen: two") && page.contains("Who ran where") && page.contains("<svg")
    );
    let results: Value = serde_json::from_str(&good(&folder, &["report", "a", "--json"])).unwrap();
    assert_eq!(results["platforms"][1]["label"], "long-turns");
    assert_eq!(results["platforms"][1]["kind"], "sim");
    let cells = results["cells"].as_array().unwrap();
    let of = |platform: &str, probe: &str| {
        cells
            .iter()
            .find(|cell| cell["cell"]["platform"] == platform && cell["cell"]["probe"] == probe)
            .unwrap()
    };
    let mean = |platform: &str| {
        let metrics = of(platform, "fwq")["metrics"].as_array().unwrap();
        metrics.iter().find(|metric| metric["id"] == "vm.A.sample_mean_ns").unwrap().clone()
    };
    assert_eq!(mean("long-turns")["samples"].as_array().unwrap().len(), 4);
    assert!(
        mean("short-turns")["against_baseline"].is_null()
            && mean("long-turns")["against_baseline"].is_object()
    );
    let changes: Value = serde_json::from_str(&good(&folder, &["compare", "a", "b", "--json"])).unwrap();
    let share =
        |change: &&Value| change["id"] == "vm.A.host_share" && change["cell"]["platform"] == "short-turns";
    let change = changes.as_array().unwrap().iter().find(share).unwrap();
    assert_eq!(change["difference"], "worse", "{change}");
    // With a measured run there is nothing in common but the form.
    good(&folder, &["measure", "fake", "--probe", "fwq", "--rounds", "2", "--out", "m"]);
    good(&folder, &["compare", "a", "m"]);
}

/// A task that as written comes with its slot.
const SLOTS: &str = r#"
name = "slots"
replications = 2
limits = { simulated_s = 10 }
host = { cpus = 1, policy = { name = "slots", slot_us = 10000, round = ["A", "B"] } }
[[vm]]
name = "A"
vcpus = 1
thread = [{ run = { program = "periodic", period_us = 20000, work_us = 1000, deadline_us = 5000, jobs = 20 } }]
[[vm]]
name = "B"
vcpus = 1
thread = [{ run = { program = "endless" } }]
"#;

#[test]
fn deadlines_bounds_and_the_worst_phase_are_told_and_figures_chosen() {
    let folder = folder(&[("s.toml", SLOTS)]);
    let text = good(&folder, &["simulate", "s.toml", "--figure", "vm.*.steal_ns"]);
    let row = text.lines().find(|line| line.trim_start().starts_with("A.thread.0")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().skip(1).collect();
    assert_eq!(cells, ["5", "ms", "11", "ms", "1", "ms", "1", "ms", "1", "ms", "–", "0", "%"], "{text}");
    assert!(
        text.contains("    steal_ns\n") && text.contains("\n  B ") && !text.contains("host_share"),
        "{text}"
    );
    let searched = |threads: &str| {
        let arguments = ["simulate", "s.toml", "--worst-phase=100", "--json", "--threads", threads];
        let all: Value = serde_json::from_str(&good(&folder, &arguments)).unwrap();
        all["phases"].clone()
    };
    let phases = searched("1");
    assert_eq!(phases, searched("2"), "the same on any number of threads");
    // It meets its bound of 11 ms to a millisecond, and misses its deadline there.
    let worst = phases[0]["response_max_ns"].as_u64().unwrap();
    assert!((10_000_000..=11_000_000).contains(&worst), "{phases}");
    let offset = phases[0]["offsets_us"]["vm.A.thread.0.run.offset_us"].as_u64().unwrap();
    let again = format!("vm.A.thread.0.run.offset_us={offset}");
    let all: Value =
        serde_json::from_str(&good(&folder, &["simulate", "s.toml", "--set", &again, "--json"])).unwrap();
    let figures = all["cases"][0]["figures"].as_array().unwrap();
    let longest = figures.iter().find(|figure| figure["id"] == "vm.A.thread.0.response_max_ns").unwrap();
    assert_eq!(longest["values"][0][1].as_f64(), Some(worst as f64), "what is printed shows it again");
    // Misses from none to some come first.
    good(&folder, &["simulate", "s.toml", "--out", "a"]);
    good(&folder, &["simulate", "s.toml", "--set", &again, "--out", "b"]);
    let compared = good(&folder, &["compare", "a", "b"]);
    let first = compared.lines().find(|line| line.contains("A.")).unwrap();
    assert!(first.contains("missed_share") && first.contains("+100.000 points"), "{compared}");
    assert!(!compared.contains("n/a"), "{compared}");
}

#[test]
fn an_alignment_that_goes_wrong_ends_the_search_and_is_told_how_to_be_seen_again() {
    // As written the last job ends after 0.981 s; beyond the second where its offset is longer than 9 ms.
    let tight = SLOTS.replace("jobs = 20", "jobs = 50").replace("simulated_s = 10", "simulated_s = 1");
    let folder = folder(&[("s.toml", &tight)]);
    let output = bulkhead(&folder, &["simulate", "s.toml", "--worst-phase=50"]);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let told = stderr(&output);
    assert!(told.contains("again with --set vm.A.thread.0.run.offset_us="), "{told}");
    refused(&SLOTS.replace("\"periodic\"", "\"perodic\""), &["--worst-phase"], "perodic");
    refused(STUCK, &["--worst-phase"], "no real-time task");
}

#[test]
fn any_case_can_be_traced_and_looked_at() {
    let folder = folder(&[("s.toml", TWO)]);
    let longest = |more: &[&str], file: &str| {
        good(&folder, &[&["simulate", "s.toml", "--trace", file], more].concat());
        let text = fs::read_to_string(folder.path().join(file)).unwrap();
        let trace: Value = serde_json::from_str(&text).unwrap();
        let events = trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X");
        events.map(|event| event["dur"].as_f64().unwrap()).fold(0.0, f64::max)
    };
    let (short, long) = (longest(&[], "a.json"), longest(&["--case", "long turns"], "b.json"));
    assert!(long > 2.0 * short, "{short} {long}");
    let looked = good(&folder, &["simulate", "s.toml", "--case", "long turns", "--pause-at", "5ms"]);
    assert_ne!(looked, good(&folder, &["simulate", "s.toml", "--pause-at", "5ms"]));
    let wrong = bulkhead(&folder, &["simulate", "s.toml", "--case", "long"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("there are \"short turns\", \"long turns\""), "{}", stderr(&wrong));
    let idle = bulkhead(&folder, &["simulate", "s.toml", "--case", "long turns"]);
    assert_eq!(idle.status.code(), Some(2));
    assert!(stderr(&idle).contains("give one of them"), "{}", stderr(&idle));
    for second in ["long turns", "short turns"] {
        let twice = bulkhead(
            &folder,
            &["simulate", "s.toml", "--case", "long turns", "--case", second, "--trace", "c.json"],
        );
        assert_eq!(twice.status.code(), Some(2));
        let said = stderr(&twice);
        assert!(said.contains("given 2 times") && said.contains("\"short turns\", \"long turns\""), "{said}");
    }
}

#[test]
fn a_trace_is_what_perfetto_reads() {
    let folder = folder(&[("s.toml", TWO)]);
    good(&folder, &["simulate", "s.toml", "--trace", "t.json", "--set", "host.switch_ns=2000", "--out", "o"]);
    let text = fs::read_to_string(folder.path().join("t.json")).unwrap();
    let trace: Value = serde_json::from_str(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let slices: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X" && event["pid"] == 1).collect();
    assert!(
        slices.len() > 50 && slices.iter().all(|slice| slice["ts"].is_number() && slice["dur"].is_number())
    );
    // One CPU: its slices do not overlap, and turns of a millisecond last a thousand of the format's microseconds.
    let mut spans: Vec<(f64, f64)> =
        slices.iter().map(|slice| (slice["ts"].as_f64().unwrap(), slice["dur"].as_f64().unwrap())).collect();
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert!(spans.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0 + 1e-6));
    assert!(spans.iter().any(|(_, length)| (990.0..=1000.0).contains(length)), "{spans:?}");
    assert!(events.iter().any(|event| event["args"]["name"] == "VM A"));
    assert_eq!(text, fs::read_to_string(folder.path().join("o/trace.json")).unwrap());
}

/// What a call with this input prints, and how it ends.
fn typed(folder: &TempDir, arguments: &[&str], input: &str) -> (String, String, Option<i32>) {
    let output = Command::cargo_bin("bulkhead")
        .unwrap()
        .args(arguments)
        .current_dir(folder.path())
        .env("NO_COLOR", "1")
        .write_stdin(input)
        .timeout(std::time::Duration::from_secs(120))
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code())
}

#[test]
fn pauses_and_steps_show_the_host_and_change_nothing() {
    let folder = folder(&[("s.toml", TWO)]);
    let (whole, _, code) = typed(&folder, &["simulate", "s.toml"], "");
    assert_eq!(code, Some(0));
    let arguments = ["simulate", "s.toml", "--pause-at", "2500us", "--pause-at", "1ms", "--step"];
    let (seen, _, code) = typed(&folder, &arguments, "\n5\n20ms\n");
    assert_eq!(code, Some(0));
    let (states, results) = seen.split_at(seen.len() - whole.len());
    assert_eq!(results, whole, "after the end of the input it goes on to its end");
    let heads: Vec<&str> = states.lines().filter(|line| line.starts_with("at ")).collect();
    assert_eq!(heads.len(), 5, "{states}");
    for (head, at) in [(0, "at 1.000000 ms"), (1, "at 2.500000 ms"), (4, "at 20.000000 ms")] {
        assert!(heads[head].starts_with(at), "{heads:?}");
    }
    let events = |head: &str| head.split(' ').nth(4).unwrap().parse::<u32>().unwrap();
    assert_eq!((events(heads[2]), events(heads[3])), (events(heads[1]) + 1, events(heads[1]) + 6));
    // One CPU, two VMs that never halt: one of them waits.
    assert_eq!(
        states.matches("waits for a CPU: A.0").count() + states.matches("waits for a CPU: B.0").count(),
        5
    );
}

#[test]
fn who_steps_may_leave_is_corrected_and_told_when_there_is_nothing_to_see() {
    let folder = folder(&[("s.toml", TWO)]);
    let (_, said, code) = typed(&folder, &["simulate", "s.toml", "--step", "--out", "o"], "what\nq\n");
    assert!(said.contains("\"what\" is no time") && said.contains("nothing is written"), "{said}");
    assert_eq!(code, Some(0));
    assert_eq!(fs::read_dir(folder.path().join("o")).map_or(0, Iterator::count), 0);
    let (_, said, code) = typed(&folder, &["simulate", "s.toml", "--pause-at", "9000s"], "");
    assert!(said.contains("had ended before") && code == Some(0), "{said}");
    let (_, said, code) = typed(&folder, &["simulate", "noise-at-scale", "--step"], "");
    assert!(said.contains("nothing to see") && code == Some(2), "{said}");
    for wrong in ["5", "-5ms", "soon"] {
        let (_, said, code) = typed(&folder, &["simulate", "s.toml", &format!("--pause-at={wrong}")], "");
        assert!(said.contains("wanted is a number with a unit") && code == Some(2), "{wrong}: {said}");
    }
    let (_, _, code) = typed(&folder, &["simulate", "s.toml", "--step", "--json"], "");
    assert_eq!(code, Some(2));
}
