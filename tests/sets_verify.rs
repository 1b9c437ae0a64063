//! Requirements of a set that is up with real guests: what holds passes, what is taken away fails, what rested on it is stale, and the
//! evidence says so by itself.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::exec_fixture::free_port;
use crate::set_fixture;

use bulkhead::cli::cache_folder;
use bulkhead::model::verification::RequirementVerdict;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use set_fixture::{Bench, PATIENCE, Said, guests_are_there, interrupt, verdicts};
use skips::{Need, skip};

const SET: &str = r#"
[partition.a]
program = ["/bin/sleep", "1000"]
pin = "0"

[partition.b]
program = ["/bin/sleep", "1000"]

[requirement.P]
text = "a is where it should be."

[requirement.P1]
text = "It was given what its file asks for."
parent = "P"
partition = "a"
metric = "placement.differences"
exactly = 0

[requirement.P2]
text = "Its program runs."
parent = "P"
partition = "a"
metric = "placement.running"
exactly = 1

[requirement.P3]
text = "Nobody reaches it over the network."
parent = "P"
partition = "a"
metric = "placement.unlisted_sockets"
exactly = 0

[requirement.B1]
text = "b runs."
partition = "b"
metric = "placement.running"
exactly = 1

[requirement.H1]
text = "Memory is never overcommitted."
host = true
metric = "host.memory_overcommitted_bytes"
at_most = "0 B"

[requirement.S1]
text = "A system call takes no longer than a millisecond, while the host is busy."
partition = "a"
metric = "syscall.call_ns"
at_most = "1 ms"
load = ["cpu@host", "cpu@b"]

[requirement.S2]
text = "A system call takes at least a second, which none does."
partition = "a"
metric = "syscall.call_ns"
at_least = "1 s"
load = ["cpu@host", "cpu@b"]

[requirement.C1]
text = "The user's own test passes."
partition = "a"
inside = true
metric = "command.failures"
exactly = 0
command = ["/bin/sh", "-c", "echo 1..2; echo ok 1; echo ok 2"]

[requirement.X1]
text = "It survives a fire."
not_tested = "nobody burns the laboratory"
"#;

/// Takes the CPU of the first virtual CPU of `a` away: it may run anywhere, or where it may.
fn lose_pin(bench: &Bench, back: Option<&CpuSet>) -> CpuSet {
    let set = bench.ps().expect("it is up");
    let a = set.partitions.iter().find(|one| one.name == "a").expect("a");
    let thread = a.given.as_ref().and_then(|given| given.cpus.first()).expect("a CPU").thread;
    let thread = Pid::from_raw(i32::try_from(thread).expect("a number"));
    let was = sched_getaffinity(thread).expect("it runs");
    let mut other = CpuSet::new();
    other.set(1).expect("a CPU");
    sched_setaffinity(thread, back.unwrap_or(&other)).expect("held elsewhere");
    was
}

