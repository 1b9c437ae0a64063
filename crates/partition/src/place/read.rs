//! What a partition was given: asked of the kernel and of QEMU, never concluded from what was asked for.
//!
//! ```text
//!  QEMU:   threads of the CPUs, size of the memory, where its first byte lies, throttles of the disks
//!  kernel: status and stat of each thread, numa_maps, the files of its cgroups; the same of what serves its files
//! ```

use std::path::Path;

use serde_json::Value;

use super::threads::ANSWER_GRACE;
use super::topology::text;
use super::{priority, threads};
use model::partition::{Given, GivenCpu, GivenDisk, GivenMemory, GivenServer};
use platforms::cgroup::{MOUNT, group_files, group_limits, io_limits};
use platforms::host::numa_maps;
use platforms::vm::guest_memory;
use platforms::vm::qemu::LAYER_DRIVE;
use platforms::vm::qmp::Qmp;
use units::{Bytes, Reason};

/// Threads of a QEMU that are looked at.
const MOST_THREADS: usize = 1024;

/// Reads back what the partition of this QEMU was given, and the process that serves its `files`.
///
/// # Errors
/// QEMU or the kernel does not say.
pub fn read_back(pid: u32, files: Option<u32>, control: &mut Qmp) -> Result<Given, Reason> {
    let cpus =
        threads::of_cpus(control)?.into_iter().map(|thread| cpu(pid, thread)).collect::<Result<_, _>>()?;
    Ok(Given {
        cpus,
        memory: memory(pid, control)?,
        disks: disks(&control.query("query-block", &Value::Null, ANSWER_GRACE)?),
        ..of_processes(pid, files)?
    })
}

/// Asks the kernel anew about a partition that runs: threads, memory, cgroup. QEMU's throttles of disks are as they were read at the start,
/// because nobody but its supervisor has its control.
///
/// # Errors
/// The kernel does not say, or a thread is gone.
pub fn look_again(pid: u32, was: &Given) -> Result<Given, Reason> {
    let memory = numa_maps::read(pid)?;
    let memory = memory.map(|maps| numa_maps::guest_memory(&maps, None, was.memory.size)).transpose();
    Ok(Given {
        cpus: was.cpus.iter().map(|one| cpu(pid, one.thread)).collect::<Result<_, _>>()?,
        memory: memory?.unwrap_or_else(|| GivenMemory { size: was.memory.size, ..GivenMemory::default() }),
        disks: was.disks.clone(),
        ..of_processes(pid, was.files.as_ref().map(|server| server.pid))?
    })
}

/// What the kernel says of QEMU's groups, of what serves its devices, and of what serves its files: all but its CPUs, memory and disks.
fn of_processes(pid: u32, files: Option<u32>) -> Result<Given, Reason> {
    let own = text(format!("/proc/{pid}/cgroup").as_ref())?;
    let group = group_files(&own, Path::new(MOUNT));
    let mut groups = groups_of_threads(pid);
    groups.extend(files.into_iter().flat_map(groups_of_threads));
    Ok(Given {
        cgroup: group.path.map(|path| path.display().to_string()),
        cpu_weight: group.weight,
        cpu_cap_percent: group.cap_percent,
        io_limits: io_limits(&own, &groups, Path::new(MOUNT)),
        group_limits: group_limits(&own, &groups, Path::new(MOUNT)),
        emulator: Some(cpu(pid, pid)?),
        files: files.and_then(server),
        ..Given::default()
    })
}

/// The process that serves a partition's files; none where it is gone, and QEMU will be soon.
fn server(pid: u32) -> Option<GivenServer> {
    let own = text(format!("/proc/{pid}/cgroup").as_ref()).ok()?;
    let mut kinds: Vec<GivenCpu> = Vec::new();
    // One that has ended meanwhile runs nowhere.
    for one in threads::all_threads(pid).ok()?.into_iter().filter_map(|thread| cpu(pid, thread).ok()) {
        let is_alike = |other: &GivenCpu| other.allowed == one.allowed && other.scheduling == one.scheduling;
        if !kinds.iter().any(is_alike) {
            kinds.push(one);
        }
    }
    let cgroup = group_files(&own, Path::new(MOUNT)).path.map(|path| path.display().to_string());
    Some(GivenServer { pid, cgroup, threads: kinds })
}

/// Where all threads are, whoever put them there. They come and go: one that is gone meanwhile is nowhere.
fn groups_of_threads(pid: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut all: Vec<String> =
        tasks.take(MOST_THREADS).filter_map(|task| text(&task.path().join("cgroup")).ok()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn cpu(pid: u32, thread: u32) -> Result<GivenCpu, Reason> {
    Ok(GivenCpu {
        thread,
        allowed: threads::allowed(pid, thread)?,
        scheduling: priority::of_thread(pid, thread)?,
    })
}

fn memory(pid: u32, control: &mut Qmp) -> Result<GivenMemory, Reason> {
    let guest = guest_memory::whereabouts(control)?;
    // A kernel without memory nodes says nothing of them; where one was asked for, that is a difference.
    let without = || GivenMemory { size: guest.size, ..GivenMemory::default() };
    Ok(guest_memory::on_host(pid, guest)?.unwrap_or_else(without))
}

/// In the order of their making, without that of a saved layer, which nobody limits; zero is QEMU's word for no limit.
fn disks(answer: &Value) -> Vec<GivenDisk> {
    let is_asked = |device: &&Value| device.get("device").and_then(Value::as_str) != Some(LAYER_DRIVE);
    let devices = answer.as_array().into_iter().flatten().filter(is_asked);
    let inserted = devices.filter_map(|device| device.get("inserted"));
    let limit = |disk: &Value, name: &str| disk.get(name).and_then(Value::as_u64).filter(|limit| *limit > 0);
    inserted
        .map(|disk| GivenDisk {
            bytes_per_s: limit(disk, "bps").map(Bytes::from_bytes),
            operations_per_s: limit(disk, "iops"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn qemus_answers_are_understood() {
        let answer = json!([{ "inserted": { "bps": 1000, "iops": 0 } }, { "device": "empty" }, { "inserted": {} },
                   { "device": "layer", "inserted": {} }]);
        let limited = GivenDisk { bytes_per_s: Some(Bytes::from_bytes(1000)), operations_per_s: None };
        assert_eq!(disks(&answer), [limited, GivenDisk::default()]);
    }
}
