//! What a program in a partition was told to be written is written: databases whose `exec` is killed in the middle of it.
//!
//! ```text
//!  exec … insert ──► numbers, each said once it is committed ──► kill -9 ──► the host looks: all that were said are there
//!    ▲                                                                          │
//!    └──────────────────────── the same database again ◄────────────────────────┘
//! ```
//! Each database's own check of itself runs on the host after each kill; `PostgreSQL`'s on a copy, since it recovers what it opens.
//! Without `BULKHEAD_KILLS` each is killed twice, `PostgreSQL` never; `BULKHEAD_KILLS=100` kills each so often. `PostgreSQL` is whichever
//! this machine has: the set-up brings none, because its package starts a server.

use crate::exec_fixture;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use exec_fixture::{Here, assert_code, complaint, finish_within, guests_start, text};
use nix::unistd::geteuid;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use skips::{Need, skip};

/// Kills when nobody says how many.
const USUAL_KILLS: u32 = 2;
/// A line that does not come in this time never comes: a guest boots, recovers and commits.
const PATIENCE: Duration = Duration::from_secs(300);
/// A kill comes so long after the first commit, at most.
const LONGEST: Duration = Duration::from_millis(1500);

fn kills() -> Option<u32> {
    std::env::var("BULKHEAD_KILLS").ok().and_then(|text| text.parse().ok())
}

fn own_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(name)
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

/// Lines of a child as they come.
fn lines_of(out: ChildStdout) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn next(lines: &Receiver<String>, child: &mut Child) -> String {
    match lines.recv_timeout(PATIENCE) {
        Ok(line) => line,
        Err(error) => {
            let _ = child.kill();
            let mut said = String::new();
            let _ = std::io::Read::read_to_string(child.stderr.as_mut().expect("a pipe"), &mut said);
            panic!("no line within {PATIENCE:?} ({error}): {said}");
        }
    }
}

/// Takes down what is said to be committed until `after` has passed, then kills it.
fn kill_after(after: Duration, lines: &Receiver<String>, child: &mut Child, said: &mut BTreeSet<u64>) {
    let number = |line: String| line.parse::<u64>().unwrap_or_else(|_| panic!("no number: {line}"));
    said.insert(number(next(lines, child)));
    let until = std::time::Instant::now() + after;
    loop {
        let left = until.saturating_duration_since(std::time::Instant::now());
        match lines.recv_timeout(left) {
            Ok(line) => said.insert(number(line)),
            Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => panic!("it ended by itself"),
        };
    }
    child.kill().expect("our child");
    child.wait().expect("our child");
    // What was on its way was said, too.
    said.extend(lines.iter().filter_map(|line| line.parse::<u64>().ok()));
}

fn seeded() -> Xoshiro256PlusPlus {
    let seed = rand::random();
    println!("seed {seed}");
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// Nothing that was said is missing, and nothing is there between that never was.
#[track_caller]
fn assert_kept(said: &BTreeSet<u64>, found: &BTreeSet<u64>) {
    let lost: Vec<u64> = said.difference(found).copied().collect();
    assert!(lost.is_empty(), "committed and lost: {lost:?}");
    let highest = found.last().copied().unwrap_or_default();
    assert_eq!(found.len() as u64, highest, "rows 1 … {highest}, none between missing");
}

fn sqlite_survives(mode: &str) {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let folder = here.path("db");
    fs::create_dir(&folder).expect("the test's own files");
    let (database, program) = (folder.join("rows.db"), own_file("insert.py"));
    let mut random = seeded();
    let mut said = BTreeSet::new();
    for _ in 0..kills().unwrap_or(USUAL_KILLS) {
        let words = ["--rw", plain(&folder), "--ro", plain(&program), "--", "python3", plain(&program)];
        let words = words.into_iter().chain([plain(&database), mode]);
        let mut child = here.command(&words.collect::<Vec<_>>()).spawn().expect("it starts");
        let lines = lines_of(child.stdout.take().expect("a pipe"));
        let after = random.random_range(Duration::ZERO..LONGEST);
        kill_after(after, &lines, &mut child, &mut said);
        here.assert_nothing_left();
        let looked = Command::new("python3").arg(&program).arg(&database).output().expect("python3 runs");
        let looked = String::from_utf8_lossy(&looked.stdout).into_owned();
        let mut looked = looked.lines();
        assert_eq!(looked.next(), Some("ok"), "SQLite's own check, on the host");
        assert_kept(&said, &looked.map(|line| line.parse().expect("a number")).collect());
        println!("{mode}: killed after {after:?}; {} were said to be committed, all are there", said.len());
    }
}

#[test]
fn sqlite_with_a_rollback_journal_loses_nothing_that_was_committed() {
    sqlite_survives("delete");
}

#[test]
fn sqlite_with_a_write_ahead_log_loses_nothing_that_was_committed() {
    sqlite_survives("wal");
}

#[test]
fn postgres_loses_nothing_that_was_committed() {
    let Some(kills) = kills() else {
        return skip(Need::Long, "PostgreSQL is killed when BULKHEAD_KILLS says how often");
    };
    if !guests_start() {
        return;
    }
    if !geteuid().is_root() {
        return skip(Need::Root, "PostgreSQL runs as a user of its own in its partition");
    }
    let here = Here::new();
    let folder = here.path("db");
    fs::create_dir(&folder).expect("the test's own files");
    for at in [here.files.path(), &folder] {
        fs::set_permissions(at, fs::Permissions::from_mode(0o755)).expect("the test's own files");
    }
    let program = own_file("postgres.sh");
    let words =
        ["--rw", plain(&folder), "--ro", plain(&program), "--", "sh", plain(&program), plain(&folder)];
    let mut random = seeded();
    let mut said = BTreeSet::new();
    for _ in 0..kills {
        let mut child = here.command(&words).spawn().expect("it starts");
        let lines = lines_of(child.stdout.take().expect("a pipe"));
        assert_eq!(next(&lines, &mut child), "found");
        while next(&lines, &mut child) != "end" {}
        let after = random.random_range(Duration::ZERO..LONGEST);
        kill_after(after, &lines, &mut child, &mut said);
        here.assert_nothing_left();
        assert_sound(&said, &check_on_host(&here, &folder, &program));
        println!("postgres: killed after {after:?}; {} were said to be committed, all are there", said.len());
    }
    let words: Vec<&str> = words.into_iter().chain(["check"]).collect();
    assert_sound(&said, &finish_within(here.command(&words).spawn().expect("it starts"), PATIENCE));
}

/// What `PostgreSQL` says of a copy of the database, on the host: it recovers, and is the next partition's to recover as well.
fn check_on_host(here: &Here, folder: &Path, program: &Path) -> Output {
    let copy = here.path("copy");
    let run = |program: &str, words: &[&str]| {
        assert!(
            Command::new(program).args(words).status().expect("it runs").success(),
            "{program} {words:?}"
        );
    };
    run("cp", &["-a", plain(folder), plain(&copy)]);
    run("chown", &["-R", "postgres:postgres", plain(&copy)]);
    let mut check = Command::new("sh");
    check.args([plain(program), plain(&copy), "check"]);
    check.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish_within(check.spawn().expect("sh runs"), PATIENCE);
    fs::remove_dir_all(&copy).expect("the test's own files");
    output
}

#[track_caller]
fn assert_sound(said: &BTreeSet<u64>, output: &Output) {
    assert_code(output, 0);
    let looked = text(output);
    assert!(looked.ends_with("end\nsound\n"), "{looked}{}", complaint(output));
    assert_kept(said, &looked.lines().filter_map(|line| line.parse().ok()).collect());
}
