//! Scheduling of another process's threads: set, and read back from the kernel.
//!
//! Sources: `sched_setscheduler(2)`, `setpriority(2)` (in Linux `nice` belongs to a thread), `proc_pid_stat(5)`.

#![expect(unsafe_code, reason = "no library we use sets a policy or a nice value for a thread by its number")]

use nix::errno::Errno;

use super::topology::text;
use model::partition::Priority;
use units::Reason;

/// Field 19 of a `stat`, counted from the one after the name, which is field 3.
const NICE: usize = 19 - 3;
/// Field 40.
const REALTIME: usize = 40 - 3;
/// Field 41.
const POLICY: usize = 41 - 3;

/// Gives a thread a priority. [`Priority::Usual`] leaves it as it is.
///
/// # Errors
/// The kernel refuses: no right to, or real-time is not granted in the thread's cgroup.
pub fn give(thread: u32, priority: Priority) -> Result<(), Reason> {
    let number = i32::try_from(thread).map_err(|_| format!("no thread has the number {thread}"))?;
    let outcome = match priority {
        Priority::Usual => Ok(()),
        Priority::Nice(value) => nice(thread, value),
        Priority::Realtime(value) => fifo(number, value),
    };
    outcome.map_err(|errno| {
        let advice = match (priority, errno) {
            (Priority::Realtime(_), Errno::EPERM) => {
                "; run as root, or with CAP_SYS_NICE; where cgroups of version 1 share out real-time as well \
                 (CONFIG_RT_GROUP_SCHED), a group with a weight or a cap has none: leave those out"
            }
            (_, Errno::EPERM | Errno::EACCES) => "; run as root, or with CAP_SYS_NICE",
            _ => "",
        };
        format!("thread {thread} cannot be given {}: {errno}{advice}", words(priority)).into()
    })
}

fn nice(thread: u32, value: i8) -> Result<(), Errno> {
    // SAFETY: takes numbers only.
    let outcome = unsafe { libc::setpriority(libc::PRIO_PROCESS, thread, i32::from(value)) };
    Errno::result(outcome).map(drop)
}

fn fifo(thread: i32, value: u8) -> Result<(), Errno> {
    let parameters = libc::sched_param { sched_priority: i32::from(value) };
    // SAFETY: the parameters outlive the call, which only reads them.
    let outcome = unsafe { libc::sched_setscheduler(thread, libc::SCHED_FIFO, &raw const parameters) };
    Errno::result(outcome).map(drop)
}

/// A priority in the words of [`model::partition::GivenCpu::scheduling`].
pub fn words(priority: Priority) -> String {
    match priority {
        Priority::Usual | Priority::Nice(0) => "usual".to_owned(),
        Priority::Nice(value) => format!("nice {value}"),
        Priority::Realtime(value) => format!("realtime {value}"),
    }
}

/// How a thread is scheduled, in the same words, from the kernel.
///
/// # Errors
/// The thread is gone.
pub fn of_thread(process: u32, thread: u32) -> Result<String, Reason> {
    let path = format!("/proc/{process}/task/{thread}/stat");
    let stat = text(path.as_ref())?;
    from_stat(&stat).ok_or_else(|| format!("{path}: wanted 41 fields, got \"{}\"", stat.trim()).into())
}

fn from_stat(stat: &str) -> Option<String> {
    // The name in parentheses may contain anything; the fields after the last one cannot.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| -> Option<i32> { fields.get(at)?.parse().ok() };
    Some(match (number(POLICY)?, number(NICE)?, number(REALTIME)?) {
        (libc::SCHED_OTHER, 0, _) => "usual".to_owned(),
        (libc::SCHED_OTHER, nice, _) => format!("nice {nice}"),
        (libc::SCHED_FIFO, _, priority) => format!("realtime {priority}"),
        (policy, nice, priority) => format!("policy {policy}, priority {priority}, nice {nice}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_is_read_back() {
        let (send, receive) = std::sync::mpsc::channel();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            send.send(nix::unistd::gettid().as_raw()).unwrap();
            let _ = wait.recv();
        });
        let thread = u32::try_from(receive.recv().unwrap()).unwrap();
        let own = std::process::id();
        let before = of_thread(own, thread).unwrap();
        give(thread, Priority::Usual).unwrap();
        assert_eq!(of_thread(own, thread).unwrap(), before);
        give(thread, Priority::Nice(7)).unwrap();
        assert_eq!(of_thread(own, thread).unwrap(), "nice 7");
        assert_eq!(of_thread(own, own).unwrap(), before, "only that thread");
        match give(thread, Priority::Realtime(3)) {
            Ok(()) => assert_eq!(of_thread(own, thread).unwrap(), "realtime 3"),
            Err(error) => assert!(error.to_string().contains("CAP_SYS_NICE"), "{error}"),
        }
        drop(done);
        sleeper.join().unwrap();
    }

    #[test]
    fn a_thread_that_is_not_there_is_an_error() {
        assert!(give(u32::MAX, Priority::Nice(1)).is_err());
        assert!(give(4_000_000, Priority::Realtime(1)).unwrap_err().to_string().contains("realtime 1"));
        assert!(of_thread(1, 4_000_000).is_err());
    }

    #[test]
    fn a_name_with_parentheses_confuses_nothing() {
        let stat = |nice: i32, realtime: u32, policy: i32| {
            let mut fields = vec!["0".to_owned(); 50];
            (fields[NICE], fields[REALTIME], fields[POLICY]) =
                (nice.to_string(), realtime.to_string(), policy.to_string());
            format!("5 (a) R 1) {}", fields.join(" "))
        };
        assert_eq!(from_stat(&stat(-5, 0, 0)).unwrap(), "nice -5");
        assert_eq!(from_stat(&stat(0, 0, 0)).unwrap(), "usual");
        assert_eq!(from_stat(&stat(0, 50, 1)).unwrap(), "realtime 50");
        assert_eq!(from_stat(&stat(0, 50, 2)).unwrap(), "policy 2, priority 50, nice 0");
        assert_eq!(from_stat("5 (x) R 1"), None);
    }
}
