//! What a watch takes of the CPUs, as it says itself and as the kernel counts it: looks, commands on the host, and a test in a guest that
//! are due all the time.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::time::TimeValLike;
use nix::unistd::Pid;

use crate::own_sets::OwnSets;
use crate::verdict::{Judge, Mark, say};

/// How long each is.
const WATCHED: Duration = Duration::from_secs(120);

const REQUIREMENTS: &str = r#"
set = "plant"

[requirement.place]
text = "It lies where it was planned."
partition = "a"
metric = "placement.differences"
exactly = 0

[requirement.sockets]
text = "Nothing else listens."
partition = "a"
metric = "placement.unlisted_sockets"
exactly = 0

[requirement.memory]
text = "Memory is never overcommitted."
host = true
metric = "host.memory_overcommitted_bytes"
at_most = "0 B"

[requirement.outside]
text = "A test of the user's own passes."
metric = "command.exit_code"
exactly = 0
command = ["/bin/true"]
load = "as-is"

[requirement.call]
text = "A system call is quick."
partition = "a"
metric = "syscall.call_ns"
at_most = "1 s"
load = "as-is"
"#;

/// Watches so many times.
pub fn shares(sets: &OwnSets, watches: u32, beside: &str) -> Result<Judge> {
    std::fs::write(sets.path("requirements.toml"), REQUIREMENTS)?;
    let (mut told, mut counted) = (Vec::new(), Vec::new());
    for number in 1..=watches {
        let (says, kernel) = watch(sets)?;
        say(&format!("watch {number} of {watches}: it says {says:.2} %, the kernel {kernel:.2} %"));
        told.push(says);
        counted.push(kernel);
    }
    let mut judge = Judge::default();
    judge.rounds(
        &format!("share of the CPUs that a watch says it took, percent{beside}"),
        &told,
        Mark::AtMost(1.0),
    );
    judge.rounds(
        &format!("the same of its processes on the host, as the kernel counts it, percent{beside}"),
        &counted,
        Mark::AtMost(1.0),
    );
    Ok(judge)
}

/// Watches once; the share in percent that it says, and that the kernel counts.
fn watch(sets: &OwnSets) -> Result<(f64, f64)> {
    let cpus = f64::from(u32::try_from(thread::available_parallelism()?.get())?);
    let before = ended_s()?;
    let began = Instant::now();
    let words = ["verify", "requirements.toml", "--watch", "--every-s", "5", "--out", "watched"];
    let child = sets.command(&words).spawn().context("starting bulkhead")?;
    thread::sleep(WATCHED);
    kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGINT)?;
    let output = child.wait_with_output()?;
    let took_s = began.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&output.stderr);
    let says = said.lines().rev().find_map(|line| {
        let share = line.strip_prefix("bulkhead: watched for ")?.split_once(" with ")?.1;
        share.split_once(" %")?.0.parse().ok()
    });
    ensure!(output.status.code() == Some(130), "{}{said}", String::from_utf8_lossy(&output.stdout));
    let says: f64 = says.with_context(|| format!("no share in {said}"))?;
    Ok((says, 100.0 * (ended_s()? - before) / (took_s * cpus)))
}

/// CPU time of all processes that have ended and were waited for, s.
fn ended_s() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(u64::try_from(micros)?).as_secs_f64())
}
