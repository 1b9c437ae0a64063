//! Programs for tests of `bulkhead mpirun`, compiled once, and how they are run.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock, PoisonError};

use skips::{Need, skip};

use crate::exec_fixture::{Here, binary, complaint, finish, guests_start, text};

/// Folder of the programs of this test binary.
fn folder() -> &'static Path {
    static MADE: OnceLock<tempfile::TempDir> = OnceLock::new();
    MADE.get_or_init(|| tempfile::tempdir().expect("the test's own files")).path()
}

/// Compiles a file of `tests/mpi_ranks`.
fn compile(name: &str, compiler: &str, words: &[&str], source: &str) -> Result<PathBuf, String> {
    let program = folder().join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mpi_ranks").join(source);
    let made = Command::new(compiler).args(words).arg("-o").arg(&program).arg(source).output();
    match made {
        Ok(made) if made.status.success() => Ok(program),
        Ok(made) => Err(complaint(&made)),
        Err(error) => Err(format!("{compiler}: {error} (./setup.sh test)")),
    }
}

/// The program `name`, compiled once; none, and the test is skipped, without guests or Open MPI's compiler.
pub fn made(name: &'static str, compiler: &str, words: &[&str], source: &str) -> Option<PathBuf> {
    static MADE: Mutex<Option<HashMap<&str, Result<PathBuf, String>>>> = Mutex::new(None);
    if !guests_start() {
        return None;
    }
    let mut all = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let entry = all.get_or_insert_default().entry(name);
    match entry.or_insert_with(|| compile(name, compiler, words, source)) {
        Ok(program) => Some(program.clone()),
        Err(why) => {
            skip(Need::Mpi, format!("no MPI program can be made: {why}"));
            None
        }
    }
}

/// The program of C whose source is `name.c`.
pub fn made_of_c(name: &'static str) -> Option<PathBuf> {
    made(name, "mpicc.openmpi", &["-O1"], &format!("{name}.c"))
}

/// The library for channels, which `make fabric` builds; none, and the test is skipped, without it.
pub fn library() -> Option<PathBuf> {
    let named = std::env::var_os("BULKHEAD_FABRIC").map(PathBuf::from);
    let target = binary().parent().and_then(Path::parent).expect("target/TRIPLE/PROFILE");
    let triple = target.file_name().expect("a triple");
    let built = target.with_file_name("fabric").join(triple).join("release/libbulkhead-fi.so");
    let found = named.unwrap_or(built);
    if found.exists() {
        return Some(found);
    }
    skip(Need::Mpi, format!("{} is missing: make fabric", found.display()));
    None
}

/// Options and program as words.
pub fn words<'a>(options: &[&'a str], program: &'a Path, arguments: &[&'a str]) -> Vec<&'a OsStr> {
    let options = options.iter().chain([&"--"]).map(|word| OsStr::new(*word));
    options.chain([program.as_os_str()]).chain(arguments.iter().map(|word| OsStr::new(*word))).collect()
}

/// Runs it to its end.
pub fn mpirun(here: &Here, options: &[&str], program: &Path, arguments: &[&str]) -> Output {
    finish(here.verb("mpirun", &words(options, program, arguments)).spawn().expect("it starts"))
}

/// The sorted lines of what all ranks said.
pub fn lines(output: &Output) -> Vec<String> {
    let mut lines: Vec<String> = text(output).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}
