//! A folder opened for writing under those who look for corruption: fsx (random reads, writes, mappings, truncations and holes of
//! one file, each compared with what must be there) and the file system class of stress-ng, which verifies what it does.
//!
//! Runs when `BULKHEAD_FILES_STRESS` says for how many minutes stress-ng's class is to run in all (10 was promised); fsx makes a
//! hundred thousand operations for each, in as many guests at once as there are CPUs. `./setup.sh crosscheck` brings both programs.
//! A guest makes ten thousand of them: this fsx keeps all its mappings until it ends, so that an operation takes longer than the one
//! before, natively as well (in a guest 1.1 ms of the kernel's at first, 2.8 after eleven thousand).

use crate::exec_fixture;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use bulkhead::cli::cache_folder;
use exec_fixture::{Here, assert_code, complaint, finish_within, guests_start, text};
use nix::unistd::geteuid;
use skips::{Need, skip};

/// All of it under the translator, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(4 * 3600);
/// fsx's operations in one guest, and how many guests there are for each minute.
const OPERATIONS: u64 = 10_000;
const GUESTS_A_MINUTE: u64 = 10;
/// Stressors that find something wrong in a partition and not natively, with why.
const LISTED: [(&str, &str); 0] = [];

fn minutes() -> Option<u64> {
    let minutes = std::env::var("BULKHEAD_FILES_STRESS").ok().and_then(|text| text.parse().ok());
    if minutes.is_none() {
        skip(Need::Long, "it runs for as many minutes as BULKHEAD_FILES_STRESS says");
    }
    minutes
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

fn open_folder(here: &Here, name: &str) -> PathBuf {
    let folder = here.path(name);
    fs::create_dir(&folder).expect("the test's own files");
    for at in [here.files.path(), &folder] {
        fs::set_permissions(at, fs::Permissions::from_mode(0o755)).expect("the test's own files");
    }
    folder
}

/// A guest of its own that makes all operations on one file.
fn fsx(here: &Here, program: &Path, file: &Path) {
    let (seed, operations) = (rand::random::<u32>().to_string(), OPERATIONS.to_string());
    let folder = file.parent().expect("it lies in the opened folder");
    let words =
        ["--rw", plain(folder), "--ro", plain(program), "--", plain(program), "-N", &operations, "-S", &seed];
    let words: Vec<&str> = words.into_iter().chain([plain(file)]).collect();
    let output = finish_within(here.command(&words).spawn().expect("it starts"), PATIENCE);
    assert!(output.status.success(), "seed {seed}: {}{}", text(&output), complaint(&output));
    println!("{operations} operations, seed {seed}");
}

#[test]
fn fsx_finds_every_byte_where_it_must_be() {
    let Some(minutes) = minutes() else { return };
    if !guests_start() {
        return;
    }
    let program = cache_folder().join("tools/bin/fsx");
    assert!(program.is_file(), "./setup.sh crosscheck brings {}", program.display());
    let here = Here::new();
    let folder = open_folder(&here, "open");
    // Each told when it has ended: what was found before an end by hand is known.
    let left = AtomicU64::new(minutes * GUESTS_A_MINUTE);
    let take = || left.try_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
    thread::scope(|scope| {
        for worker in 0..thread::available_parallelism().map_or(1, usize::from) {
            let (here, program, file) = (&here, &program, folder.join(format!("file-{worker}")));
            scope.spawn(move || {
                while take() {
                    fsx(here, program, &file);
                }
            });
        }
    });
    here.assert_nothing_left();
}

/// Stressors of the class.
fn stressors() -> Vec<String> {
    let listed = Command::new("stress-ng").args(["--class", "filesystem?"]).output().expect("stress-ng runs");
    let listed = String::from_utf8_lossy(&[listed.stdout, listed.stderr].concat()).into_owned();
    let names = listed.split_once("stressors:").map_or("", |(_, names)| names);
    names.split_whitespace().map(str::to_owned).collect()
}

/// Words that run these one by one.
fn words(names: &[String], seconds: u64, folder: &Path) -> Vec<String> {
    let script = "for name in $3; do stress-ng --$name 1 --verify -t $1 --temp-path $2 2>&1 | sed \"s/^/$name: /\"; done";
    let names = names.join(" ");
    ["sh", "-c", script, "sh", &seconds.to_string(), plain(folder), &names].map(str::to_owned).to_vec()
}

/// Those that say that something was wrong, and what.
fn failed(said: &str) -> BTreeSet<String> {
    let wrong = said.lines().filter(|line| line.contains(" fail: ") || line.contains("unsuccessful run"));
    wrong.filter_map(|line| line.split_once(": ")).map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn stress_ng_verifies_what_it_does() {
    let Some(minutes) = minutes() else { return };
    if !guests_start() {
        return;
    }
    if !geteuid().is_root() {
        return skip(Need::Root, "some of the stressors become other users");
    }
    let here = Here::new();
    let (open, native) = (open_folder(&here, "open"), open_folder(&here, "native"));
    let names = stressors();
    assert!(names.len() > 30, "{names:?}");
    let seconds = (minutes * 60).div_ceil(names.len() as u64);
    let mut front = vec!["--rw".to_owned(), plain(&open).to_owned(), "--".to_owned()];
    front.extend(words(&names, seconds, &open));
    let output = finish_within(here.command(&front).spawn().expect("it starts"), PATIENCE);
    assert_code(&output, 0);
    let said = text(&output);
    let who_says = |mark: &str| -> BTreeSet<&str> {
        said.lines().filter(|line| line.contains(mark)).filter_map(|line| line.split(": ").next()).collect()
    };
    let (dispatched, idle) = (who_says("dispatching hogs"), who_says("skipp"));
    let ran = dispatched.difference(&idle).count();
    println!("{ran} stressors, {seconds} s each; these do nothing in a partition: {idle:?}");
    assert!(ran > 40, "{said}");
    let within = failed(&said);
    // What fails there natively, too, is the kernel's or stress-ng's.
    let again: Vec<String> = within.iter().cloned().collect();
    let natively = words(&again, seconds, &native);
    let natively = Command::new(&natively[0]).args(&natively[1..]).output().expect("sh runs");
    let natively = failed(&String::from_utf8_lossy(&natively.stdout));
    let listed: BTreeSet<String> = LISTED.iter().map(|(name, _)| (*name).to_owned()).collect();
    let only: BTreeSet<String> = within.difference(&natively).cloned().collect();
    let wrong: Vec<&str> = said.lines().filter(|line| line.contains(" fail: ")).collect();
    assert_eq!(only, listed, "natively also: {natively:?}; what they said:\n{}", wrong.join("\n"));
    here.assert_nothing_left();
}
