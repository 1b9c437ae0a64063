//! In a partition: kills the partition's own program, which is the first child that its PID 1, this program, has started.

use std::fs;
use std::os::unix::fs::MetadataExt;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use platforms::held_process::children;
use units::Reason;

/// Kernel threads are children of this one.
const KERNEL_THREADS: u32 = 2;

/// Does it.
///
/// # Errors
/// This is no partition, or its program is not there.
pub fn kill_program() -> Result<(), Reason> {
    let file = |path: &str| fs::metadata(path).map(|about| (about.dev(), about.ino())).ok();
    let ours = file("/proc/self/exe");
    if ours.is_none() || ours != file("/proc/1/exe") {
        return Err("this is no partition: its PID 1 is not this program, so nothing is killed".into());
    }
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
        let why = kill_program().expect_err("this test's PID 1 is another program").to_string();
        assert!(why.contains("no partition"), "{why}");
    }
}
