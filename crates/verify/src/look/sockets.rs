//! Sockets at which a partition is reached from this host, against those that its file names.
//!
//! ```text
//!  /proc/PID/fd of QEMU, its supervisor, and what they started ─► inodes ─┐
//!  who listens (platforms::listening), with inode and port ─────────────┴─► ports that no `ports` names
//! ```

use std::collections::BTreeSet;
use std::fs;

use model::partition::set::{PartitionEntry, PartitionStatus};
use platforms::listening::listeners;
use units::Reason;

/// Most processes of a partition that are looked at.
const MOST_PROCESSES: usize = 64;

/// How many there are.
///
/// # Errors
/// The kernel does not let us look.
pub fn unlisted(status: &PartitionStatus, entry: &PartitionEntry) -> Result<usize, Reason> {
    let processes = processes(status);
    if processes.is_empty() {
        return Err(format!("{} does not run", status.name).into());
    }
    let mut own = BTreeSet::new();
    for pid in processes {
        own.extend(sockets_of(pid)?);
    }
    let named: BTreeSet<u16> = entry.ports.iter().map(|port| port.host.port()).collect();
    let unlisted =
        listeners().into_iter().filter(|one| own.contains(&one.inode) && !named.contains(&one.port));
    Ok(unlisted.map(|one| (one.port, one.inode)).collect::<BTreeSet<_>>().len())
}

/// QEMU, its supervisor, and their children.
fn processes(status: &PartitionStatus) -> Vec<u32> {
    let mut found: Vec<u32> = [status.pid, status.supervisor_pid].into_iter().flatten().collect();
    let mut looked = 0;
    while let Some(pid) = found.get(looked).copied() {
        looked += 1;
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|word| word.parse().ok()) {
            if found.len() < MOST_PROCESSES && !found.contains(&child) {
                found.push(child);
            }
        }
    }
    found
}

fn sockets_of(pid: u32) -> Result<Vec<u64>, Reason> {
    let folder = format!("/proc/{pid}/fd");
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("{folder}: {error}").into()),
    };
    let links = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    let inode =
        |link: std::path::PathBuf| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
    Ok(links.filter_map(inode).collect())
}
