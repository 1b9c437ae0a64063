//! Which directories a run accepts, and that two programs never share one.

use crate::doubles;

use std::fs;
use std::path::Path;

use bulkhead::campaign::rundir::RunDirError;
use bulkhead::campaign::{CampaignError, RunDir, conclude, read_results, read_run};
use bulkhead::model::classes::{ClassSet, shipped};
use doubles::{experiment, names_in, obedient};
use skips::{Need, skip};

const PROBES: &str = "[probe.fwq]";

fn refused(path: &Path) -> String {
    RunDir::create(path, &experiment((1, 1), PROBES), 1).unwrap_err().to_string()
}

#[test]
fn a_used_directory_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    drop(RunDir::create(&run, &experiment((1, 1), PROBES), 1).unwrap());
    let message = refused(&run);
    assert!(message.contains(&format!("already holds a run: use --resume {}", run.display())), "{message}");
    fs::write(dir.path().join("thesis.tex"), "dear").unwrap();
    let message = refused(dir.path());
    assert!(message.contains("is not empty (it has \"run\")"), "{message}");
    assert_eq!(fs::read_to_string(dir.path().join("thesis.tex")).unwrap(), "dear");
}

#[test]
fn an_empty_directory_and_one_of_a_killed_creation_are_accepted() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("experiment.toml.partial"), "name =").unwrap();
    drop(RunDir::create(dir.path(), &experiment((1, 1), PROBES), 1).unwrap());
    assert_eq!(names_in(dir.path()), ["experiment.toml"]);
}

#[test]
fn two_runs_at_once_in_one_directory_are_refused_with_the_others_number() {
    let dir = tempfile::tempdir().unwrap();
    let first = RunDir::create(dir.path(), &experiment((1, 1), PROBES), 1).unwrap();
    let wanted = format!("used by another run (process {})", std::process::id());
    let resumed = RunDir::resume(dir.path()).unwrap_err().to_string();
    assert!(resumed.contains(&wanted), "{resumed}");
    assert!(refused(dir.path()).contains(&wanted));
    drop(first);
    RunDir::resume(dir.path()).unwrap();
}

#[test]
fn a_path_that_cannot_be_a_directory_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let message = refused(&file.join("run"));
    assert!(message.contains("cannot create") && message.contains("choose another --out"), "{message}");
}

#[test]
fn a_read_only_directory_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let inside = dir.path().join("inside");
    fs::create_dir(&inside).unwrap();
    let nothing: Option<&str> = None;
    let bind = nix::mount::MsFlags::MS_BIND;
    if let Err(error) = nix::mount::mount(Some(&inside), &inside, nothing, bind, nothing) {
        skip(Need::Mount, format!("a bind mount cannot be made here: {error}"));
        return;
    }
    let read_only = bind | nix::mount::MsFlags::MS_REMOUNT | nix::mount::MsFlags::MS_RDONLY;
    let remounted = nix::mount::mount(nothing, &inside, nothing, read_only, nothing);
    let messages = [refused(&inside), refused(&inside.join("run"))];
    nix::mount::umount2(&inside, nix::mount::MntFlags::MNT_DETACH).unwrap();
    remounted.unwrap();
    for message in messages {
        assert!(message.contains("Read-only file system"), "{message}");
    }
}

#[test]
fn nothing_to_resume_is_said() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path().to_owned(), dir.path().join("nowhere")] {
        let error = RunDir::resume(&path).unwrap_err();
        assert!(matches!(error, RunDirError::NoRun(_)), "{error}");
    }
    assert!(matches!(read_run(dir.path()), Err(CampaignError::RunDir(RunDirError::NoRun(_)))));
}

#[test]
fn results_of_another_version_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(RunDir::create(dir.path(), &experiment((1, 1), PROBES), 1).unwrap());
    fs::write(dir.path().join("results.json"), "{\"schema_version\":9,\"cells\":{}}").unwrap();
    let message = RunDir::resume(dir.path()).unwrap_err().to_string();
    assert!(
        message.contains("written by schema 9, this program reads 1 to 2: use the newer program"),
        "{message}"
    );
    assert!(dir.path().join("results.json").exists());
}

#[test]
fn the_experiment_is_kept_as_resolved() {
    let dir = tempfile::tempdir().unwrap();
    let mut unresolved = experiment((1, 1), PROBES);
    unresolved.seed = None;
    unresolved.baseline = None;
    drop(RunDir::create(dir.path(), &unresolved, u64::MAX).unwrap());
    let rundir = RunDir::resume(dir.path()).unwrap();
    assert_eq!(rundir.seed(), u64::MAX >> 1);
    assert_eq!(rundir.experiment().baseline.as_deref(), Some("a"));
}

#[test]
fn a_concluded_run_has_only_the_files_of_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    let experiment = experiment((2, 2), PROBES);
    let rundir = RunDir::create(dir.path(), &experiment, 1).unwrap();
    doubles::run(&rundir, obedient(&experiment));
    fs::write(dir.path().join("started.jsonl"), "").unwrap();
    let results = conclude(&rundir, &ClassSet::default()).unwrap();
    rundir.publish("report.html", b"<!doctype html>").unwrap();
    assert_eq!(names_in(dir.path()), ["experiment.toml", "journal.jsonl", "report.html", "results.json"]);
    let written = read_results(&dir.path().join("results.json")).unwrap();
    assert_eq!(written, results);
    assert_eq!(read_run(dir.path()).unwrap(), results);
    assert!(results.complete);
}

/// The file is written once, with all that the terminal shows: nobody finds one without verdicts between two writes.
#[test]
fn results_are_written_with_what_the_classes_say() {
    let dir = tempfile::tempdir().unwrap();
    let experiment = experiment((2, 2), PROBES);
    let rundir = RunDir::create(dir.path(), &experiment, 1).unwrap();
    doubles::run(&rundir, obedient(&experiment));
    let results = conclude(&rundir, &shipped().unwrap()).unwrap();
    assert!(!results.classes.is_empty());
    assert_eq!(read_results(&dir.path().join("results.json")).unwrap(), results);
}
