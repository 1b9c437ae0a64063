//! `bulkhead channel bench` on the real thing: processes and partitions of this host. Structure is checked, never speed.
//!
//! Runs with partitions need QEMU and a guest kernel.

use crate::exec_fixture;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bulkhead::model::channel_bench::{CHANNEL_BENCH_VERSION, ChannelBench, SeriesFailure, Way};
use exec_fixture::{Here, assert_code, binary, complaint, finish_within, guests_start, text};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Only so that what hangs fails.
const HANGS: Duration = Duration::from_secs(400);

fn bench(here: &Here, words: &[&str]) -> Child {
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP,INT,QUIT").arg(binary()).args(["channel", "bench"]).args(words);
    let temporary = here.temporary();
    command.env("TMPDIR", temporary).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

fn read(json: &str) -> ChannelBench {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"))
}

/// Workers that run with this temporary folder, the second processes included.
fn workers(here: &Here) -> Vec<Pid> {
    running(here, |words| words.get(1).is_some_and(|word| word == b"channel-worker"))
}

/// Virtual machines that run with this temporary folder.
fn machines(here: &Here) -> Vec<Pid> {
    running(here, |words| words.first().is_some_and(|word| word.ends_with(b"qemu-system-x86_64")))
}

fn running(here: &Here, wanted: impl Fn(&[Vec<u8>]) -> bool) -> Vec<Pid> {
    let mark = format!("TMPDIR={}", here.temporary().display());
    let entries = fs::read_dir("/proc").expect("proc").flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers
        .filter(|number| {
            let read = |file: &str| fs::read(format!("/proc/{number}/{file}")).unwrap_or_default();
            let words: Vec<Vec<u8>> = read("cmdline").split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
            wanted(&words) && read("environ").split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
        })
        .map(Pid::from_raw)
        .collect()
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < HANGS, "{what}: not within {HANGS:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Folders of sections that this bench made: they are named like its runtime folders.
fn sections_of(here: &Here) -> Vec<String> {
    let own = fs::read_dir(here.temporary()).into_iter().flatten().flatten();
    let names = own.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| Path::new("/dev/shm").join(name).exists()).collect()
}

#[test]
fn the_host_alone_is_measured() {
    let here = Here::new();
    let output = finish_within(
        bench(&here, &["--host-only", "--quick", "--rounds", "3", "--seed", "7", "--json"]),
        HANGS,
    );
    assert_code(&output, 0);
    let bench = read(&text(&output));
    assert_eq!((bench.schema_version, bench.seed, bench.rounds), (CHANNEL_BENCH_VERSION, 7, 3));
    assert!(complaint(&output).contains("seed 7"));
    assert!(bench.engine.is_none() && bench.marks.is_empty() && bench.failures.is_empty());
    let ways: BTreeSet<Way> = bench.series.iter().map(|series| series.way).collect();
    assert_eq!(ways, BTreeSet::from([Way::Host, Way::HostCopy, Way::HostFlag]));
    for series in &bench.series {
        assert_eq!(series.rounds, 3);
        assert!(series.trips_ns.count() >= 12, "{series:?}");
        let has_bandwidth = series.bandwidth_bytes_per_s.estimate().is_some_and(|speed| speed.value > 0.0);
        assert_eq!(has_bandwidth, series.way.has_stream(), "{series:?}");
    }
    assert_eq!(bench.mappings.len(), 1);
    here.assert_nothing_left();
}

#[test]
fn tables_keep_to_eighty_columns() {
    let here = Here::new();
    let output = finish_within(bench(&here, &["--host-only", "--quick", "--rounds", "3"]), HANGS);
    assert_code(&output, 0);
    let shown = text(&output);
    let wide: Vec<&str> = shown.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(wide.is_empty(), "{}", wide.join("\n"));
    for wanted in ["Round trip, µs", "p99.9", "Bandwidth", "host", "ns per access"] {
        assert!(shown.contains(wanted), "{wanted} is not in\n{shown}");
    }
}

#[test]
fn a_second_process_that_dies_is_a_recorded_failure_and_the_rest_goes_on() {
    let here = Here::new();
    let bench = bench(&here, &["--host-only", "--quick", "--rounds", "40", "--json"]);
    let second = until("both workers run", || workers(&here).get(1).copied());
    kill(second, Signal::SIGKILL).expect("it runs");
    let output = finish_within(bench, HANGS);
    assert_code(&output, 4);
    let found = read(&text(&output));
    assert!(!found.failures.is_empty());
    // Ways are in no fixed order: it may have been at either.
    let has_second = |way: Way| matches!(way, Way::Host | Way::HostFlag);
    assert!(found.failures.iter().all(|failure| has_second(failure.way)), "{:?}", found.failures);
    assert!(complaint(&output).contains("host failed"), "{}", complaint(&output));
    // Another one took its place.
    assert!(found.series.iter().any(|series| series.way == Way::Host && series.rounds > 20), "{found:?}");
    here.assert_nothing_left();
}

#[test]
fn a_worker_that_dies_is_told_and_the_run_ends() {
    let here = Here::new();
    let bench = bench(&here, &["--host-only", "--quick", "--rounds", "40", "--json"]);
    let first = until("the first worker runs", || workers(&here).first().copied());
    kill(first, Signal::SIGKILL).expect("it runs");
    let output = finish_within(bench, HANGS);
    assert_code(&output, 4);
    let found = read(&text(&output));
    assert!(found.failures.iter().any(|failure| failure.reason.contains("SIGKILL")), "{:?}", found.failures);
    here.assert_nothing_left();
}

#[test]
fn a_run_with_partitions_measures_every_way() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let output =
        finish_within(bench(&here, &["--accel", "tcg", "--quick", "--rounds", "3", "--json"]), HANGS);
    assert_code(&output, 0);
    let bench = read(&text(&output));
    assert_eq!(bench.engine.as_deref(), Some("tcg"));
    let ways: BTreeSet<Way> = bench.series.iter().map(|series| series.way).collect();
    assert_eq!(ways, BTreeSet::from(Way::ALL));
    assert!(bench.series.iter().all(|series| series.rounds == 3 && !series.trips_ns.is_empty()));
    assert_eq!(bench.mappings.len(), 3);
    assert!(bench.mappings.iter().all(|mapping| mapping.dependent_load.ratio.estimate().is_some()));
    assert!(bench.mappings[1].store.is_none(), "what a partition only reads is not stored to");
    assert_eq!(bench.marks.len(), 6);
    assert!(bench.marks.iter().all(|mark| mark.reached.is_some()), "{:?}", bench.marks);
    here.assert_nothing_left();
}