#[test]
fn what_holds_passes_what_is_taken_away_fails_and_what_rested_on_it_is_stale() {
    if !guests_are_there() {
        return;
    }
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    assert!(cpus > 1, "this test takes a partition from one CPU to another");
    let bench = Bench::real();
    let file = bench.file("plant.toml", SET);
    let out = bench.path("evidence");
    let [file, out] = [&file, &out].map(|path| path.to_str().expect("plain"));
    let call = |words: &[&str]| -> Said { bench.call(&[&["verify"], words].concat()) };
    let said = call(&[file, "--out", out]);
    assert_eq!(said.code, Some(3), "it is not up yet: {said:?}");
    assert_eq!(bench.call(&["up", file]).code, Some(0));

    let said = call(&[file, "--out", out]);
    assert_eq!(said.code, Some(1), "{said:?}");
    let all = verdicts(out);
    let wanted = |id: &str| match id {
        "S2" => RequirementVerdict::Fail,
        "X1" => RequirementVerdict::NotApplicable,
        _ => RequirementVerdict::Pass,
    };
    for (id, verdict) in &all {
        assert_eq!(*verdict, wanted(id), "{id}: {said:?}");
    }
    assert_eq!(all.len(), 10);
    let junit = fs::read_to_string(format!("{out}/junit.xml")).expect("it is written");
    assert!(junit.contains("name=\"verifies\" value=\"S1\"") && junit.contains("failures=\"1\""), "{junit}");
    let journal = fs::read_to_string(format!("{out}/journal.jsonl")).expect("it is written");
    assert!(journal.contains("cpu@host") && journal.contains("cpu@b"), "loads have their dose");
    assert_eq!(call(&["--check", out]).code, Some(1), "S2 fails, everything else is as it was written");

    a_lost_pin_is_failed_and_what_rested_on_it_is_stale(&bench, file, out);
    a_forged_verdict_is_found(&bench, out);

    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

fn a_lost_pin_is_failed_and_what_rested_on_it_is_stale(bench: &Bench, file: &str, out: &str) {
    let was = lose_pin(bench, None);
    let said = bench.call(&["verify", file, "--out", out, "--only", "P1"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    let all = verdicts(out);
    for (id, verdict) in [
        ("P1", RequirementVerdict::Fail),
        ("P2", RequirementVerdict::Pass),
        ("P", RequirementVerdict::Fail),
        ("B1", RequirementVerdict::Pass),
        ("S1", RequirementVerdict::Stale),
        ("C1", RequirementVerdict::Stale),
        ("H1", RequirementVerdict::Pass),
        ("X1", RequirementVerdict::NotApplicable),
    ] {
        assert_eq!(all[id], verdict, "{id}: {said:?}");
    }
    assert!(said.out.contains("P1"), "{said:?}");

    lose_pin(bench, Some(&was));
    let said = bench.call(&["verify", file, "--out", out, "--no-run"]);
    let all = verdicts(out);
    for (id, verdict) in [
        ("P1", RequirementVerdict::Stale),
        ("P2", RequirementVerdict::Stale),
        ("S1", RequirementVerdict::Pass),
        ("C1", RequirementVerdict::Pass),
    ] {
        assert_eq!(all[id], verdict, "{id}: {said:?}");
    }
}

fn a_forged_verdict_is_found(bench: &Bench, out: &str) {
    let forged = fs::read_to_string(format!("{out}/verify.json")).expect("it is written");
    fs::write(
        format!("{out}/verify.json"),
        forged.replacen("\"verdict\": \"fail\"", "\"verdict\": \"pass\"", 1),
    )
    .expect("forged");
    let said = bench.call(&["verify", "--check", out]);
    assert!(said.code == Some(4) && said.err.contains("verify.json is not the file"), "{said:?}");
    assert!(said.err.contains("the raw data say fail"), "{said:?}");
}

const TALKING: &str = r#"
[network.near]

[network.far]

[partition.a]
program = ["/bin/sleep", "1000"]
networks = ["near", "far"]

[partition.b]
program = ["/bin/sleep", "1000"]
networks = ["near", "far"]

[partition.c]
program = ["/bin/sleep", "1000"]

[requirement.T]
text = "A question is answered within a second, while the host is busy."
pair = ["a", "b"]
over = "near"
metric = "net.tcp_round_trip_p50_ns"
at_most = "1 s"
load = ["cpu@host", "cpu@c"]
params = { message_bytes = [64], duration_ms = 100 }

[requirement.U]
text = "It takes an hour, which it does not."
pair = ["b", "a"]
over = "far"
metric = "net.udp_round_trip_p50_ns"
at_least = "1 h"
load = "as-is"
params = { message_bytes = [64], duration_ms = 100 }
"#;

#[test]
fn two_are_measured_between_over_the_network_that_is_named() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let file = bench.file("plant.toml", TALKING);
    let out = bench.path("evidence");
    let [file, out] = [&file, &out].map(|path| path.to_str().expect("plain"));
    let said = bench.call(&["up", file]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let said = bench.call(&["verify", file, "--out", out]);
    let all = verdicts(out);
    assert_eq!((all["T"], all["U"]), (RequirementVerdict::Pass, RequirementVerdict::Fail), "{said:?}");
    let journal = fs::read_to_string(format!("{out}/journal.jsonl")).expect("it is written");
    assert!(journal.contains("cpu@host") && journal.contains("cpu@c"), "loads have their dose");
    for (was, is, why) in [
        ("over = \"near\"", "", "both in far, near: write over"),
        ("over = \"near\"", "over = \"nearer\"", "not in network \"nearer\""),
        ("[\"a\", \"b\"]\nover = \"near\"", "[\"a\", \"c\"]", "in no network"),
    ] {
        let other = bench.file("plant.toml", &TALKING.replacen(was, is, 1));
        let said = bench.call(&["verify", other.to_str().expect("plain"), "--out", out]);
        assert!(said.code == Some(2) && said.err.contains(why) && said.err.contains("line "), "{said:?}");
    }
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

const IMPORTED: &str = r#"
[partition.a]
program = ["/bin/sleep", "1000"]

[requirement.R1]
text = "It runs."
partition = "a"
metric = "placement.running"
exactly = 1

[requirement.R2]
text = "It was restarted a hundred times, which it was not."
partition = "a"
metric = "placement.restarts"
at_least = 100

[requirement.R3]
text = "It survives a fire."
not_tested = "nobody burns the laboratory"
"#;

/// A tool of those that the set-up installs, where it did.
fn importer(name: &str) -> Option<PathBuf> {
    let beside = format!("{}-importers", cache_folder().display());
    Some(PathBuf::from(beside).join("bin").join(name)).filter(|tool| tool.exists())
}

fn import(tool: &Path, words: &[&str], folder: &Path) -> String {
    let done = Command::new(tool).args(words).current_dir(folder).output().expect("it starts");
    let said = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{}: {said}", tool.display());
    said
}

#[test]
fn results_are_read_by_strictdoc_and_by_sphinx() {
    if !guests_are_there() {
        return;
    }
    let (Some(strictdoc), Some(sphinx)) = (importer("strictdoc"), importer("sphinx-build")) else {
        return skip(Need::Importers, "./setup.sh test installs them");
    };
    let bench = Bench::real();
    let file = bench.file("plant.toml", IMPORTED);
    let out = bench.path("evidence");
    let [file, out] = [&file, &out].map(|path| path.to_str().expect("plain"));
    assert_eq!(bench.call(&["up", file]).code, Some(0));
    let said = bench.call(&["verify", file, "--out", out]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert_eq!(bench.call(&["down"]).code, Some(0));
    let ids = ["R1", "R2", "R3"];

    // A page of StrictDoc's for each requirement's file says how its test ended.
    let project = bench.path("strictdoc");
    fs::create_dir_all(project.join("requirements/plant")).expect("a folder");
    let requirement = |id: &str| {
        let file = format!("- TYPE: File\n  VALUE: requirements/plant/{id}\n");
        format!("\n[REQUIREMENT]\nUID: {id}\nTITLE: {id}\nSTATEMENT: {id}\nRELATIONS:\n{file}")
    };
    let document = format!("[DOCUMENT]\nTITLE: Plant\n{}", ids.map(requirement).concat());
    for id in ids {
        fs::write(project.join("requirements/plant").join(id), format!("{id}\n")).expect("written");
    }
    fs::write(project.join("plant.sdoc"), document).expect("written");
    fs::write(project.join("strictdoc_config.py"), include_str!("fixtures/strictdoc_config.py"))
        .expect("written");
    fs::copy(format!("{out}/junit.xml"), project.join("plant.lit.junit.xml")).expect("copied");
    import(&strictdoc, &["export", "."], &project);
    let page = |id: &str| {
        let path = format!("output/html/_source_files/requirements/plant/{id}.html");
        fs::read_to_string(project.join(path)).expect("a page")
    };
    let ended = |id: &str| ["PASSED", "FAILED"].map(|word| page(id).contains(word));
    assert_eq!((ended("R1"), ended("R2")), ([true, false], [false, true]));

    // Sphinx links each result to the requirement that it verifies.
    let project = bench.path("sphinx");
    fs::create_dir(&project).expect("a folder");
    let needs = ids.map(|id| format!(".. req:: {id}\n   :id: {id}\n\n")).concat();
    let results =
        ".. test-file:: Results\n   :file: junit.xml\n   :id: RESULTS\n   :auto_suites:\n   :auto_cases:\n";
    fs::write(project.join("index.rst"), format!("Plant\n=====\n\n{needs}{results}")).expect("written");
    fs::write(project.join("conf.py"), include_str!("fixtures/sphinx_conf.py")).expect("written");
    fs::copy(format!("{out}/junit.xml"), project.join("junit.xml")).expect("copied");
    let said = import(&sphinx, &["-q", "-b", "html", ".", "html"], &project);
    assert!(!said.contains("WARNING"), "{said}");
    let text = fs::read(project.join("html/needs.json")).expect("it is written");
    let all: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let needs = all["versions"].as_object().expect("versions").values().next().expect("one");
    let cases = needs["needs"].as_object().expect("needs").values().filter(|need| need["type"] == "testcase");
    let mut linked: Vec<(String, String)> = cases
        .map(|case| (case["verifies"][0].to_string(), case["result"].to_string()))
        .map(|(id, result)| (id.replace('"', ""), result.replace('"', "")))
        .collect();
    linked.sort();
    let wanted = [("R1", "passed"), ("R2", "failed"), ("R3", "skipped")];
    assert_eq!(linked, wanted.map(|(id, result)| (id.to_owned(), result.to_owned())));
}

const WATCHED: &str = r#"
[partition.db]
program = ["/bin/sleep", "1000"]
ports = ["PORT:80"]

[requirement.R]
text = "It runs."
partition = "db"
metric = "placement.running"
exactly = 1

[requirement.C]
text = "The number is small."
metric = "command"
command = ["/bin/sh", "-c", "cat NUMBER"]
load = "as-is"
at_most = 5

[requirement.D]
text = "The user's own test passes."
metric = "command.exit_code"
command = ["/bin/true"]
exactly = 0

[requirement.O]
text = "It is back at once."
metric = "outage.duration_ns"
at_most = "1 s"
failure = "qemu.db"
client = { kind = "http", at = "127.0.0.1:PORT" }
"#;

/// The next line that a watch tells: which requirement, what it was, and what it is.
fn told(lines: &Receiver<String>) -> (String, String, String) {
    let line = lines.recv_timeout(PATIENCE).expect("it tells something");
    let said: serde_json::Value = serde_json::from_str(&line).expect("a line of JSON");
    let word = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
    (word("requirement"), word("was"), word("verdict"))
}

/// Waits until the evidence says that a requirement holds.
fn until_good(out: &str, id: &str) {
    let until = Instant::now() + PATIENCE;
    while verdicts(out)[id] != RequirementVerdict::Pass {
        assert!(Instant::now() < until, "{:?}", verdicts(out));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_watch_tells_once_what_does_not_hold_any_more_and_keeps_it() {
    let bench = Bench::pretending();
    let number = bench.path("number");
    fs::write(&number, "1\n").expect("the test's own files");
    let free = free_port();
    let text = WATCHED.replace("NUMBER", number.to_str().expect("plain")).replace("PORT", &free.to_string());
    let file = bench.file("plant.toml", &text);
    let out = bench.path("evidence");
    let [file, out] = [&file, &out].map(|path| path.to_str().expect("plain"));
    assert_eq!(bench.call(&["up", file]).code, Some(0));
    let only = ["verify", file, "--out", out, "--only", "R", "--only", "C", "--only", "D"];
    let said = bench.call(&only);
    assert_eq!(said.code, Some(0), "{said:?}");

    let mut watch = bench.begin(&["verify", file, "--out", out, "--watch", "--every-s", "1", "--json"]);
    let (tells, lines) = channel();
    let stdout = BufReader::new(watch.stdout.take().expect("a pipe"));
    std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| tells.send(line)));
    let change = |was: &str, is: &str, of: &str| (of.to_owned(), was.to_owned(), is.to_owned());
    fs::write(&number, "9\n").expect("the test's own files");
    assert_eq!(told(&lines), change("pass", "fail", "C"));
    let said = bench.call(&only);
    assert!(said.code == Some(4) && said.err.contains("another verification"), "{said:?}");
    assert_eq!(bench.call(&["stop", "plant/db"]).code, Some(0));
    assert_eq!(told(&lines), change("pass", "fail", "R"));
    // What rests on the partition that is gone is stale when that is told, and done again.
    until_good(out, "D");
    let journal = fs::read_to_string(format!("{out}/journal.jsonl")).expect("it is written");
    assert!(journal.contains("\"qemu.db\":\"not known\""), "it rests on that");
    assert_eq!(bench.call(&["start", "plant/db"]).code, Some(0));
    assert_eq!(told(&lines), change("fail", "pass", "R"));
    fs::write(&number, "2\n").expect("the test's own files");
    assert_eq!(told(&lines), change("fail", "pass", "C"));
    until_good(out, "D");

    interrupt(watch.id());
    assert_eq!(watch.wait().expect("it ends").code(), Some(130));
    assert!(lines.recv().is_err(), "nothing is told twice");
    let all = verdicts(out);
    assert!(["R", "C", "D"].iter().all(|id| all[*id] == RequirementVerdict::Pass), "{all:?}");
    assert_eq!(all["O"], RequirementVerdict::NotRun);
    assert_eq!(bench.call(&["verify", "--check", out]).code, Some(4), "all follows from the raw data");
    let entries = fs::read_dir(out).expect("it is there").flatten();
    let left: Vec<_> =
        entries.map(|entry| entry.file_name()).filter(|name| name.as_encoded_bytes()[0] == b'.').collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}
