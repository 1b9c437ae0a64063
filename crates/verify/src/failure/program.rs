//! In a partition: kills the partition's own program, which is the first child that its PID 1, this program, has started.

use std::fs;
use std::os::unix::fs::MetadataExt;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use units::Reason;

/// Kernel threads are children of this one.
const KERNEL_THREADS: i32 = 2;

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
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let entries = fs::read_dir("/proc").map_err(|error| format!("/proc: {error}"))?;
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let children = pids.filter(|pid| *pid > KERNEL_THREADS && *pid != own).filter_map(|pid| {
        let (parent, started) = parent_and_start(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
        (parent == 1).then_some((started, pid))
    });
    let (_, program) = children.min().ok_or("its program is not there")?;
    kill(Pid::from_raw(program), Signal::SIGKILL)
        .map_err(|error| format!("process {program}: {error}").into())
}

/// Of a line of `/proc/PID/stat`, whose second field may hold blanks and brackets.
fn parent_and_start(stat: &str) -> Option<(i32, u64)> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some((fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_confuse() {
        let stat = "77 (a ) b) S 1 77 77 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 0 0";
        assert_eq!(parent_and_start(stat), Some((1, 4711)));
        assert_eq!(parent_and_start("77 nonsense"), None);
    }

    #[test]
    fn outside_of_a_partition_nothing_is_killed() {
        let why = kill_program().expect_err("this test's PID 1 is another program").to_string();
        assert!(why.contains("no partition"), "{why}");
    }
}
