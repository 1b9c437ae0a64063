//! Sockets at which a partition is reached from this host, against those that its file names.
//!
//! ```text
//!  /proc/PID/fd of QEMU, its supervisor, and what they started ─► inodes ─┐
//!  /proc/net/tcp, tcp6: who listens, with inode and port ────────────────┴─► ports that no `ports` names
//! ```

use std::collections::BTreeSet;
use std::fs;

use model::partition::set::{PartitionEntry, PartitionStatus};
use units::Reason;

/// The kernel's number of a socket that listens.
const LISTENS: &str = "0A";
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
    let mut unlisted = BTreeSet::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let Ok(text) = fs::read_to_string(table) else { continue };
        let listening = text.lines().skip(1).filter_map(listener);
        unlisted.extend(listening.filter(|(port, inode)| own.contains(inode) && !named.contains(port)));
    }
    Ok(unlisted.len())
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

/// Port and inode of a line of `/proc/net/tcp` that is about somebody who listens.
fn listener(line: &str) -> Option<(u16, u64)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (address, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
    if *state != LISTENS {
        return None;
    }
    let port = u16::from_str_radix(address.rsplit_once(':')?.1, 16).ok()?;
    Some((port, inode.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens_is_known_by_port_and_inode() {
        let line = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0";
        assert_eq!(listener(line), Some((8080, 4711)));
        assert_eq!(listener(&line.replace(" 0A ", " 01 ")), None);
        assert_eq!(listener("nonsense"), None);
    }
}
