//! From a plan to the set of one of its hosts, for `up`: beside the plan, and what the plan says it is.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::plan_of;
use crate::cli::up;
use model::partition::NumberList;
use model::partition::set::PartitionSet;
use model::plan::{Plan, PlannedHost};

/// The set's file: the one that was named, or of a plan that of this host.
pub fn set_of(file: &Path, on: Option<&str>) -> anyhow::Result<PathBuf> {
    if file.extension().is_none_or(|ending| ending != "json") {
        if on.is_some() {
            bail!("--on names a host of a plan, and {} is a set", file.display());
        }
        return Ok(file.to_owned());
    }
    let plan = plan_of(file)?;
    let host = host_of(&plan, on)?;
    // Only a name of ours is looked for: nothing that a plan says leads out of its folder.
    let name = format!("{}.set.toml", host.name);
    if host.set_file.as_deref() != Some(name.as_str()) || !model::partition::is_name(&host.name) {
        bail!("the plan has no set for host \"{}\": nobody is there", host.name);
    }
    let path = file.parent().unwrap_or(Path::new(".")).join(name);
    let set = up::parse(&path, &up::read(&path).context("a plan's sets lie beside it")?)?;
    is_as_planned(&plan, host, &set)
        .with_context(|| format!("{} is not what was planned", path.display()))?;
    Ok(path)
}

fn host_of<'a>(plan: &'a Plan, on: Option<&str>) -> anyhow::Result<&'a PlannedHost> {
    let names = || plan.hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>().join(", ");
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

/// Each partition has the CPUs and the node that the plan gave it.
fn is_as_planned(plan: &Plan, host: &PlannedHost, set: &PartitionSet) -> anyhow::Result<()> {
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
