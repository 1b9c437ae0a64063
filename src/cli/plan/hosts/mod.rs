//! From the hosts of a system's file to hosts with all that is known of them.
//!
//! ```text
//!  from = "here" ──────► this machine ───────────────────────┐
//!  from = "ssh:NAME" ──► `doctor --host-file -` over there ──┤
//!  from = "FILE" ──────► what that wrote ────────────────────┼─► what the system's file says besides counts first
//!  [[host.a.node]] ──────────────────────────────────────────┘    └─► then the run's ─► checked ─► KnownHost × count
//! ```

use std::collections::BTreeMap;
use std::mem;
use std::path::Path;
use std::thread;

use crate::cli::host_file::{self, Described, fill, measured, notes_of};
use model::experiment::SshSpec;
use model::partition::set::Fault;
use model::system::{HostEntry, HostShape, KnownHost, MAX_HOST_BYTES, System};
use platforms::Cancel;
use platforms::facts;
use platforms::ssh::run_there;
use units::Reason;

/// Machines that are asked at a time: each gets a copy of this program.
const AT_A_TIME: usize = 8;

/// What it takes to ask machines.
#[derive(Debug)]
pub struct Asking<'a> {
    /// This program's binary, which is copied to other machines.
    pub exe: &'a Path,
    /// How machines are reached; its destinations are not looked at.
    pub ssh: &'a SshSpec,
    /// Ends it early.
    pub cancel: &'a Cancel,
}

impl Asking<'_> {
    /// As OpenSSH's own configuration says.
    pub fn usual_ssh() -> SshSpec {
        SshSpec {
            destinations: Vec::new(),
            port: None,
            identity: None,
            known_hosts: None,
            config: None,
            addresses: Vec::new(),
            scratch: None,
        }
    }
}

/// All hosts of a system, and in `notes` what is not as one would think. Paths are found from `folder`, that of the system's file.
///
/// # Errors
/// Everything that stands against it, at its key of the system's file.
pub fn known_hosts(
    system: &System,
    folder: &Path,
    asking: &Asking<'_>,
    notes: &mut Vec<String>,
) -> Result<Vec<KnownHost>, Vec<Fault>> {
    let mut faults = same_machines(system);
    if !faults.is_empty() {
        return Err(faults);
    }
    let entries: Vec<(&String, &HostEntry)> = system.hosts.iter().collect();
    let mut known = Vec::new();
    for some in entries.chunks(AT_A_TIME) {
        let described = thread::scope(|scope| {
            let asked: Vec<_> =
                some.iter().map(|(_, entry)| scope.spawn(|| describe(entry, folder, asking))).collect();
            let joined = asked.into_iter().map(thread::ScopedJoinHandle::join);
            joined
                .map(|got| got.unwrap_or_else(|_| Err("it could not be looked at".into())))
                .collect::<Vec<_>>()
        });
        for ((name, entry), described) in some.iter().zip(described) {
            let finished = described
                .map_err(|why| vec![Fault::new(&["host", name, "from"], why.to_string())])
                .and_then(|described| finish(name, entry, described, folder));
            match finished {
                Ok(described) => {
                    notes.extend(described.notes.iter().map(|note| format!("host.{name}: {note}")));
                    known.extend(entry.known(name, described.shape));
                }
                Err(wrong) => faults.extend(wrong),
            }
        }
    }
    if faults.is_empty() { Ok(known) } else { Err(faults) }
}

/// One machine cannot be two hosts.
fn same_machines(system: &System) -> Vec<Fault> {
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    let mut faults = Vec::new();
    for (name, entry) in &system.hosts {
        let Some(from) = entry.from.as_deref().filter(|from| *from == "here" || from.starts_with("ssh:"))
        else {
            continue;
        };
        if let Some(other) = seen.insert(from, name) {
            faults
                .push(Fault::new(&["host", name, "from"], format!("\"{from}\" is host \"{other}\" already")));
        }
    }
    faults
}

/// What a host is made of, from wherever that is said.
fn describe(entry: &HostEntry, folder: &Path, asking: &Asking<'_>) -> Result<Described, Reason> {
    let Some(from) = entry.from.as_deref() else {
        // Cards, disks and facts come from the entry in any case.
        let shape = HostShape { nodes: entry.nodes.clone(), ..HostShape::default() };
        return Ok(Described { shape, ..Described::default() });
    };
    if from == "here" {
        return Described::here();
    }
    if let Some(destination) = from.strip_prefix("ssh:") {
        let ssh = SshSpec { destinations: vec![destination.to_owned()], ..asking.ssh.clone() };
        let words = ["doctor", "--host-file", "-"];
        let text = run_there(&ssh, asking.exe, &words, MAX_HOST_BYTES as u64, asking.cancel)?;
        let shape = HostShape::from_toml(&text)
            .map_err(|error| format!("{destination}: what it says of itself cannot be used: {error}"))?;
        return Ok(Described { shape, disks: None, notes: notes_of(&text).collect() });
    }
    let shape = host_file::read(&folder.join(from)).map_err(|error| {
        format!("\"{from}\": {error}; wanted \"here\", \"ssh:NAME\" or a file of bulkhead doctor --host-file")
    })?;
    Ok(Described { shape, ..Described::default() })
}

/// What the system's file says goes before what was described, and that before what was measured.
fn finish(
    name: &str,
    entry: &HostEntry,
    mut host: Described,
    folder: &Path,
) -> Result<Described, Vec<Fault>> {
    let mut known = entry.facts.clone();
    fill(&mut known, mem::take(&mut host.shape.facts));
    host.shape.facts = known;
    for card in &entry.nics {
        let mut card = card.clone();
        let described = host.shape.nics.iter().position(|other| other.name == card.name);
        let described = described.map(|at| host.shape.nics.remove(at));
        card.node = card.node.or_else(|| described?.node);
        host.shape.nics.push(card);
    }
    for disk in &entry.disks {
        let mut disk = disk.clone();
        let described = host.shape.disks.iter().position(|other| other.name == disk.name);
        let described = described.map(|at| host.shape.disks.remove(at));
        let seen = host.disks.iter().flatten().find(|seen| seen.name == disk.name);
        disk.node = disk.node.or_else(|| described?.node).or_else(|| seen?.node);
        host.shape.disks.push(disk);
    }
    if let Some(run) = &entry.run {
        let is_here = entry.from.as_deref() == Some("here");
        let machine = is_here.then(|| facts::collect(None));
        let measured = measured(&folder.join(run), &host.shape.nodes, machine.as_ref())
            .map_err(|why| vec![Fault::new(&["host", name, "run"], why.to_string())])?;
        host.add(measured);
    }
    host.tell_of_silent_disks();
    let from = entry.from.as_deref().map_or_else(String::new, |from| format!("with what \"{from}\" says: "));
    let faults = host.shape.faults().into_iter().map(|(key, problem)| {
        let key = if key == "node" && entry.from.is_some() { "from" } else { key };
        Fault::new(&["host", name, key], format!("{from}{problem}"))
    });
    let faults: Vec<Fault> = faults.collect();
    if faults.is_empty() { Ok(host) } else { Err(faults) }
}

#[cfg(test)]
mod tests;
