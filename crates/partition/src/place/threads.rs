//! QEMU's threads: which ones run the guest's CPUs, and on which of the host's CPUs they may run.
//!
//! ```text
//!  pin has as many CPUs as the guest ─► one to one      pin has another number ─► all on all of them
//!  no pin, a node ─► all on the CPUs of the node        neither ─► left to the host
//! ```
//! The threads that do QEMU's own work, and the process that serves its files, follow the set, except when the guest's CPUs run in real
//! time: a thread that never yields would starve the one that does its input and output on the same CPU. Elsewhere they would take
//! other partitions' CPUs; and a group of which only some threads are on a CPU has its weight there computed anew whenever the others
//! wake up, over which Linux 6.18 forgets for seconds who is next (`benches/plans` measures what each gets).

use std::fs;
use std::time::Duration;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use serde_json::Value;

use super::priority;
use super::topology::{HostTopology, text};
use model::partition::{NumberList, Priority, Resources};
use platforms::vm::qmp::Qmp;
use units::Reason;

/// How long QEMU may take for one answer. A paused one answers at once; this one may itself be translated.
pub(super) const ANSWER_GRACE: Duration = Duration::from_secs(30);
/// Most threads of a QEMU that are looked at.
const MOST_THREADS: usize = 4096;

/// How often a process is looked at that may start threads meanwhile.
const MOST_TURNS: u32 = 100;

/// Host CPUs per virtual CPU, in their order; none where the host decides.
pub fn wanted(asked: &Resources, node_cpus: Option<&NumberList>) -> Vec<Option<NumberList>> {
    let count = asked.cpus as usize;
    match (&asked.pin, node_cpus) {
        (Some(pin), _) if pin.numbers().len() == count => {
            pin.numbers().iter().map(|cpu| Some(NumberList::of([*cpu]))).collect()
        }
        (Some(set), _) | (None, Some(set)) => vec![Some(set.clone()); count],
        (None, None) => vec![None; count],
    }
}

/// CPUs of the node that was asked for, where they decide about the placing.
///
/// # Errors
/// The host cannot be read, or has no such node.
pub fn node_cpus(asked: &Resources) -> Result<Option<NumberList>, Reason> {
    let (None, Some(number)) = (&asked.pin, asked.node) else { return Ok(None) };
    let host = HostTopology::of_this_host()?;
    let node = host.node(number);
    node.map(|node| Some(node.cpus.clone()))
        .ok_or_else(|| format!("wanted memory node {number}; this host has {}", host.node_numbers()).into())
}

/// Places the threads of a paused QEMU and of the process that serves its files.
///
/// # Errors
/// QEMU does not answer, a thread is gone, or the kernel refuses.
pub fn place(asked: &Resources, pid: u32, files: Option<u32>, control: &mut Qmp) -> Result<(), Reason> {
    let node = node_cpus(asked)?;
    let sets = wanted(asked, node.as_ref());
    let threads = of_cpus(control)?;
    if threads.len() != sets.len() {
        return Err(format!("wanted {} CPUs to place, qemu has {}", sets.len(), threads.len()).into());
    }
    let is_realtime = matches!(asked.priority, Priority::Realtime(_));
    if let Some(set) = asked.pin.as_ref().or(node.as_ref()).filter(|_| !is_realtime) {
        for thread in all_threads(pid)?.into_iter().filter(|thread| !threads.contains(thread)) {
            hold(thread, set)?;
        }
        files.map_or(Ok(()), |files| hold_all(files, set))?;
    }
    for (thread, set) in threads.iter().zip(&sets) {
        if let Some(set) = set {
            hold(*thread, set)?;
        }
        priority::give(*thread, asked.priority)?;
    }
    Ok(())
}

/// The threads that run the guest's CPUs, in the order of these.
///
/// # Errors
/// QEMU does not answer, or not as it should.
pub fn of_cpus(control: &mut Qmp) -> Result<Vec<u32>, Reason> {
    in_order(&control.query("query-cpus-fast", &Value::Null, ANSWER_GRACE)?)
        .ok_or_else(|| "qemu's answer to query-cpus-fast names no threads in cpu-index order".into())
}

fn in_order(answer: &Value) -> Option<Vec<u32>> {
    let field = |cpu: &Value, name: &str| u32::try_from(cpu.get(name)?.as_u64()?).ok();
    let mut all: Vec<(u32, u32)> = answer
        .as_array()?
        .iter()
        .map(|cpu| Some((field(cpu, "cpu-index")?, field(cpu, "thread-id")?)))
        .collect::<Option<_>>()?;
    all.sort_unstable();
    let is_whole = all.iter().zip(0..).all(|((index, _), number)| *index == number);
    is_whole.then(|| all.into_iter().map(|(_, thread)| thread).collect())
}

