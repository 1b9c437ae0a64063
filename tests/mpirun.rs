//! `bulkhead mpirun` with real guests and this host's Open MPI: ranks find each other, streams and codes are the program's,
//! what cannot be is refused, and whatever dies, nothing hangs and nothing is left behind.

use crate::{exec_fixture, mpirun_fixture};

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use exec_fixture::{Here, assert_code, complaint, finish, text, wait_for};
use mpirun_fixture::{library, lines, made_of_c, mpirun, words};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The ranks' program.
fn ranks() -> Option<PathBuf> {
    made_of_c("ranks")
}

/// A library in which nothing is wrong but that it needs another one that is nowhere.
fn no_library(here: &Here, library: &Path) -> PathBuf {
    const NEEDED: &[u8] = b"\0libc.so.6\0";
    let mut content = fs::read(library).expect("the library");
    let at = content.windows(NEEDED.len()).position(|part| part == NEEDED).expect("it needs the C library");
    content[at + 4] = b'?';
    let path = here.path("libbulkhead-fi.so");
    fs::write(&path, content).expect("the test's own files");
    path
}

#[test]
fn ranks_of_two_partitions_find_each_other_over_channels() {
    let (Some(program), Some(library)) = (ranks(), library()) else { return };
    let here = Here::new();
    let library = library.to_str().expect("plain");
    let output = mpirun(&here, &["-n", "3", "--provider", library], &program, &[]);
    assert_code(&output, 0);
    let wanted =
        ["0 of 3 on mpi-1", "1 of 3 on mpi-1", "2 of 3 on mpi-2"].map(|who| format!("rank {who}, sum 3"));
    assert_eq!(lines(&output), wanted);
    here.assert_nothing_left();
}

#[test]
fn a_single_partition_uses_channels_too_and_codes_pass() {
    let (Some(program), Some(library)) = (ranks(), library()) else { return };
    let here = Here::new();
    let library = library.to_str().expect("plain");
    let options = ["-n", "2", "--partitions", "1", "--provider", library];
    let output = mpirun(&here, &options, &program, &["code"]);
    assert_code(&output, 7);
    assert_eq!(lines(&output), ["rank 0 of 2 on mpi-1, sum 1", "rank 1 of 2 on mpi-1, sum 1"]);
    here.assert_nothing_left();
}

#[test]
fn a_rank_killed_midway_ends_the_job_with_its_signal() {
    let (Some(program), Some(library)) = (ranks(), library()) else { return };
    let here = Here::new();
    let library = library.to_str().expect("plain");
    let output = mpirun(&here, &["-n", "2", "--provider", library], &program, &["die"]);
    assert_code(&output, 128 + Signal::SIGKILL as i32);
    assert!(complaint(&output).contains("signal 9"), "{}", complaint(&output));
    here.assert_nothing_left();
}

