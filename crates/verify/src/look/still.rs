//! Whether a process stands still: it was stopped, a tracer holds it, or a cgroup froze it. Also where that was done to a thread of it
//! alone: threads of QEMU are the guest's CPUs, those of others answer whoever waits. Source: `proc_pid_stat(5)`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use model::partition::set::PartitionStatus;
use platforms::cgroup::{MOUNT, is_frozen};

/// Most threads of a process that are looked at.
const MOST_THREADS: usize = 1024;

/// Why a partition does not go on though it runs: its QEMU, or what serves its files, for which its programs wait at the next file.
pub fn of_partition(status: &PartitionStatus) -> Option<String> {
    let of = |who: &str, pid: Option<u32>| Some(format!("its {who} {}", of_process(pid?)?));
    of("QEMU", status.pid).or_else(|| of("file server", status.files_pid))
}

/// How a process stands still, or a thread of it; none where all may go on, or nobody knows.
pub fn of_process(pid: u32) -> Option<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    // Most threads are in the same groups.
    let mut groups: BTreeMap<String, bool> = BTreeMap::new();
    for task in tasks.take(MOST_THREADS) {
        let said = |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let held = held(&said("stat")).or_else(|| {
            let group = groups.entry(said("cgroup"));
            let is_frozen = *group.or_insert_with_key(|own| is_frozen(own, Path::new(MOUNT)));
            is_frozen.then_some("is frozen with its cgroup")
        });
        let Some(how) = held else { continue };
        let thread = task.file_name().to_string_lossy().into_owned();
        return Some(if thread == pid.to_string() {
            format!("stands still: it {how}")
        } else {
            format!("stands still in part: its thread {thread} {how}")
        });
    }
    None
}

/// What the state in a `stat` says: `T` is stopped, `t` held by a tracer.
fn held(stat: &str) -> Option<&'static str> {
    // The name in parentheses may contain anything; the fields after the last one cannot.
    match stat.rsplit_once(") ")?.1.chars().next()? {
        'T' => Some("is stopped"),
        't' => Some("is held by a tracer"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    use super::*;

    /// Ends with the test, whatever became of it.
    struct Sleeper(Child);

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn the_state_is_what_follows_the_name_whatever_that_is() {
        assert_eq!(held("7 (a) T (b) S 1 7 7"), None);
        assert_eq!(held("7 (a) S (b) T 1 7 7"), Some("is stopped"));
        assert_eq!(held("7 (qemu) t 1 7 7"), Some("is held by a tracer"));
        assert_eq!(held(""), None);
    }

    #[test]
    fn who_is_stopped_stands_still_until_it_is_let_go() {
        let sleeper = Sleeper(Command::new("sleep").arg("1000").spawn().unwrap());
        let pid = sleeper.0.id();
        let send = |signal| kill(Pid::from_raw(i32::try_from(pid).unwrap()), signal).unwrap();
        let becomes = |wanted: Option<&str>| {
            let began = Instant::now();
            while of_process(pid).as_deref() != wanted {
                assert!(began.elapsed() < Duration::from_secs(60), "{:?}", of_process(pid));
            }
        };
        becomes(None);
        send(Signal::SIGSTOP);
        becomes(Some("stands still: it is stopped"));
        send(Signal::SIGCONT);
        becomes(None);
        drop(sleeper);
        assert_eq!(of_process(pid), None, "one that is gone says nothing");
    }
}
