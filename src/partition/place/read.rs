//! What a partition was given: asked of the kernel and of QEMU, never concluded from what was asked for.
//!
//! ```text
//!  QEMU:   threads of the CPUs, size of the memory, where its first byte lies, throttles of the disks
//!  kernel: status and stat of each thread, numa_maps, the files of the cgroup
//! ```

use std::path::Path;

use serde_json::{Value, json};

use super::group_files;
use super::numa_maps;
use super::priority;
use super::threads;
use super::threads::ANSWER_GRACE;
use super::topology::text;
use crate::model::partition::{Given, GivenCpu, GivenDisk, GivenMemory};
use crate::model::units::{Bytes, Mebibytes};
use crate::platforms::vm::qmp::Qmp;

/// Where cgroups are mounted by convention.
const MOUNT: &str = "/sys/fs/cgroup";

/// Reads back what the partition of this QEMU was given.
///
/// # Errors
/// QEMU or the kernel does not say.
pub fn read_back(pid: u32, control: &mut Qmp) -> Result<Given, String> {
    let cpus =
        threads::of_cpus(control)?.into_iter().map(|thread| cpu(pid, thread)).collect::<Result<_, _>>()?;
    let own = text(format!("/proc/{pid}/cgroup").as_ref())?;
    let group = group_files::of_process(&own, Path::new(MOUNT));
    Ok(Given {
        cpus,
        memory: memory(pid, control)?,
        cgroup: group.path.map(|path| path.display().to_string()),
        cpu_weight: group.weight,
        cpu_cap_percent: group.cap_percent,
        disks: disks(&control.query("query-block", &Value::Null, ANSWER_GRACE)?),
    })
}

fn cpu(pid: u32, thread: u32) -> Result<GivenCpu, String> {
    Ok(GivenCpu {
        thread,
        allowed: threads::allowed(pid, thread)?,
        scheduling: priority::of_thread(pid, thread)?,
    })
}

fn memory(pid: u32, control: &mut Qmp) -> Result<GivenMemory, String> {
    let summary = control.query("query-memory-size-summary", &Value::Null, ANSWER_GRACE)?;
    let bytes = summary.get("base-memory").and_then(Value::as_u64);
    let bytes = bytes.ok_or("qemu's answer to query-memory-size-summary has no base-memory")?;
    let command = json!({ "command-line": "gpa2hva 0" });
    let answer = control.query("human-monitor-command", &command, ANSWER_GRACE)?;
    let size = Mebibytes::from_mib(bytes >> 20);
    let path = format!("/proc/{pid}/numa_maps");
    if !Path::new(&path).exists() {
        // A kernel without memory nodes says nothing of them; where one was asked for, that is a difference.
        return Ok(GivenMemory { size, ..GivenMemory::default() });
    }
    numa_maps::guest_memory(&text(path.as_ref())?, address(&answer), size)
}

/// From `Host virtual address for 0x0 (pc.ram) is 0x7efdc3e00000`.
fn address(answer: &Value) -> Option<u64> {
    let (_, hex) = answer.as_str()?.trim().rsplit_once("is 0x")?;
    u64::from_str_radix(hex, 16).ok()
}

/// In the order of their making; zero is QEMU's word for no limit.
fn disks(answer: &Value) -> Vec<GivenDisk> {
    let inserted = answer.as_array().into_iter().flatten().filter_map(|device| device.get("inserted"));
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
    use super::*;

    #[test]
    fn qemus_answers_are_understood() {
        let answer = json!("Host virtual address for 0x0 (mem0) is 0x7f8a9cf7d000\r\n");
        assert_eq!(address(&answer), Some(0x7f8a_9cf7_d000));
        assert_eq!(address(&json!("Memory at address 0x0 is not RAM")), None);
        let answer =
            json!([{ "inserted": { "bps": 1000, "iops": 0 } }, { "device": "empty" }, { "inserted": {} }]);
        let limited = GivenDisk { bytes_per_s: Some(Bytes::from_bytes(1000)), operations_per_s: None };
        assert_eq!(disks(&answer), [limited, GivenDisk::default()]);
    }
}