#[test]
fn standard_input_reaches_rank_0_and_streams_stay_apart() {
    let Some(program) = ranks() else { return };
    let here = Here::new();
    let words = words(&["-n", "2", "--transport", "tcp"], &program, &["read"]);
    let mut child = here.verb("mpirun", &words).stdin(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(b"hello ranks\n").expect("written");
    let output = finish(child);
    assert_code(&output, 0);
    assert!(complaint(&output).contains("the last rank heard hello ranks\n"), "{}", complaint(&output));
    assert_eq!(lines(&output), ["rank 0 of 2 on mpi-1, sum 1", "rank 1 of 2 on mpi-2, sum 1"]);
    here.assert_nothing_left();
}

#[test]
fn a_program_that_is_not_mpi_is_said_to_be_none() {
    let (Some(_), Some(library)) = (ranks(), library()) else { return };
    let here = Here::new();
    // With a library that does not load it would not run at all: ranks have it from their first moment.
    let options = ["-n", "2", "--provider", library.to_str().expect("plain")];
    let output = mpirun(&here, &options, Path::new("echo"), &["plain"]);
    assert_code(&output, 125);
    assert_eq!(lines(&output), ["plain", "plain"]);
    let said = complaint(&output);
    assert!(said.contains("no rank came to its channel (mpirun ended with 0)"), "{said}");
    here.assert_nothing_left();
}

#[test]
fn a_library_that_does_not_load_is_an_error_and_nothing_is_taken_instead() {
    let (Some(program), Some(library)) = (ranks(), library()) else { return };
    let here = Here::new();
    let library = no_library(&here, &library);
    let options = ["-n", "2", "--provider", library.to_str().expect("plain")];
    let output = mpirun(&here, &options, &program, &[]);
    assert_code(&output, 125);
    let said = complaint(&output);
    assert!(said.contains("could not load the library for channels"), "{said}");
    assert!(output.stdout.is_empty(), "{}", text(&output));
    here.assert_nothing_left();
}

/// Refused with this code and these words, before anything is made.
#[track_caller]
fn refused(options: &[&str], program: &str, arguments: &[&str], code: i32, part: &str) {
    let here = Here::new();
    let begun = Instant::now();
    let output = mpirun(&here, options, Path::new(program), arguments);
    assert_code(&output, code);
    let said = complaint(&output);
    assert!(said.contains(part), "{options:?}: {said}");
    assert!(begun.elapsed() < Duration::from_secs(30), "it takes no guest to know that");
    here.assert_nothing_left();
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_made() {
    refused(&["-n", "65"], "true", &[], 125, "wanted 1 to 64 ranks");
    refused(&["-n", "0"], "true", &[], 125, "got 0");
    refused(&["-n", "2", "--partitions", "3"], "true", &[], 125, "wanted 1 to 2 partitions for 2 ranks");
    refused(&["-n", "2", "--channel-size", "3MiB"], "true", &[], 125, "a power of two");
    refused(&["-n", "2", "--provider", "/no/such/library"], "true", &[], 125, "make fabric");
    refused(&["-n", "2", "--provider", "/etc/passwd"], "true", &[], 125, "of the name libbulkhead-fi.so");
    refused(&["-n", "2", "--transport", "tcp"], "true", &[":", "true"], 125, "\":\"");
    refused(&["-n", "2", "--transport", "pigeon"], "true", &[], 125, "pigeon");
    refused(&["-n", "2"], "no-such-program-anywhere", &[], 127, "was not found");
    refused(&["-n", "2"], "/etc/passwd", &[], 126, "chmod +x");
    refused(&[], "true", &[], 125, "--ranks");
    refused(
        &["-n", "2", "--transport", "tcp", "--env", "PATH=/nowhere"],
        "/bin/true",
        &[],
        125,
        "openmpi-bin",
    );
    refused(&["-n", "2", "--transport", "tcp", "--memory", "9999GiB"], "true", &[], 125, "of memory");
}

#[test]
fn another_mpi_in_its_place_is_refused() {
    let here = Here::new();
    let other = here.path("mpirun");
    fs::write(&other, "#!/bin/sh\necho 'HYDRA build details:'\n").expect("the test's own files");
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).expect("the test's own files");
    let path = format!("PATH={}", here.files.path().display());
    let output =
        mpirun(&here, &["-n", "2", "--transport", "tcp", "--env", &path], Path::new("/bin/true"), &[]);
    assert_code(&output, 125);
    assert!(complaint(&output).contains("HYDRA"), "{}", complaint(&output));
}

/// Everything of a run that hangs, seen while it runs.
fn hanging(here: &Here, program: &Path, library: &Path) -> std::process::Child {
    let words = words(&["-n", "2", "--provider", library.to_str().expect("plain")], program, &["wait"]);
    let mut child = here.verb("mpirun", &words).spawn().expect("it starts");
    wait_for(&mut child, "rank 0 of 2");
    child
}

#[test]
fn killing_it_leaves_nothing_behind() {
    let (Some(program), Some(library)) = (ranks(), library()) else { return };
    let here = Here::new();
    let mut child = hanging(&here, &program, &library);
    let sections = here.sections();
    assert_eq!(sections.len(), 1, "the sections of its ranks are in memory");
    child.kill().expect("killed");
    child.wait().expect("reaped");
    here.assert_nothing_left();
    let until = Instant::now() + Duration::from_secs(30);
    while sections[0].exists() {
        assert!(Instant::now() < until, "{} is left", sections[0].display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Nobody is there to undo it, until the next one comes.
#[test]
fn what_it_leaves_when_its_reaper_is_killed_with_it_the_next_one_removes() {
    let (Some(program), Some(library)) = (ranks(), library()) else { return };
    let here = Here::new();
    let mut child = hanging(&here, &program, &library);
    let sections = here.sections();
    for (reaper, _) in here.processes().into_iter().filter(|(_, line)| line.contains(" reaper ")) {
        kill(reaper, Signal::SIGKILL).expect("killed");
    }
    child.kill().expect("killed");
    child.wait().expect("reaped");
    let until = Instant::now() + Duration::from_secs(30);
    while !here.processes().is_empty() {
        assert!(Instant::now() < until, "left behind: {:?}", here.processes());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(sections.len() == 1 && sections[0].exists(), "nobody was there to remove it");
    assert_code(&here.run(&["--", "true"]), 0);
    here.assert_nothing_left();
    assert!(!sections[0].exists());
}

#[test]
fn a_signal_ends_the_ranks_and_a_partition_that_breaks_ends_all() {
    let (Some(program), Some(library)) = (ranks(), library()) else { return };
    let here = Here::new();
    let child = hanging(&here, &program, &library);
    kill(Pid::from_raw(i32::try_from(child.id()).expect("a number")), Signal::SIGTERM).expect("told");
    let output = finish(child);
    assert_code(&output, 128 + Signal::SIGTERM as i32);
    assert!(complaint(&output).contains("ended because SIGTERM came"), "{}", complaint(&output));
    here.assert_nothing_left();

    let child = hanging(&here, &program, &library);
    let victim = second_machine(child.id());
    kill(victim, Signal::SIGKILL).expect("killed");
    let output = finish(child);
    assert_code(&output, 125);
    assert!(complaint(&output).contains("partition mpi-2"), "{}", complaint(&output));
    here.assert_nothing_left();
}

/// Open MPI waits without end for what it had started in a partition that stands still.
#[test]
fn a_partition_that_stands_still_does_not_keep_a_signal_from_ending_all() {
    let (Some(program), Some(library)) = (ranks(), library()) else { return };
    let here = Here::new();
    let child = hanging(&here, &program, &library);
    kill(second_machine(child.id()), Signal::SIGSTOP).expect("stopped");
    let ours = Pid::from_raw(i32::try_from(child.id()).expect("a number"));
    kill(ours, Signal::SIGINT).expect("told");
    let output = finish(child);
    assert_code(&output, 128 + Signal::SIGINT as i32);
    here.assert_nothing_left();
}

/// The machine of the second partition: the child whose card's address ends with 2.
fn second_machine(parent: u32) -> Pid {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    let all = fs::read_dir(format!("/proc/{parent}/task")).expect("its threads").flatten();
    let of_threads = all.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    let all: Vec<String> = of_threads.chain([children]).collect();
    let has_plug = |pid: &&str| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).into_owned();
        words
            .split_once("netdev=plug0,mac=")
            .is_some_and(|(_, mac)| mac.get(..17).is_some_and(|mac| mac.ends_with(":02")))
    };
    let found = all.iter().flat_map(|text| text.split_whitespace()).find(has_plug);
    Pid::from_raw(found.expect("a second machine").parse().expect("a number"))
}
