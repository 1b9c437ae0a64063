//! From a plan to one of its hosts, for all that is done with sets: which one, whether it is this machine, and its set beside the plan.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::plan_of;
use crate::cli::up;
use model::partition::set::{PartitionSet, PartitionStatus, SetStatus};
use model::partition::{NumberList, is_name};
use model::plan::{Placed, Plan, PlannedHost};
use report::text::printable;

/// A plan, and one of its hosts.
#[derive(Debug)]
pub struct Chosen {
    /// The plan.
    pub plan: Plan,
    /// The host.
    pub host: String,
    /// Where OpenSSH reaches it; none for this machine.
    pub destination: Option<String>,
}

/// The host that is meant of a plan; none where the file is no plan.
pub fn chosen(file: &Path, on: Option<&str>) -> anyhow::Result<Option<Chosen>> {
    if !has_plans_name(file) {
        if on.is_some() {
            bail!("--on names a host of a plan, and {} is none (plan.json of bulkhead plan)", file.display());
        }
        return Ok(None);
    }
    let plan = named_well(file)?;
    let host = host_of(&plan, on)?;
    let destination = host.from.as_deref().and_then(|from| from.strip_prefix("ssh:")).map(str::to_owned);
    let name = host.name.clone();
    if on.is_none() && destination.is_some() {
        bail!(
            "{name} is another machine, which ssh reaches: --on {name} works there; on the machine itself {name}.set.toml does"
        );
    }
    Ok(Some(Chosen { plan, host: name, destination }))
}

fn has_plans_name(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "json")
}

/// The same for a word that may name a set or a plan's file.
pub fn chosen_of(named: Option<&str>, on: Option<&str>) -> anyhow::Result<Option<(PathBuf, Chosen)>> {
    // A set may have such a name.
    let is_plan = |file: &PathBuf| has_plans_name(file) && (on.is_some() || file.is_file());
    match named.map(PathBuf::from).filter(is_plan) {
        Some(file) => Ok(chosen(&file, on)?.map(|chosen| (file, chosen))),
        None if on.is_some() => bail!("--on names a host of a plan: name its plan.json, too"),
        None => Ok(None),
    }
}

/// The same for the name of a partition, before which its set or a plan's file may stand: its host, and the name with its set's.
pub fn chosen_with_partition(
    name: &str,
    on: Option<&str>,
) -> anyhow::Result<(String, Option<(PathBuf, Chosen)>)> {
    let (before, partition) =
        name.rsplit_once('/').map_or((None, name), |(before, name)| (Some(before), name));
    let Some((file, chosen)) = chosen_of(before, on)? else { return Ok((name.to_owned(), None)) };
    if let Some(placed) = chosen.plan.partitions.iter().find(|placed| placed.name == partition)
        && placed.host != chosen.host
    {
        bail!("{partition} is not on host {}: --on {} works where it is", chosen.host, placed.host);
    }
    Ok((format!("{}/{partition}", chosen.plan.system), Some((file, chosen))))
}

/// A plan whose names can be those of folders.
fn named_well(file: &Path) -> anyhow::Result<Plan> {
    let plan = plan_of(file)?;
    if !is_name(&plan.system) {
        bail!("{}: its system has no name that a set can have", file.display());
    }
    Ok(plan)
}

/// Longest list of hosts that is told whole.
const LONGEST_NAMES: usize = 600;

fn host_of<'a>(plan: &'a Plan, on: Option<&str>) -> anyhow::Result<&'a PlannedHost> {
    let names = || {
        let all: Vec<&str> = plan.hosts.iter().map(|host| host.name.as_str()).collect();
        printable(&all.join(", "), LONGEST_NAMES)
    };
    if let Some(on) = on {
        return plan
            .hosts
            .iter()
            .find(|host| host.name == on)
            .with_context(|| format!("the plan has no host \"{on}\": there are {}", names()));
    }
    let here: Vec<&PlannedHost> =
        plan.hosts.iter().filter(|host| host.from.as_deref() == Some("here")).collect();
    let used: Vec<&PlannedHost> = plan.hosts.iter().filter(|host| host.set_file.is_some()).collect();
    match (here.as_slice(), used.as_slice()) {
        ([one], _) | ([], [one]) => Ok(one),
        _ => bail!("which of its hosts is this machine? --on names it: {}", names()),
    }
}

impl Chosen {
    /// This machine as a host of a plan, wherever whoever sent the plan reaches it.
    pub fn of(file: &Path, host: &str) -> anyhow::Result<Self> {
        let plan = named_well(file)?;
        let host = host_of(&plan, Some(host))?.name.clone();
        Ok(Self { plan, host, destination: None })
    }

    /// The host's set, which lies beside the plan and is what was planned.
    pub fn set_beside(&self, file: &Path) -> anyhow::Result<PathBuf> {
        let host = host_of(&self.plan, Some(&self.host))?;
        // Only a name of ours is looked for: nothing that a plan says leads out of its folder.
        let name = format!("{}.set.toml", host.name);
        if host.set_file.as_deref() != Some(name.as_str()) || !is_name(&host.name) {
            bail!("the plan has no set for host \"{}\": nobody is there", host.name);
        }
        let path = file.parent().unwrap_or(Path::new(".")).join(name);
        let set = up::parse(&path, &up::read(&path).context("a plan's sets lie beside it")?)?;
        is_as_planned(&self.plan, host, &set)
            .with_context(|| format!("{} is not what was planned", path.display()))?;
        Ok(path)
    }

    /// Other hosts of the plan that have a set.
    pub fn others(&self) -> Vec<&str> {
        let others = self.plan.hosts.iter().filter(|host| host.set_file.is_some() && host.name != self.host);
        others.map(|host| host.name.as_str()).collect()
    }

