//! Where a failure is made: this program, run in a partition, or on the host for its clock service. What stands still does so only as long
//! as this process lives: the kernel lets it go when it ends, however it ends.
//!
//! ```text
//!  verify ── exec --in SET/NAME ──► agent fail WHAT: "ready" ◄─ a line: now ─► done: "failed", until its input ends
//! ```

use std::fs;
use std::io::{self, BufRead, Write};
use std::os::unix::fs::MetadataExt;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use platforms::held_process::children;
use units::Reason;

use super::held::HeldProcesses;

/// The verb with which this program makes something fail where it runs.
pub const FAIL_VERB: &str = "fail";
/// What is made to fail: the partition's program is killed, it stands still, the clock service does.
pub(super) const PROGRAM: &str = "program";
pub(super) const PAUSE: &str = "pause";
pub(super) const CLOCK: &str = "clock";
/// What is said when it can begin, and when it is done.
pub(super) const READY: &str = "ready";
pub(super) const FAILED: &str = "failed";
/// Kernel threads are children of this one.
const KERNEL_THREADS: u32 = 2;

/// The partition's program is killed, or it, or the clock service, stands still.
///
/// # Errors
/// It is none of them, this is no place for it, or the kernel refuses.
pub fn fail_here(words: &[String]) -> Result<(), Reason> {
    match words {
        [kind] if kind == PROGRAM => {
            in_a_partition()?;
            told_to_begin()?;
            kill_program()?;
            say(FAILED)
        }
        [kind] if kind == CLOCK => stand_still(HeldProcesses::clocks),
        [kind] if kind == PAUSE => {
            in_a_partition()?;
            stand_still(HeldProcesses::of_partition)
        }
        _ => Err("wanted program, clock or pause".into()),
    }
}

/// Until the input ends.
fn stand_still(find: fn() -> Result<HeldProcesses, Reason>) -> Result<(), Reason> {
    find()?;
    told_to_begin()?;
    let held = find()?.hold()?;
    say(FAILED)?;
    let ended = io::copy(&mut io::stdin().lock(), &mut io::sink());
    drop(held);
    ended.map(drop).map_err(|error| format!("standard input: {error}").into())
}

fn say(word: &str) -> Result<(), Reason> {
    let mut out = io::stdout().lock();
    writeln!(out, "{word}")
        .and_then(|()| out.flush())
        .map_err(|error| format!("nobody hears: {error}").into())
}

fn told_to_begin() -> Result<(), Reason> {
    say(READY)?;
    let mut line = String::new();
    match io::stdin().lock().read_line(&mut line) {
        Ok(0) => Err("it was not wanted".into()),
        Ok(_) => Ok(()),
        Err(error) => Err(format!("standard input: {error}").into()),
    }
}

/// Nothing is killed on the host.
fn in_a_partition() -> Result<(), Reason> {
    let file = |path: &str| fs::metadata(path).map(|about| (about.dev(), about.ino())).ok();
    let ours = file("/proc/self/exe");
    if ours.is_none() || ours != file("/proc/1/exe") {
        return Err("this is no partition: its PID 1 is not this program, so nothing is made to fail".into());
    }
    Ok(())
}

/// The partition's own program is the first child that its PID 1, this program, has started.
fn kill_program() -> Result<(), Reason> {
    let children = children(1).map_err(|error| format!("/proc: {error}"))?;
    let own = std::process::id();
    let program = children.into_iter().find(|pid| *pid > KERNEL_THREADS && *pid != own);
    let program = program.and_then(|pid| i32::try_from(pid).ok()).ok_or("its program is not there")?;
    kill(Pid::from_raw(program), Signal::SIGKILL)
        .map_err(|error| format!("process {program}: {error}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_of_a_partition_nothing_is_killed() {
        let why =
            fail_here(&[PROGRAM.to_owned()]).expect_err("this test's PID 1 is another program").to_string();
        assert!(why.contains("no partition"), "{why}");
    }
}