/// Where a thread may run, from the kernel.
///
/// # Errors
/// The thread is gone.
pub fn allowed(pid: u32, thread: u32) -> Result<NumberList, Reason> {
    let path = format!("/proc/{pid}/task/{thread}/status");
    let status = text(path.as_ref())?;
    allowed_in(&status, "Cpus_allowed_list").map_err(|error| format!("{path}: {error}").into())
}

/// What a list of a `status` file says: `Cpus_allowed_list`, `Mems_allowed_list`.
///
/// # Errors
/// There is none, or it is no list.
pub fn allowed_in(status: &str, name: &str) -> Result<NumberList, Reason> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.ok_or_else(|| format!("it has no {name}"))?.parse()
}

/// All threads of a process.
///
/// # Errors
/// It is gone.
pub fn all_threads(pid: u32) -> Result<Vec<u32>, Reason> {
    let folder = format!("/proc/{pid}/task");
    let entries = fs::read_dir(&folder).map_err(|error| format!("cannot list {folder}: {error}"))?;
    let names = entries.filter_map(Result::ok).map(|entry| entry.file_name());
    Ok(names.filter_map(|name| name.to_str()?.parse().ok()).take(MOST_THREADS).collect())
}

/// Holds all threads of a process that may start more meanwhile: those of one that is held already are held, too.
fn hold_all(pid: u32, set: &NumberList) -> Result<(), Reason> {
    for _ in 0..MOST_TURNS {
        let mut free = Vec::new();
        for thread in all_threads(pid)? {
            // One that has ended needs nothing.
            if allowed(pid, thread).is_ok_and(|allowed| allowed != *set) {
                free.push(thread);
            }
        }
        if free.is_empty() {
            return Ok(());
        }
        for thread in free {
            let held = hold(thread, set);
            if allowed(pid, thread).is_ok() {
                held?;
            }
        }
    }
    Err(format!("process {pid} started threads faster than they could be held to CPUs {set}").into())
}

fn hold(thread: u32, set: &NumberList) -> Result<(), Reason> {
    let failed = |why: String| Reason::from(format!("thread {thread} cannot be held to CPUs {set}: {why}"));
    let mut cpus = CpuSet::new();
    for cpu in set.numbers() {
        let what = || format!("CPU {cpu} is beyond the {} that can be named", CpuSet::count());
        cpus.set(*cpu as usize).map_err(|_| failed(what()))?;
    }
    let target = i32::try_from(thread).map(Pid::from_raw).map_err(|error| failed(error.to_string()))?;
    sched_setaffinity(target, &cpus).map_err(|errno| failed(errno.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use units::Mebibytes;

    #[test]
    fn as_many_host_cpus_as_virtual_ones_are_bound_one_to_one() {
        let list = |text: &str| text.parse::<NumberList>().unwrap();
        let words = |asked: &Resources, node: Option<&NumberList>| -> Vec<String> {
            let each = wanted(asked, node).into_iter();
            each.map(|set| set.map_or("any".to_owned(), |set| set.to_string())).collect()
        };
        let mut asked = Resources::usual(3, Mebibytes::from_mib(64));
        let node = list("4-6");
        assert_eq!(words(&asked, None), ["any", "any", "any"]);
        assert_eq!(words(&asked, Some(&node)), ["4-6", "4-6", "4-6"], "a node is no pin");
        asked.pin = Some(list("8,1,2"));
        assert_eq!(words(&asked, Some(&node)), ["1", "2", "8"]);
        asked.pin = Some(list("0-1"));
        assert_eq!(words(&asked, None), ["0-1", "0-1", "0-1"]);
    }

    #[test]
    fn threads_come_in_the_order_of_their_cpus_or_not_at_all() {
        let cpu = |index: u32, thread: u32| json!({ "cpu-index": index, "thread-id": thread });
        assert_eq!(in_order(&json!([cpu(1, 9), cpu(0, 30)])), Some(vec![30, 9]));
        assert_eq!(in_order(&json!([cpu(0, 9), cpu(2, 30)])), None);
        assert_eq!(in_order(&json!([{ "cpu-index": 0 }])), None);
        assert_eq!(in_order(&json!({})), None);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused_in_words() {
        let own = std::process::id();
        let none = "1000".parse().unwrap();
        assert!(hold(own, &none).unwrap_err().to_string().contains("held to CPUs 1000"));
        assert!(hold(own, &"8000".parse().unwrap()).unwrap_err().to_string().contains("1024"));
        assert!(all_threads(own).unwrap().contains(&own));
        assert!(!allowed(own, own).unwrap().numbers().is_empty());
    }
}
