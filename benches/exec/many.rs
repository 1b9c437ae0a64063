//! Several partitions at once: a set of sixteen until all run, and a job of two ranks that only begins and ends.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::verdict::{Judge, Mark};
use crate::{Fixture, say};

const PARTITIONS: usize = 16;
/// Seconds, on a machine with two CPUs under the translator.
const UP_MARK_S: f64 = 40.0;
const IDLE_MARK_S: f64 = 10.0;
const ROUNDS: u64 = 5;
const IDLE: &str =
    "#include <mpi.h>\nint main(int n, char **v) { MPI_Init(&n, &v); return MPI_Finalize(); }\n";

pub fn time(fixture: &Fixture, judge: &mut Judge) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let rounds = fixture.number("--rounds", ROUNDS);
    let program = compile(folder.path());
    let (mut up, mut idle) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        up.push(set(fixture, &folder)?);
        if let Ok(program) = &program {
            idle.push(ranks(fixture, program)?);
        }
        say(&format!("round {round}: up {:.1} s, mpirun {:.1?} s", up[up.len() - 1], idle.last()));
    }
    judge.rounds(
        &format!("seconds until {PARTITIONS} partitions of 128 MiB are up"),
        &up,
        Mark::AtMost(UP_MARK_S),
    );
    let what = "seconds of mpirun -n 2 with a program that begins and ends";
    match program {
        Ok(_) => judge.rounds(what, &idle, Mark::AtMost(IDLE_MARK_S)),
        Err(error) => judge.not_taken(what, &format!("{error:#}")),
    };
    Ok(())
}

fn compile(folder: &Path) -> Result<std::path::PathBuf> {
    let (source, program) = (folder.join("idle.c"), folder.join("idle"));
    fs::write(&source, IDLE)?;
    let status = Command::new("mpicc").arg("-o").arg(&program).arg(&source).status().context("mpicc")?;
    ensure!(status.success(), "mpicc ended with {status}");
    Ok(program)
}

/// Until `up` says that all run; they are ended again.
fn set(fixture: &Fixture, folder: &TempDir) -> Result<f64> {
    let file = folder.path().join("many.toml");
    let one =
        |number| format!("[partition.p{number}]\nprogram = [\"/bin/sleep\", \"3600\"]\nmemory_mib = 128\n");
    let text: String = (0..PARTITIONS).map(one).collect();
    let text = format!("accelerator = \"tcg\"\n{text}");
    fs::write(&file, text)?;
    let verb = |words: &[&str]| {
        let mut command = Command::new(fixture.exe);
        command.args(words).env("BULKHEAD_STATE", folder.path().join("state")).stdin(Stdio::null());
        command.stdout(Stdio::null());
        command
    };
    let begun = Instant::now();
    let status = verb(&["up"]).arg(&file).status()?;
    let took = begun.elapsed().as_secs_f64();
    let down = verb(&["down", "many"]).status()?;
    ensure!(status.success(), "up ended with {status}");
    ensure!(down.success(), "down ended with {down}");
    Ok(took)
}

fn ranks(fixture: &Fixture, program: &Path) -> Result<f64> {
    let begun = Instant::now();
    let status = Command::new(fixture.exe)
        .args(["mpirun", "--accel", "tcg", "-n", "2", "--ro"])
        .arg(program)
        .arg("--")
        .arg(program)
        .stdin(Stdio::null())
        .status()?;
    ensure!(status.success(), "mpirun ended with {status}");
    Ok(begun.elapsed().as_secs_f64())
}
