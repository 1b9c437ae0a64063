//! MPI programs for tests and benches: compiled once by the MPI library's own compiler, started by its own launcher over
//! one transport or the other, ended after a deadline, and a look at what they leave behind.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod hpcc;
mod hpcc_input;
pub mod launch;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use skips::{Need, skip};

/// The programs, compiled.
#[derive(Debug)]
pub struct Programs {
    /// The correctness suite.
    pub suite: PathBuf,
    /// Latency and bandwidth between two ranks.
    pub pingpong: PathBuf,
    /// A rank that ends in the middle of something.
    pub die: PathBuf,
    /// A program that is not of MPI.
    pub not_mpi: PathBuf,
}

/// None, and the test is skipped, where MPI is not installed.
#[track_caller]
pub fn programs() -> Option<&'static Programs> {
    static PROGRAMS: OnceLock<Option<Programs>> = OnceLock::new();
    let programs = PROGRAMS.get_or_init(|| {
        let missing = ["mpicc", "mpirun"].into_iter().find(|tool| find(tool).is_none());
        missing.is_none().then(|| compile_all(&PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("mpi")))
    });
    if programs.is_none() {
        skip(Need::Mpi, "no mpicc and mpirun in PATH (packages libopenmpi-dev, openmpi-bin)");
    }
    programs.as_ref()
}

/// The provider's shared library; none, and the test is skipped, where it was not built.
#[track_caller]
pub fn provider() -> Option<PathBuf> {
    let named = std::env::var_os("BULKHEAD_FABRIC_LIBRARY").map(PathBuf::from);
    let target =
        format!("target/fabric/{}-unknown-linux-gnu/release/libbulkhead-fi.so", std::env::consts::ARCH);
    let library = named.unwrap_or_else(|| root().join(target));
    if !library.is_file() {
        skip(Need::Mpi, format!("no {}: make fabric builds it", library.display()));
        return None;
    }
    Some(library)
}

/// A program on the search path.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Compiles into a folder of the target folder what is older there than its sources.
fn compile_all(folder: &Path) -> Programs {
    fs::create_dir_all(folder).expect("a folder for the programs");
    let sources = root().join("tests/mpi");
    Programs {
        suite: compile(folder, "suite", &c_files(&sources.join("suite"))),
        pingpong: compile(folder, "pingpong", &[sources.join("pingpong.c")]),
        die: compile(folder, "die", &[sources.join("die.c")]),
        not_mpi: sources.join("notmpi.sh"),
    }
}

fn c_files(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).expect("the suite's folder").map(|entry| entry.expect("readable").path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "c")).collect();
    files.sort();
    files
}

/// Whether a program is newer than everything beside its first source, headers among it.
fn is_fresh(program: &Path, sources: &[PathBuf]) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    let Some(made) = changed(program) else { return false };
    let folder = sources.first().and_then(|source| source.parent()).expect("a source");
    let beside = fs::read_dir(folder).expect("the sources").map(|entry| entry.expect("readable").path());
    beside.filter_map(|path| changed(&path)).all(|source| source < made)
}

/// Warnings are errors: a suite with mistakes of its own proves nothing.
fn compile(folder: &Path, name: &str, sources: &[PathBuf]) -> PathBuf {
    let program = folder.join(name);
    if is_fresh(&program, sources) {
        return program;
    }
    // Another test binary may be at it, too: whoever is last puts a whole file in place.
    let unfinished = folder.join(format!("{name}.{}", std::process::id()));
    let output = Command::new("mpicc")
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .arg(&unfinished)
        .args(sources)
        .output()
        .expect("mpicc runs");
    assert!(output.status.success(), "mpicc {name}:\n{}", String::from_utf8_lossy(&output.stderr));
    fs::rename(&unfinished, &program).expect("the program's place");
    program
}
