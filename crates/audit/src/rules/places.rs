//! Who is there, on which nodes: rules `placed`, `nodes`, `reserved`.

use std::collections::BTreeMap;

use model::plan::{Placed, Plan};
use model::system::Level;

use super::{Found, Rule};
use crate::world::{Seen, World};

/// Every replica once, on a host that it may be on; nobody else.
pub(super) fn placed(world: &World<'_>, plan: &Plan, found: &mut Found) {
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    for name in world.system.set.partitions.keys() {
        for replica in 1..=world.system.replicas(name) {
            times.insert(world.system.replica_name(name, replica), 0);
        }
    }
    for placed in &plan.partitions {
        let Placed { name, of, replica, host, .. } = placed;
        let is_known = world.system.needs.get(of).is_some_and(|needs| (1..=needs.replicas).contains(replica))
            && *name == world.system.replica_name(of, *replica);
        match times.get_mut(name).filter(|_| is_known) {
            Some(times) => *times += 1,
            None => found.add(Rule::Placed, &[name], || {
                format!("the system has no such replica (number {replica} of \"{of}\")")
            }),
        }
        if !world.hosts.contains_key(host.as_str()) {
            found.add(Rule::Placed, &[name], || format!("it is on host \"{host}\", and there is none"));
        }
    }
    for (name, times) in times.iter().filter(|(_, times)| **times != 1) {
        found.add(Rule::Placed, &[name], || format!("wanted one place for it, got {times}"));
    }
    for seen in world.seen.iter().filter(|seen| !seen.host.is_one_of(world.system, seen.needs)) {
        found.add(Rule::Placed, &[&seen.placed.name], || {
            format!("it may be on {}, and is on {}", seen.needs.hosts.join(", "), seen.host_name())
        });
    }
}

/// As many parts as the system says, on different nodes, each with its share.
pub(super) fn nodes(world: &World<'_>, found: &mut Found) {
    for seen in &world.seen {
        let name = seen.placed.name.as_str();
        let mut add = |problem: String| found.add(Rule::Nodes, &[name], || problem);
        let got = seen.placed.seats.len();
        match seen.parts {
            None => add("no node of any host has room for a part of it, however it is divided".to_owned()),
            Some(parts) if got != parts as usize => add(format!("wanted parts on {parts} nodes, got {got}")),
            Some(_) => {}
        }
        let mut numbers: Vec<u32> = seen.placed.seats.iter().map(|seat| seat.node).collect();
        numbers.sort_unstable();
        for two in numbers.windows(2).filter(|two| two.first() == two.last()) {
            add(format!("it has two parts on node {} of {}", two.first().unwrap_or(&0), seen.host_name()));
        }
        for number in numbers.iter().filter(|number| !seen.host.nodes.contains_key(number)) {
            add(format!("{} has no node {number}", seen.host_name()));
        }
        if seen.parts.is_some() {
            shares(seen, found);
        }
    }
}

/// What each part of a replica must have.
fn shares(seen: &Seen<'_>, found: &mut Found) {
    let name = seen.placed.name.as_str();
    for seat in &seen.placed.seats {
        let (wanted, got, number) = (seen.part_mib(), seat.memory_mib.get(), seat.node);
        if wanted != got {
            found.add(Rule::Nodes, &[name], || format!("wanted {wanted} MiB on node {number}, got {got}"));
        }
    }
    if seen.needs.isolation != Some(Level::Core) {
        return;
    }
    for (node, seat) in seen.seats() {
        let mut cores: Vec<_> = seat.cpus.numbers().iter().map(|cpu| node.core_key(*cpu)).collect();
        cores.sort_unstable();
        cores.dedup();
        let (wanted, got) = (seen.part_cpus().div_ceil(node.threads), cores.len() as u64);
        if wanted != got {
            let number = seat.node;
            found.add(Rule::Nodes, &[name], || {
                format!("wanted {wanted} whole cores of node {number}, got {got}")
            });
        }
    }
}

/// The host's own CPUs are those that the system says, and nobody else has them.
pub(super) fn reserved(world: &World<'_>, plan: &Plan, found: &mut Found) {
    for planned in &plan.hosts {
        let Some(host) = world.hosts.get(planned.name.as_str()) else { continue };
        let wanted = host.reserved();
        if wanted != planned.reserved_cpus {
            found.add(Rule::Reserved, &[], || {
                format!(
                    "the own CPUs of \"{}\" are \"{wanted}\", got \"{}\"",
                    planned.name, planned.reserved_cpus
                )
            });
        }
    }
    for seen in &world.seen {
        let taken = |cpu: &&u32| seen.host.nodes.values().any(|node| node.reserved.contains(*cpu));
        for seat in &seen.placed.seats {
            if let Some(cpu) = seat.cpus.numbers().iter().find(taken) {
                found.add(Rule::Reserved, &[&seen.placed.name], || {
                    format!("it has CPU {cpu}, which is {}'s own", seen.host_name())
                });
            }
        }
    }
}
