//! Looks for anything a platform left behind: processes, mounts, containers, cgroups, files, ledger entries.
//!
//! The name of a run directory is unique, so whatever mentions it belongs to that run, even with other tests beside.

use std::fs;
use std::path::{Path, PathBuf};

use bulkhead::platforms::ledger::{FILE_NAME, sweep};

/// Panics with a list of what is left of the run in `run`.
pub fn assert_none(run: &Path, when: &str) {
    let left = left_of(run);
    assert!(left.is_empty(), "left behind {when}:\n{}", left.join("\n"));
}

/// What is left, one line each.
fn left_of(run: &Path) -> Vec<String> {
    let mut left = without_sweeping(run);
    left.extend(sweep(run).into_iter().map(|line| format!("the ledger still listed: {line}")));
    left
}

/// What is left, without asking the ledger (which would undo it).
pub fn without_sweeping(run: &Path) -> Vec<String> {
    let mut left = processes_and_mounts(run);
    left.extend(files(run));
    left.extend(cgroups(run));
    left
}

fn processes_and_mounts(run: &Path) -> Vec<String> {
    let mark = run.file_name().expect("a name").to_string_lossy().into_owned();
    let mut left = Vec::new();
    for entry in fs::read_dir("/proc").expect("proc").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.parse::<u32>().is_err() {
            continue;
        }
        for file in ["cmdline", "mountinfo"] {
            let bytes = fs::read(entry.path().join(file)).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
            left.extend(
                text.lines().filter(|line| line.contains(&mark)).map(|line| format!("{name}/{file}: {line}")),
            );
        }
    }
    left
}

fn files(run: &Path) -> Vec<String> {
    let expected = |name: &str| name == FILE_NAME || name == "cache" || name.starts_with("scratch-");
    let names = fs::read_dir(run).expect("the run directory").flatten();
    names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !expected(name))
        .map(|name| format!("file {name}"))
        .collect()
}

/// Cgroups named after containers that the ledger has ever listed.
fn cgroups(run: &Path) -> Vec<String> {
    let ledger = fs::read_to_string(run.join(FILE_NAME)).unwrap_or_default();
    let ids: Vec<&str> =
        ledger.split("\"id\":\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let mut folders = vec![PathBuf::from("/sys/fs/cgroup")];
    let mut left = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let name = entry.file_name().to_string_lossy().into_owned();
                if ids.iter().any(|id| name.contains(id)) {
                    left.push(format!("cgroup {}", entry.path().display()));
                }
                folders.push(entry.path());
            }
        }
    }
    left
}