#[test]
fn a_partition_that_dies_is_told_and_the_host_goes_on() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    // So many rounds that a look from time to time finds the host's second process, which runs for moments.
    let bench = bench(&here, &["--accel", "tcg", "--quick", "--rounds", "40", "--json"]);
    // It shows that the host's worker is at work, so both partitions run.
    until("measuring has begun", || workers(&here).get(1).copied());
    let machine = machines(&here)[0];
    kill(machine, Signal::SIGKILL).expect("it runs");
    let output = finish_within(bench, HANGS);
    assert_code(&output, 4);
    let found = read(&text(&output));
    let told = |failure: &SeriesFailure| failure.reason.contains("partition") && !failure.way.is_on_host();
    assert!(!found.failures.is_empty() && found.failures.iter().all(told), "{:?}", found.failures);
    assert!(found.failures.iter().any(|failure| failure.reason.contains("SIGKILL")), "{:?}", found.failures);
    assert!(found.series.iter().any(|series| series.way == Way::Host && series.rounds == 40), "{found:?}");
    here.assert_nothing_left();
}

#[test]
fn a_bench_that_is_killed_leaves_nothing() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let mut bench = bench(&here, &["--accel", "tcg", "--rounds", "100"]);
    let made = until("the sections are there", || sections_of(&here).first().cloned());
    // Both machines run.
    until("the partitions are there", || (machines(&here).len() >= 2).then_some(()));
    bench.kill().expect("it runs");
    bench.wait().expect("our child");
    here.assert_nothing_left();
    until("the sections are gone", || (!Path::new("/dev/shm").join(&made).exists()).then_some(()));
}

#[test]
fn an_interrupted_bench_shows_what_it_has() {
    let here = Here::new();
    let bench = bench(&here, &["--host-only", "--rounds", "1000", "--json"]);
    until("a worker runs", || workers(&here).get(1).copied());
    let number = i32::try_from(bench.id()).expect("a process number");
    kill(Pid::from_raw(number), Signal::SIGINT).expect("it runs");
    let output = finish_within(bench, HANGS);
    assert_code(&output, 130);
    assert!(read(&text(&output)).interrupted);
    here.assert_nothing_left();
}

#[test]
fn help_fits_a_terminal_and_shows_examples() {
    let here = Here::new();
    let output = finish_within(bench(&here, &["--help"]), HANGS);
    assert_code(&output, 0);
    let shown = text(&output);
    assert!(shown.contains("Examples:") && shown.contains("--host-only"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
}

#[test]
fn bad_words_and_missing_tools_are_told() {
    let here = Here::new();
    let refused = |words: &[&str], code: i32, wanted: &str| {
        let output = finish_within(bench(&here, words), HANGS);
        assert_code(&output, code);
        assert!(complaint(&output).contains(wanted), "{}", complaint(&output));
    };
    refused(&["--rounds", "2"], 2, "3..=1000");
    refused(&["--host-only", "--qemu", "x"], 2, "cannot be used with");
    refused(&["--qemu", "/nonexistent/qemu", "--accel", "tcg"], 3, "--host-only");
    here.assert_nothing_left();
}