    /// Compares what the partitions of a set that is up were given, as the kernel and QEMU said it, with the plan.
    ///
    /// # Errors
    /// Who was given something else.
    pub fn was_given(&self, set: &SetStatus) -> anyhow::Result<()> {
        for placed in self.plan.partitions.iter().filter(|placed| placed.host == self.host) {
            for partition in &set.partitions {
                if let Some(wrong) = other_than(placed, partition) {
                    bail!("{} is up, and not as it was planned: {wrong}", partition.name);
                }
            }
        }
        Ok(())
    }
}

/// What a partition was given that is not its place; none where it is another one's, or not read back yet.
fn other_than(placed: &Placed, partition: &PartitionStatus) -> Option<String> {
    let given = partition.given.as_ref()?;
    let of_seat = |node: u32| format!("{}-n{node}", placed.name);
    let seats: Vec<_> = if partition.name == placed.name {
        placed.seats.iter().collect()
    } else {
        placed.seats.iter().filter(|seat| partition.name == of_seat(seat.node)).collect()
    };
    if seats.is_empty() {
        return None;
    }
    let cpus = NumberList::of(seats.iter().flat_map(|seat| seat.cpus.numbers().to_vec()));
    let allowed = NumberList::of(given.cpus.iter().flat_map(|cpu| cpu.allowed.numbers().to_vec()));
    if allowed != cpus {
        return Some(format!("CPUs {cpus} were planned, {allowed} given"));
    }
    // Memory of one on several nodes is bound to none.
    if let [seat] = seats.as_slice()
        && given.memory.nodes != NumberList::of([seat.node])
    {
        return Some(format!("memory of node {} was planned, of {} given", seat.node, given.memory.nodes));
    }
    None
}

/// Each partition has the CPUs and the node that the plan gave it.
fn is_as_planned(plan: &Plan, host: &PlannedHost, set: &PartitionSet) -> anyhow::Result<()> {
    if set.name != plan.system {
        bail!("the set is called \"{}\", and the plan \"{}\"", set.name, plan.system);
    }
    let here = || plan.partitions.iter().filter(|placed| placed.host == host.name);
    let is_planned = |name: &String| {
        here().any(|placed| {
            placed.name == *name
                || placed.seats.iter().any(|seat| *name == format!("{}-n{}", placed.name, seat.node))
        })
    };
    if let Some(more) = set.partitions.keys().find(|name| !is_planned(name)) {
        bail!("partition \"{more}\" is not in the plan: plan again with it, or start the set by itself");
    }
    for placed in here() {
        let of_seat = |node: u32| set.partitions.get(&format!("{}-n{node}", placed.name));
        let whole = set.partitions.get(&placed.name);
        let all = NumberList::of(placed.seats.iter().flat_map(|seat| seat.cpus.numbers().to_vec()));
        let is_right = match (whole, placed.seats.as_slice()) {
            (Some(entry), [only]) => entry.pin.as_ref() == Some(&only.cpus) && entry.node == Some(only.node),
            (Some(entry), _) => entry.pin.as_ref() == Some(&all),
            (None, seats) => seats.iter().all(|seat| {
                of_seat(seat.node).is_some_and(|entry| {
                    entry.pin.as_ref() == Some(&seat.cpus) && entry.node == Some(seat.node)
                })
            }),
        };
        if !is_right {
            bail!(
                "partition \"{}\" is planned for CPUs {all}: plan again, or start the set by itself",
                placed.name
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that runs, with two CPUs of these and memory of this node.
    fn given(name: &str, cpus: &str, node: u32) -> PartitionStatus {
        let cpu = format!(r#"{{"thread":1,"allowed":"{cpus}","scheduling":"usual"}}"#);
        let text = format!(
            r#"{{"name":"{name}","phase":"running","seconds":1,"pid":1,"supervisor_pid":1,"engine":null,"cpus":2,"pin":null,
            "memory_mib":256,"node":null,"restarts":0,"addresses":[],"last":null,"folder":"/x","given":{{"cpus":[{cpu},{cpu}],
            "memory":{{"size_mib":256,"nodes":"{node}","present_bytes":[],"hugepages":false}},"cgroup":null,"cpu_weight":null,
            "cpu_cap_percent":null,"disks":[]}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn what_was_given_is_held_against_the_plan() {
        let text = r#"{"name":"x","of":"x","replica":1,"host":"a","seats":[{"node":0,"cpus":"0-1","memory_mib":256},
            {"node":1,"cpus":"4-5","memory_mib":256}]}"#;
        let split: Placed = serde_json::from_str(text).unwrap();
        let whole = Placed { seats: split.seats[..1].to_vec(), ..split.clone() };
        for (placed, name, cpus, node, wanted) in [
            (&whole, "x", "0-1", 0, None),
            (&whole, "x", "0-2", 0, Some("CPUs 0-1 were planned, 0-2 given")),
            (&whole, "x", "0", 0, Some("CPUs 0-1 were planned, 0 given")),
            (&whole, "x", "0-1", 1, Some("memory of node 0 was planned, of 1 given")),
            (&split, "x-n1", "4-5", 1, None),
            (&split, "x-n1", "0-1", 1, Some("CPUs 4-5 were planned, 0-1 given")),
            (&split, "x", "0-1,4-5", 0, None),
            (&split, "x", "0-1", 0, Some("CPUs 0-1,4-5 were planned, 0-1 given")),
            (&split, "y", "7", 3, None),
        ] {
            let told = other_than(placed, &given(name, cpus, node));
            assert_eq!(told.as_deref(), wanted, "{name} {cpus} {node}");
        }
    }
}
